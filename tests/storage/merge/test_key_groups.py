"""Groups of rows by key: their bounds, and which row of each is chosen by place, null and value."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.storage.merge.key_groups import (
    KeyGroups,
    first_where,
    greatest,
    last_where,
    least,
    newest,
    valid,
)

LOWEST, HIGHEST = -(2**63), 2**63 - 1
NAN, INFINITY = float("nan"), float("inf")


def groups_of(*sizes: int) -> KeyGroups:
    """Returns groups of neighbouring rows."""
    ends = np.cumsum(sizes)
    return KeyGroups(rows=np.arange(ends[-1]), begins=ends - sizes)


def test_groups_know_their_rows() -> None:
    """Lengths, newest rows and owners follow from the places at which groups begin."""
    groups = groups_of(2, 1, 3)
    assert groups.lengths.tolist() == [2, 1, 3]
    assert groups.last.tolist() == [1, 2, 5]
    assert groups.of_rows().tolist() == [0, 0, 1, 2, 2, 2]


@pytest.mark.parametrize(("sizes", "is_merged"), [((1, 1, 1), False), ((1, 2), True)])
def test_groups_of_one_row_need_no_merge(sizes: tuple[int, ...], is_merged: bool) -> None:
    """Groups are merged when one of them has two rows."""
    assert groups_of(*sizes).is_merged == is_merged


def test_rows_between_groups_are_left_out() -> None:
    """Groups that do not touch become groups side by side, of their own rows."""
    groups = KeyGroups.of(np.array([9, 8, 7, 6, 5]), np.array([0, 3]), np.array([2, 1]))
    assert groups.rows.tolist() == [9, 8, 6]
    assert groups.begins.tolist() == [0, 2]


def test_some_groups_are_chosen() -> None:
    """A mask of groups keeps those with all their rows."""
    groups = groups_of(2, 1, 3).chosen(np.array([True, False, True]))
    assert groups.rows.tolist() == [0, 1, 3, 4, 5]
    assert groups.lengths.tolist() == [2, 3]


def test_values_are_told_from_nulls_in_the_order_of_the_rows() -> None:
    """The mask follows the rows of the groups; a column without nulls has none."""
    mask = valid(pa.array([1, None, 3]), np.array([1, 2, 0]))
    assert mask is not None
    assert mask.tolist() == [False, True, True]
    assert valid(pa.array([1, 2]), np.array([1, 0])) is None


def test_rows_are_chosen_by_their_place() -> None:
    """The first or last row in a mask is chosen; of a group without one its own first or last row."""
    groups = groups_of(3, 3, 1)
    mask = np.array([True, True, False, False, False, False, True])
    assert last_where(mask, groups).tolist() == [1, 5, 6]
    assert first_where(mask, groups).tolist() == [0, 3, 6]


@pytest.mark.parametrize(
    ("kind", "values", "high", "low"),
    [
        (pa.int64(), [[3, 9, 9], [5, 5, 7]], [2, 5], [0, 3]),
        (pa.int64(), [[None, LOWEST], [LOWEST, None]], [1, 2], [1, 2]),
        (pa.int64(), [[None, HIGHEST], [HIGHEST, None]], [1, 2], [1, 2]),
        (pa.int64(), [[None, None], [None, 1]], [1, 3], [0, 3]),
        (pa.float64(), [[1.5, NAN, INFINITY], [-1.5, -INFINITY, -2.0]], [1, 3], [0, 4]),
        (pa.float64(), [[0.0, -0.0], [-0.0, 0.0]], [1, 3], [0, 2]),
        (pa.float32(), [[None, NAN], [NAN, None]], [1, 2], [1, 2]),
        (pa.bool_(), [[True, False], [False, False]], [0, 3], [1, 2]),
        (pa.date32(), [[dt.date(1969, 1, 1), dt.date(1970, 1, 2)], [dt.date(2000, 1, 1)]], [1, 2], [0, 2]),
        (pa.string(), [["b", "a", "c"], ["z", "ä", None]], [2, 4], [1, 3]),
        (pa.decimal128(5, 2), [[decimal.Decimal("-1.50"), decimal.Decimal("9.99")]], [1], [0]),
    ],
)
def test_the_greatest_and_the_least_value(
    kind: pa.DataType, values: list[list[Any]], high: list[int], low: list[int]
) -> None:
    """NaN is above all numbers, zeros are equal and null never counts; of equal values the greatest is the
    last and the least is the first."""
    column = pa.array([value for group in values for value in group], kind)
    groups = groups_of(*map(len, values))
    assert greatest(column, groups).tolist() == high
    assert least(column, groups).tolist() == low


def test_places_are_those_in_the_groups() -> None:
    """The place that is returned counts the rows of the groups, wherever these stand in the column."""
    column = pa.array([5, 1, 9, 7])
    groups = KeyGroups(rows=np.array([2, 0, 3, 1]), begins=np.array([0, 2]))
    assert greatest(column, groups).tolist() == [0, 2]
    assert least(column, groups).tolist() == [1, 3]


def test_the_newest_row_by_one_column() -> None:
    """A single column that orders rows is compared as it is, null before everything."""
    column = pa.array([None, 4, 4, None, None])
    assert newest([column], groups_of(3, 2)).tolist() == [2, 4]


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_the_newest_row_by_several_columns(columns: int) -> None:
    """Columns are compared one after another, null before everything; the last of equal rows is newest."""
    chance = random.Random(columns)
    groups = groups_of(*(chance.randint(1, 9) for _ in range(20)), 200)
    rows = [tuple(chance.choice([None, 0, 1, 2**60]) for _ in range(columns)) for _ in groups.rows]
    order = [tuple(-1 if value is None else value for value in row) for row in rows]
    expected = [
        max(range(begin, begin + length), key=lambda at: (order[at], at))
        for begin, length in zip(groups.begins.tolist(), groups.lengths.tolist(), strict=True)
    ]
    arrays = [pa.array([row[at] for row in rows], pa.int64()) for at in range(columns)]
    assert newest(arrays, groups).tolist() == expected
