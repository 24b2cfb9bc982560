"""Types and values of columns as DuckDB writes them, for the text of views.

Invariant: a type that has a text here is read from Parquet by DuckDB as we read it; others have none.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from lakehouse.format.schema import (
    BinaryType,
    DataType,
    DecimalType,
    Field,
    Primitive,
    StringType,
    children,
)
from lakehouse.sql.text import literal, quoted

__all__ = ["column_text", "value_text"]

_NAMES = {
    "boolean": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
    "timestamp_ns_ntz": "TIMESTAMP_NS",
}
"""DuckDB's names of types; it has no moment with nanoseconds."""


def _type_name(kind: DataType) -> str | None:
    """Returns the type of a column without parts as DuckDB names it; None = it has none that is the same."""
    match kind:
        case Primitive(name):
            return _NAMES.get(name)
        case DecimalType(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case StringType():
            return "VARCHAR"
        case BinaryType():
            return "BLOB"
    return None


def _is_read_alike(kind: DataType) -> bool:
    """Returns whether DuckDB reads values of a type, nested ones too, as we do."""
    inside = children(kind)
    return all(_is_read_alike(field.type) for field in inside) if inside else _type_name(kind) is not None


def column_text(written: Field | None, wanted: Field) -> str | None:
    """Returns the expression that makes a column of what a file has of it; None = our own reader has to.

    Args:
        written: the column in the file's schema; None = the file lacks it.
        wanted: the column as it is shown.
    """
    if not _is_read_alike(wanted.type):
        return None
    kind = _type_name(wanted.type)
    if written is None:
        # A required column that a file lacks is damage, which our own reader reports.
        is_missing = wanted.required and wanted.initial_default is None
        default = None if is_missing else value_text(wanted, wanted.initial_default)
        return None if default is None else f"{default} AS {quoted(wanted.name)}"
    if _same(written.type, wanted.type):
        return f"{quoted(written.name)} AS {quoted(wanted.name)}"
    # Parts that came, went or were renamed are put in their places by our own reader.
    return None if kind is None else f"CAST({quoted(written.name)} AS {kind}) AS {quoted(wanted.name)}"


def value_text(field: Field, value: Any) -> str | None:
    """Returns a value of a column as a constant of the column's type; None = it has no such text."""
    kind = _type_name(field.type)
    if kind is None:
        return None
    if value is None:
        return f"CAST(NULL AS {kind})"
    if isinstance(value, bytes):
        return f"from_hex('{value.hex()}')"
    text = value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)
    return None if "\0" in text else f"CAST({literal(text)} AS {kind})"


def _same(one: DataType, other: DataType) -> bool:
    """Returns whether types are the same, whatever is said about lengths, nulls and defaults."""
    mine, others = children(one), children(other)
    if not mine and not others:
        return _type_name(one) == _type_name(other)
    return (
        type(one) is type(other)
        and [(field.id, field.name) for field in mine] == [(field.id, field.name) for field in others]
        and all(_same(field.type, match.type) for field, match in zip(mine, others, strict=True))
    )
