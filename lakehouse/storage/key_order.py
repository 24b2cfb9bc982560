"""Rows in the order they came in, brought into key order: which stay, and where each is found.

Invariant: of several rows of a key the last stays, as it stands in the input; rows that are in order
already are told apart from those that are not, so that nobody copies them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.format.arrays import I64, U64, Mask
from lakehouse.storage.key_arrays import KeyArray

__all__ = ["last_of_each"]

_FEW_BREAKS = 64
_DIGIT_BITS = 16
_DIGITS = 2
"""Numpy sorts 16 bits by radix. After two such sorts, by the highest bits that differ, rows are in
order but for keys that agree in these, and finishing them costs less than further passes."""


def last_of_each(keys: KeyArray) -> I64 | None:
    """The numbers of the rows that stay, in key order; None when that is every row, in place."""
    if isinstance(keys, np.ndarray):
        breaks = np.count_nonzero(keys[1:] <= keys[:-1])
        if not breaks:
            return None
        # Numpy's stable sort merges the stretches that are in order, when they are few.
        few = breaks < len(keys) // _FEW_BREAKS
        rows = np.argsort(keys, kind="stable") if few else _sorted_numbers(keys)
        ordered = keys[rows]
        same: Mask = ordered[1:] == ordered[:-1]
    else:
        if pc.all(pc.greater(keys[1:], keys[:-1]), min_count=0).as_py():
            return None
        rows = pc.array_sort_indices(keys).to_numpy().astype(np.int64)
        sorted_keys = keys.take(pa.array(rows))
        same = pc.equal(sorted_keys[1:], sorted_keys[:-1]).to_numpy(zero_copy_only=False)
    return rows[np.append(~same, True)] if same.any() else rows


def _sorted_numbers(keys: I64) -> I64:
    """Row numbers in key order, equal keys in the order of their rows."""
    low = keys.min()
    distance: U64 = keys.view(np.uint64) - low.view(np.uint64)
    bits = int(distance.max()).bit_length()
    above = max(0, bits - _DIGITS * _DIGIT_BITS)
    rows: I64 | None = None
    for shift in range(above, bits, _DIGIT_BITS):
        digit = (distance >> np.uint64(shift)).astype(np.uint16)
        pass_rows = np.argsort(digit if rows is None else digit[rows], kind="stable")
        rows = pass_rows if rows is None else rows[pass_rows]
    if rows is None:
        return np.arange(len(keys))
    if above:
        nearly = keys[rows]
        if not bool((nearly[1:] >= nearly[:-1]).all()):
            rows = rows[np.argsort(nearly, kind="stable")]
    return rows
