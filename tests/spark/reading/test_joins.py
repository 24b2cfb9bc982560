"""Joins with a small side: the rows of Spark's own join, read from a part of the large table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors import InvalidInputError
from lakehouse.spark.reading.joins import join, plan_join
from lakehouse.spark.reading.options import ReadOptions
from lakehouse.spark.reading.reader import LakehouseReader
from lakehouse.spark.reading.table_frame import table
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.runtime.types import struct_of
from lakehouse.spark.source import register

_ROWS = 60_000
_DAYS = [dt.date(2026, 1, 1) + dt.timedelta(days=number) for number in range(20)]


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Connection]:
    """A large table by day, its files ordered by customer, and a small one; registered."""
    connection = Connection(url=f"file://{tmp_path_factory.mktemp('join')}/warehouse")
    lake = warehouse(connection)
    numbers = np.arange(_ROWS)
    rows = pa.table(
        {
            "customer": pa.array(numbers // 3, pa.int32()),
            "line": pa.array(numbers % 3, pa.int64()),
            "day": pa.array([_DAYS[one] for one in (numbers * 20 // _ROWS)], pa.date32()),
            "city": pa.array([f"city {one:05}" for one in numbers // 300]),
            "amount": pa.array(np.random.default_rng(1).random(_ROWS)),
        }
    )
    lake.call(lake.lake.create_database, "db")
    options = {"file.target_bytes": 1 << 20, "parquet.row_group_rows": 8192, "compaction.auto": "off"}
    made = lake.call(
        lake.lake.create_table,
        "db.fact",
        rows.schema,
        primary_key=("day", "customer", "line"),
        partition_by="day",
        options=options,
    )
    lake.call(made.append, rows)
    plain = lake.call(lake.lake.create_table, "db.plain", rows.schema, options=options)
    for begin in range(0, _ROWS, 6_000):
        lake.call(plain.append, rows.slice(begin, 6_000))
    dim = pa.table({"customer": pa.array([5, 6, None, 1 << 40], pa.int64()), "tier": ["a", "b", "c", "d"]})
    small = lake.call(lake.lake.create_table, "db.dim", dim.schema)
    lake.call(small.append, dim)
    register(spark, connection)
    yield connection
    register(spark)


def rows_of(frame: DataFrame) -> list[Any]:
    """All rows, sorted."""
    return sorted(map(tuple, frame.collect()), key=repr)


def test_values_of_a_small_side(spark: SparkSession, facts: Connection) -> None:
    """Rows are those of Spark's join, and all files but those with the keys are left out."""
    dim = table(spark, "db.dim")
    plan = plan_join(spark, "db.plain", "db.dim", "customer")
    assert rows_of(plan.frame) == rows_of(table(spark, "db.plain").join(dim, "customer"))
    assert len(rows_of(plan.frame)) == 6
    assert plan.report.filters == {"customer": "values"}
    assert (plan.report.keys, plan.report.files) == (3, 10)
    assert plan.report.files_pruned == {"stats": 9}
    assert plan.report.bytes >= 5 * plan.report.bytes_left
    assert "9 by stats" in str(plan.report)


def test_partitions_by_another_name(spark: SparkSession, facts: Connection) -> None:
    """Names may differ; partitions without a partner are left out; semi joins keep the large side only."""
    dim = spark.createDataFrame([(_DAYS[3],), (_DAYS[3],), (_DAYS[7],)], "d date")
    how = {"columns": ["day", "amount"], "where": "customer < 11000"}
    plan = plan_join(spark, "db.fact", dim, {"day": "d"}, how="left_semi", **how)
    large = table(spark, "db.fact", **how)
    assert rows_of(plan.frame) == rows_of(large.join(dim, large["day"] == dim["d"], "left_semi"))
    assert plan.report.files_pruned["partition"] == 18
    assert plan.frame.columns == ["day", "amount"]


def test_many_keys_are_ranges(spark: SparkSession, facts: Connection) -> None:
    """Of more keys than are worth it ranges are made, of each column of the join by itself."""
    keys = [*range(100, 160), *range(15_000, 15_120, 2)]
    dim = spark.createDataFrame([(one, one % 3) for one in keys], "customer int, line long")
    plan = plan_join(spark, "db.plain", dim, ["customer", "line"], max_keys=50)
    assert plan.report.filters == {"customer": "ranges", "line": "values"}
    assert plan.report.files_pruned == {"stats": 8}
    assert len(rows_of(plan.frame)) == len(keys)
    # Ranges hold more, and tasks hand on none of it.
    assert plan_join(spark, "db.plain", dim, "customer", max_keys=50).fact.count() == 3 * len(keys)


def test_right_join_and_no_partner(spark: SparkSession, facts: Connection) -> None:
    """A right join keeps the rows of the small side; without any partner no task is needed."""
    dim = spark.createDataFrame([("nowhere",), (None,)], "city string")
    plan = plan_join(spark, "db.plain", dim, "city", how="right")
    assert plan.report.tasks == 0
    assert sorted(map(str, (one["city"] for one in plan.frame.collect()))) == ["None", "nowhere"]
    assert join(spark, "db.plain", dim, "city").count() == 0


def test_keys_without_a_condition(spark: SparkSession, facts: Connection) -> None:
    """Where values may be equal that are not the same, everything is read, and the report says why."""
    dim = table(spark, "db.plain", columns=["amount"], where="customer = 4")
    plan = plan_join(spark, "db.plain", dim, "amount")
    assert plan.report.filters["amount"].startswith("no condition")
    assert plan.report.files_pruned == {}
    assert plan.frame.count() == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"how": "left"}, "leave it to Spark"),
        ({"on": []}, "names no column"),
        ({"on": "tier"}, "tier"),
        ({"on": {"customer": "nope"}}, "small side has no column nope"),
        ({"columns": ["day"]}, "columns must have"),
    ],
)
def test_mistakes(spark: SparkSession, facts: Connection, changes: dict[str, Any], words: str) -> None:
    """What cannot be joined so is refused in words."""
    with pytest.raises(InvalidInputError, match=words):
        plan_join(spark, "db.fact", "db.dim", **{"on": "customer", **changes})


def test_fewer_bytes(spark: SparkSession, facts: Connection) -> None:
    """Of tables that are ordered or parted by the key, tasks fetch less than a fifth of the bytes."""
    lake = warehouse(facts)
    store: Any = lake.lake.store
    while not hasattr(store, "stats"):
        store = store.inner

    def fetched(name: str, where: str | None) -> int:
        options = ReadOptions(where=where)
        schema = lake.call(lake.table(name).newest).schema
        reader = LakehouseReader(facts, name, options, struct_of(schema))
        before = store.stats.bytes_read
        rows = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
        assert rows > 0
        return int(store.stats.bytes_read - before)

    for name, where in (("db.plain", "customer in (5, 6)"), ("db.fact", "day in (date '2026-01-04')")):
        part, whole = fetched(name, where), fetched(name, None)
        assert 5 * part <= whole, (name, part, whole)
