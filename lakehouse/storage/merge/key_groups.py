"""Groups of rows by key, and the choice of one row of each group: by place, by null, by value.

Invariant: every group has a row. Values are compared in the order of their column: null before
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
    """Rows of some tables, sorted by key and age; the rows of one key are a group."""

    rows: I64
    """Numbers of the rows, counted through all the tables."""
    begins: I64
    """Place in ``rows`` at which each group begins."""

    @classmethod
    def of(cls, rows: I64, begins: I64, lengths: I64) -> Self:
        """Returns groups of these lengths, none of them 0; rows between the groups are left out."""
        total = int(lengths.sum())
        if total == len(rows):
            return cls(rows=rows, begins=begins)
        closed = np.cumsum(lengths) - lengths
        return cls(rows=rows[np.arange(total) + np.repeat(begins - closed, lengths)], begins=closed)

    @property
    def lengths(self) -> I64:
        """Number of rows in each group."""
        return np.diff(self.begins, append=len(self.rows))

    @property
    def last(self) -> I64:
        """Place in ``rows`` of the newest row of each group."""
        return self.begins + self.lengths - 1

    @property
    def is_merged(self) -> bool:
        """True when a group has more than one row."""
        return len(self.rows) > len(self.begins)

    def chosen(self, which: Mask) -> KeyGroups:
        """Returns the groups that the mask selects."""
        return KeyGroups.of(self.rows, self.begins[which], self.lengths[which])

    def of_rows(self) -> I64:
        """Returns for each row the number of its group."""
        return np.repeat(np.arange(len(self.begins)), self.lengths)


def valid(column: pa.Array, rows: I64) -> Mask | None:
    """Returns a mask of the rows whose value is not null; None = all rows have a value."""
    if not column.null_count:
        return None
    mask: Mask = column.is_valid().to_numpy(zero_copy_only=False)[rows]
    return mask


def last_where(mask: Mask, groups: KeyGroups) -> I64:
    """Returns the place of each group's last row in the mask; of its last row where none is in it."""
    places = np.where(mask, np.arange(len(mask)), -1)
    last = np.maximum.reduceat(places, groups.begins)
    return np.where(last >= 0, last, groups.last)


def first_where(mask: Mask, groups: KeyGroups) -> I64:
    """Returns the place of each group's first row in the mask; of its first row where none is in it."""
    places = np.where(mask, np.arange(len(mask)), len(mask))
    first = np.minimum.reduceat(places, groups.begins)
    return np.where(first < len(mask), first, groups.begins)


def greatest(column: pa.Array, groups: KeyGroups) -> I64:
    """Returns the place of each group's greatest value that is not null, the last of equal ones."""
    codes, mask = _codes(column, groups.rows), valid(column, groups.rows)
    if mask is not None:
        codes = np.where(mask, codes, _LOW)
    best = np.maximum.reduceat(codes, groups.begins)
    is_best = codes == np.repeat(best, groups.lengths)
    return last_where(is_best if mask is None else is_best & mask, groups)


def least(column: pa.Array, groups: KeyGroups) -> I64:
    """Returns the place of each group's least value that is not null, the first of equal ones."""
    codes, mask = _codes(column, groups.rows), valid(column, groups.rows)
    if mask is not None:
        codes = np.where(mask, codes, _HIGH)
    best = np.minimum.reduceat(codes, groups.begins)
    is_best = codes == np.repeat(best, groups.lengths)
    return first_where(is_best if mask is None else is_best & mask, groups)


def newest(columns: Sequence[pa.Array], groups: KeyGroups) -> I64:
    """Returns the place of each group's greatest row by these columns, the last of equal ones."""
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
    """Returns numbers in the order of the values of these rows; any number where the value is null."""
    array = column.take(pa.array(rows))
    kind = array.type
    if pa.types.is_floating(kind):
        # Adding 0.0 turns -0.0 into 0.0.
        numbers = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
        bits = numbers.view(np.int64)
        # The bits of positive doubles are in their order; those of negative ones in the opposite one.
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
    """Returns small numbers from 0 in the order of the values of these rows, null first."""
    ranks = np.unique(_codes(column, rows), return_inverse=True)[1] + 1
    mask = valid(column, rows)
    return ranks if mask is None else np.where(mask, ranks, 0)
