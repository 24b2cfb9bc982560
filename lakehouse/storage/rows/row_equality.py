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


def same_rows(first: pa.Table, second: pa.Table) -> Mask:
    """Returns for each row whether it is the same in both tables, which have the same columns."""
    same = np.ones(first.num_rows, np.bool_)
    for left, right in zip(first.columns, second.columns, strict=True):
        same &= _same(_whole(left), _whole(right))
    return same


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _same(first: pa.Array, second: pa.Array) -> Mask:
    left, right = _nulls(first), _nulls(second)
    same: Mask = left == right
    kind = first.type
    if pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            parts = pc.struct_field(first, [number]), pc.struct_field(second, [number])
            same &= _same(*parts) | left
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        same &= _same_lists(first, second) | left
    else:
        equal = pc.equal(first, second)
        if pa.types.is_floating(kind):
            equal = pc.or_(equal, pc.and_(pc.is_nan(first), pc.is_nan(second)))
        same &= equal.fill_null(True).to_numpy(zero_copy_only=False)
    return same


def _nulls(array: pa.Array) -> Mask:
    nulls: Mask = array.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _same_lists(first: pa.Array, second: pa.Array) -> Mask:
    """Compares lists by length and elements; the result for nulls has no meaning."""
    if pa.types.is_map(first.type):
        # Elements are compared only where lengths agree, so that they stay aligned.
        first, second = (_as_list(array) for array in (first, second))
    lengths = [pc.list_value_length(array).fill_null(0).to_numpy() for array in (first, second)]
    same: Mask = lengths[0] == lengths[1]
    rows = pa.array(np.flatnonzero(same))
    left, right = first.take(rows), second.take(rows)
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
