"""Carets: the line of a text that an error is about, with a marker below the place.

Invariant: a drawing is short and harmless however long the line is and whatever is in it.
"""

from __future__ import annotations

import unicodedata

__all__ = ["caret", "line_and_column"]

_WIDTH_MAX = 100
"""Columns of a terminal that a drawing takes at most."""
_BEFORE_MAX = 60
"""Columns shown before the marker."""
_TAB = "    "


def line_and_column(raw: bytes, offset: int) -> tuple[int, int]:
    """Returns the line and the column of a byte, both counted from 1; columns are characters."""
    before = raw[:offset]
    start = before.rfind(b"\n") + 1
    return before.count(b"\n") + 1, len(before[start:].decode(errors="replace")) + 1


def caret(raw: bytes, offset: int, length: int = 1) -> str:
    """Draws the line of a byte with a marker below ``length`` bytes, as three lines of text."""
    offset = min(max(offset, 0), len(raw))
    start = raw.rfind(b"\n", 0, offset) + 1
    end = raw.find(b"\n", offset)
    end = len(raw) if end < 0 else end
    line, column = line_and_column(raw, offset)
    # Some bytes more than are shown: a character takes one column at least, or none and then few follow.
    before = _shown(raw[max(start, offset - 8 * _WIDTH_MAX) : offset])
    marked = _shown(raw[offset : min(end, offset + max(length, 1), offset + 8 * _WIDTH_MAX)])
    after = _shown(raw[min(end, offset + max(length, 1)) : min(end, offset + length + 8 * _WIDTH_MAX)])
    before = _last(before, _BEFORE_MAX)
    room = _WIDTH_MAX - _width(before)
    marked = _first(marked, room)
    after = _first(after, room - _width(marked))
    marker = " " * _width(before) + "^" * max(1, _width(marked))
    return f"line {line}, column {column}:\n{(before + marked + after).rstrip()}\n{marker}"


def _shown(raw: bytes) -> str:
    """Returns text as a terminal shows it, without what would move or colour it."""
    text = raw.decode(errors="replace").replace("\t", _TAB)
    return "".join(one if one.isprintable() else "�" for one in text)


def _columns(one: str) -> int:
    if unicodedata.combining(one):
        return 0
    return 2 if unicodedata.east_asian_width(one) in "WF" else 1


def _width(text: str) -> int:
    return sum(_columns(one) for one in text)


def _first(text: str, room: int) -> str:
    """Returns as much of the beginning as there is room for."""
    if _width(text) <= room:
        return text
    used = 0
    for index, one in enumerate(text):
        used += _columns(one)
        if used > room - 1:
            return text[:index] + "…"
    return text


def _last(text: str, room: int) -> str:
    """Returns as much of the end as there is room for."""
    return text if _width(text) <= room else _first(text[::-1], room)[::-1]
