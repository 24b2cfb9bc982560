"""What Spark does with tables in an object store, once for each way: the rest of these tests are on disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse import spark as lakehouse_spark
from lakehouse.errors import PermissionDeniedError
from lakehouse.spark import Connection
from lakehouse.spark.reading.joins import plan_join
from lakehouse.spark.runtime.connection import warehouse
from lakehouse.spark.runtime.errors import plain_errors
from lakehouse.spark.source import register
from lakehouse.spark.streaming.writer import write_stream
from lakehouse.spark.writing.frame_write import write
from tests.kit.spark_written import NAME, frame, made, rows_of, some, values_of


@pytest.fixture
def stored(spark: SparkSession, s3_connection: Connection) -> Connection:
    """A warehouse in the object store that the session knows."""
    register(spark, s3_connection)
    return s3_connection


def test_a_stream_is_read_and_written_and_goes_on(
    spark: SparkSession, stored: Connection, tmp_path: Path
) -> None:
    """From one table into another, each row once, over a restart before which a batch was not noted."""
    log, lake = made(stored, "db.log"), warehouse(stored)
    made(stored, "db.copies")
    checkpoint = tmp_path / "checkpoint"

    def run() -> None:
        incoming = spark.readStream.format("lakehouse").option("max_rows_per_trigger", 2).load("db.log")
        trigger = {"availableNow": True}
        write_stream(incoming, "db.copies", checkpoint=str(checkpoint), trigger=trigger).awaitTermination()

    lake.call(log.append, some(1, 2))
    lake.call(log.append, some(3))
    run()
    for noted in checkpoint.glob("commits/*1*"):
        noted.unlink()  # the second batch, and Spark's sum of it
    lake.call(log.append, some(4))
    run()
    assert [row["id"] for row in rows_of(stored, "db.copies")] == [1, 2, 3, 4]


def test_a_join_reads_what_can_have_a_partner(spark: SparkSession, stored: Connection) -> None:
    """The keys of the small side leave files out, and the rows are those of Spark's own join."""
    fact, lake = made(stored, "db.fact"), warehouse(stored)
    for begin in range(0, 50, 10):
        lake.call(fact.append, some(*range(begin, begin + 10), v=begin))
    small = spark.createDataFrame([(12, "a"), (17, "b"), (99, "c")], "id long, name string")
    plan = plan_join(spark, "db.fact", small, "id")
    assert sorted((row.id, row.v, row.name) for row in plan.frame.collect()) == [(12, 10, "a"), (17, 10, "b")]
    assert plan.report.files_pruned == {"stats": 4}


def test_rows_are_merged_and_changes_are_read(spark: SparkSession, stored: Connection) -> None:
    """A merge looks rows up in the store; an incremental read shows what it did, row by row."""
    made(stored, primary_key="id", bucket=2)
    first = write(frame(spark, some(1, 2, 3)), NAME).append().snapshot
    merge = write(frame(spark, some(2, 3, 4, v=5)), NAME).merge(on="id")
    merge = merge.when_matched_delete("source.id = 3")
    merge = merge.when_matched_update({"v": "target.v + source.v + 1"})
    done = merge.when_not_matched_insert().run()
    assert values_of(stored) == {1: 0, 2: 6, 4: 5}
    # The merge kept what it read by a snapshot of its own.
    changed = lakehouse_spark.table(spark, NAME, incremental_from=first, incremental_to=done.snapshot)
    told = {row.id: (row.v, row._change) for row in changed.collect()}
    assert {key: told[key][0] for key in (2, 4)} == {2: 6, 4: 5}
    assert told[3][1] == "delete"
    assert 1 not in told


def test_partitions_are_replaced(spark: SparkSession, stored: Connection) -> None:
    """Those that the frame has rows of; the others stay as they are."""
    made(stored, partition_by="part")
    write(frame(spark, [*some(1, 2), *some(3, part="b")]), NAME).append()
    write(frame(spark, some(7, v=1)), NAME).overwrite_partitions()
    assert values_of(stored) == {3: 0, 7: 1}


def test_jobs_at_the_same_time_both_count(spark: SparkSession, stored: Connection) -> None:
    """Two jobs that write and one that compacts end well, and nothing of what they did is lost."""
    table, lake = made(stored, primary_key="id", bucket=2), warehouse(stored)
    lake.call(table.append, some(*range(20)))
    failed: list[BaseException] = []

    def beside(work: Any) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                failed.append(error)

        return threading.Thread(target=run)

    def upsert(*numbers: int, v: int) -> None:
        for _ in range(2):
            write(frame(spark, some(*numbers, v=v)), NAME, connection=stored).upsert()

    jobs = [
        beside(lambda: upsert(*range(10), v=1)),
        beside(lambda: upsert(*range(10, 15), 30, v=2)),
        beside(lambda: lakehouse_spark.compact(spark, NAME, connection=stored, full=True)),
    ]
    for one in jobs:
        one.start()
    for one in jobs:
        one.join()
    assert not failed, failed
    expected = dict.fromkeys(range(10), 1) | dict.fromkeys(range(15, 20), 0)
    assert values_of(stored) == expected | dict.fromkeys((*range(10, 15), 30), 2)
    assert lake.call(table.verify, deep=True).ok


def _read(spark: SparkSession, bare: Connection) -> None:
    with plain_errors():
        lakehouse_spark.table(spark, NAME, connection=bare).collect()


_BARE: dict[str, Callable[[SparkSession, Connection], object]] = {
    "read": _read,
    "write": lambda spark, bare: write(frame(spark, some(3)), NAME, connection=bare).append(),
    "job": lambda spark, bare: lakehouse_spark.rewrite(spark, NAME, connection=bare, sort_by="v"),
}


@pytest.mark.parametrize("what", _BARE)
def test_executors_without_credentials_say_so(
    spark: SparkSession,
    stored: Connection,
    storage_options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    """The driver has them, executors do not: the task fails with an error that says what is missing."""
    table = made(stored)
    warehouse(stored).call(table.append, some(1, 2))
    for name, key in (("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")):
        monkeypatch.setenv(name, storage_options[key])
        monkeypatch.setitem(spark.sparkContext.environment, name, "")
    # No machine of a cloud is to be asked either, which would take its time.
    monkeypatch.setitem(spark.sparkContext.environment, "AWS_EC2_METADATA_DISABLED", "true")
    kept = {name: value for name, value in storage_options.items() if name not in ("key", "secret")}
    bare = Connection(url=stored.url, storage_options=kept)
    with pytest.raises(PermissionDeniedError, match=r"no credentials.*AWS_ACCESS_KEY_ID"):
        _BARE[what](spark, bare)
    assert sorted(values_of(stored)) == [1, 2]
