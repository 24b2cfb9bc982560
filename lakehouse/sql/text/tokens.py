"""Tokens of a text of SQL as DuckDB cuts it, by bytes and without comments."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb

__all__ = ["Tokens", "token_ranges"]

_SPACES = b" \t\n\r\v\f"
_SEMICOLON = ord(";")
_NO_NAMES = ("'", '"', "$")


def token_ranges(raw: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yields (start, start of what follows, DuckDB's kind) of each token and comment of a text."""
    found = duckdb.tokenize(raw.decode())
    for index, (start, kind) in enumerate(found):
        yield start, found[index + 1][0] if index + 1 < len(found) else len(raw), kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Where words, numbers, strings and operators of a text stand."""

    raw: bytes = field(repr=False)
    starts: tuple[int, ...]
    """Bytes at which tokens begin."""
    _bounds: tuple[int, ...] = field(repr=False)
    # Where the next token or comment begins.

    @classmethod
    def of(cls, raw: bytes) -> Tokens:
        """Cuts a text that is UTF-8."""
        kept = [
            (start, end) for start, end, kind in token_ranges(raw) if kind is not duckdb.token_type.comment
        ]
        return cls(raw=raw, starts=tuple(start for start, _ in kept), _bounds=tuple(end for _, end in kept))

    def __len__(self) -> int:
        return len(self.starts)

    def end(self, index: int) -> int:
        """Returns the byte behind a token."""
        start = self.starts[index]
        return start + len(self.raw[start : self._bounds[index]].rstrip(_SPACES))

    def word(self, index: int) -> str:
        """Returns a token as it is written, and nothing beyond the last one."""
        if not 0 <= index < len(self.starts):
            return ""
        return self.raw[self.starts[index] : self._bounds[index]].rstrip(_SPACES).decode()

    def key(self, index: int) -> str:
        """Returns a token in capitals, so that keywords compare; names in quotes and strings as they are."""
        word = self.word(index)
        return word if word.startswith(_NO_NAMES) else word.upper()

    def keys(self, index: int, count: int) -> tuple[str, ...]:
        """Returns neighbouring tokens in capitals."""
        return tuple(self.key(one) for one in range(index, index + count))

    def is_semicolon(self, index: int) -> bool:
        """Returns whether a token ends a statement."""
        return self.raw[self.starts[index]] == _SEMICOLON

    def is_name(self, index: int) -> bool:
        """Returns whether a token can be a name: a word, or anything in double quotes."""
        word = self.word(index)
        is_word = word[:1].isalpha() or word[:1] == "_" or word[:1] > "\x7f"
        # The first letter of E'…' and x'…' is a name's too.
        return word[:1] == '"' or (is_word and word[-1:] != "'")

    def at(self, offset: int) -> int:
        """Returns the first token that begins at a byte or behind it."""
        return bisect_left(self.starts, offset)

    def closing(self, index: int) -> int:
        """Returns the token that closes the parenthesis that a token opens; the last one if none does."""
        depth = 0
        for one in range(index, len(self)):
            word = self.word(one)
            depth += (word == "(") - (word == ")")
            if depth == 0:
                return one
        return len(self) - 1
