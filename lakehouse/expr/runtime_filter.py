"""Runtime filter: a condition on a column made of wanted values, listed while they are few, else as ranges.

Invariant: the condition is true for every row whose value is among the wanted ones. It may be true for other
rows where ranges replace the values.
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
"""Maximum number of ranges; more cost more per row than they filter out."""


def among(name: str, kind: pa.DataType, values: pa.Array, *, max_values: int) -> Expr:
    """Returns a condition that is true where the column has one of these values.

    Args:
        name: of the column.
        kind: its type, whose values have an order.
        values: wanted values, of a type that casts to it; nulls are ignored.
        max_values: maximum number of listed values; more become ranges, divided at the widest gaps.
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
    """Casts values to the column's type, and drops those that it cannot hold: no row has them."""
    with contextlib.suppress(pa.ArrowInvalid):
        return values.cast(kind)
    # Some value does not fit: keep those that survive the way there and back.
    with contextlib.suppress(pa.ArrowInvalid):
        cast = values.cast(kind, safe=False)
        return cast.filter(pc.equal(cast.cast(values.type, safe=False), values))
    # Some casts fail even unsafely, such as text to numbers: then each value is tried by itself.
    return pa.array([value.cast(kind).as_py() for value in values if _casts(value, kind)], kind)


def _casts(value: pa.Scalar, kind: pa.DataType) -> bool:
    try:
        value.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _begins(ordered: pa.Array) -> I64:
    """Returns the places at which ranges begin among ascending values."""
    count = min(_RANGES, len(ordered))
    try:
        numbers = ordered if pa.types.is_integer(ordered.type) else ordered.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Gaps between texts have no width: ranges get equal numbers of values instead.
        return np.arange(count, dtype=np.int64) * len(ordered) // count
    gaps = np.diff(numbers.to_numpy(zero_copy_only=False).astype(np.float64))
    widest = np.sort(np.argsort(gaps)[len(gaps) - count + 1 :])
    return np.concatenate([np.zeros(1, np.int64), widest + 1])
