"""Maps of entries, turned: from a map for each file to a column for each field.

Iceberg keeps counts and bounds of columns in maps by field id, one for each entry. Here the items of all maps
are put in the order of their keys, so that those of one field are neighbours and a field is found by looking
up its id. A field that all entries have, which is the usual case, needs no numbers of entries.

Invariant: memory follows the items that there are, however many fields are named and however few entries have
them. Of a key that a map has twice, the last item counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lakehouse.format.avro import gathered
from lakehouse.iceberg.manifests.compact import UNKNOWN, alike, narrowed
from lakehouse.kernels.arrays import I32, I64, U8

__all__ = ["KeyedBytes", "KeyedCounts", "RawBounds"]

_SAME_AS_ROWS = -2
"""In the place of a constant: the field's counts are the entries' numbers of rows."""
_BITS_FROM = 8
"""Fields that one of so many entries has, or more, have bits for all: fewer bytes than numbers take."""
_DIFFERENT = -3
"""In the place of a constant: the field's counts are stored."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Turned:
    """Items in the order of their keys, and of entries among those of one key."""

    keys: I64
    """Keys, ascending, each once."""
    begins: I64
    """Where the items of each key begin, and the end of the last."""
    order: I64
    """For each item its number in the maps as they were."""
    rows: I64 | None
    """For each item the number of its entry; None = each key has an item for every entry."""

    @classmethod
    def of(cls, keys: I64, lengths: I64) -> Self:
        """Turns maps, given the keys of all items and the number of items of each entry."""
        count = len(lengths)
        width = int(lengths[0]) if count else 0
        if width and len(keys) == width * count and bool((lengths == width).all()):
            table = keys.reshape(count, width)
            first = np.argsort(table[0], kind="stable")
            found = table[0][first]
            if bool((found[1:] > found[:-1]).all()) and bool((table == table[0]).all()):
                order = (np.arange(count) * width + first[:, None]).reshape(-1)
                return cls(keys=found, begins=np.arange(width + 1) * count, order=order, rows=None)
        rows = np.repeat(np.arange(count), lengths)
        order = np.argsort(keys, kind="stable")
        found, owners = keys[order], rows[order]
        last = np.ones(len(keys), np.bool_)
        last[:-1] = (found[1:] != found[:-1]) | (owners[1:] != owners[:-1])
        order, found, owners = order[last], found[last], owners[last]
        keys, begins = np.unique(found, return_index=True)
        begins = np.append(begins, len(found)).astype(np.int64)
        return cls(keys=keys, begins=begins, order=order, rows=owners)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """Entries of the fields that some entries do not have: bits for most fields, numbers for rare ones."""

    count: int
    """Number of entries."""
    bits: U8
    """A row for each field with bits, in which the bit of an entry is 1 that has it."""
    places: I64
    """For each field its row of bits; -1 = it has none."""
    begins: I64
    """Where the numbers of each field begin, and the end of the last; others have none."""
    numbers: I32

    @classmethod
    def of(cls, turned: _Turned, count: int) -> _Rows | None:
        """Leaves out the fields that all entries have; None = all fields are such."""
        rows, sizes = turned.rows, np.diff(turned.begins)
        if rows is None or bool((sizes == count).all()):
            return None
        # Bits take no more room than the numbers would, so that both follow the items that there are.
        frequent = (sizes < count) & (sizes * _BITS_FROM > count)
        places = np.where(frequent, np.cumsum(frequent) - 1, -1)
        there = np.zeros((int(frequent.sum()), count), np.bool_)
        owners = np.repeat(places, sizes)
        there[owners[owners >= 0], rows[owners >= 0]] = True
        rare = ~frequent & (sizes < count)
        begins = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(np.where(rare, sizes, 0), out=begins[1:])
        numbers = rows[np.repeat(rare, sizes)].astype(np.int32)
        return cls(
            count=count, bits=np.packbits(there, axis=1), places=places, begins=begins, numbers=numbers
        )

    def of_key(self, at: int) -> I64 | None:
        """Numbers of the entries that have a field; None = all have it."""
        place = int(self.places[at])
        if place >= 0:
            return np.flatnonzero(np.unpackbits(self.bits[place], count=self.count))
        begin, end = int(self.begins[at]), int(self.begins[at + 1])
        return self.numbers[begin:end].astype(np.int64) if end > begin else None

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(array.nbytes for array in (self.bits, self.places, self.begins, self.numbers))


def _place(keys: I64, key: int) -> int | None:
    at = int(np.searchsorted(keys, key))
    return at if at < len(keys) and int(keys[at]) == key else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyedCounts:
    """Counts of fields: of values, nulls or NaNs."""

    count: int
    """Number of entries."""
    keys: I64
    """Field ids, ascending."""
    constants: I64
    """Count that all entries have, or why there is none."""
    begins: I64
    """Where the counts of each field begin, and the end of the last; those of a constant are not stored."""
    values: npt.NDArray[Any]
    rows: _Rows | None

    @classmethod
    def of(cls, keys: I64, values: I64, lengths: I64, records: I64) -> Self:
        """Turns maps of counts; ``records`` are the rows of each file, which many counts are."""
        turned = _Turned.of(keys, lengths)
        count = len(lengths)
        ordered = np.maximum(values[turned.order], UNKNOWN)
        sizes = np.diff(turned.begins)
        constants = _constants(turned, ordered, sizes, records)
        stored = constants == _DIFFERENT
        begins = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(np.where(stored, sizes, 0), out=begins[1:])
        kept = narrowed(ordered[np.repeat(stored, sizes)])
        rows = _Rows.of(turned, count)
        return cls(count=count, keys=turned.keys, constants=constants, begins=begins, values=kept, rows=rows)

    def field(self, field_id: int, records: I64) -> I64:
        """Counts of a field in every file; :data:`UNKNOWN` where there is none."""
        at = _place(self.keys, field_id)
        if at is None:
            return np.full(self.count, UNKNOWN, np.int64)
        rows = None if self.rows is None else self.rows.of_key(at)
        constant = int(self.constants[at])
        if constant == _SAME_AS_ROWS:
            values = records if rows is None else records[rows]
        elif constant == _DIFFERENT:
            values = self.values[int(self.begins[at]) : int(self.begins[at + 1])].astype(np.int64)
        else:
            values = np.full(self.count if rows is None else len(rows), constant, np.int64)
        if rows is None:
            return values
        found = np.full(self.count, UNKNOWN, np.int64)
        found[rows] = values
        return found

    def cut(self, cuts: Sequence[int]) -> list[Self]:
        """The counts of neighbouring entries, apart, if all entries have the same fields."""
        make, keys, constants = type(self), self.keys, self.constants
        # Fields that are stored have a count for every entry.
        widths = self.begins // self.count
        begins = alike(cuts, lambda count: widths * count)
        if not len(self.values):
            nothing = self.values
            return alike(
                cuts,
                lambda count: make(
                    count=count, keys=keys, constants=constants, begins=widths, values=nothing, rows=None
                ),
            )
        stored = self.values.reshape(-1, self.count)
        return [
            make(
                count=end - begin,
                keys=keys,
                constants=constants,
                begins=of_keys,
                values=stored[:, begin:end].reshape(-1),
                rows=None,
            )
            for (begin, end), of_keys in zip(itertools.pairwise(cuts), begins, strict=True)
        ]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        of_keys = self.keys.nbytes + self.constants.nbytes + self.begins.nbytes
        return of_keys + self.values.nbytes + (0 if self.rows is None else self.rows.nbytes)


def _constants(turned: _Turned, values: I64, sizes: I64, records: I64) -> I64:
    """For each field the count that all its entries have, or which other form its counts have."""
    if not len(sizes):
        return np.zeros(0, np.int64)
    starts = turned.begins[:-1]
    owners = np.tile(records, len(sizes)) if turned.rows is None else records[turned.rows]
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    as_rows = np.logical_and.reduceat(values == owners, starts)
    found: I64 = np.where(low == high, low, np.where(as_rows, _SAME_AS_ROWS, _DIFFERENT))
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RawBounds:
    """Bounds of one field in all files, as bytes."""

    count: int
    """Number of entries."""
    width: int
    """Bytes of each bound; -1 = they differ."""
    data: U8
    """Bytes of all bounds, one after another."""
    offsets: I64 | None
    """Where each bound begins and the end of the last one, where widths differ."""
    rows: I64 | None
    """Numbers of the entries that have a bound; None = all have one."""

    @classmethod
    def joined(cls, parts: Sequence[RawBounds | None], counts: Sequence[int]) -> RawBounds | None:
        """Puts bounds of a field in several manifests behind each other; None = none of them has any.

        Args:
            parts: bounds of each manifest.
            counts: number of entries of each.
        """
        known = [part for part in parts if part is not None]
        if not known:
            return None
        widths = {part.width for part in known}
        width = next(iter(widths)) if len(widths) == 1 else -1
        offsets = None
        if width < 0:
            offsets = np.zeros(sum(part.present for part in known) + 1, np.int64)
            np.cumsum(np.concatenate([part.spans()[1] for part in known]), out=offsets[1:])
        rows = None
        if len(known) < len(parts) or any(part.rows is not None for part in known):
            begins = np.cumsum([0, *counts[:-1]])
            rows = np.concatenate(
                [
                    begin + (np.arange(count) if part.rows is None else part.rows)
                    for part, begin, count in zip(parts, begins.tolist(), counts, strict=True)
                    if part is not None
                ]
            )
        data = np.concatenate([part.data for part in known])
        return cls(count=sum(counts), width=width, data=data, offsets=offsets, rows=rows)

    @property
    def present(self) -> int:
        """Number of bounds."""
        return self.count if self.rows is None else len(self.rows)

    def spans(self) -> tuple[I64, I64]:
        """Where each bound begins, and its length."""
        if self.offsets is None:
            starts = np.arange(self.present, dtype=np.int64) * self.width
            return starts, np.full(self.present, self.width, np.int64)
        return self.offsets[:-1], np.diff(self.offsets)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyedBytes:
    """Bounds of fields."""

    count: int
    """Number of entries."""
    keys: I64
    """Field ids, ascending."""
    widths: I64
    """Bytes of each bound of a field; -1 = they differ."""
    begins: I64
    """Where the bytes of each field begin, and the end of the last."""
    data: U8
    ends_begin: I64
    """Where the ends of each field's bounds begin, and the end of the last; those of one width have none."""
    ends: npt.NDArray[Any]
    """Where each bound of a field ends, counted from where the field's bytes begin."""
    sizes: I64
    """Number of bounds of each field."""
    rows: _Rows | None

    @classmethod
    def of(cls, keys: I64, data: U8, starts: I64, spans: I64, lengths: I64) -> Self:
        """Turns maps of bounds, given where each begins in data and its length."""
        turned = _Turned.of(keys, lengths)
        sizes = np.diff(turned.begins)
        ordered = spans[turned.order]
        body, offsets = gathered(data, starts[turned.order], ordered)
        begins = offsets[turned.begins]
        widths = np.zeros(0, np.int64)
        if len(sizes):
            low = np.minimum.reduceat(ordered, turned.begins[:-1])
            widths = np.where(low == np.maximum.reduceat(ordered, turned.begins[:-1]), low, -1)
        various = widths < 0
        ends_begin = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(np.where(various, sizes, 0), out=ends_begin[1:])
        ends = (offsets[1:] - np.repeat(begins[:-1], sizes))[np.repeat(various, sizes)]
        return cls(
            count=len(lengths),
            keys=turned.keys,
            widths=widths,
            begins=begins,
            data=body,
            ends_begin=ends_begin,
            ends=narrowed(ends),
            sizes=sizes,
            rows=_Rows.of(turned, len(lengths)),
        )

    def field(self, field_id: int) -> RawBounds | None:
        """Bounds of a field; None = no file has one."""
        at = _place(self.keys, field_id)
        if at is None:
            return None
        begin, end = int(self.begins[at]), int(self.begins[at + 1])
        width = int(self.widths[at])
        offsets = None
        if width < 0:
            offsets = np.zeros(int(self.sizes[at]) + 1, np.int64)
            offsets[1:] = self.ends[int(self.ends_begin[at]) : int(self.ends_begin[at + 1])]
        rows = None if self.rows is None else self.rows.of_key(at)
        return RawBounds(count=self.count, width=width, data=self.data[begin:end], offsets=offsets, rows=rows)

    def cut(self, cuts: Sequence[int]) -> list[Self]:
        """The bounds of neighbouring entries, apart, if all entries have the same fields."""
        places = np.stack([self._places(at, cuts) for at in range(len(self.keys))])
        lengths = np.diff(places, axis=1).T
        # Put in the order of the parts by one loop, so that each part is a copy of one piece.
        body, offsets = gathered(
            self.data, places[:, :-1].T.reshape(-1), np.ascontiguousarray(lengths).reshape(-1)
        )
        begins = np.zeros((len(lengths), len(self.keys) + 1), np.int64)
        np.cumsum(lengths, axis=1, out=begins[:, 1:])
        pieces = itertools.pairwise(offsets[:: len(self.keys)].tolist())
        various = np.flatnonzero(self.widths < 0).tolist()
        make, keys, widths = type(self), self.keys, self.widths
        ends = self.ends_begin // self.count
        ends_begins = alike(cuts, lambda count: ends * count)
        sizes = alike(cuts, lambda count: np.full(len(keys), count, np.int64))
        return [
            make(
                count=end - begin,
                keys=keys,
                widths=widths,
                begins=of_keys,
                data=body[start:stop].copy(),
                ends_begin=ends_begin,
                ends=self._ends_between(various, begin, end),
                sizes=of_fields,
                rows=None,
            )
            for (begin, end), (start, stop), of_keys, ends_begin, of_fields in zip(
                itertools.pairwise(cuts), pieces, begins, ends_begins, sizes, strict=True
            )
        ]

    def _places(self, at: int, cuts: Sequence[int]) -> I64:
        """Where the bounds of some entries begin in the bytes of all fields."""
        width, begin = int(self.widths[at]), int(self.begins[at])
        if width >= 0:
            return begin + width * np.asarray(cuts, np.int64)
        ends = self.ends[self.ends_begin[at] : self.ends_begin[at + 1]]
        return begin + np.append(np.zeros(1, np.int64), ends)[cuts]

    def _ends_between(self, fields: Sequence[int], begin: int, end: int) -> npt.NDArray[Any]:
        """Ends of the bounds of some neighbouring entries, counted from where those of each field begin."""
        found = []
        for at in fields:
            ends = self.ends[self.ends_begin[at] : self.ends_begin[at + 1]]
            found.append(ends[begin:end] - (int(ends[begin - 1]) if begin else 0))
        return narrowed(np.concatenate(found).astype(np.int64)) if found else self.ends

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        of_keys = self.keys.nbytes + self.widths.nbytes + self.begins.nbytes + self.sizes.nbytes
        ends = self.ends_begin.nbytes + self.ends.nbytes
        return of_keys + ends + self.data.nbytes + (0 if self.rows is None else self.rows.nbytes)
