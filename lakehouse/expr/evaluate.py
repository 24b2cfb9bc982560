"""Expressions over Arrow batches, whole columns at a time, by SQL's three-valued logic.

Invariant: floats have one order, DuckDB's: a NaN is above every number and equal to itself, and the two
zeros are equal. So a condition and its contrary never both leave a row out that is not null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InternalError, InvalidInputError
from lakehouse.expr.functions import function
from lakehouse.expr.nodes import (
    And,
    Applied,
    Column,
    Compare,
    CompareOp,
    Constant,
    Expr,
    FunctionCall,
    In,
    IsNull,
    Not,
    Or,
)

__all__ = ["column_of", "evaluate", "matching"]

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def matching(expr: Expr, batch: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
    """Which rows the condition wants: true or false, never null.

    The expression should be bound to the batch's schema (:func:`lakehouse.expr.bind`), so
    that constants have the types of the columns.
    """
    found = evaluate(expr, batch)
    if isinstance(found, pa.Scalar):
        return pa.repeat(pa.scalar(bool(found.as_py())), batch.num_rows)
    if not pa.types.is_boolean(found.type):
        raise InvalidInputError(f"a condition must be true or false, this one is {found.type}")
    return pc.fill_null(found, False)


def evaluate(expr: Expr, batch: pa.RecordBatch | pa.Table) -> Any:
    """The expression's value for each row: an array, or a scalar where it is the same for all."""
    if isinstance(expr, Column):
        return column_of(batch, expr.name)
    if isinstance(expr, Constant):
        return expr.value if isinstance(expr.value, pa.Scalar) else pa.scalar(expr.value)
    if isinstance(expr, Compare):
        return _compare(expr.op, evaluate(expr.left, batch), evaluate(expr.right, batch))
    if isinstance(expr, In):
        return _is_in(evaluate(expr.arg, batch), expr.values)
    if isinstance(expr, IsNull):
        return pc.is_null(evaluate(expr.arg, batch))
    if isinstance(expr, Not):
        return pc.invert(_truth(evaluate(expr.arg, batch)))
    if isinstance(expr, And | Or):
        combine = pc.and_kleene if isinstance(expr, And) else pc.or_kleene
        result = _truth(evaluate(expr.args[0], batch))
        for arg in expr.args[1:]:
            result = combine(result, _truth(evaluate(arg, batch)))
        return result
    if isinstance(expr, Applied):
        return expr.compute(evaluate(expr.children()[0], batch))
    if isinstance(expr, FunctionCall):
        return function(expr.name, len(expr.args)).compute(*(evaluate(arg, batch) for arg in expr.args))
    raise InternalError(f"{type(expr).__name__} cannot be evaluated")


def column_of(batch: pa.RecordBatch | pa.Table, name: str) -> Any:
    """The column of that name; a dotted name goes into structs."""
    if name in batch.schema.names:
        return batch.column(name)
    head, *path = name.split(".")
    if head not in batch.schema.names:
        known = ", ".join(batch.schema.names)
        raise InvalidInputError(f"there is no column {name!r}; these are there: {known}", column=name)
    return pc.struct_field(batch.column(head), path)


def _compare(op: CompareOp, left: Any, right: Any) -> Any:
    found = _COMPARE[op](left, right)
    if not (pa.types.is_floating(left.type) or pa.types.is_floating(right.type)):
        return found
    nan_left, nan_right = _is_nan(left), _is_nan(right)
    if _is_never(nan_left) and _is_never(nan_right):
        return found
    # Arrow says false of every comparison with a NaN but <>; with a null both it and pc.or_ say null.
    if op in ("=", "<>"):
        both = pc.and_kleene(nan_left, nan_right)
        return pc.or_(found, both) if op == "=" else pc.and_not(found, both)
    higher, lower = (nan_left, nan_right) if op in (">", ">=") else (nan_right, nan_left)
    return pc.or_(found, higher if op in ("<=", ">=") else pc.and_not(higher, lower))


def _is_nan(found: Any) -> Any:
    """Null for a null."""
    if pa.types.is_floating(found.type):
        return pc.is_nan(found)
    return pc.if_else(pc.is_null(found), pa.scalar(None, pa.bool_()), pa.scalar(False))


def _is_never(found: Any) -> bool:
    """Whether none is true."""
    return not (found.as_py() if isinstance(found, pa.Scalar) else pc.any(found).as_py())


def _truth(found: Any) -> Any:
    """A null constant has no type of its own; where a condition stands it is an unknown truth."""
    return pa.scalar(None, pa.bool_()) if pa.types.is_null(found.type) else found


def _is_in(found: Any, values: tuple[Any, ...]) -> Any:
    """SQL's IN: null for a null, and for a miss when one of the values is null."""
    plain = [value.as_py() if isinstance(value, pa.Scalar) else value for value in values]
    known = [value for value in plain if value is not None]
    with_null = len(known) < len(plain)
    if pa.types.is_floating(found.type) and 0 in known:
        known += [0.0, -0.0]  # Arrow looks for bits
    hit = pc.is_in(found, value_set=pa.array(known, found.type))
    unknown = pc.is_null(found)
    if with_null:
        unknown = pc.or_(unknown, pc.invert(hit))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), hit)
