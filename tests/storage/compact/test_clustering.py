"""Rows in another order: sorted, along a curve, cut into ranges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema.table_schema import TableSchema, schema_from_arrow
from lakehouse.storage.compact.clustering import (
    PLACE_COLUMN,
    ClusterOrder,
    Curve,
    cut_at,
    parse_order,
    places,
    range_bounds,
)

ARROW = pa.schema(
    {"a": pa.int64(), "b": pa.string(), "c": pa.float64(), "d": pa.bool_(), "n": pa.list_(pa.int64())}
)
SCHEMA: TableSchema = schema_from_arrow(ARROW)
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-5, 5),
        st.none() | st.sampled_from(["", "a", "ab", "b"]),
        st.none() | st.sampled_from([-math.inf, -1.5, 0.0, 2.0, math.nan]),
        st.none() | st.booleans(),
    ),
    max_size=80,
)
ORDERS = [
    ClusterOrder(columns=(("a", False),)),
    ClusterOrder(columns=(("b", True), ("a", False))),
    ClusterOrder(columns=(("c", False), ("d", True), ("a", True))),
    ClusterOrder(columns=(("a", False), ("b", False)), is_curve=True),
    ClusterOrder(columns=(("c", False), ("d", False), ("a", False)), is_curve=True),
]


def table_of(rows: list[tuple[Any, ...]], file: int = 0) -> pa.Table:
    """Rows with their places."""
    columns = [pa.array([row[at] for row in rows], ARROW.field(at).type) for at in range(4)]
    return pa.table([*columns, places(file, 0, len(rows))], names=["a", "b", "c", "d", PLACE_COLUMN])


@settings(deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4), st.sampled_from(ORDERS), st.integers(1, 6), ROWS)
def test_ranges_are_the_whole_in_order(
    chunks: list[list[tuple[Any, ...]]], order: ClusterOrder, count: int, others: list[tuple[Any, ...]]
) -> None:
    """Chunks cut at bounds of whatever sample, put together range by range, are all rows sorted at once."""
    tables = [table_of(rows, number) for number, rows in enumerate(chunks)]
    sample = pa.concat_tables([tables[0], table_of(others, 9)])
    curve = Curve.of(order, sample)
    bounds = range_bounds(curve, sample, count)
    assert bounds.num_rows < count
    ranges: dict[int, list[pa.Table]] = {}
    for table in tables:
        for number, rows in cut_at(curve, curve.keyed(table), bounds):
            ranges.setdefault(number, []).append(rows)
    found = []
    for number in sorted(ranges):
        together = pa.concat_tables(ranges[number])
        found += together.take(curve.sorted(together)).column(PLACE_COLUMN).to_pylist()
    whole = curve.keyed(pa.concat_tables(tables))
    assert found == whole.take(curve.sorted(whole)).column(PLACE_COLUMN).to_pylist()


def test_sorting_is_what_sorting_is() -> None:
    """Descending and ascending, nulls last, and what compares alike as it came."""
    rows = [(2, "a"), (None, "x"), (1, "b"), (2, None), (1, "b"), (3, "a")]
    table = table_of([(*row, None, None) for row in rows])
    curve = Curve.of(parse_order(SCHEMA, sort_by=["-a", "b"]), table)
    assert table.take(curve.sorted(table)).column(PLACE_COLUMN).to_pylist() == [5, 0, 3, 2, 4, 1]


def test_ranges_of_a_good_sample_are_of_one_size() -> None:
    """Even where all rows compare alike, their places part them."""
    table = table_of([(1, "same", 0.0, True)] * 1000)
    curve = Curve.of(ORDERS[0], table)
    sizes = [rows.num_rows for _, rows in cut_at(curve, table, range_bounds(curve, table, 4))]
    assert sizes == [250] * 4


@pytest.mark.parametrize("skewed", [False, True])
def test_a_curve_keeps_neighbours_of_every_column_together(skewed: bool) -> None:
    """Of 64 ranges along the curve each has a small part of the values of either column."""
    drawn = np.random.default_rng(1)
    first, second = drawn.random(16_384), drawn.random(16_384)
    table = pa.table(
        {
            "a": pa.array((np.exp(first * 30) if skewed else first * 1000).astype(np.int64)),
            "c": second,
            PLACE_COLUMN: places(0, 0, 16_384),
        }
    )
    curve = Curve.of(ClusterOrder(columns=(("a", False), ("c", False)), is_curve=True), table)
    widths = []
    for _, rows in cut_at(curve, curve.keyed(table), range_bounds(curve, table, 64)):
        at = rows.column(PLACE_COLUMN).to_numpy()
        widths += [np.ptp(first[at]), np.ptp(second[at])]
    assert np.mean(widths) < 0.25


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({}, "either sort_by or zorder_by"),
        ({"sort_by": ["a"], "zorder_by": ["a", "b"]}, "either sort_by or zorder_by"),
        ({"sort_by": []}, "name the columns"),
        ({"sort_by": ["x"]}, "'x' is not there"),
        ({"sort_by": ["a", "-a"]}, "'a' is named twice"),
        ({"sort_by": "n"}, "is nested"),
        ({"zorder_by": ["a"]}, "two to 8 columns"),
        ({"zorder_by": ["-a", "b"]}, "'-a' is not there"),
    ],
)
def test_orders_that_are_none(asked: dict[str, Any], what: str) -> None:
    """What cannot be ordered by is refused, by name."""
    with pytest.raises(InvalidInputError, match=what):
        parse_order(SCHEMA, **asked)
