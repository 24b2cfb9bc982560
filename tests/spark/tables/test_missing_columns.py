"""Columns that a frame lacks: refused, null or kept, in every way in which Spark writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors import InvalidInputError
from lakehouse.spark import Connection
from lakehouse.spark.runtime.connection import warehouse
from lakehouse.spark.runtime.errors import plain_errors
from lakehouse.spark.source import register
from lakehouse.spark.streaming.writer import write_stream
from lakehouse.spark.writing.frame_write import write
from tests.kit.spark_written import NAME, made, rows_of, some


def values(connection: Connection) -> dict[int, tuple[Any, Any]]:
    """What the table holds, by id."""
    return {row["id"]: (row["part"], row["v"]) for row in rows_of(connection)}


@pytest.fixture
def narrow(spark: SparkSession) -> DataFrame:
    """One row that is there and one that is new, without the column ``part``."""
    return spark.createDataFrame([(1, 10), (7, 70)], "id int, V long").coalesce(1)


def test_a_frame_that_lacks_a_column_is_refused(
    spark: SparkSession, connection: Connection, narrow: DataFrame
) -> None:
    """Before anything runs, by ``write`` and by the data source; an overwrite takes no word about it."""
    register(spark, connection)
    table = made(connection, primary_key="id")
    warehouse(connection).call(table.append, some(1, 2, part="old"))
    for call in (write(narrow, NAME).upsert, write(narrow, NAME).append):
        with pytest.raises(InvalidInputError, match="no column 'part'"):
            call()
    source = narrow.write.format("lakehouse").mode("append")
    with pytest.raises(InvalidInputError, match="no column 'part'"), plain_errors():
        source.save(NAME)
    with pytest.raises(InvalidInputError, match=r"lakehouse.spark.write\(df, …\)"), plain_errors():
        source.option("missing", "keep").save(NAME)
    with pytest.raises(InvalidInputError, match="goes with append and upsert"), plain_errors():
        narrow.write.format("lakehouse").mode("overwrite").option("missing", "null").save(NAME)
    with pytest.raises(InvalidInputError, match="'error', 'null' or 'keep'"):
        write(narrow, NAME).upsert(missing="drop")  # type: ignore[arg-type]
    assert values(connection) == {1: ("old", 0), 2: ("old", 0)}


def test_null_and_keep_are_what_they_are_in_process(
    spark: SparkSession, connection: Connection, narrow: DataFrame
) -> None:
    """``keep`` reads older rows and makes one commit, once for a sequence; ``null`` reads nothing."""
    register(spark, connection)
    table = made(connection, primary_key="id", bucket=2)
    warehouse(connection).call(table.append, some(1, 2, part="old"))
    write(narrow, NAME).upsert(missing="keep", writer=("w", 1))
    assert values(connection) == {1: ("old", 10), 2: ("old", 0), 7: (None, 70)}
    warehouse(connection).call(table.upsert, [{"id": 1, "v": 11}], missing="keep")
    assert not write(narrow, NAME).upsert(missing="keep", writer=("w", 1)).changed
    assert values(connection)[1] == ("old", 11)
    narrow.write.format("lakehouse").mode("append").option("missing", "null").save(NAME)
    assert values(connection) == {1: (None, 10), 2: ("old", 0), 7: (None, 70)}


def test_streams_obey_too(
    spark: SparkSession, connection: Connection, narrow: DataFrame, tmp_path: Path
) -> None:
    """A stream says what becomes of missing columns; each batch is then one write that keeps."""
    register(spark, connection)
    table = made(connection, primary_key="id")
    warehouse(connection).call(table.append, some(1, part="old"))
    narrow.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(narrow.schema).parquet(str(tmp_path / "in"))
    how: dict[str, Any] = {"trigger": {"availableNow": True}, "checkpoint": str(tmp_path / "checkpoint")}
    with pytest.raises(InvalidInputError, match="goes with append and upsert"):
        write_stream(stream, NAME, operation="delete", missing="null", **how)
    write_stream(stream, NAME, missing="keep", **how).awaitTermination()
    assert values(connection) == {1: ("old", 10), 7: (None, 70)}
