"""Selections of the rows of a file that may match, as ranges, and their union and intersection.

Invariant: ranges are half-open, ascending, not empty, inside the file, and do not touch each
other, so a set of rows has one form. There is no complement on purpose: a selection has the rows
that *may* match, so that rows outside certainly do not; rows inside are uncertain, so its
complement would be no such selection for the negated condition.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from lakehouse.errors import InvalidInputError
from lakehouse.kernels.arrays import I64, Mask

__all__ = ["RowSelection"]

_NO_RANGES = np.empty((0, 2), np.int64)
_NO_RANGES.flags.writeable = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowSelection:
    """A set of rows of one file."""

    ranges: I64
    """Array with one line ``[start, end)`` for each range of rows; make selections with :meth:`of`."""
    total_rows: int
    """Number of rows of the file."""

    @classmethod
    def of(cls, ranges: npt.ArrayLike | Iterable[tuple[int, int]], total_rows: int) -> Self:
        """Selects the rows in any of the ranges, which may overlap and come in any order."""
        pairs = np.asarray(ranges if isinstance(ranges, np.ndarray) else list(ranges), np.int64)  # type: ignore[arg-type]
        pairs = np.clip(pairs.reshape(-1, 2), 0, total_rows)
        pairs = pairs[pairs[:, 0] < pairs[:, 1]]
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        if not len(pairs):
            return cls(ranges=pairs, total_rows=total_rows)
        ends = np.maximum.accumulate(pairs[:, 1])
        breaks = np.flatnonzero(pairs[1:, 0] > ends[:-1])
        starts = pairs[np.append(0, breaks + 1), 0]
        merged = np.stack([starts, ends[np.append(breaks, len(ends) - 1)]], axis=1)
        return cls(ranges=merged, total_rows=total_rows)

    @classmethod
    def every(cls, total_rows: int) -> Self:
        """Selects all rows of a file."""
        return cls(ranges=np.array([[0, total_rows]]) if total_rows else _NO_RANGES, total_rows=total_rows)

    @classmethod
    def none(cls, total_rows: int) -> Self:
        """Selects no row of a file."""
        return cls(ranges=_NO_RANGES, total_rows=total_rows)

    @classmethod
    def of_segments(cls, segments: npt.ArrayLike, rows_per_segment: int, total_rows: int) -> Self:
        """Selects the rows of some segments, given by their numbers."""
        starts = np.asarray(segments, np.int64) * rows_per_segment
        if not len(starts):
            return cls.none(total_rows)
        return cls.of(np.stack([starts, starts + rows_per_segment], axis=1), total_rows)

    @classmethod
    def of_rows(cls, rows: npt.ArrayLike, total_rows: int) -> Self:
        """Selects single rows, given by their numbers."""
        return cls.of_segments(rows, 1, total_rows)

    @property
    def row_count(self) -> int:
        """Number of selected rows."""
        return int((self.ranges[:, 1] - self.ranges[:, 0]).sum())

    @property
    def is_empty(self) -> bool:
        """True if no row is selected."""
        return len(self.ranges) == 0

    @property
    def is_all(self) -> bool:
        """True if every row of the file is selected."""
        count = len(self.ranges)
        return count == (self.total_rows > 0) and (not count or self.row_count == self.total_rows)

    def __and__(self, other: Self) -> Self:
        self._check(other)
        if self.is_all or other.is_empty:
            return other
        if other.is_all or self.is_empty:
            return self
        mine, theirs = self.ranges, other.ranges
        # The ranges of theirs that each of mine overlaps are neighbours: the first of them, and their count.
        first = np.searchsorted(theirs[:, 1], mine[:, 0], side="right")
        counts = np.searchsorted(theirs[:, 0], mine[:, 1], side="left") - first
        owner = np.repeat(np.arange(len(mine)), counts)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        other_of = first[owner] + within
        starts = np.maximum(mine[owner, 0], theirs[other_of, 0])
        ends = np.minimum(mine[owner, 1], theirs[other_of, 1])
        return type(self)(ranges=np.stack([starts, ends], axis=1), total_rows=self.total_rows)

    def __or__(self, other: Self) -> Self:
        self._check(other)
        if self.is_empty or other.is_all:
            return other
        if other.is_empty or self.is_all:
            return self
        return self.of(np.concatenate([self.ranges, other.ranges]), self.total_rows)

    def segments(self, rows_per_segment: int) -> I64:
        """Returns the numbers of the segments that have a selected row, ascending."""
        firsts = self.ranges[:, 0] // rows_per_segment
        counts = -(-self.ranges[:, 1] // rows_per_segment) - firsts
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.unique(np.repeat(firsts, counts) + within)

    def mask(self) -> Mask:
        """Returns for each row of the file whether it is selected."""
        # Ranges do not touch, so each place has one turn at most, and their running sum is 0 or 1.
        turns = np.zeros(self.total_rows + 1, np.int8)
        turns[self.ranges[:, 0]] += 1
        turns[self.ranges[:, 1]] -= 1
        return np.cumsum(turns[:-1], dtype=np.int8).astype(np.bool_)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RowSelection)
            and self.total_rows == other.total_rows
            and np.array_equal(self.ranges, other.ranges)
        )

    def __hash__(self) -> int:
        return hash((self.ranges.tobytes(), self.total_rows))

    def __repr__(self) -> str:
        shown = ", ".join(f"{start}..{end}" for start, end in self.ranges[:8].tolist())
        more = ", ..." if len(self.ranges) > 8 else ""
        return f"RowSelection({self.row_count} of {self.total_rows} rows: [{shown}{more}])"

    def _check(self, other: Self) -> None:
        if self.total_rows != other.total_rows:
            raise InvalidInputError(
                f"rows of a file of {self.total_rows} and of one of {other.total_rows} do not combine"
            )
