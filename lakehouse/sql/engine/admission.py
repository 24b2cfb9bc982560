"""Admission of text to DuckDB: one query that only reads, without names that take DuckDB minutes.

The text was read before by :mod:`lakehouse.sql.text`; this is the last look, whatever came between.
"""

from __future__ import annotations

from typing import Any

import duckdb

from lakehouse.errors import InvalidInputError
from lakehouse.sql.engine.failures import SqlFailure, SqlFailureError
from lakehouse.sql.text.tokens import token_ranges

__all__ = ["admit_query"]

_READING = frozenset({"SELECT", "EXPLAIN", "MULTI"})
"""DuckDB's types of statements that only read; ``PIVOT`` is two of them."""
_NAME_BYTES_MAX = 1024
_NAME_PARTS_MAX = 64
"""Bounds of a name: for an unknown one DuckDB looks for near names, which takes time as the square of its
parts and cannot be interrupted."""


def admit_query(cursor: Any, text: str) -> None:
    """Refuses text that is anything but one query; runs on a thread."""
    kinds = []
    for statement in cursor.extract_statements(text):
        try:
            kinds.append(statement.type.name)
        except ValueError:  # a type that DuckDB's Python layer does not know
            kinds.append("UNKNOWN")
    if len(kinds) != 1 or kinds[0] not in _READING:
        raise InvalidInputError(
            f"one query is expected here, and this is {' and '.join(kinds) or 'nothing'}", kinds=kinds
        )
    _check_names(text.encode())


def _check_names(raw: bytes) -> None:
    parts, is_dotted = 0, False
    for start, end, kind in token_ranges(raw):
        token = raw[start:end].rstrip()
        if kind is duckdb.token_type.comment:
            continue
        if token == b".":
            is_dotted = True
            continue
        is_name = is_dotted or kind is duckdb.token_type.identifier
        parts, is_dotted = (parts * is_dotted + 1) * is_name, False
        if is_name and (len(token) > _NAME_BYTES_MAX or parts > _NAME_PARTS_MAX):
            raise SqlFailureError(
                SqlFailure(
                    category="parser",
                    message=f"a name has {_NAME_PARTS_MAX} parts of {_NAME_BYTES_MAX:,} bytes at most",
                    offset=start,
                    length=len(token),
                )
            )
