"""How Spark cuts rows into batches while a write is under way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakehouse.spark.runtime.arrow_batches import BATCH_ROWS, bounded_by_rows

KEYS = [f"spark.sql.execution.arrow.max{what}PerBatch" for what in ("Bytes", "Records")]


def settings(spark: SparkSession) -> list[str | None]:
    """Of the session, about batches."""
    return [spark.conf.get(key) for key in KEYS]


def largest(spark: SparkSession) -> int:
    """Rows of the largest batch of five thousand wide ones."""

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})

    wide = spark.range(0, 5_000, 1, 1).selectExpr("id", "repeat('x', 1000) AS text")
    return max(row.rows for row in wide.mapInArrow(count, "rows long").collect())


def test_batches_are_bounded_by_rows_alone(spark: SparkSession) -> None:
    """What a session says of bytes does not count meanwhile, and counts again afterwards; fewer rows do."""
    before = settings(spark)
    spark.conf.set(KEYS[0], "100k")
    try:
        bounded = largest(spark)
        with bounded_by_rows(spark):
            assert largest(spark) == BATCH_ROWS
        assert largest(spark) == bounded < 200
        spark.conf.set(KEYS[1], "70")
        with bounded_by_rows(spark):
            assert largest(spark) == 70
    finally:
        for key, value in zip(KEYS, before, strict=True):
            spark.conf.set(key, value or "")


def test_the_last_write_puts_settings_back(spark: SparkSession) -> None:
    """Of writes beside each other, whichever ends last; errors change nothing about it."""
    before = settings(spark)
    first, second = bounded_by_rows(spark), bounded_by_rows(spark)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert settings(spark) != before
    second.__exit__(None, None, None)
    assert settings(spark) == before
    with pytest.raises(ValueError, match="no"), bounded_by_rows(spark):
        raise ValueError("no")
    assert settings(spark) == before
