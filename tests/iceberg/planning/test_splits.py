"""Shares of a plan: all bytes of all files, each once, in shares near the size that is asked for."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.iceberg.planning.splits import SplitSizes, shares
from lakehouse.iceberg.planning.tasks import ScanTask

OFFSETS = st.lists(st.integers(4, 999), max_size=6, unique=True).map(sorted)
FILES = st.lists(st.tuples(st.integers(1, 1_000), OFFSETS), max_size=6)


def tasks_of(files: list[tuple[int, list[int]]]) -> list[ScanTask]:
    """Returns tasks of files, given their sizes and the places where they can be cut."""
    return [
        ScanTask(
            path=f"{number}",
            size=size,
            rows=1,
            split_offsets=tuple(at for at in offsets if at < size),
            length=size,
        )
        for number, (size, offsets) in enumerate(files)
    ]


@given(FILES, st.integers(1, 400), st.integers(0, 100))
def test_every_byte_is_in_one_share(files: list[tuple[int, list[int]]], target: int, cost: int) -> None:
    """The parts of a file follow each other from its first byte to its last, and no share is empty."""
    made = shares(tasks_of(files), SplitSizes(target=target, open_cost=cost))
    assert all(made)
    parts = [part for share in made for part in share]
    for number, (size, offsets) in enumerate(files):
        ranges = [(part.start, part.start + (part.length or 0)) for part in parts if part.path == str(number)]
        assert ranges[0][0] == 0
        assert ranges[-1][1] == size
        assert all(one[1] == two[0] for one, two in pairwise(ranges))
        known = {at for at in offsets if at < size}
        if known:
            assert {begin for begin, _ in ranges[1:]} <= known


def test_small_files_share() -> None:
    """Files share until the target size, each weighing at least what opening costs."""
    made = shares(tasks_of([(10, [])] * 5), SplitSizes(target=100, open_cost=50))
    assert [[part.path for part in share] for share in made] == [["0", "1"], ["2", "3"], ["4"]]


def test_large_files_are_cut_where_row_groups_begin() -> None:
    """A file is cut at the last row group that begins within the target size."""
    made = shares(tasks_of([(300, [4, 90, 120, 210])]), SplitSizes(target=100, open_cost=0))
    assert [[(part.start, part.length) for part in share] for share in made] == [
        [(0, 90)],
        [(90, 30)],
        [(120, 90)],
        [(210, 90)],
    ]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, (128 << 20, 4 << 20)),
        ({"read.split.target-size": "1000", "read.split.open-file-cost": "0"}, (1_000, 0)),
        ({"read.split.target-size": "none", "read.split.open-file-cost": "-1"}, (128 << 20, 4 << 20)),
    ],
)
def test_a_table_says_its_sizes(properties: dict[str, str], expected: tuple[int, int]) -> None:
    """The properties of a table decide, and Iceberg's defaults where they say no size."""
    sizes = SplitSizes.of(properties)
    assert (sizes.target, sizes.open_cost) == expected


@pytest.mark.parametrize("sizes", [{"target": 0}, {"open_cost": -1}])
def test_sizes_that_make_no_sense_are_refused(sizes: dict[str, int]) -> None:
    """A target below one byte and a cost below zero are errors that say both."""
    with pytest.raises(InvalidInputError, match="a target size from 1 and an open cost from 0"):
        SplitSizes(**sizes)
