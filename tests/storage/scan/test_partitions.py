"""Conditions on whole partitions: told without a row where no row can be hidden by another."""

from __future__ import annotations

import datetime as dt

import pytest

from lakehouse.expr import Expr, col, lit
from lakehouse.format.keys import encode_value
from lakehouse.format.schema import Primitive, StringType, TableSchema
from lakehouse.storage.scan.partitions import partition_test
from tests.kit.written_files import schema_of

HELD = schema_of(primary_key=("id", "day", "name"), partition_by=("day", "name"))
KEYLESS = schema_of(primary_key=(), partition_by=("day", "name"))
MOVING = schema_of(partition_by=("day", "name"))
FIRST = dt.date(2026, 1, 1)


def partition(day: int, name: str) -> tuple[bytes, ...]:
    """Returns a partition of a day and a name."""
    return (
        encode_value(FIRST + dt.timedelta(days=day), Primitive("date")),
        encode_value(name, StringType()),
    )


@pytest.mark.parametrize("schema", [HELD, KEYLESS], ids=["held", "keyless"])
@pytest.mark.parametrize(
    ("where", "matching"),
    [
        (col("day") == FIRST, [(0, "a"), (0, "b")]),
        (col("name") > "a", [(0, "b"), (1, "b")]),
        ((col("day") > FIRST) & (col("name") == "a"), [(1, "a")]),
        ((col("day") > FIRST) | (col("name") == "a"), [(0, "a"), (1, "a"), (1, "b")]),
        (col("name").is_null(), []),
    ],
)
def test_partitions_are_told_by_their_values(
    schema: TableSchema, where: Expr, matching: list[tuple[int, str]]
) -> None:
    """A condition on partition columns holds for all rows of a partition or for none."""
    test = partition_test(where, schema)
    every = [(day, name) for day in (0, 1) for name in ("a", "b")]
    assert [one for one in every if test(partition(*one))] == matching


@pytest.mark.parametrize(
    "where",
    [
        col("amount") > 1.0,
        (col("day") == FIRST) & (col("id") == 1),
        (col("day") == FIRST) | (col("amount") > 1.0),
        lit(1) == 1,
    ],
)
def test_a_condition_on_rows_selects_no_partitions(where: Expr) -> None:
    """A condition that reads another column than those of the partition, or none, has no such test."""
    assert partition_test(where, HELD) is None


def test_a_partition_that_may_hide_rows_of_another_is_not_told_alone() -> None:
    """Where a key may move between partitions, files of one may hide rows of another: there is no test."""
    assert partition_test(col("day") == FIRST, MOVING) is None
