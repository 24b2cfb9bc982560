"""Joins whose large side is an Iceberg table: rows of the join, of files that can have a partner."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors import InvalidInputError
from lakehouse.iceberg import RuntimeFilter
from lakehouse.spark.reading.joins import join, plan_join
from lakehouse.spark.reading.table_frame import table
from lakehouse.spark.source import register
from tests.kit.iceberg_spark_tables import SPARK_FOLDER

_BY_DAY = f"file://{SPARK_FOLDER / 'day_zone'}"
_BY_BUCKET = f"file://{SPARK_FOLDER / 'position_deletes'}"
_EVOLVED = f"file://{SPARK_FOLDER / 'partition_evolution'}"


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def rows_of(frame: DataFrame) -> list[Any]:
    """All rows, in an order."""
    return sorted(map(tuple, frame.collect()), key=repr)


def test_days_of_moments_are_left_out(spark: SparkSession) -> None:
    """A fact by the day of a timestamp is read where a moment of the small side can be."""
    moments = table(spark, _BY_DAY, moved=True).select("ts").orderBy("id").limit(2)
    dim = spark.createDataFrame(moments.toArrow())
    plan = plan_join(spark, _BY_DAY, dim, "ts", moved=True)
    assert rows_of(plan.frame) == rows_of(table(spark, _BY_DAY, moved=True).join(dim, "ts"))
    assert plan.report.filters == {"ts": "values"}
    assert 0 < plan.report.files - plan.report.files_pruned["plan"] < plan.report.files
    assert plan.report.bytes_left < plan.report.bytes


def test_buckets_are_left_out_and_deletes_applied(spark: SparkSession) -> None:
    """A fact by buckets is read in those that keys hash to, without the rows that position deletes hide."""
    dim = spark.createDataFrame([(1, "one")], "k int, tier string")
    large = table(spark, _BY_BUCKET, moved=True)
    plan = plan_join(spark, _BY_BUCKET, dim, "k", moved=True, columns=["id", "k"])
    assert rows_of(plan.frame) == rows_of(large.select("id", "k").join(dim, "k"))
    assert plan.report.files_pruned["plan"] > 0
    off = plan_join(spark, _BY_BUCKET, dim, "k", moved=True, columns=["id", "k"], runtime_filters="off")
    assert rows_of(off.frame) == rows_of(plan.frame)
    assert off.report.files_pruned == {}
    assert "off" in off.report.filters["k"]


def test_mixed_specs_and_many_keys(spark: SparkSession) -> None:
    """Files of every spec are asked by its own transforms, by all keys."""
    days = [(dt.date(2024, 1, 15),), (dt.date(1969, 12, 31),)]
    dim = spark.createDataFrame(days, "d date")
    large = table(spark, _EVOLVED, moved=True)
    for max_keys in (1, 10):
        plan = plan_join(
            spark,
            _EVOLVED,
            dim,
            {"day": "d"},
            how="left_semi",
            where="id < 100",
            max_keys=max_keys,
            moved=True,
        )
        assert rows_of(plan.frame) == rows_of(large.join(dim, large["day"] == dim["d"], "left_semi"))
        assert plan.report.files_pruned["plan"] > 0
    assert join(spark, _EVOLVED, dim.limit(0), {"day": "d"}, moved=True).count() == 0


def test_further_filters_leave_files_out(spark: SparkSession) -> None:
    """Filters of the caller's own go with those of the keys; a fact of ours takes conditions instead."""
    dim = spark.createDataFrame([(dt.date(2024, 1, 15),)], "day date")
    none = RuntimeFilter.in_("id", [-1])
    plan = plan_join(spark, _EVOLVED, dim, "day", moved=True, runtime_filters=[none])
    assert plan.report.tasks == 0
    with pytest.raises(InvalidInputError, match="where="):
        plan_join(spark, "db.t", dim, "day", runtime_filters=[none])
