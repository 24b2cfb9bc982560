"""Searching inverted indexes: which bitmaps to fetch, and what they say, without I/O.

The way of a search: a condition and the column's FST give a :class:`BitmapPlan`, the ranges of
the blob to read; the bytes of those ranges give segments; segments give ranges of rows.

Invariant: the rows found hold every row that fulfils the condition, and whole segments only.
Bytes that are damaged in a way that shows give a CorruptionError, never fewer segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.fst.fst import Fst
from lakehouse.format.fst.partial import FstParts
from lakehouse.format.fst.read import ALL_KEYS, STEPS_MAX, KeyRange
from lakehouse.format.fst.regex import values_matching
from lakehouse.format.index.inverted import BitmapType, InvertedColumn, InvertedMetas
from lakehouse.format.index.roaring import union_many
from lakehouse.kernels.arrays import I64, U32, U64, Mask

__all__ = [
    "AllOf",
    "AnyOf",
    "BitmapPlan",
    "Condition",
    "InRange",
    "IsNotNull",
    "IsNull",
    "MatchesRegex",
    "OneOf",
    "may_hold",
    "plan_bitmaps",
    "segments_of",
]

_SEGMENTS_MAX = 1 << 24
"""Most segments a search takes: 17 billion rows at 1,024 each."""
_NUMBERS_MAX = 1 << 26
"""Most numbers the bitmaps of one search may hold together, unless its caller allows more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """The value is one of these, encoded as the index has them."""

    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InRange:
    """The encoded value lies between bounds; with :meth:`KeyRange.with_prefix`, begins with a text."""

    keys: KeyRange


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchesRegex:
    """The text matches a pattern (see :mod:`lakehouse.format.fst.regex`); for string columns."""

    pattern: str
    whole: bool = False
    """Whether the whole text must match, not just a part of it."""


@dataclass(frozen=True, slots=True)
class IsNull:
    """The value is null."""


@dataclass(frozen=True, slots=True)
class IsNotNull:
    """The value is not null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """One and the same value fulfils every condition."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """The value fulfils at least one condition."""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = OneOf | InRange | MatchesRegex | IsNull | IsNotNull | AllOf | AnyOf
"""What is asked of the value of one column."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BitmapPlan:
    """Bitmaps whose union answers a condition."""

    starts: I64
    """First byte of each bitmap in the blob, ascending."""
    sizes: I64
    bitmap_type: int

    def reads(self, gap: int = 0) -> list[tuple[int, int]]:
        """Ranges ``[start, end)`` of the blob that hold all bitmaps, those at most ``gap`` apart joined."""
        if not len(self.starts):
            return []
        ends = self.starts + self.sizes
        breaks = np.flatnonzero(self.starts[1:] > ends[:-1] + gap) + 1
        firsts, lasts = np.append(0, breaks), np.append(breaks, len(ends)) - 1
        return list(zip(self.starts[firsts].tolist(), ends[lasts].tolist(), strict=True))


def may_hold(column: InvertedColumn, condition: Condition) -> bool:
    """Whether the column can have such a value, going by its statistics; False saves reading its FST."""
    stats = column.stats
    match condition:
        case AllOf():
            return all(may_hold(column, part) for part in condition.conditions)
        case AnyOf():
            return any(may_hold(column, part) for part in condition.conditions)
        case IsNull():
            return stats is None or stats.null_count > 0
        case OneOf() if stats is not None and stats.distinct_count:
            return any(stats.min_value <= value <= stats.max_value for value in condition.values)
        case InRange(keys=keys) if stats is not None and stats.distinct_count:
            low, high = (stats.max_value, keys.low), (stats.min_value, keys.high)
            above = low[0] > low[1] or (keys.low_closed and low[0] == low[1])
            below = high[1] is None or high[0] < high[1] or (keys.high_closed and high[0] == high[1])
            return above and below
        case _:
            return True


def plan_bitmaps(
    column: InvertedColumn, fst: Fst | FstParts, condition: Condition, *, steps_max: int = STEPS_MAX
) -> BitmapPlan:
    """The bitmaps to read for a condition.

    Args:
        column: what the metadata say of the column.
        fst: the column's FST; parts of it will do for :class:`OneOf`.
        condition: what is asked.
        steps_max: as for :meth:`lakehouse.format.fst.fst.Fst.batches`.

    Raises:
        MissingBytes: the parts do not suffice.
    """
    found = _places(column, fst, condition, steps_max)
    sizes = (found >> np.uint64(32)).astype(np.int64)
    starts = (found & np.uint64(0xFFFF_FFFF)).astype(np.int64)
    order = np.argsort(starts, kind="stable")
    starts, sizes = starts[order], sizes[order]
    ends = starts + sizes
    wrong = ends > column.inverted_index_size
    wrong[1:] |= starts[1:] < ends[:-1]
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise CorruptionError(
            f"the inverted index of column {column.name!r} has a bitmap at {int(starts[at])} of "
            f"{int(sizes[at])} bytes, which overlaps another or leaves the column's "
            f"{column.inverted_index_size} bytes",
            offset=column.base_offset + int(starts[at]),
        )
    return BitmapPlan(starts=column.base_offset + starts, sizes=sizes, bitmap_type=column.bitmap_type)


def segments_of(
    plan: BitmapPlan,
    reads: Sequence[tuple[int, bytes]],
    metas: InvertedMetas,
    *,
    numbers_max: int = _NUMBERS_MAX,
) -> U32:
    """The segments that any of a plan's bitmaps names, ascending.

    Args:
        plan: the bitmaps.
        reads: bytes of the blob with the offset of their first; together they hold all bitmaps.
        metas: the blob's metadata.
        numbers_max: how many numbers the bitmaps may hold together before the search is given up.
    """
    count = metas.segment_count
    if count > _SEGMENTS_MAX:
        raise FormatError(
            f"the inverted index has {count} segments, a search takes up to {_SEGMENTS_MAX}: "
            "build it with larger segments"
        )
    data, starts = _gathered(plan, reads)
    if plan.bitmap_type == BitmapType.ROARING:
        return union_many(data, starts, plan.sizes, below=count, numbers_max=numbers_max)
    if plan.bitmap_type == BitmapType.BIT_VEC:
        return _union_bit_vecs(data, starts, plan.sizes, count)
    raise FormatError(
        f"the inverted index has bitmaps of type {plan.bitmap_type}; 0 and 1 are read: upgrade lakehouse",
        got=plan.bitmap_type,
    )


def _places(column: InvertedColumn, fst: Fst | FstParts, condition: Condition, steps_max: int) -> U64:
    """size << 32 | offset of every bitmap that answers a condition, ascending, each once."""
    if fst.key_count > column.inverted_index_size:
        raise CorruptionError(
            f"the FST of column {column.name!r} says it has {fst.key_count} values, which do not fit in "
            f"{column.inverted_index_size} bytes",
            offset=column.fst_range[0],
        )
    if isinstance(condition, OneOf):
        found, places = fst.get_many(condition.values)
        places = np.sort(places[found])
        return places[_is_fresh(places)]
    if isinstance(fst, FstParts):
        raise InvalidInputError(f"{type(condition).__name__} needs a whole FST")
    match condition:
        case InRange():
            places = fst.values(condition.keys, steps_max=steps_max)
        case MatchesRegex():
            places = values_matching(fst, condition.pattern, whole=condition.whole, steps_max=steps_max)
        case IsNotNull():
            places = fst.values(ALL_KEYS, steps_max=steps_max)
        case IsNull():
            # A null is one more value, whose bitmap the metadata name instead of the FST.
            place = column.null_bitmap_size << 32 | column.relative_null_bitmap_offset
            places = np.array([place] if column.null_bitmap_size else [], np.uint64)
        case AllOf() | AnyOf():
            if not condition.conditions:
                raise InvalidInputError(f"{type(condition).__name__} needs at least one condition")
            parts = [_places(column, fst, part, steps_max) for part in condition.conditions]
            # No part has repeats, so a place that all have occurs as often as there are parts.
            wanted = len(parts) if isinstance(condition, AllOf) else 1
            together = np.sort(np.concatenate(parts))
            firsts = np.flatnonzero(_is_fresh(together))
            return together[firsts[np.diff(firsts, append=len(together)) >= wanted]]
    places = np.sort(places)
    return places[_is_fresh(places)]


def _is_fresh(ascending: U64) -> Mask:
    """Where a number occurs for the first time."""
    fresh = np.ones(len(ascending), np.bool_)
    fresh[1:] = ascending[1:] != ascending[:-1]
    return fresh


def _gathered(plan: BitmapPlan, reads: Sequence[tuple[int, bytes]]) -> tuple[bytes, I64]:
    """The bytes read, one after another, and where in them each bitmap begins."""
    ordered = sorted(reads, key=lambda read: read[0])
    offsets = np.array([offset for offset, _ in ordered], np.int64)
    lengths = np.array([len(data) for _, data in ordered], np.int64)
    of = np.searchsorted(offsets, plan.starts, side="right") - 1
    if len(of) and (int(of.min()) < 0 or bool((plan.starts + plan.sizes > (offsets + lengths)[of]).any())):
        raise InvalidInputError("the bytes given do not hold all bitmaps of the plan: fetch plan.reads()")
    bases = np.cumsum(lengths) - lengths
    return b"".join(data for _, data in ordered), plan.starts - offsets[of] + bases[of]


def _union_bit_vecs(data: bytes, starts: I64, sizes: I64, below: int) -> U32:
    """The numbers of plain bit vectors."""
    bytes_max = (below + 7) // 8
    marks = np.zeros(min(int(sizes.max(initial=0)), bytes_max), np.uint8)
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        if size > bytes_max:
            raise CorruptionError(
                f"a bit vector of {size} bytes is too long for {below} segments", offset=start, got=size
            )
        marks[:size] |= np.frombuffer(data, np.uint8, size, start)
    numbers = np.flatnonzero(np.unpackbits(marks, bitorder="little"))
    if len(numbers) and int(numbers[-1]) >= below:
        raise CorruptionError(f"a bit vector names segment {int(numbers[-1])} of {below}", expected=below)
    return numbers.astype(np.uint32)
