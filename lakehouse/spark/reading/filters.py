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


def translated(pushed: ds.Filter, schema: TableSchema) -> Expr | None:
    """Translates a filter of Spark into a condition; None = Spark has to evaluate it.

    Args:
        pushed: the filter; names may differ from the table's in case.
        schema: of the table.
    """
    where = _translated(pushed, schema)
    if where is None:
        return None
    try:
        bind_where(where, schema)
    except InvalidInputError:
        return None
    return where


def _translated(pushed: ds.Filter, schema: TableSchema) -> Expr | None:
    if isinstance(pushed, ds.Not):
        inner = _translated(pushed.child, schema)
        return None if inner is None else Not(inner)
    named = _column(pushed.attribute, schema)
    if named is None:
        return None
    column, field = named
    if isinstance(pushed, ds.IsNull):
        return IsNull(column)
    if isinstance(pushed, ds.IsNotNull):
        return Not(IsNull(column))
    if children(field.type):
        return None  # of lists, maps and structs only whether they are null
    if isinstance(pushed, ds.EqualNullSafe):
        # False for a null, where "=" is null: that matters below a Not.
        if pushed.value is None:
            return IsNull(column)
        return all_of(Not(IsNull(column)), Compare("=", column, Constant(pushed.value)))
    if isinstance(pushed, ds.In):
        return In(column, tuple(pushed.value))
    if type(pushed) in _COMPARE:
        return Compare(_COMPARE[type(pushed)], column, Constant(pushed.value))
    if type(pushed) in _TEXT and isinstance(pushed.value, str):
        return FunctionCall(_TEXT[type(pushed)], (column, Constant(pushed.value)))
    return None


def _column(path: tuple[str, ...], schema: TableSchema) -> tuple[Column, Field] | None:
    """Finds the column of a path, under the names that the table has for it."""
    fields = schema.fields
    steps: list[Field] = []
    for part in path:
        field = next((child for child in fields if child.name.casefold() == part.casefold()), None)
        if field is None:
            return None
        steps.append(field)
        fields = field.type.fields if isinstance(field.type, StructType) else ()
    names = [step.name for step in steps]
    joined = ".".join(names)
    if len(names) == 1:
        return Column(written(names)), steps[-1]
    # Joined by dots, such names could be read as another path or as a column of that very name.
    if any("." in name for name in names):
        return None
    if any(top.name == joined for top in schema.fields):
        return None
    return Column(joined), steps[-1]
