"""Comparison of two columns row by row, by value.

Invariant: null equals null, NaN equals NaN, and nested values are equal when all their parts
are, in order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.kernels.arrays import Mask

__all__ = ["same_rows"]


def same_rows(one: pa.Table, other: pa.Table) -> Mask:
    """Returns for each row whether it is the same in both tables, which have the same columns."""
    same = np.ones(one.num_rows, np.bool_)
    for left, right in zip(one.columns, other.columns, strict=True):
        same &= _same(_whole(left), _whole(right))
    return same


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _same(one: pa.Array, other: pa.Array) -> Mask:
    left, right = _nulls(one), _nulls(other)
    same: Mask = left == right
    kind = one.type
    if pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            parts = pc.struct_field(one, [number]), pc.struct_field(other, [number])
            same &= _same(*parts) | left
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        same &= _same_lists(one, other) | left
    else:
        equal = pc.equal(one, other)
        if pa.types.is_floating(kind):
            equal = pc.or_(equal, pc.and_(pc.is_nan(one), pc.is_nan(other)))
        same &= equal.fill_null(True).to_numpy(zero_copy_only=False)
    return same


def _nulls(array: pa.Array) -> Mask:
    nulls: Mask = array.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _same_lists(one: pa.Array, other: pa.Array) -> Mask:
    """Compares lists by length and elements; the result for nulls has no meaning."""
    if pa.types.is_map(one.type):
        # Elements are compared only where lengths agree, so that they stay aligned.
        one, other = (_as_list(array) for array in (one, other))
    lengths = [pc.list_value_length(array).fill_null(0).to_numpy() for array in (one, other)]
    same: Mask = lengths[0] == lengths[1]
    rows = pa.array(np.flatnonzero(same))
    left, right = one.take(rows), other.take(rows)
    parents = pc.list_parent_indices(left).to_numpy()
    differs = ~_same(left.flatten(), right.flatten())
    same[rows.to_numpy()[parents[differs]]] = False
    return same


def _as_list(array: pa.Array) -> pa.Array:
    """Returns a map array as an array of lists of its entries."""
    entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    nulls = array.is_null() if array.null_count else None
    offsets = array.offsets if nulls is None else pa.array(array.offsets.to_numpy(), pa.int32())
    return pa.ListArray.from_arrays(offsets, entries, mask=nulls)
