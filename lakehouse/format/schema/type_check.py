"""Checks of types from outside: converts them to types of tables, and reports those that tables cannot have.

Invariant: a type that :func:`column_type` returns, or in which :func:`type_problem` finds no problem,
can be written as text and as JSON, and read again as the same type.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short
from lakehouse.format.limits.json_object import INT64_MAX
from lakehouse.format.schema.type_notation import from_arrow, parse_type
from lakehouse.format.schema.types import (
    DECIMAL_DIGITS_MAX,
    LENGTH_MAX,
    PRIMITIVES,
    TYPE_DEPTH_MAX,
    BinaryType,
    DataType,
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
)
from lakehouse.suggest import suggestion

__all__ = ["ColumnType", "column_type", "field_problem", "type_problem"]

ColumnType = DataType | pa.DataType | str
"""Ways to give a type: SQL text such as ``"double"``, an Arrow type, or a type of this package."""
_ACCEPTED = "give SQL text such as 'double', an Arrow type such as pa.float64(), or a type of a TableSchema"


def column_type(given: object) -> DataType:
    """Returns the type that a caller means; fields inside have no ids yet.

    Raises:
        InvalidInputError: it stands for no type; the message lists what does.
    """
    if isinstance(given, str):
        return parse_type(given)
    if isinstance(given, pa.DataType):
        return from_arrow(given, lambda: 0)
    if not isinstance(given, DataType):
        raise InvalidInputError(f"{short(given)} is no type of a column: {_ACCEPTED}", type=short(given))
    problem = type_problem(given)
    if problem:
        raise InvalidInputError(problem, type=short(given))
    return given


def type_problem(kind: object, depth: int = 0) -> str:
    """Returns the first problem of a type, fields inside included; empty when it is sound."""
    if depth > TYPE_DEPTH_MAX:
        return f"types nest at most {TYPE_DEPTH_MAX} deep"
    match kind:
        case Primitive(name):
            known = _is(name, str) and name in PRIMITIVES
            return (
                "" if known else f"there is no type {short(name)}; {suggestion(str(name)[:100], PRIMITIVES)}"
            )
        case DecimalType(precision, scale):
            sound = _is_number(precision, 1, DECIMAL_DIGITS_MAX) and _is_number(scale, 0, precision)
            says = f"a decimal has 1 to {DECIMAL_DIGITS_MAX} digits, its scale is among them"
            return "" if sound else f"decimal({short(precision)},{short(scale)}): {says}"
        case StringType(length) | BinaryType(length):
            sound = length is None or _is_number(length, 1, LENGTH_MAX)
            return "" if sound else f"a length must be 1 or more, not {short(length)}"
        case ListType(element):
            return field_problem(element, depth + 1)
        case MapType(key, value):
            return field_problem(key, depth + 1) or field_problem(value, depth + 1)
        case StructType(fields):
            if not _is(fields, tuple):
                return f"the fields of a struct are a tuple of Field, not {short(fields)}"
            return next(filter(None, (field_problem(field, depth + 1) for field in fields)), "")
    return f"{short(kind)} is no type of a column: {_ACCEPTED}"


def _is(value: Any, wanted: type) -> bool:
    return isinstance(value, wanted)


def _is_number(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def field_problem(field: object, depth: int = 0) -> str:
    """Returns the first problem of a field's attributes, defaults aside; empty when it is sound."""
    if not isinstance(field, Field):
        return f"{short(field)} is no Field"
    if not _is(field.name, str):
        return f"a name must be text, not {short(field.name)}"
    if not _is_number(field.id, -INT64_MAX, INT64_MAX):
        return f"the id of field {short(field.name)} must be a whole number, not {short(field.id)}"
    if not _is(field.required, bool):
        return f"'required' of field {short(field.name)} must be true or false, not {short(field.required)}"
    if field.comment is not None and not _is(field.comment, str):
        return f"the comment of field {short(field.name)} must be text, not {short(field.comment)}"
    return type_problem(field.type, depth)
