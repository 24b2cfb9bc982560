"""Aggregates that statistics answer, and the same ones of rows that executors read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from lakehouse.errors import InvalidInputError
from lakehouse.spark.reading import aggregates as answers
from lakehouse.spark.reading.aggregates import aggregate, count
from lakehouse.spark.reading.table_frame import table
from lakehouse.spark.runtime.connection import Connection, Warehouse, warehouse
from lakehouse.spark.source import register

SCHEMA = pa.schema(
    {"id": pa.int64(), "day": pa.date32(), "amount": pa.float64(), "at": pa.timestamp("us", tz="UTC")}
)
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def row(number: int, amount: float | None = 1.0) -> dict[str, Any]:
    """A row of that id."""
    day = dt.date(2026, 1, 1 + number % 2)
    return {"id": number, "day": day, "amount": amount, "at": NOON + dt.timedelta(seconds=number)}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Warehouse]:
    """A table of two days, one of which was updated; registered."""
    connection = Connection(url=f"file://{tmp_path_factory.mktemp('answers')}/warehouse")
    lake = warehouse(connection)
    lake.call(lake.lake.create_database, "db")
    made = lake.call(
        lake.lake.create_table,
        "db.t",
        SCHEMA,
        primary_key=("day", "id"),
        partition_by="day",
        options={"compaction.auto": "off"},
    )
    lake.call(made.append, [row(number, float(number)) for number in range(20)])
    lake.call(made.upsert, [row(4, float("nan")), row(6, None)])
    register(spark, connection)
    yield lake
    register(spark)


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tasks each call needed."""
    seen: list[int] = []
    run = answers.run_tasks

    def counted(spark: SparkSession, work: Any, tasks: Any) -> Any:
        seen.append(len(tasks))
        return run(spark, work, tasks)

    monkeypatch.setattr(answers, "run_tasks", counted)
    return seen


def test_the_answers_of_spark(spark: SparkSession, asked: Warehouse, tasks: list[int]) -> None:
    """PartialAggregates and their types are those of Spark's own aggregates, by group as well."""
    wanted: dict[str, Any] = {
        "n": "count",
        "known": ("count", "amount"),
        "low": ("min", "amount"),
        "high": ("max", "amount"),
        "last": ("max", "at"),
    }
    theirs = [
        sf.count(sf.lit(1)).alias("n"),
        sf.count("amount").alias("known"),
        sf.min("amount").alias("low"),
        sf.max("amount").alias("high"),
        sf.max("at").alias("last"),
    ]
    rows = table(spark, "db.t")
    found, expected = aggregate(spark, "db.t", wanted), rows.agg(*theirs)
    assert list(map(str, found.collect())) == list(map(str, expected.collect()))
    assert [one.dataType for one in found.schema] == [one.dataType for one in expected.schema]
    by_day = aggregate(spark, "db.t", wanted, group_by=["day"], where="id >= 3")
    expected = rows.where("id >= 3").groupBy("day").agg(*theirs).orderBy("day")
    assert list(map(str, by_day.collect())) == list(map(str, expected.collect()))
    assert all(tasks)


def test_no_task_where_statistics_tell(spark: SparkSession, asked: Warehouse, tasks: list[int]) -> None:
    """Of partitions with one run no row is read, and of none once the table is compacted."""
    assert count(spark, "db.t", "day = date '2026-01-02'") == 10
    assert tasks == [0]
    assert count(spark, "db.t", version=2) == 20
    assert tasks == [0, 0]
    assert count(spark, "db.t") == 20
    assert tasks[2] == 1


def test_mistakes(spark: SparkSession, asked: Warehouse) -> None:
    """What cannot be asked is refused in words."""
    with pytest.raises(InvalidInputError, match="partition columns"):
        aggregate(spark, "db.t", {"n": "count"}, group_by="amount")
