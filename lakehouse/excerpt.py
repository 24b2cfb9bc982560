"""Short text of values for error messages, cut before the whole text is made.

Invariant: time and memory of :func:`short` depend on what it shows, however large the value is.
"""

from __future__ import annotations

import itertools
import reprlib

__all__ = ["SHORT_MAX", "is_utf8", "short"]

SHORT_MAX = 100
"""Maximum characters of a value in an error message."""
_TEXT_MAX = 60
_ITEMS_MAX = 6
_DEPTH_MAX = 3
_DIGITS_MAX = 40


class _Short(reprlib.Repr):
    """Python's bounded ``repr``, for bytes too."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = _TEXT_MAX
        self.maxlong = _DIGITS_MAX
        self.maxlevel = _DEPTH_MAX
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = _ITEMS_MAX

    def repr_int(self, value: int, level: int) -> str:
        # Python refuses to write thousands of digits, and takes long for hundreds.
        bits = value.bit_length()
        return repr(value) if bits <= 3 * _DIGITS_MAX else f"<a number of {bits:,} bits>"

    def repr_bytes(self, value: bytes, level: int) -> str:
        return repr(value) if len(value) <= _TEXT_MAX else f"{value[:_TEXT_MAX]!r}…"

    def repr_dict(self, value: dict[object, object], level: int) -> str:
        # The method of the standard library sorts all keys first.
        if level <= 0:
            return "{…}" if value else "{}"
        parts = [
            f"{self.repr1(key, level - 1)}: {self.repr1(item, level - 1)}"
            for key, item in itertools.islice(value.items(), _ITEMS_MAX)
        ]
        return "{" + ", ".join(parts + ["…"] * (len(value) > _ITEMS_MAX)) + "}"


_SHORT = _Short()


def short(value: object, limit: int = SHORT_MAX) -> str:
    """Returns the beginning of ``repr(value)``, at most ``limit`` characters."""
    text = _SHORT.repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def is_utf8(text: str) -> bool:
    """Returns whether a text can be encoded: Python allows lone halves of surrogate pairs, UTF-8 does not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
