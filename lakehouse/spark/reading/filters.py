"""Spark's filters as conditions of the engine: with exactly their meaning, or not at all.

What both have alike: a comparison with null is null, and so is its contrary; ``IN`` is null for a miss where
one of the values is null; a NaN is above every number and equal to itself, the two zeros are equal; text
and bytes are ordered by their bytes; moments are microseconds.

Left to Spark are filters on columns that share a name with a path into a struct, on lists, maps and structs
as a whole (other than for being null), and constants that a column's type cannot be compared with.

Invariant: a filter that is translated keeps the rows that Spark would keep, and Spark does not look again.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import datasource as ds

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr, all_of
from lakehouse.expr.column_names import written
from lakehouse.expr.nodes import Column, Compare, CompareOp, Constant, FunctionCall, In, IsNull, Not
from lakehouse.format.schema import Field, StructType, TableSchema, children
from lakehouse.storage.scan import bind_where

__all__ = ["translated"]

_COMPARE: Mapping[type[ds.Filter], CompareOp] = {
    ds.EqualTo: "=",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
}
_TEXT: Mapping[type[ds.Filter], str] = {
    ds.StringStartsWith: "starts_with",
    ds.StringEndsWith: "ends_with",
    ds.StringContains: "contains",
}


def translated(one: ds.Filter, schema: TableSchema) -> Expr | None:
    """The condition; None = Spark has to look itself.

    Args:
        one: the filter; names may differ from the table's in case.
        schema: of the table.
    """
    where = _translated(one, schema)
    if where is None:
        return None
    try:
        bind_where(where, schema)
    except InvalidInputError:
        return None
    return where


def _translated(one: ds.Filter, schema: TableSchema) -> Expr | None:
    if isinstance(one, ds.Not):
        inner = _translated(one.child, schema)
        return None if inner is None else Not(inner)
    named = _column(one.attribute, schema)
    if named is None:
        return None
    column, field = named
    if isinstance(one, ds.IsNull):
        return IsNull(column)
    if isinstance(one, ds.IsNotNull):
        return Not(IsNull(column))
    if children(field.type):
        return None
    if isinstance(one, ds.EqualNullSafe):
        if one.value is None:
            return IsNull(column)
        return all_of(Not(IsNull(column)), Compare("=", column, Constant(one.value)))
    if isinstance(one, ds.In):
        return In(column, tuple(one.value))
    if type(one) in _COMPARE:
        return Compare(_COMPARE[type(one)], column, Constant(one.value))
    if type(one) in _TEXT and isinstance(one.value, str):
        return FunctionCall(_TEXT[type(one)], (column, Constant(one.value)))
    return None


def _column(path: tuple[str, ...], schema: TableSchema) -> tuple[Column, Field] | None:
    """The column of a path, by the names that the table has for it."""
    fields = schema.fields
    found: list[Field] = []
    for part in path:
        field = next((one for one in fields if one.name.casefold() == part.casefold()), None)
        if field is None:
            return None
        found.append(field)
        fields = field.type.fields if isinstance(field.type, StructType) else ()
    names = [one.name for one in found]
    joined = ".".join(names)
    if len(names) == 1:
        return Column(written(names)), found[-1]
    if any("." in name for name in names):
        return None
    if any(one.name == joined for one in schema.fields):
        return None
    return Column(joined), found[-1]
