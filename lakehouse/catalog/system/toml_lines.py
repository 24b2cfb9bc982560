"""Lines of a TOML document on which its tables, keys and elements of arrays stand.

``tomllib`` tells lines of syntax errors only. This looks at documents that it has read, so it need not be
strict: it follows headers, keys at the beginning of a line, strings and brackets.
"""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["Spot", "lines_of"]

Spot = tuple[str | int, ...]
"""Keys and numbers of elements that lead to a value, such as ``("functions", 3, "name")``."""
_TOKENS = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|\n|[\[\]{},=]|[^\s\[\]{},="\'#]+',
    re.DOTALL,
)


def lines_of(text: str) -> dict[Spot, int]:
    """Returns the line, from 1, of each table, key and element of an array of a document that is sound."""
    scan = _Scan()
    for token in _TOKENS.finditer(text):
        scan.take(token[0])
    return scan.lines


class _Scan:
    """State of a look through a document, token by token."""

    def __init__(self) -> None:
        self.lines: dict[Spot, int] = {(): 1}
        self._line = 1
        self._table: Spot = ()
        self._counts: Counter[Spot] = Counter()
        self._value: Spot | None = None
        """Spot of the value that is being read; None = at the beginning of a line."""
        self._open: list[str] = []
        self._element = 0
        self._key: list[str] = []

    def take(self, word: str) -> None:
        """Takes the next token."""
        if word == "\n":
            if self._key and self._key[0] == "[":
                self._header()
            self._key = []
            self._value = self._value if self._open else None
        elif self._value is not None:
            self._in_value(word)
        elif word == "=":
            self._value = (*self._table, *_parts(self._key))
            self.lines.setdefault(self._value, self._line)
            self._element = 0
        elif not word.startswith("#"):
            self._key.append(word)
        self._line += word.count("\n")

    def _in_value(self, word: str) -> None:
        if word in ("[", "{"):
            self._open.append(word)
        elif word in ("]", "}"):
            self._open = self._open[:-1]
        elif self._open == ["["] and word == ",":
            self._element += 1
        elif self._open == ["["] and self._value is not None and not word.startswith("#"):
            self.lines.setdefault((*self._value, self._element), self._line)

    def _header(self) -> None:
        is_array = self._key[:2] == ["[", "["]
        names = _parts([word for word in self._key if word not in ("[", "]")])
        place: Spot = ()
        for position, name in enumerate(names, 1):
            place = (*place, name)
            if position == len(names) and is_array:
                self._counts[place] += 1
            # The name of an array in a header stands for its last element.
            if place in self._counts:
                place = (*place, self._counts[place] - 1)
        self._table = place
        self.lines.setdefault(place, self._line)


def _parts(words: list[str]) -> list[str]:
    """Parts of a key with dots."""
    parts: list[str] = []
    for word in words:
        if word[0] in "\"'":
            parts.append(word[1:-1])
        else:
            parts += [part for part in word.split(".") if part]
    return parts
