"""Low or high ends of a column in many files: compared with constants, and placed among them.

Invariant: what is said of an end is exact. Values are compared by numbers that ascend as they do, their
ranks; those of bytes and texts are their first eight bytes, so that values of one rank are compared once
more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.kernels.arrays import I64, U64, Mask
from lakehouse.kernels.binary_arrays import binary_parts
from lakehouse.kernels.decimal_arrays import decimal_words

__all__ = ["Ends"]

_WORD_BYTES = 8
_CELLS = 1 << 16
"""Cells of a table in which numbers are looked up."""
_CELL_MAX = 8
"""Numbers of one cell from which on a binary search is quicker."""
_WORD_DIGITS = 18
"""Digits of decimals up to here fit a signed word."""

_RELATIONS: Mapping[str, tuple[Callable[[Any, Any], Any], str]] = {
    "<": (np.less, "less"),
    "<=": (np.less_equal, "less_equal"),
    "==": (np.equal, "equal"),
    ">=": (np.greater_equal, "greater_equal"),
    ">": (np.greater, "greater"),
}


class Ends:
    """The low or the high ends of a column, one for each file.

    Args:
        array: the ends; null and NaN = not known.
    """

    __slots__ = ("_is_exact", "_ranks", "array", "unknown")

    def __init__(self, array: pa.Array) -> None:
        if pa.types.is_floating(array.type):
            # NaN bounds nothing: it is among values that are above and below it.
            array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
        self.array = array
        self.unknown: Mask = _mask(array.is_null())
        """For each file, True if the end is unknown."""
        self._ranks, self._is_exact = _ranks(array)

    def compare(self, relation: str, key: Any, *, unknown: bool = True) -> Mask:
        """Returns for each file whether its end is in a relation to a key; ``unknown`` if not known."""
        by_rank, by_value = _RELATIONS[relation]
        ranks = self._ranks
        key_ranks = None if ranks is None else _ranks(pa.array([key], self.array.type))[0]
        if ranks is None or key_ranks is None:
            found = getattr(pc, by_value)(self.array, pa.scalar(key, self.array.type))
            return _mask(found.fill_null(unknown))
        mask: Mask = by_rank(ranks, key_ranks[0])
        if not self._is_exact:
            wanted = pa.scalar(key, self.array.type)
            self._again(
                mask, ranks == key_ranks[0], lambda ends: getattr(pc, by_value)(ends(self.array), wanted)
            )
        mask[self.unknown] = unknown
        return mask

    @staticmethod
    def _again(
        mask: Mask, tied: Mask, compared: Callable[[Callable[[pa.Array], pa.Array]], pa.Array]
    ) -> None:
        """Compares values of one rank once more, as they are."""
        rows = np.flatnonzero(tied)
        if len(rows) > len(mask) >> 1:
            mask[rows] = _mask(compared(lambda values: values).fill_null(False))[rows]
        elif len(rows):
            places = pa.array(rows)
            mask[rows] = _mask(compared(lambda values: values.take(places)).fill_null(False))

    def equals(self, other: Ends) -> Mask:
        """Returns for each file whether both ends are known and equal."""
        if other is self:
            return ~self.unknown
        if self._ranks is None or other._ranks is None:
            return _mask(pc.equal(self.array, other.array).fill_null(False))
        same: Mask = (self._ranks == other._ranks) & ~self.unknown & ~other.unknown
        if not self._is_exact:
            self._again(same, same, lambda ends: pc.equal(ends(self.array), ends(other.array)))
        return same

    def places_among(self, keys: pa.Array) -> I64:
        """Returns for each file the place of the first key that is not below its end; 0 if not known.

        Args:
            keys: ascending values of the ends' type, each once.
        """
        if _is_binary(keys.type):
            at = _searched(_as_bytes(self.array), _as_bytes(keys))
        else:
            at = self._ranked_among(keys)
        at[self.unknown] = 0
        return at

    def not_below(self, keys: pa.Array, at: I64, is_open: Mask | None) -> Mask:
        """Returns for each file whether its end is the key at a place or above it; True if not known.

        Args:
            keys: of the ends' type.
            at: a place among the keys for each file.
            is_open: files in which the end has to be above the key; None = in none.
        """
        chosen = keys.take(pa.array(at))
        if self._ranks is None:
            reached = _mask(pc.greater_equal(self.array, chosen).fill_null(False))
            same = _mask(pc.equal(self.array, chosen).fill_null(False))
        else:
            ranks: Any = _ranks(keys)[0]
            reached, same = self._ranks >= ranks[at], self._ranks == ranks[at]
            if not self._is_exact:
                tied = same.copy()
                self._again(reached, tied, lambda ends: pc.greater_equal(ends(self.array), ends(chosen)))
                self._again(same, tied, lambda ends: pc.equal(ends(self.array), ends(chosen)))
        if is_open is not None:
            reached = reached & ~(is_open & same)
        return reached | self.unknown

    def _ranked_among(self, keys: pa.Array) -> I64:
        wanted = _ranks(keys)[0]
        if self._ranks is None or wanted is None:
            rows = np.flatnonzero(~self.unknown)
            lowest = np.zeros(len(self.array), np.int64)
            return _bisected(self.array, keys, lowest, rows, np.full(len(rows), len(keys)))
        if self._is_exact:
            return _placed(wanted, self._ranks)
        lowest, tied = _tied(self._ranks, wanted)
        rows = np.flatnonzero(tied & ~self.unknown)
        ends = np.searchsorted(wanted, wanted, side="right")
        return _bisected(self.array, keys, lowest, rows, ends[lowest[rows]])

    def beginnings(self, key: str | bytes) -> Ends:
        """Returns of each end as many characters (of binary ends: bytes) as the key has."""
        cut = pc.binary_slice if isinstance(key, bytes) else pc.utf8_slice_codeunits
        return Ends(cut(self.array, 0, len(key)))


def _searched(array: pa.Array, keys: pa.Array) -> I64:
    """Returns for each of some bytes the place of the first key that is not below them."""
    prefix = _shared_prefix(keys[0].as_py(), keys[-1].as_py())
    words, sizes = _words(array, len(prefix))
    wanted, wanted_sizes = _words(keys, len(prefix))
    lowest, tied = _tied(words, wanted)
    if prefix:
        shared = _mask(pc.starts_with(array, prefix).fill_null(True))
        if not shared.all():
            # What does not begin as all keys do is below or above all of them.
            others = np.flatnonzero(~shared)
            below = _mask(pc.less(array.take(pa.array(others)), pa.scalar(prefix, array.type)))
            lowest[others] = np.where(below, 0, len(keys))
            tied &= shared
    # Where the words are all that there is, zeros behind the shorter value are all that differs.
    rows = np.flatnonzero(tied)
    first = lowest[rows]
    size, size_of_key = sizes[rows], wanted_sizes[first]
    count = np.searchsorted(wanted, wanted, side="right")[first] - first
    told = (count == 1) & (size <= _WORD_BYTES) & (size_of_key <= _WORD_BYTES)
    lowest[rows] += told & (size > size_of_key)
    return _bisected(array, keys, lowest, rows[~told], (first + count)[~told])


def _shared_prefix(first: bytes, last: bytes) -> bytes:
    pairs = zip(first, last, strict=False)
    size = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(first), len(last)))
    return first[:size]


def _tied(ranks: Any, wanted: Any) -> tuple[I64, Mask]:
    """Returns for each rank the place of the first wanted one not below it, and whether it is equal."""
    lowest = _placed(wanted, ranks)
    return lowest, wanted[np.minimum(lowest, len(wanted) - 1)] == ranks


def _searchsorted(wanted: Any, ranks: Any) -> I64:
    found: I64 = np.searchsorted(wanted, ranks)
    return found


def _placed(wanted: Any, ranks: Any) -> I64:
    """Returns what ``np.searchsorted`` does: of many ranks by a table of the numbers that begin alike."""
    if len(ranks) < 4 * _CELLS or ranks.dtype.kind == "f" or len(wanted) < 2:
        return _searchsorted(wanted, ranks)
    first, last = int(wanted[0]), int(wanted[-1])
    shift = np.uint64(max(0, (last - first).bit_length() - _CELLS.bit_length() + 1))

    def cells(numbers: Any) -> I64:
        distances = numbers.view(np.uint64) - np.uint64(first % (1 << 64))
        found: I64 = (distances >> shift).view(np.int64)
        return found

    begins = np.searchsorted(cells(wanted), np.arange(_CELLS + 1))
    counts = np.diff(begins)
    if counts.max() > _CELL_MAX:
        return _searchsorted(wanted, ranks)
    cell = cells(np.clip(ranks, wanted[0], wanted[-1]))
    lowest = begins[cell]
    rows = np.flatnonzero(counts[cell])
    highest = begins[cell[rows] + 1]
    while len(rows):
        at = lowest[rows]
        is_below = wanted[at] < ranks[rows]
        rows, highest = rows[is_below], highest[is_below]
        lowest[rows] += 1
        goes_on = lowest[rows] < highest
        rows, highest = rows[goes_on], highest[goes_on]
    return lowest


def _bisected(array: pa.Array, keys: pa.Array, lowest: I64, rows: I64, highest: I64) -> I64:
    """Finds the places of some rows, each of which is one from the lowest to the highest."""
    while len(rows):
        begin = lowest[rows]
        middle = (begin + highest) >> 1
        is_below = _mask(pc.less(keys.take(pa.array(middle)), array.take(pa.array(rows))))
        lowest[rows] = begin = np.where(is_below, middle + 1, begin)
        highest = np.where(is_below, highest, middle)
        goes_on = begin < highest
        rows, highest = rows[goes_on], highest[goes_on]
    return lowest


def _mask(array: pa.Array) -> Mask:
    # A copy, because masks are written into.
    mask: Mask = np.array(array.to_numpy(zero_copy_only=False), np.bool_)
    return mask


def _ranks(array: pa.Array) -> tuple[Any | None, bool]:
    """Numbers that ascend as values do, with any for null; and whether equal ones mean equal values."""
    kind = array.type
    if pa.types.is_floating(kind):
        return array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64), True
    if pa.types.is_temporal(kind):
        array = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_unsigned_integer(kind):
        return array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64), True
    if pa.types.is_integer(array.type):
        return array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), True
    if pa.types.is_boolean(kind):
        return array.fill_null(False).cast(pa.int8()).to_numpy().astype(np.int64), True
    if pa.types.is_decimal128(kind):
        return _decimal_ranks(array)
    if _is_binary(kind):
        return _words(_as_bytes(array), 0)[0], False
    return None, True


def _decimal_ranks(array: pa.Array) -> tuple[Any, bool]:
    words = decimal_words(array)
    if array.type.precision <= _WORD_DIGITS:
        return words[:, 0].view(np.int64), True
    high = words[:, 1].view(np.int64)
    low = words[:, 0].astype(np.float64)
    # Rounding keeps the order as long as the lower word is not rounded across the higher one's last bit.
    return high * 2.0**64 + np.where(np.abs(high) < 1 << 52, low, 0.0), False


def _is_binary(kind: pa.DataType) -> bool:
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind)
    return bool(
        is_text or types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    )


def _as_bytes(array: pa.Array) -> pa.Array:
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    return array.cast(pa.large_binary() if is_large else pa.binary())


def _words(array: pa.Array, skipped: int) -> tuple[U64, I64]:
    """Returns eight bytes of each value as a big-endian number, zeros behind short ones, and sizes of rests.

    Args:
        array: binary values; those of nulls are anything.
        skipped: number of bytes of each value before the eight.
    """
    offsets, data = binary_parts(array)
    starts = np.minimum(offsets[:-1] + skipped, offsets[1:])
    sizes = offsets[1:] - starts
    if not len(sizes):
        return np.zeros(0, np.uint64), sizes
    # Overlapping words, one from each byte on; the padding lets the last ones reach past the end.
    padded = np.concatenate([data[: offsets[-1]], np.zeros(_WORD_BYTES, np.uint8)])
    words = np.ndarray((len(padded) - _WORD_BYTES + 1,), "<u8", padded, strides=(1,))[starts].byteswap()
    if sizes.min() < _WORD_BYTES:
        surplus = (_WORD_BYTES - np.minimum(sizes, _WORD_BYTES)).astype(np.uint64) * np.uint64(8)
        # A shift by all bits of a word is not defined, so it goes in two steps.
        half = surplus >> np.uint64(1)
        words = words >> half >> (surplus - half) << half << (surplus - half)
    return words, sizes
