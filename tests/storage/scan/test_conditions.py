"""Conditions fitted to a table: words are those of its fulltext indexes; some select whole partitions."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr, col, lit, matching, parse_where
from lakehouse.format.keys import encode_value
from lakehouse.format.schema import Primitive, StringType, TableSchema, schema_from_arrow
from lakehouse.storage.scan.conditions import bind_where, partition_test
from tests.kit.written_files import schema_of

ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "message": ["Disk full", "the disk is full", "diskfull", None],
        "other": ["full disk", "disk", "", "Disk, full!"],
    },
    schema=pa.schema({"id": pa.int64(), "message": pa.string(), "other": pa.string()}),
)
CASE = {"fulltext": {"case_sensitive": True}}


def passing(where: str, **indexes: Any) -> list[int]:
    """Returns the ids of the rows that pass a condition on a table with these indexes."""
    schema = schema_from_arrow(ROWS.schema, indexes=indexes)
    found: list[int] = ROWS.filter(matching(bind_where(parse_where(where), schema), ROWS))["id"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("matches(message, 'disk full')", [1, 2]),
        ("matches(message, 'DISK')", [1, 2]),
        ("NOT matches(message, 'disk')", [3]),
        ("matches(message, 'disk') AND matches(other, 'full')", [1]),
        ("matches(message, 'disk') OR id = 4", [1, 2, 4]),
        ("matches(lower(message), 'disk')", [1, 2]),
        ("matches('Disk full', 'disk')", [1, 2, 3, 4]),
        ("matches('Disk full', 'tape')", []),
        ("id > 2", [3, 4]),
    ],
)
def test_words_without_an_index_are_english_in_any_case(where: str, ids: list[int]) -> None:
    """A text matches when it has every word of the query; a null neither matches nor does not."""
    assert passing(where) == ids


def test_words_are_cut_as_the_index_on_the_column_does() -> None:
    """Where the index on a column tells case, so does the condition on it, and on no other column."""
    assert passing("matches(message, 'Disk')", message=CASE) == [1]
    assert passing("matches(other, 'DISK')", message=CASE) == [1, 2, 4]


def test_an_index_on_an_expression_is_for_that_expression() -> None:
    """Options of an index on an expression hold for the same expression alone."""
    indexes = {"lower(message)": CASE}
    assert passing("matches(lower(message), 'Disk')", **indexes) == []
    assert passing("matches(lower(message), 'disk')", **indexes) == [1, 2]
    assert passing("matches(message, 'DISK')", **indexes) == [1, 2]


def test_other_kinds_of_indexes_know_no_words() -> None:
    """An index that is not fulltext leaves the words as they are, also beside one that is."""
    assert passing("matches(message, 'DISK')", message="inverted") == [1, 2]
    assert passing("matches(message, 'Disk')", message=[CASE, "inverted"]) == [1]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("matches(message, other)", "must be a constant text"),
        ("matches(message, 5)", "must be a constant text"),
        ("matches(id, 'disk')", "looked for in text, and this is int64"),
        ("nowhere = 1", "nowhere"),
    ],
)
def test_conditions_that_do_not_fit_are_refused(where: str, said: str) -> None:
    """A condition on missing columns, on words that are no constant or in no text is an error."""
    with pytest.raises(InvalidInputError, match=said):
        passing(where)


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
