"""Values of a column that are computed from several rows of a key: sums, texts, lists, maps.

Invariant: a value computed from results of neighbouring rows equals the value computed from the rows
themselves. A whole number that its column has no room for is an error and never another number.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.format.schema import Aggregate, ColumnRule, list_offsets, parts
from lakehouse.kernels.arrays import I64, U64, Mask
from lakehouse.storage.merge.key_groups import KeyGroups, valid

__all__ = ["OutOfRange", "computed", "own_value"]

_HALF = np.uint64(32)
_LOW_HALF = np.uint64((1 << 32) - 1)
_SAFE = 2.0**62
"""Products below it, as floating point sees them, are exact in 64 bits; others are computed anew."""


class OutOfRange(Exception):
    """A result that the column has no room for.

    Args:
        place: number of the group.
        value: the result.
    """

    def __init__(self, place: int, value: object) -> None:
        super().__init__(place, value)
        self.place, self.value = place, value


def own_value(column: pa.ChunkedArray, rule: ColumnRule) -> pa.ChunkedArray:
    """Returns incoming values as a merge of one row each: the value of a key with a single row."""
    match rule.aggregate:
        case Aggregate.COUNT:
            return column.is_valid().cast(column.type)
        case Aggregate.COLLECT if not rule.distinct:
            return column
        case Aggregate.COLLECT | Aggregate.MERGE_MAP:
            array = column.combine_chunks()
            every = np.arange(len(array))
            return pa.chunked_array([computed(array, KeyGroups(rows=every, begins=every), rule)])
    return column


def computed(column: pa.Array, groups: KeyGroups, rule: ColumnRule) -> pa.Array:
    """Computes one value for each group.

    Raises:
        OutOfRange: the column has no room for one.
    """
    match rule.aggregate:
        case Aggregate.SUM | Aggregate.COUNT | Aggregate.PRODUCT:
            return _numbers(column, groups, is_sum=rule.aggregate is not Aggregate.PRODUCT)
        case Aggregate.LISTAGG:
            return _joined(column, groups, rule.delimiter)
        case Aggregate.COLLECT:
            return _collected(column, groups, distinct=rule.distinct)
    return _merged_maps(column, groups)


# --- numbers --------------------------------------------------------------------------


def _numbers(column: pa.Array, groups: KeyGroups, *, is_sum: bool) -> pa.Array:
    kind = column.type
    values = column.take(pa.array(groups.rows))
    nulls = _empty(valid(column, groups.rows), groups)
    if pa.types.is_decimal(kind):
        return _decimal_sums(values, groups, nulls)
    if pa.types.is_floating(kind):
        add = np.add if is_sum else np.multiply
        floats = values.fill_null(0.0 if is_sum else 1.0).to_numpy().astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            results = add.reduceat(floats, groups.begins).astype(kind.to_pandas_dtype())
        return pa.array(results, kind, mask=nulls)
    whole = values.cast(pa.int64()).fill_null(0 if is_sum else 1).to_numpy()
    totals = _sums(whole, groups) if is_sum else _products(whole, groups)
    bits = kind.bit_width
    if bits < 64:
        outside = (totals < -(1 << (bits - 1))) | (totals >= 1 << (bits - 1))
        if outside.any():
            place = int(np.flatnonzero(outside)[0])
            raise OutOfRange(place, int(totals[place]))
    return pa.array(totals, pa.int64(), mask=nulls).cast(kind)


def _empty(mask: Mask | None, groups: KeyGroups) -> Mask | None:
    """Returns which groups have no value."""
    return None if mask is None else ~np.logical_or.reduceat(mask, groups.begins)


def _sums(values: I64, groups: KeyGroups) -> I64:
    totals = np.add.reduceat(values, groups.begins)
    bound = max(int(values.max()), -int(values.min())) * int(groups.lengths.max())
    if bound < 1 << 63:
        return totals
    # The halves have room where the whole has not.
    low = np.add.reduceat(values & 0xFFFFFFFF, groups.begins)
    high = np.add.reduceat(values >> 32, groups.begins)
    top = high + (low >> 32)
    outside = (top < -(1 << 31)) | (top >= 1 << 31)
    if outside.any():
        place = int(np.flatnonzero(outside)[0])
        raise OutOfRange(place, (int(high[place]) << 32) + int(low[place]))
    return totals


def _products(values: I64, groups: KeyGroups) -> I64:
    totals = np.multiply.reduceat(values, groups.begins)
    with np.errstate(over="ignore", invalid="ignore"):
        about = np.multiply.reduceat(values.astype(np.float64), groups.begins)
    # Only groups whose product is near or beyond 64 bits pay for Python's numbers.
    for place in np.flatnonzero(~(np.abs(about) < _SAFE)).tolist():
        begin = int(groups.begins[place])
        exact = math.prod(values[begin : begin + int(groups.lengths[place])].tolist())
        if not -(1 << 63) <= exact < 1 << 63:
            raise OutOfRange(place, exact)
    return totals


def _decimal_sums(values: pa.Array, groups: KeyGroups, nulls: Mask | None) -> pa.Array:
    """Sums numbers of 128 bits as sums of their 32-bit quarters, which have room for the carries."""
    kind = values.type
    words = np.frombuffer(values.buffers()[1], np.uint64)[2 * values.offset :][: 2 * len(values)]
    low, high = words.reshape(-1, 2).T
    if values.null_count:
        mask = values.is_valid().to_numpy(zero_copy_only=False)
        low, high = low * mask, high * mask
    quarters = [low & _LOW_HALF, low >> _HALF, high & _LOW_HALF]
    sums = [np.add.reduceat(quarter, groups.begins) for quarter in quarters]
    top = np.add.reduceat(high.view(np.int64) >> 32, groups.begins)
    carry = np.zeros(len(top), np.uint64)
    for at, quarter_sum in enumerate(sums):
        sums[at], carry = (quarter_sum + carry) & _LOW_HALF, (quarter_sum + carry) >> _HALF
    top += carry.astype(np.int64)
    limit = 10**kind.precision
    # Floating point finds the few sums that may be too large; these are then computed exactly.
    about = top * 2.0**96 + sums[2] * 2.0**64 + sums[1] * 2.0**32 + sums[0]
    for place in np.flatnonzero(np.abs(about) >= limit * 0.999).tolist():
        exact = (int(top[place]) << 96) + sum(int(part[place]) << 32 * at for at, part in enumerate(sums))
        if abs(exact) >= limit:
            raise OutOfRange(place, _shown(exact, kind.scale))
    unscaled: U64 = np.empty((len(top), 2), np.uint64)
    unscaled[:, 0] = sums[0] | (sums[1] << _HALF)
    unscaled[:, 1] = sums[2] | (top.view(np.uint64) << _HALF)
    present = None if nulls is None else pa.array(~nulls).buffers()[1]
    return pa.Array.from_buffers(kind, len(top), [present, pa.py_buffer(unscaled)])


def _shown(unscaled: int, scale: int) -> str:
    """Formats a decimal of any number of digits."""
    digits = f"{abs(unscaled):0{scale + 1}}"
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if unscaled < 0 else text


# --- texts, lists, maps ---------------------------------------------------------------


def _given(column: pa.Array, groups: KeyGroups) -> tuple[pa.Array, I64, Mask]:
    """Returns the values that are not null, the bounds of each group among them, and the empty groups."""
    mask = valid(column, groups.rows)
    rows = groups.rows if mask is None else groups.rows[mask]
    counts = groups.lengths if mask is None else np.add.reduceat(mask.astype(np.int64), groups.begins)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return column.take(pa.array(rows)), ends, counts == 0


def _joined(column: pa.Array, groups: KeyGroups, delimiter: str) -> pa.Array:
    values, ends, is_empty = _given(column, groups)
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values, mask=pa.array(is_empty))
    return pc.binary_join(lists, delimiter)


def _collected(column: pa.Array, groups: KeyGroups, *, distinct: bool) -> pa.Array:
    lists, ends, is_empty = _given(column, groups)
    (elements,) = parts(lists)
    offsets = list_offsets(lists)[ends]
    if distinct:
        kept, offsets = _first_of_each(elements, offsets)
        elements = elements.take(pa.array(kept))
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), elements, type=column.type, mask=pa.array(is_empty)
    )


def _merged_maps(column: pa.Array, groups: KeyGroups) -> pa.Array:
    """Merges the maps of each group: for each of its keys the newest entry."""
    maps, ends, is_empty = _given(column, groups)
    keys, items = parts(maps)
    offsets = list_offsets(maps)[ends]
    # Turned round, the newest entry of a key is the first.
    backwards = pa.array(np.arange(len(keys))[::-1])
    kept, turned = _first_of_each(keys.take(backwards), len(keys) - offsets[::-1])
    rows = pa.array(len(keys) - 1 - kept[::-1])
    offsets = len(kept) - turned[::-1]
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()),
        keys.take(rows),
        items.take(rows),
        type=column.type,
        mask=pa.array(is_empty),
    )


def _first_of_each(values: pa.Array, offsets: I64) -> tuple[I64, I64]:
    """Removes repetitions within each stretch: returns the places kept and the stretches' new bounds."""
    lengths = np.diff(offsets)
    codes = values.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    # One number for each pair of stretch and value, so that one ``unique`` serves all stretches.
    pairs = owners * (int(codes.max(initial=0)) + 1) + codes
    kept = np.sort(np.unique(pairs, return_index=True)[1])
    counts = np.bincount(owners[kept], minlength=len(lengths))
    return kept, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
