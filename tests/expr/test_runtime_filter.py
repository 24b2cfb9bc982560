"""Conditions made of the keys of another side."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.expr import bind, matching, to_sql
from lakehouse.expr.runtime_filter import among
from lakehouse.format.schema.table_schema import schema_from_arrow
from lakehouse.format.schema.types import arrow_type


def held(kind: pa.DataType, values: pa.Array, rows: list[Any], max_values: int) -> list[bool]:
    """Of each row, whether the condition is true."""
    schema = schema_from_arrow(pa.schema({"k": kind}))
    where = bind(
        among("k", arrow_type(schema.field("k").type), values, max_values=max_values), schema.arrow()
    )
    found: list[bool] = matching(where, pa.table({"k": pa.array(rows, kind)})).fill_null(False).to_pylist()
    return found


@settings(deadline=None)
@given(
    values=st.lists(st.one_of(st.none(), st.integers(-50, 50)), max_size=60),
    rows=st.lists(st.one_of(st.none(), st.integers(-60, 60)), max_size=20),
    max_values=st.sampled_from([0, 5, 1000]),
)
def test_every_value_matches(values: list[int | None], rows: list[int | None], max_values: int) -> None:
    """A row with one of the values matches; while values are few, no other does; nulls never do."""
    found = held(pa.int64(), pa.array(values, pa.int64()), rows, max_values)
    known = {one for one in values if one is not None}
    for row, matches in zip(rows, found, strict=True):
        if row in known:
            assert matches
        elif row is None or len(known) <= max_values:
            assert not matches


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), [f"name {number:03}" for number in range(100)]),
        (pa.date32(), [dt.date(2026, 1, 1) + dt.timedelta(days=number) for number in range(100)]),
        (
            pa.timestamp("us", tz="UTC"),
            [dt.datetime(2026, 1, 1, number % 24, tzinfo=dt.UTC) for number in range(99)],
        ),
        (pa.decimal128(9, 2), [decimal.Decimal(number) / 4 for number in range(100)]),
        (pa.bool_(), [True]),
        (pa.binary(), [bytes([number]) for number in range(100)]),
    ],
)
def test_types_with_an_order(kind: pa.DataType, values: list[Any]) -> None:
    """Values and ranges can be made of every such type."""
    array = pa.array(values, kind)
    for max_values in (0, 1000):
        assert all(held(kind, array, values, max_values))


def test_ranges_leave_the_widest_gaps() -> None:
    """Values in clumps make a range of each clump."""
    clumps = [number for begin in range(0, 10_000, 1_000) for number in range(begin, begin + 50)]
    array = pa.array(clumps, pa.int64())
    assert held(pa.int64(), array, [0, 49, 500, 1_020, 1_999, 9_049], 10) == [
        True,
        True,
        False,
        True,
        False,
        True,
    ]


def test_values_that_the_column_cannot_have() -> None:
    """Values out of the column's range are left aside."""
    wide = pa.array([1, 1 << 40], pa.int64())
    assert held(pa.int32(), wide, [1, 2], 10) == [True, False]
    fine = pa.array([decimal.Decimal("1.500"), decimal.Decimal("1.555")], pa.decimal128(9, 3))
    rows = [decimal.Decimal("1.50"), decimal.Decimal("1.55"), decimal.Decimal("1.56")]
    assert held(pa.decimal128(9, 2), fine, rows, 10) == [True, False, False]


def test_no_values() -> None:
    """Without values nothing matches."""
    for max_values in (0, 10):
        assert held(pa.int64(), pa.array([None], pa.int64()), [1, None], max_values) == [False, False]
    field = schema_from_arrow(pa.schema({"k": pa.int64()})).field("k")
    assert to_sql(among(field.name, arrow_type(field.type), pa.array([2, 1]), max_values=2))
