"""Selections of rows: one form for each set, and the algebra of sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.index.search.selection import RowSelection

TOTAL = 40
pairs = st.lists(st.tuples(st.integers(-3, TOTAL + 3), st.integers(-3, TOTAL + 3)), max_size=6)


def rows_of(ranges: list[tuple[int, int]]) -> set[int]:
    """The rows of some ranges, one by one."""
    return {row for start, end in ranges for row in range(max(start, 0), min(end, TOTAL))}


@given(pairs, pairs)
def test_selections_are_sets_of_rows(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    """And and or of selections are those of the sets of rows, in the one form of that set."""
    left, right = RowSelection.of(one, TOTAL), RowSelection.of(other, TOTAL)
    for found, rows in (
        (left, rows_of(one)),
        (left & right, rows_of(one) & rows_of(other)),
        (left | right, rows_of(one) | rows_of(other)),
    ):
        assert set(np.flatnonzero(found.mask()).tolist()) == rows
        assert found.row_count == len(rows)
        assert found == RowSelection.of_rows(sorted(rows), TOTAL)
        assert hash(found) == hash(RowSelection.of_rows(sorted(rows), TOTAL))
        assert found.is_empty == (not rows)
        assert found.is_all == (len(rows) == TOTAL)


@given(pairs, st.integers(1, 50))
def test_segments_with_a_row(ranges: list[tuple[int, int]], rows_per_segment: int) -> None:
    """A selection names the segments that have a row of it, and no other."""
    found = RowSelection.of(ranges, TOTAL)
    segments = found.segments(rows_per_segment)
    assert segments.tolist() == sorted({row // rows_per_segment for row in rows_of(ranges)})
    assert (RowSelection.of_segments(segments, rows_per_segment, TOTAL) & found) == found


def test_a_file_without_rows() -> None:
    """Of no rows all are selected, and none."""
    assert RowSelection.every(0) == RowSelection.none(0)
    assert RowSelection.every(0).is_all
    assert RowSelection.every(0).mask().tolist() == []
    assert (RowSelection.every(0) & RowSelection.none(0)).is_empty


def test_what_it_looks_like() -> None:
    """A selection shows its first ranges."""
    assert repr(RowSelection.of([(5, 7), (0, 2)], 9)) == "RowSelection(4 of 9 rows: [0..2, 5..7])"


def test_files_are_not_mixed() -> None:
    """Rows of files of different length do not combine."""
    with pytest.raises(InvalidInputError, match="do not combine"):
        RowSelection.every(3) & RowSelection.every(4)


@given(st.sets(st.integers(0, 30)), st.integers(1, 5), st.integers(0, 4))
def test_segments_become_rows(segments: set[int], size: int, cut: int) -> None:
    """Neighbouring segments make one range, and no range leaves the file."""
    total = 31 * size - min(cut, size - 1)
    found = RowSelection.of_segments(sorted(segments), size, total)
    assert np.flatnonzero(found.mask()).tolist() == [row for row in range(total) if row // size in segments]
    assert (found.ranges[1:, 0] > found.ranges[:-1, 1]).all()
