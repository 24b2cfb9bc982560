"""Versions of engines in their natural order, and windows of them.

The order is SemVer's, read with tolerance: numbers count by magnitude, missing ones as 0 (``16`` equals
``16.0``); a pre-release comes before its release, ``alpha`` before ``beta`` before ``rc``; of its parts
numbers come below words, and a shorter list before a longer one. The pre-release may begin with a dash or
without (``16rc1``, ``16-rc1``), and numbers inside a word count by magnitude too: ``rc2`` comes before
``rc10``. Nothing (a blank version) is ``0``.

Invariant: any two texts have an order, and it is total: :func:`version_key` maps texts to tuples.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short

__all__ = ["ANY_VERSION", "VersionKey", "VersionWindow", "version_key"]

VersionKey = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]
"""Numbers without zeros at the end, whether it is a release, parts of the pre-release."""
_LENGTH_MAX = 128
_NUMBERS = re.compile(r"v?([0-9]+(?:\.[0-9]+)*)", re.IGNORECASE)
_PARTS = re.compile(r"[0-9]+|[^0-9.\-_~]+")


@functools.lru_cache(maxsize=4096)
def version_key(text: str | None) -> VersionKey:
    """Returns what a version is ordered by."""
    text = (text or "").strip() or "0"
    if len(text) > _LENGTH_MAX:
        raise InvalidInputError(
            f"a version has {_LENGTH_MAX} characters at most, not {len(text)}: {short(text)}"
        )
    # Behind a plus or a space stands who built it, which says nothing about the order.
    text = re.split(r"[+\s]", text, maxsplit=1)[0]
    found = _NUMBERS.match(text)
    numbers = [int(number) for number in found[1].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    parts = _PARTS.findall(text[found.end() if found else 0 :])
    return tuple(numbers), not parts, tuple(_part(part) for part in parts)


def _part(text: str) -> tuple[bool, int, str]:
    """Orders a part of a pre-release: numbers below words."""
    return (False, int(text), "") if text.isascii() and text.isdigit() else (True, 0, text.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionWindow:
    """Versions from a first to a last, both included; None = no bound on that side."""

    first: str | None = None
    last: str | None = None

    def includes(self, version: str | None) -> bool:
        """Returns whether a version is inside; any version (None or blank) is inside every window."""
        if not version or not version.strip():
            return True
        key = version_key(version)
        return (self.first is None or version_key(self.first) <= key) and (
            self.last is None or key <= version_key(self.last)
        )

    @property
    def is_empty(self) -> bool:
        """Whether no version can be inside."""
        bounded = self.first is not None and self.last is not None
        return bounded and version_key(self.first) > version_key(self.last)

    def overlaps(self, other: VersionWindow) -> bool:
        """Returns whether some version is inside both."""
        return not (_begins_behind(self, other) or _begins_behind(other, self))

    def __str__(self) -> str:
        if self == ANY_VERSION:
            return "any version"
        return f"{self.first or 'the first'} to {self.last or 'the newest'}"


def _begins_behind(one: VersionWindow, other: VersionWindow) -> bool:
    """Returns whether a window begins behind the end of another."""
    bounded = one.first is not None and other.last is not None
    return bounded and version_key(one.first) > version_key(other.last)


ANY_VERSION = VersionWindow()
