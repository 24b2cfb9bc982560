"""Streams into tables: every batch once, whatever Spark repeats, in every output mode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakehouse.errors import InvalidInputError
from lakehouse.spark import Connection
from lakehouse.spark.runtime.connection import warehouse
from lakehouse.spark.runtime.errors import error_in, plain_errors
from lakehouse.spark.source import register
from lakehouse.spark.streaming.writer import write_stream
from lakehouse.storage.table import Table
from tests.kit.spark_written import NAME, data_files, frame, made, rows_of, some, values_of

TYPES = "id long, part string, v long"


class Source:
    """A directory of files that streams read, one more with each call, one file a batch."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark, self._path = spark, path / "source"
        self._path.mkdir()
        self.checkpoint = str(path / "checkpoint")

    def add(self, *numbers: int, v: int = 0) -> None:
        """Rows for the next batch."""
        frame(self._spark, some(*numbers, v=v), 1).write.mode("append").json(str(self._path))

    def stream(self) -> DataFrame:
        """The stream."""
        return self._spark.readStream.schema(TYPES).option("maxFilesPerTrigger", 1).json(str(self._path))

    def forget_commit(self, batch: int) -> None:
        """As if the driver had ended before Spark noted that a batch was committed."""
        for name in (str(batch), f".{batch}.crc"):
            (Path(self.checkpoint) / "commits" / name).unlink(missing_ok=True)

    @property
    def query(self) -> str:
        """The id of the query, as the checkpoint has it."""
        found: str = json.loads((Path(self.checkpoint) / "metadata").read_text())["id"]
        return found


@pytest.fixture
def source(spark: SparkSession, connection: Connection, tmp_path: Path) -> Source:
    """An empty source."""
    register(spark, connection)
    return Source(spark, tmp_path)


def run(df: DataFrame, source: Source, way: str, mode: str = "append", **options: object) -> None:
    """Runs a stream over all that is there, through the data source or through write_stream."""
    with plain_errors():
        if way == "source":
            writer = df.writeStream.format("lakehouse").outputMode(mode).trigger(availableNow=True)
            writer = writer.options(**options)
            query = writer.option("checkpointLocation", source.checkpoint).start(NAME)
        else:
            trigger = {"availableNow": True}
            query = write_stream(df, NAME, checkpoint=source.checkpoint, output_mode=mode, trigger=trigger)
        query.awaitTermination()


def sequences(connection: Connection, table: Table) -> dict[str, int]:
    """The last sequence of every writer."""
    head = warehouse(connection).call(table.core.newest).snapshot
    return {name: mark.sequence for name, mark in head.writers.items()}


@pytest.mark.parametrize("way", ["source", "write_stream"])
def test_a_batch_that_spark_repeats_is_written_once(connection: Connection, source: Source, way: str) -> None:
    """A restart after a commit that Spark did not note adds nothing, and the stream goes on after it."""
    table = made(connection)
    source.add(1, 2)
    run(source.stream(), source, way)
    source.add(3)
    run(source.stream(), source, way)
    before = data_files(connection)
    source.forget_commit(1)
    run(source.stream(), source, way)
    assert data_files(connection) == before
    source.add(4)
    run(source.stream(), source, way)
    assert [row["id"] for row in rows_of(connection)] == [1, 2, 3, 4]
    assert sequences(connection, table) == {f"spark:{source.query}": 2}


@pytest.mark.parametrize("way", ["source", "write_stream"])
def test_a_complete_result_replaces_all_rows(connection: Connection, source: Source, way: str) -> None:
    """Output mode complete leaves the last result and nothing of those before."""
    made(connection, primary_key="id")
    sums = source.stream().groupBy((sf.col("id") % 2).alias("id")).agg(sf.count("*").alias("v"))
    source.add(1, 2, 3)
    run(sums, source, way, "complete")
    source.add(5)
    run(sums, source, way, "complete")
    assert values_of(connection) == {0: 1, 1: 3}


def test_updated_rows_replace_those_of_their_keys(connection: Connection, source: Source) -> None:
    """Output mode update upserts the groups that changed."""
    made(connection, primary_key="id")
    sums = source.stream().groupBy((sf.col("id") % 2).alias("id")).agg(sf.count("*").alias("v"))
    sums = sums.withColumn("part", sf.lit("sum"))
    for numbers in ((1, 2, 3), (5,)):
        source.add(*numbers)
        run(sums, source, "write_stream", "update")
    assert values_of(connection) == {0: 1, 1: 3}


def test_repeated_keys_need_write_stream(connection: Connection, source: Source) -> None:
    """Rows of a key in one batch are refused by the data source and brought together by write_stream."""
    made(connection, primary_key="id")
    source.add(1, 1, 2)
    with pytest.raises(Exception, match=r"the key id = 1") as refused:
        run(source.stream(), source, "source")
    assert isinstance(error_in(refused.value), InvalidInputError)
    run(source.stream(), source, "write_stream")
    assert values_of(connection) == {1: 0, 2: 0}


def test_a_batch_without_rows_leaves_no_snapshot(connection: Connection, source: Source) -> None:
    """Filters that leave nothing of a batch cost no commit."""
    table = made(connection)
    source.add(1)
    for way in ("source", "write_stream"):
        source.checkpoint += way
        run(source.stream().where("id > 5"), source, way)
    head = warehouse(connection).call(table.core.newest).snapshot
    assert (head.id, head.writers) == (1, {})


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"output_mode": "all"}, "output_mode is one of"),
        ({"operation": "merge"}, "operation is append"),
    ],
)
def test_what_a_stream_cannot_do_is_refused_before_it_starts(
    spark: SparkSession, connection: Connection, source: Source, how: dict[str, Any], why: str
) -> None:
    """Modes and operations that there are not, and frames that are no streams."""
    made(connection)
    source.add(1)
    with pytest.raises(InvalidInputError, match=why):
        write_stream(source.stream(), NAME, checkpoint=source.checkpoint, **how)
    with pytest.raises(InvalidInputError, match="under its own id"):
        run(source.stream(), source, "source", writer_id="w", writer_sequence=1)
    with pytest.raises(InvalidInputError, match="no stream"):
        write_stream(frame(spark, some(1)), NAME, checkpoint=source.checkpoint)
