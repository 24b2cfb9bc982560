"""The reference pages and the architecture page say what the code says."""

from __future__ import annotations

import re
import subprocess
import sys

from lakehouse import errors
from lakehouse.config import RESERVED_ENV, Settings
from tests.house.layers import ORDER
from tests.house.rooms import SUB_ORDER
from tests.house.source_tree import ROOT, library, none_of


def page(path: str) -> str:
    """A page's text."""
    return (ROOT / path).read_text(encoding="utf-8")


def test_generated_pages_are_fresh() -> None:
    """What is made from the code was made from this code."""
    command = [sys.executable, "tools/gen_reference.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    none_of(done.stdout.splitlines() + done.stderr.splitlines(), "stale pages (make docs writes them):")
    assert done.returncode == 0


def test_every_setting_is_documented() -> None:
    """The settings page names each setting, its variable, its meaning, and what is no setting."""
    text = page("docs/reference/settings.md")
    facts = [fact for i in Settings.describe() for fact in (f"`{i.name}`", f"`{i.env}`", i.doc)]
    none_of(
        (fact for fact in [*facts, *RESERVED_ENV] if fact not in text), "not in docs/reference/settings.md:"
    )


def test_every_error_and_kind_is_documented() -> None:
    """The errors page names each class, each kind and what a kind means."""
    text = page("docs/reference/errors.md")
    classes = [f"`{name}`" for name in errors.__all__ if name.endswith("Error")]
    kinds = [f"| `{kind}` | {meaning} |" for kind, meaning in errors.KINDS.items()]
    none_of((fact for fact in classes + kinds if fact not in text), "not in docs/reference/errors.md:")


def test_the_drawing_shows_the_import_order() -> None:
    """The parts in the drawing stand in the order that the layer test enforces."""
    drawing = page("docs/architecture.md").split("```")[1]
    drawn = [
        name for line in drawing.splitlines() for name in line.partition("│")[0].split() if name.isalpha()
    ]
    assert drawn == [part for part in ORDER if part and not part.startswith("_")]


def test_the_drawing_shows_the_order_of_rooms() -> None:
    """The rooms in the second drawing are all there are, in the order that the test of rooms enforces."""
    drawn: dict[str, list[str]] = {}
    part = ""
    for line in page("docs/architecture.md").split("```")[3].strip().splitlines():
        name, _, rooms = line.partition("│")
        part = name.strip() or part
        drawn.setdefault(part, []).extend(room for room in rooms.replace("→", " ").split())
    packages = {m.name for m in library() if m.is_package}
    assert drawn == {
        part: [place for place in order if f"lakehouse.{part}.{place}" in packages]
        for part, order in SUB_ORDER.items()
    }


def test_every_part_is_named() -> None:
    """Each package and top-level module there is has its line on the architecture page."""
    text = page("docs/architecture.md")
    parts = {m.path.removesuffix("__init__.py") for m in library() if m.is_package or m.path.count("/") == 1}
    public = {part for part in parts if not part.startswith("lakehouse/_")} - {"lakehouse/"}
    none_of(
        (part for part in public if f"| `{part}` |" not in text), "not in docs/architecture.md (make docs):"
    )


def test_every_path_in_the_documents_exists() -> None:
    """A path that the architecture page or the contributing guide names is there."""
    named = re.compile(r"`((?:lakehouse|tests|tools|docs|benchmarks)/[^`*<{ ]*|[A-Za-z]+\.(?:txt|md|toml))`")
    missing = [
        f"{path}: {found}"
        for path in ("docs/architecture.md", "CONTRIBUTING.md", "docs/design/0001-house-and-layers.md")
        for found in named.findall(page(path))
        if not (ROOT / found).exists()
    ]
    none_of(missing, "paths that do not exist:")
