"""Search of inverted indexes: plans the bitmaps to fetch and evaluates them, without I/O.

Steps of a search: a condition and the column's FST give a :class:`BitmapPlan`, the ranges of
the blob to read; the bytes of those ranges give segments; segments give ranges of rows.

Invariant: the result holds every row that fulfils the condition, in whole segments. Damage that
can be noticed gives a CorruptionError, never fewer segments.
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
"""Maximum segments of an index that is searched: 17 billion rows at 1,024 each."""
_NUMBERS_MAX = 1 << 26
"""Default maximum of the numbers that the bitmaps of one search hold together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """Condition that the value is one of these, encoded as the index has them."""

    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InRange:
    """Condition that the encoded value is in a range; :meth:`KeyRange.with_prefix` makes that of a prefix."""

    keys: KeyRange


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchesRegex:
    """Condition that the text of a string column matches a pattern (:mod:`lakehouse.format.fst.regex`)."""

    pattern: str
    whole: bool = False
    """True if the whole text must match, not just a part of it."""


@dataclass(frozen=True, slots=True)
class IsNull:
    """Condition that the value is null."""


@dataclass(frozen=True, slots=True)
class IsNotNull:
    """Condition that the value is not null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """Condition that one and the same value fulfils every condition."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """Condition that the value fulfils at least one condition."""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = OneOf | InRange | MatchesRegex | IsNull | IsNotNull | AllOf | AnyOf
"""Condition on the value of one column."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BitmapPlan:
    """Bitmaps whose union answers a condition."""

    starts: I64
    """First byte of each bitmap in the blob, ascending."""
    sizes: I64
    bitmap_type: int

    def reads(self, gap: int = 0) -> list[tuple[int, int]]:
        """Returns the ranges ``[start, end)`` of the blob to read; joins those up to ``gap`` bytes apart."""
        if not len(self.starts):
            return []
        ends = self.starts + self.sizes
        breaks = np.flatnonzero(self.starts[1:] > ends[:-1] + gap) + 1
        firsts, lasts = np.append(0, breaks), np.append(breaks, len(ends)) - 1
        return list(zip(self.starts[firsts].tolist(), ends[lasts].tolist(), strict=True))


def may_hold(column: InvertedColumn, condition: Condition) -> bool:
    """Returns whether the column's statistics allow such a value; False saves reading its FST."""
    stats = column.stats
    match condition:
        case AllOf():
            return all(may_hold(column, part) for part in condition.conditions)
        case AnyOf():
            return any(may_hold(column, part) for part in condition.conditions)
        case IsNull():
            return stats is None or stats.null_count > 0
        # Without distinct values the bounds are empty and mean nothing.
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
    """Returns the bitmaps to read for a condition.

    Args:
        column: the column's metadata.
        fst: the column's FST; parts of it suffice for :class:`OneOf`.
        condition: condition on the column's value.
        steps_max: as for :meth:`lakehouse.format.fst.fst.Fst.batches`.

    Raises:
        MissingBytes: the parts do not suffice.
    """
    places = _places(column, fst, condition, steps_max)
    # Damaged places would read the bytes of other bitmaps: all must be apart and within the column.
    sizes = (places >> np.uint64(32)).astype(np.int64)
    starts = (places & np.uint64(0xFFFF_FFFF)).astype(np.int64)
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
    """Returns the segments that any of a plan's bitmaps names, ascending.

    Args:
        plan: the bitmaps.
        reads: bytes of the blob with the offset of their first; together they hold all bitmaps.
        metas: the blob's metadata.
        numbers_max: maximum of the numbers that the bitmaps hold together; more are refused.
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
    """Returns size << 32 | offset of every bitmap that answers a condition, ascending, each once."""
    if fst.key_count > column.inverted_index_size:
        raise CorruptionError(
            f"the FST of column {column.name!r} says it has {fst.key_count} values, which do not fit in "
            f"{column.inverted_index_size} bytes",
            offset=column.fst_range[0],
        )
    if isinstance(condition, OneOf):
        hits, places = fst.get_many(condition.values)
        places = np.sort(places[hits])
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
            # No part has repeats, so a place that is in all parts occurs as often as there are parts.
            wanted = len(parts) if isinstance(condition, AllOf) else 1
            together = np.sort(np.concatenate(parts))
            firsts = np.flatnonzero(_is_fresh(together))
            return together[firsts[np.diff(firsts, append=len(together)) >= wanted]]
    places = np.sort(places)
    return places[_is_fresh(places)]


def _is_fresh(ascending: U64) -> Mask:
    """Returns for each number whether it occurs for the first time."""
    fresh = np.ones(len(ascending), np.bool_)
    fresh[1:] = ascending[1:] != ascending[:-1]
    return fresh


def _gathered(plan: BitmapPlan, reads: Sequence[tuple[int, bytes]]) -> tuple[bytes, I64]:
    """Returns the bytes read, joined, and the offset in them of each bitmap."""
    ordered = sorted(reads, key=lambda read: read[0])
    offsets = np.array([offset for offset, _ in ordered], np.int64)
    lengths = np.array([len(data) for _, data in ordered], np.int64)
    of = np.searchsorted(offsets, plan.starts, side="right") - 1
    if len(of) and (int(of.min()) < 0 or bool((plan.starts + plan.sizes > (offsets + lengths)[of]).any())):
        raise InvalidInputError("the bytes given do not hold all bitmaps of the plan: fetch plan.reads()")
    bases = np.cumsum(lengths) - lengths
    return b"".join(data for _, data in ordered), plan.starts - offsets[of] + bases[of]


def _union_bit_vecs(data: bytes, starts: I64, sizes: I64, below: int) -> U32:
    """Returns the numbers in any of the plain bit vectors, ascending."""
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
