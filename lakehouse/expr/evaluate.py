"""Evaluation of expressions over Arrow batches, whole columns at a time, by SQL's three-valued logic.

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
    """Returns for each row whether the condition selects it: true or false, never null.

    The expression should be bound to the batch's schema (:func:`lakehouse.expr.bind`), so
    that constants have the types of the columns.
    """
    truths = evaluate(expr, batch)
    if isinstance(truths, pa.Scalar):
        return pa.repeat(pa.scalar(bool(truths.as_py())), batch.num_rows)
    if not pa.types.is_boolean(truths.type):
        raise InvalidInputError(f"a condition must be true or false, this one is {truths.type}")
    return pc.fill_null(truths, False)


def evaluate(expr: Expr, batch: pa.RecordBatch | pa.Table) -> Any:
    """Returns the expression's value for each row: an array, or a scalar where it is the same for all."""
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
    """Returns the column of that name; a dotted name goes into structs."""
    if name in batch.schema.names:  # a column whose own name holds a dot comes before a path
        return batch.column(name)
    head, *path = name.split(".")
    if head not in batch.schema.names:
        known = ", ".join(batch.schema.names)
        raise InvalidInputError(f"there is no column {name!r}; these are there: {known}", column=name)
    return pc.struct_field(batch.column(head), path)


def _compare(op: CompareOp, left: Any, right: Any) -> Any:
    result = _COMPARE[op](left, right)
    if not (pa.types.is_floating(left.type) or pa.types.is_floating(right.type)):
        return result
    nan_left, nan_right = _is_nan(left), _is_nan(right)
    if _is_never(nan_left) and _is_never(nan_right):
        return result
    # In Arrow every comparison with a NaN but <> is false; with a null both it and pc.or_ give null.
    if op in ("=", "<>"):
        both = pc.and_kleene(nan_left, nan_right)
        return pc.or_(result, both) if op == "=" else pc.and_not(result, both)
    higher, lower = (nan_left, nan_right) if op in (">", ">=") else (nan_right, nan_left)
    return pc.or_(result, higher if op in ("<=", ">=") else pc.and_not(higher, lower))


def _is_nan(values: Any) -> Any:
    """Returns for each value whether it is NaN, of any type; null for a null."""
    if pa.types.is_floating(values.type):
        return pc.is_nan(values)
    return pc.if_else(pc.is_null(values), pa.scalar(None, pa.bool_()), pa.scalar(False))


def _is_never(truths: Any) -> bool:
    """Returns whether none is true."""
    return not (truths.as_py() if isinstance(truths, pa.Scalar) else pc.any(truths).as_py())


def _truth(values: Any) -> Any:
    """Returns the values as truth values: a null constant, which has no type, becomes a boolean null."""
    return pa.scalar(None, pa.bool_()) if pa.types.is_null(values.type) else values


def _is_in(tested: Any, values: tuple[Any, ...]) -> Any:
    """Computes SQL's IN: null for a null, and for a miss when one of the values is null."""
    kind = tested.type.value_type if pa.types.is_dictionary(tested.type) else tested.type
    wanted = pa.array(values, kind)
    with_null = wanted.null_count > 0
    wanted = wanted.drop_null()
    if pa.types.is_floating(kind) and pc.any(pc.equal(wanted, 0)).as_py():
        # Arrow compares bits, in which the two zeros differ.
        wanted = pa.concat_arrays([wanted, pa.array([0.0, -0.0], kind)])
    hit = pc.is_in(tested, value_set=wanted)
    unknown = pc.is_null(tested)
    if with_null:
        unknown = pc.or_(unknown, pc.invert(hit))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), hit)
