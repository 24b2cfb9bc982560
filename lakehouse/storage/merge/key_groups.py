"""Rows put together by key, and choosing one row of each: by place, by null, by value.

Invariant: every group has a row. Values are compared as their column orders them: null before
everything, NaN behind every number, no difference between the zeros; nothing loops over rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.kernels.arrays import I64, Mask

__all__ = ["KeyGroups", "first_where", "greatest", "last_where", "least", "newest", "valid"]

_LOW, _HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroups:
    """Rows of some tables, by key and age; those of one key are a group."""

    rows: I64
    """Numbers of rows, counted through the tables."""
    begins: I64
    """Where in ``rows`` each group begins."""

    @classmethod
    def of(cls, rows: I64, begins: I64, lengths: I64) -> Self:
        """KeyGroups of these lengths, which are not 0; rows between them are left out."""
        total = int(lengths.sum())
        if total == len(rows):
            return cls(rows=rows, begins=begins)
        closed = np.cumsum(lengths) - lengths
        return cls(rows=rows[np.arange(total) + np.repeat(begins - closed, lengths)], begins=closed)

    @property
    def lengths(self) -> I64:
        """How many rows each has."""
        return np.diff(self.begins, append=len(self.rows))

    @property
    def last(self) -> I64:
        """Where in ``rows`` the newest row of each is."""
        return self.begins + self.lengths - 1

    @property
    def is_merged(self) -> bool:
        """Whether a group has more than one row."""
        return len(self.rows) > len(self.begins)

    def chosen(self, which: Mask) -> KeyGroups:
        """Some of the groups."""
        return KeyGroups.of(self.rows, self.begins[which], self.lengths[which])

    def of_rows(self) -> I64:
        """For each row, the number of its group."""
        return np.repeat(np.arange(len(self.begins)), self.lengths)


def valid(column: pa.Array, rows: I64) -> Mask | None:
    """For each of the rows, whether it has a value; None = all have."""
    if not column.null_count:
        return None
    mask: Mask = column.is_valid().to_numpy(zero_copy_only=False)[rows]
    return mask


def last_where(mask: Mask, groups: KeyGroups) -> I64:
    """Of each group, the place of the last row that the mask has; its last row where there is none."""
    places = np.where(mask, np.arange(len(mask)), -1)
    found = np.maximum.reduceat(places, groups.begins)
    return np.where(found >= 0, found, groups.last)


def first_where(mask: Mask, groups: KeyGroups) -> I64:
    """Of each group, the place of the first row that the mask has; its first row where there is none."""
    places = np.where(mask, np.arange(len(mask)), len(mask))
    found = np.minimum.reduceat(places, groups.begins)
    return np.where(found < len(mask), found, groups.begins)


def greatest(column: pa.Array, groups: KeyGroups) -> I64:
    """Of each group, the place of its greatest value that is not null, the last one of these."""
    codes, mask = _codes(column, groups.rows), valid(column, groups.rows)
    if mask is not None:
        codes = np.where(mask, codes, _LOW)
    best = np.maximum.reduceat(codes, groups.begins)
    is_best = codes == np.repeat(best, groups.lengths)
    return last_where(is_best if mask is None else is_best & mask, groups)


def least(column: pa.Array, groups: KeyGroups) -> I64:
    """Of each group, the place of its least value that is not null, the first one of these."""
    codes, mask = _codes(column, groups.rows), valid(column, groups.rows)
    if mask is not None:
        codes = np.where(mask, codes, _HIGH)
    best = np.minimum.reduceat(codes, groups.begins)
    is_best = codes == np.repeat(best, groups.lengths)
    return first_where(is_best if mask is None else is_best & mask, groups)


def newest(columns: Sequence[pa.Array], groups: KeyGroups) -> I64:
    """Of each group, the place of the row that is greatest by these columns, the last one of these."""
    if len(columns) == 1:
        return greatest(columns[0], groups)
    ranks = _ranks(columns[0], groups.rows)
    for column in columns[1:]:
        following = _ranks(column, groups.rows)
        ranks = ranks * (int(following.max()) + 1) + following
        if column is not columns[-1]:  # two ranks have room in 64 bits, three may not
            ranks = np.unique(ranks, return_inverse=True)[1]
    best = np.maximum.reduceat(ranks, groups.begins)
    return last_where(ranks == np.repeat(best, groups.lengths), groups)


def _codes(column: pa.Array, rows: I64) -> I64:
    """Numbers in the order of the values of these rows; anything where the value is null."""
    array = column.take(pa.array(rows))
    kind = array.type
    if pa.types.is_floating(kind):
        numbers = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
        bits = numbers.view(np.int64)
        codes: I64 = np.where(np.isnan(numbers), _HIGH, bits ^ ((bits >> 63) & _HIGH))
        return codes
    if pa.types.is_temporal(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_integer(array.type) or pa.types.is_boolean(kind):
        whole: I64 = array.cast(pa.int64()).fill_null(0).to_numpy()
        return whole
    ranks: I64 = pc.rank(array, "ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks


def _ranks(column: pa.Array, rows: I64) -> I64:
    """Small numbers from 0 in the order of the values of these rows, null before all."""
    ranks = np.unique(_codes(column, rows), return_inverse=True)[1] + 1
    mask = valid(column, rows)
    return ranks if mask is None else np.where(mask, ranks, 0)
