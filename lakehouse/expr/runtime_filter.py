"""A condition on a column made of the values that matter: all of them while they are few, else ranges.

Invariant: the condition is true of every row whose value is among those given. It may be true of others
where ranges stand for the values.
"""

from __future__ import annotations

import contextlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.expr.nodes import Expr, any_of, col
from lakehouse.kernels.arrays import I64

__all__ = ["among", "fitting"]

_RANGES = 16
"""More make each row dearer to judge than they leave out."""


def among(name: str, kind: pa.DataType, values: pa.Array, *, max_values: int) -> Expr:
    """The condition that the column has one of these values.

    Args:
        name: of the column.
        kind: its type, whose values have an order.
        values: of a type that casts to it; nulls are no values.
        max_values: from more on, ranges take their place, parted where the values leave the widest gaps.
    """
    distinct = pc.unique(fitting(values.drop_null(), kind))
    column = col(name)
    if len(distinct) <= max_values or not len(distinct):
        return column.is_in(distinct.to_pylist())
    ordered = distinct.take(pc.sort_indices(distinct))
    begins = _begins(ordered)
    ends = np.append(begins[1:] - 1, len(ordered) - 1)
    lows, highs = (ordered.take(pa.array(places)).to_pylist() for places in (begins, ends))
    return any_of(*(column.between(low, high) for low, high in zip(lows, highs, strict=True)))


def fitting(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values as the column has them; those that it cannot have are no value of any row."""
    with contextlib.suppress(pa.ArrowInvalid):
        return values.cast(kind)
    with contextlib.suppress(pa.ArrowInvalid):
        cast = values.cast(kind, safe=False)
        return cast.filter(pc.equal(cast.cast(values.type, safe=False), values))
    return pa.array([one.cast(kind).as_py() for one in values if _casts(one, kind)], kind)


def _casts(value: pa.Scalar, kind: pa.DataType) -> bool:
    try:
        value.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _begins(ordered: pa.Array) -> I64:
    """Where ranges begin among ascending values."""
    count = min(_RANGES, len(ordered))
    try:
        numbers = ordered if pa.types.is_integer(ordered.type) else ordered.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Of text no gap is wider than another.
        return np.arange(count, dtype=np.int64) * len(ordered) // count
    gaps = np.diff(numbers.to_numpy(zero_copy_only=False).astype(np.float64))
    widest = np.sort(np.argsort(gaps)[len(gaps) - count + 1 :])
    return np.concatenate([np.zeros(1, np.int64), widest + 1])
