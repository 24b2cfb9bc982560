"""The order of runs: where files stand in time, which of them are one run, and which items overlap."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InternalError
from lakehouse.format.metadata import FileEntry, Position, SegmentRange
from lakehouse.storage.metadata.run_order import (
    MIXED_BUCKETS,
    apart,
    appended_order,
    covered_intervals,
    hull,
    interval,
    key_ends,
    units_of,
)
from tests.kit.table_logs import HEAD
from tests.kit.written_files import schema_of


def file(path: str, **about: Any) -> FileEntry:
    """Returns the entry of a file, added by snapshot 4 unless it is said otherwise."""
    return FileEntry(**{"path": path, "size": 1, "rows": 1, "at": 4, **about})


def at(snapshot: int, number: int = 0) -> dict[str, Position]:
    """Returns the interval of a run of a commit."""
    return {"lo": (snapshot, 1, number), "hi": (snapshot, 1, number)}


# --- positions ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("about", "found"),
    [
        ({"run": 3}, ((4, 1, 3), (4, 1, 3))),
        ({"lo": (2, 0, 7)}, ((2, 0, 7), (4, 1, 0))),
        ({"lo": (2, 0, 7), "hi": (3, 1, 0), "at": None}, ((2, 0, 7), (3, 1, 0))),
    ],
)
def test_a_file_says_its_interval_or_inherits_it(
    about: dict[str, Any], found: tuple[Position, Position]
) -> None:
    """Positions that an entry leaves open are those of its run in the snapshot that added it."""
    assert interval(file("a", **about)) == found


def test_a_file_of_no_known_time_is_an_error() -> None:
    """An entry with neither an interval nor a snapshot is named in an error."""
    with pytest.raises(InternalError, match=r"data/a\.parquet says neither its interval nor its snapshot"):
        interval(file("data/a.parquet", at=None))


def test_a_hull_spans_its_files() -> None:
    """The hull goes from the first position of any file to the last of any."""
    files = [file("a", **at(5)), file("b", lo=(2, 0, 1), hi=(3, 1, 0)), file("c", run=2)]
    assert hull(files) == ((2, 0, 1), (5, 1, 0))


def test_a_file_has_key_ends_if_it_has_keys() -> None:
    """Least and greatest key are given together, and not at all in a table without a key."""
    assert key_ends(file("a", min_key=b"", max_key=b"z")) == (b"", b"z")
    assert key_ends(file("a")) is None


def test_covered_segments_stand_below_the_rows_of_their_commit() -> None:
    """Ranges of segments have positions of kind 0, in order; an open snapshot is the one at hand."""
    ranges = (SegmentRange(first=7, last=9, size=1), SegmentRange(first=3, last=4, size=1, at=1))
    found = covered_intervals(dataclasses.replace(HEAD, id=2, segments=ranges))
    assert found == [((1, 0, 3), (1, 0, 4)), ((2, 0, 7), (2, 0, 9))]


def test_appended_files_follow_each_other_in_time() -> None:
    """Files without keys are ordered by position, then by partition, bucket, run and path."""
    first = [file("z", **at(1)), file("y", **at(2))]
    beside = [file("x", partition=(b"a",), **at(3)), file("w", partition=(b"b",), bucket=0, **at(3))]
    last = [file("v", partition=(b"b",), bucket=1, **at(3)), file("w", partition=(b"b",), bucket=1, **at(3))]
    files = [*first, *beside, *last]
    shuffled = [files[place] for place in (5, 2, 0, 4, 1, 3)]
    assert sorted(shuffled, key=appended_order) == files


# --- merge units ----------------------------------------------------------------------

MOVING = schema_of(partition_by=("day",), buckets=2)
HELD = schema_of(primary_key=("id", "day"), partition_by=("day",), buckets=2)


def paths(units: dict[Any, list[list[FileEntry]]]) -> dict[Any, list[list[str]]]:
    """Returns the files of each run by their paths."""
    return {unit: [[one.path for one in run] for run in runs] for unit, runs in units.items()}


def test_runs_of_a_unit_come_oldest_first() -> None:
    """Files of one interval are one run, by first key; runs are in the order of their intervals."""
    files = [
        file("c", min_key=b"a", max_key=b"b", **at(9)),
        file("b", min_key=b"m", max_key=b"z", **at(5)),
        file("a", min_key=b"b", max_key=b"c", **at(5)),
    ]
    assert paths(units_of(files, schema_of())) == {((), 0): [["a", "b"], ["c"]]}


@pytest.mark.parametrize(
    ("schema", "units"),
    [
        (HELD, {((b"d1",), 0): [["a"]], ((b"d1",), 1): [["b"]], ((b"d2",), 0): [["c"]]}),
        (MOVING, {((), 0): [["a"], ["c"]], ((), 1): [["b"]]}),
    ],
    ids=["held", "moving"],
)
def test_units_are_partitions_where_the_key_holds_them(schema: Any, units: dict[Any, Any]) -> None:
    """Where a key may move between partitions a bucket of all of them is one unit."""
    files = [
        file("c", partition=(b"d2",), total_buckets=2, min_key=b"", **at(2)),
        file("b", partition=(b"d1",), bucket=1, total_buckets=2, min_key=b"", **at(1)),
        file("a", partition=(b"d1",), total_buckets=2, min_key=b"", **at(1)),
    ]
    found = units_of(files, schema)
    assert paths(found) == units
    assert list(found) == sorted(found)


def test_other_numbers_of_buckets_make_one_unit() -> None:
    """A partition whose files differ in their number of buckets is one unit, and no other partition is."""
    files = [
        file("a", partition=(b"d1",), bucket=1, total_buckets=2, min_key=b"", **at(1)),
        file("b", partition=(b"d1",), bucket=3, total_buckets=4, min_key=b"", **at(2)),
        file("c", partition=(b"d2",), bucket=1, total_buckets=2, min_key=b"", **at(1)),
    ]
    assert paths(units_of(files, HELD)) == {
        ((b"d1",), MIXED_BUCKETS): [["a"], ["b"]],
        ((b"d2",), 1): [["c"]],
    }


# --- what overlaps --------------------------------------------------------------------


def _ends(item: tuple[int, int]) -> tuple[int, int]:
    return item


def test_what_a_long_item_covers_stays_with_it() -> None:
    """An item that ends before the one after it begins is in its group all the same if a longer one is."""
    items = [(0, 9), (1, 2), (4, 5), (10, 11)]
    assert list(apart(items, _ends)) == [items[:3], items[3:]]


def test_ends_that_are_the_same_overlap() -> None:
    """An item that begins where another ends is in its group."""
    assert list(apart([(0, 3), (3, 4), (5, 5)], _ends)) == [[(0, 3), (3, 4)], [(5, 5)]]


def test_without_ends_every_item_is_alone() -> None:
    """What has no ends is a group of its own, between others too."""
    found = list(apart([(0, 9), None, None, (1, 2), (2, 3)], lambda item: item))
    assert found == [[(0, 9)], [None], [None], [(1, 2), (2, 3)]]


def test_nothing_has_no_groups() -> None:
    """Of no items there are no groups."""
    assert list(apart([], _ends)) == []


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=30))
def test_groups_are_apart_and_small(lengths: list[tuple[int, int]]) -> None:
    """Groups hold all items in order, none overlaps another, and in each every item overlaps one."""
    items = sorted((low, low + length) for low, length in lengths)
    groups = list(apart(items, _ends))
    assert [item for group in groups for item in group] == items
    for one, other in itertools.pairwise(groups):
        assert max(high for _, high in one) < other[0][0]
    for group in groups:
        for at, (low, high) in enumerate(group):
            others = group[:at] + group[at + 1 :]
            assert not others or any(begin <= high and low <= end for begin, end in others)
