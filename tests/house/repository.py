"""What must be in the repository, and what must not."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["index_addresses", "machine_paths", "make_targets", "mentioned_targets", "old_names"]

# In our container image the user is lakehouse; that home is no machine's.
_FOLDERS = "work|farm|home(?!/lakehouse\\b)|root|Users|mnt|opt/wheels"
# Behind a word, a dot or a brace such a part is one of a key or of an address.
_MACHINE_PATH = re.compile(rf"(?<![\w.\-}}*])/(?:{_FOLDERS})/[\w.\-]")
_INDEX = re.compile(
    r"pypi\.(?:org|python)|pythonhosted\.org|--(?:extra-)?index-url|index[-_]url\s*=|--find-links"
    r"|find[-_]links\s*=|proxy\.golang\.org|GOPROXY\s*=|repo\d*\.maven\.(?:apache\.)?org"
)

# Benchmarks call a side of a comparison lakehouse[fast]: that is no advice.
_OLD_NAME = re.compile(
    r"\b(?:pip3?|pipx|uv|poetry) (?:install|add)\b[^\n]*?(?<![\w/.\]-])lakehouse(?![\w/.-])"
    r"|(?<![\w.])lakehouse\[(?!fast\])(?:all|dev|fast|fulltext|service|spark|sql)\b[\w,]*\]"
)


def machine_paths(path: str, text: str) -> Iterator[str]:
    """Paths that exist on one machine only."""
    yield from _matches(_MACHINE_PATH, path, text)


def index_addresses(path: str, text: str) -> Iterator[str]:
    """Addresses of package indexes: where packages come from is the machine's business."""
    yield from _matches(_INDEX, path, text)


def old_names(path: str, text: str) -> Iterator[str]:
    """Places that would have people install ``lakehouse``, another project's distribution."""
    yield from _matches(_OLD_NAME, path, text)


def _matches(pattern: re.Pattern[str], path: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        if pattern.search(line):
            yield f"{path}:{number} {line.strip()[:100]}"


def make_targets(makefile: str) -> set[str]:
    """Targets that the Makefile documents."""
    return set(re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE))


def mentioned_targets(text: str) -> set[str]:
    """Targets that a document tells people to make: ``make x`` in code."""
    code = re.findall(r"```.*?```|`[^`]+`", text, re.DOTALL)
    return {target for block in code for target in re.findall(r"(?:^|[\s`])make ([a-z]+)\b", block)}
