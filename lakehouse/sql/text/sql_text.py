"""The text of a user, checked once: encoded, of bounded size, without what two parsers read differently."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import duckdb

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import is_utf8, short
from lakehouse.sql.text.carets import caret, line_and_column
from lakehouse.sql.text.tokens import token_ranges

__all__ = ["SqlText"]

_WIDE_SPACES = re.compile("[\u00a0\u2000-\u200d\u202f\u205f\u3000\ufeff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlText:
    """A text of SQL, of one statement or several."""

    text: str
    """As the user wrote it."""
    raw: bytes = field(repr=False)
    """Encoded, with as many plain spaces in place of each wide one outside of quotes: DuckDB reads those as
    one plain space, and then counts bytes that nobody wrote."""

    @classmethod
    def of(cls, text: object, *, max_bytes: int) -> SqlText:
        """Checks a text.

        Args:
            max_bytes: the setting ``sql.text_max_bytes``.

        Raises:
            InvalidInputError: the text is too large, no UTF-8, or has a zero character in it.
        """
        if not isinstance(text, str) or not is_utf8(text):
            raise InvalidInputError(f"SQL is text in UTF-8, not {short(text)}")
        raw = text.encode()
        if len(raw) > max_bytes:
            raise InvalidInputError(
                f"the text of SQL has {len(raw):,} bytes; {max_bytes:,} are read at most: give values as "
                "parameters, or set sql.text_max_bytes"
            )
        checked = cls(text=text, raw=_plain_spaces(raw) if _WIDE_SPACES.search(text) else raw)
        if b"\0" in raw:
            raise checked.error("there is a zero character in the text of SQL", raw.index(b"\0"))
        return checked

    def error(
        self, message: str, start: int, end: int | None = None, *, kind: str | None = None, **context: Any
    ) -> InvalidInputError:
        """Returns an error that shows its place in the text; ``start`` and ``end`` are bytes."""
        length = max(1, (start if end is None else end) - start)
        line, column = line_and_column(self.raw, start)
        return InvalidInputError(
            f"{message}\n{caret(self.text.encode(), start, length)}",
            kind=kind,
            offset=start,
            length=length,
            line=line,
            column=column,
            **context,
        )


def _plain_spaces(raw: bytes) -> bytes:
    pieces, last = [], 0
    for start, end, kind in token_ranges(raw):
        piece = raw[start:end]
        is_text = kind in (duckdb.token_type.comment, duckdb.token_type.string_const) or piece[:1] == b'"'
        pieces += [raw[last:start], piece if is_text else _plain(piece)]
        last = end
    return b"".join([*pieces, raw[last:]])


def _plain(piece: bytes) -> bytes:
    return _WIDE_SPACES.sub(lambda match: " " * len(match[0].encode()), piece.decode()).encode()
