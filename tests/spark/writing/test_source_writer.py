"""Writes through ``df.write.format("lakehouse")``: rows stay where they are, one commit, no leftovers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.spark import Connection
from lakehouse.spark.runtime.connection import warehouse
from lakehouse.spark.runtime.errors import plain_errors
from lakehouse.spark.runtime.types import struct_of
from lakehouse.spark.source import register
from lakehouse.spark.writing.commit import WriteRequest
from lakehouse.spark.writing.source_writer import TableTarget
from lakehouse.spark.writing.task import TaskFiles
from tests.kit.spark_written import (
    NAME,
    SCHEMA,
    data_files,
    entries_of,
    frame,
    made,
    rows_of,
    some,
    values_of,
)


def save(df: DataFrame, *, mode: str = "append", **options: Any) -> None:
    """Writes a frame through the data source, with our errors as themselves."""
    with plain_errors():
        df.write.format("lakehouse").mode(mode).options(**options).save(NAME)


def test_modes_and_operations_do_what_they_say(spark: SparkSession, connection: Connection) -> None:
    """Append adds, overwrite replaces; options say delete, partitions, conditions and messages."""
    register(spark, connection)
    table = made(connection, primary_key=["part", "id"], partition_by="part")
    save(frame(spark, [*some(1, 2), *some(3, 4, part="b")]), message="first")
    save(frame(spark, some(2, v=5)), operation="upsert")
    assert values_of(connection) == {1: 0, 2: 5, 3: 0, 4: 0}
    save(frame(spark, some(1)).select("part", "id"), operation="delete")
    save(frame(spark, some(7, part="b")), mode="overwrite", operation="overwrite_partitions")
    assert values_of(connection) == {2: 5, 7: 0}
    save(frame(spark, some(2, v=6)), mode="overwrite", where="id = 2 and part = 'a'")
    assert values_of(connection) == {2: 6, 7: 0}
    save(frame(spark, some(9)), mode="overwrite")
    assert values_of(connection) == {9: 0}
    messages = warehouse(connection).call(table.snapshots).column("message").to_pylist()
    assert "first" in messages


@pytest.mark.parametrize("parts", [1, 3])
def test_a_key_that_is_there_twice_is_refused_by_name(
    spark: SparkSession, connection: Connection, parts: int
) -> None:
    """In one task or in two, nothing is written, no file stays, and the message says what to do."""
    register(spark, connection)
    made(connection, primary_key="id", bucket=2)
    rows = frame(spark, [*some(*range(40)), *some(7, v=1)], parts)
    with pytest.raises(InvalidInputError, match=r"the key id = 7, .*lakehouse\.spark\.write\(df"):
        save(rows)
    assert data_files(connection) == set()
    save(rows.dropDuplicates(["id"]).repartition(parts))
    assert len(values_of(connection)) == 40
    save(frame(spark, [*some(3), *some(3)], parts).select("id"), operation="delete")
    assert len(values_of(connection)) == 39


def test_overlapping_tasks_are_several_runs(spark: SparkSession, connection: Connection) -> None:
    """Files of tasks whose keys are mixed stand in runs of their own, and reads merge them."""
    register(spark, connection)
    table = made(connection, primary_key="id")
    save(frame(spark, some(*range(100)), 3))
    assert {one.run for one in entries_of(connection)} == {0, 1, 2}
    assert len(rows_of(connection)) == 100
    assert warehouse(connection).call(table.verify).ok


def test_a_write_with_a_sequence_is_made_once(spark: SparkSession, connection: Connection) -> None:
    """The same writer_id and writer_sequence again change nothing and upload nothing."""
    register(spark, connection)
    made(connection)
    for value in (1, 2):
        save(frame(spark, some(1, v=value)), writer_id="job", writer_sequence=3)
    assert values_of(connection) == {1: 1}
    with pytest.raises(InvalidInputError, match="belong together"):
        save(frame(spark, some(1)), writer_id="job")


def test_a_frame_that_does_not_fit_is_told_so(spark: SparkSession, connection: Connection) -> None:
    """All differences are named before a task runs."""
    register(spark, connection)
    made(connection, primary_key="id")
    with pytest.raises(InvalidInputError, match=r"(?s)missing: 'id'.*extra: 'ident'"):
        save(frame(spark, some(1)).withColumnRenamed("id", "ident"))
    with pytest.raises(InvalidInputError, match=r"column 'id'.*null where no null may be"):
        save(frame(spark, some(1)).withColumn("id", sf.lit(None).cast("long")))


def test_a_write_of_which_a_task_failed_shows_nothing(spark: SparkSession, connection: Connection) -> None:
    """What other tasks uploaded is deleted, but for files whose task Spark ended before it could tell."""
    register(spark, connection)
    made(connection)
    rows = frame(spark, some(*range(20)), 2)
    failing = rows.withColumn(
        "v", sf.when(sf.col("id") == 19, sf.raise_error(sf.lit("stop"))).otherwise(sf.col("v"))
    )
    with pytest.raises(Exception, match="stop"):
        save(failing)
    assert rows_of(connection) == []
    assert len(data_files(connection)) <= 1


def target_of(connection: Connection) -> TableTarget:
    """A writer of an append, as the driver plans it."""
    house = warehouse(connection)
    schema = house.call(house.table(NAME).known).schema
    return TableTarget(connection, NAME, WriteRequest(operation="append"), struct_of(schema))


def uploaded(target: TableTarget, rows: list[Any]) -> TaskFiles:
    """What a task says."""
    return target.write(iter(pa.Table.from_pylist(rows, SCHEMA).to_batches()))


def test_an_abort_after_a_commit_deletes_nothing(spark: SparkSession, connection: Connection) -> None:
    """Spark aborts also when a commit raised, whose outcome may not be known: all tasks had ended then."""
    made(connection)
    target = target_of(connection)
    one = uploaded(target, some(1))
    target.commit([one])
    target.abort([one])
    assert values_of(connection) == {1: 0}
    before = data_files(connection)
    other = uploaded(target, some(2))
    target.abort([other, None])
    assert data_files(connection) == before


def test_another_table_of_the_name_is_not_written_into(spark: SparkSession, connection: Connection) -> None:
    """A table that was dropped and made again while tasks wrote does not get their rows."""
    made(connection)
    target = target_of(connection)
    one = uploaded(target, some(1))
    house = warehouse(connection)
    house.call(house.lake.drop_table, NAME)
    made(connection)
    with pytest.raises(NotFoundError, match="dropped while it was written"):
        target.commit([one])
    assert rows_of(connection) == []


def test_an_attempt_that_did_not_win_is_no_part_of_the_table(
    spark: SparkSession, connection: Connection
) -> None:
    """Of two attempts at one task one message is committed; the other's file is an orphan, and harmless."""
    table = made(connection, primary_key="id")
    target = target_of(connection)
    won, lost = uploaded(target, some(1, 2)), uploaded(target, some(1, 2))
    target.commit([won])
    assert values_of(connection) == {1: 0, 2: 0}
    assert len(data_files(connection)) == 2
    assert {one.path for one in entries_of(connection)} == {one.path for one in won.written.entries}
    assert lost.written.entries[0].path not in {one.path for one in entries_of(connection)}
    assert warehouse(connection).call(table.verify).ok
