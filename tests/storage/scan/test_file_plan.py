"""Tests of which items overlap: groups for merging, cutting and comparing."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.storage.metadata.run_order import apart


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
