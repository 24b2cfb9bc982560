"""Clustering by executors: every row once, in the order that was asked for, whatever others do meanwhile."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import InvalidInputError
from lakehouse.format.metadata.file_entry import FileEntry
from lakehouse.io.work.progress import Progress
from lakehouse.io.work.threads import in_own_thread
from lakehouse.spark.jobs.clustering import rewrite
from lakehouse.spark.runtime.connection import Connection, Warehouse, warehouse
from lakehouse.storage.compact import MergedCommits, MergedRuns
from lakehouse.storage.table import Table
from lakehouse.storage.write import conditional_writes as reading_writes

SCHEMA = pa.schema(
    {
        "day": pa.string(),
        "x": pa.float64(),
        "y": pa.int64(),
        "name": pa.string(),
        "tags": pa.list_(pa.struct({"k": pa.string(), "v": pa.int32()})),
    }
)


def filled(connection: Connection, rows: int = 4000, **layout: Any) -> tuple[Warehouse, Table]:
    """An append-only table of four commits of random rows."""
    house = warehouse(connection)
    house.call(house.lake.create_database, "db")
    options = {"parquet.row_group_rows": 128, **layout.pop("options", {})}
    table = house.call(house.lake.create_table, "db.t", SCHEMA, options=options, **layout)
    drawn = random.Random(4)
    for number in range(4):
        house.call(table.append, [a_row(drawn, number) for _ in range(rows // 4)])
    return house, table


def a_row(drawn: random.Random, number: int) -> dict[str, Any]:
    """One of the rows of a commit."""
    return {
        "day": drawn.choice("ab"),
        "x": drawn.choice([None, float("inf"), -0.5, drawn.random()]),
        "y": drawn.randrange(1000),
        "name": f"{number}-{drawn.random()}",
        "tags": drawn.choice([None, [], [{"k": "a", "v": 1}, None]]),
    }


def rows_of(house: Warehouse, table: Table) -> list[dict[str, Any]]:
    """All rows in the order a scan gives them."""
    return list(house.call(table.scan().to_pylist))


def files_of(house: Warehouse, table: Table) -> list[FileEntry]:
    """The entries of the newest snapshot, in order."""
    files = house.call(house.call(table.core.newest).files)
    return sorted(files, key=lambda one: (one.partition, one.lo or (0, 0, 0), one.run))


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By nothing but what they hold."""
    return sorted(rows, key=repr)


def test_rows_are_sorted_over_all_files(spark: SparkSession, connection: Connection) -> None:
    """Rows come in order, those that compare alike as before, and files hold ranges that are apart."""
    house, table = filled(connection)
    before = rows_of(house, table)
    told: list[Progress] = []
    size = sum(one.size for one in files_of(house, table))
    done = rewrite(
        spark,
        "db.t",
        connection=connection,
        sort_by=["-y", "x"],
        target_bytes=size // 6,
        progress=told.append,
    )
    after = rows_of(house, table)
    keys = [(-row["y"], row["x"] is None, row["x"] or 0.0) for row in after]
    assert keys == sorted(keys)
    assert in_order(after) == in_order(before)
    assert done.files_out == len(files_of(house, table)) > 3
    assert (done.rows_in, done.rows_out, done.units, done.commits) == (4000, 4000, 1, 1)
    assert told[-1].done == told[-1].total == 4000
    assert done.cost.bytes_read >= size
    assert house.call(table.verify, deep=True).ok
    assert house.call(table.tags).num_rows == 0


def test_a_curve_prunes_by_any_of_its_columns(spark: SparkSession, connection: Connection) -> None:
    """After a z-order, conditions on either column leave out most files."""
    house, table = filled(connection)
    before = rows_of(house, table)
    size = sum(one.size for one in files_of(house, table))
    rewrite(spark, "db.t", connection=connection, zorder_by=["name", "y"], target_bytes=size // 16)
    files = files_of(house, table)
    assert in_order(rows_of(house, table)) == in_order(before)
    for where in ("y = 10", "name = '2-0.5'"):
        report = house.call(table.scan(where=where).explain)
        assert sum(report.files_pruned.values()) >= len(files) // 2
    assert house.call(table.verify, deep=True).ok


def test_partitions_are_rewritten_each_for_itself(spark: SparkSession, connection: Connection) -> None:
    """Files keep to their partition; a condition chooses partitions, and the others stay as they are."""
    house, table = filled(connection, partition_by=["day"])
    before = rows_of(house, table)
    kept = [one.path for one in files_of(house, table)]
    planned = rewrite(spark, "db.t", connection=connection, sort_by="y", where="day = 'a'", dry_run=True)
    done = rewrite(spark, "db.t", connection=connection, sort_by="y", where="day = 'a'")
    assert planned.dry_run
    assert (planned.units, planned.files_in) == (done.units, done.files_in) == (1, 4)
    files = files_of(house, table)
    assert len([one for one in files if one.path in kept]) == 4
    assert in_order(rows_of(house, table)) == in_order(before)
    mine = [row["y"] for row in rows_of(house, table) if row["day"] == "a"]
    assert mine == sorted(mine)
    assert house.call(table.verify, deep=True).ok


def test_rows_keep_the_snapshot_they_came_with(spark: SparkSession, connection: Connection) -> None:
    """What followers of the table see does not change: there is nothing new in the new files."""
    house, table = filled(connection)
    since = house.call(table.current_snapshot)
    rewrite(spark, "db.t", connection=connection, sort_by="y")
    late = a_row(random.Random(9), 9)
    house.call(table.append, [late])
    [entry, *_] = files_of(house, table)
    reader = house.call(table.core.open, entry, house.call(table.schema))
    assert reader.entry.lo[0] < reader.entry.hi[0] == since
    appended = list(house.iterate(lambda: table.scan(where="name >= '9'").batches()))
    assert [row for batch in appended for row in batch.to_pylist()] == [late]


def late(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Does something when executors are done and nothing is committed yet."""
    commit = MergedCommits.commit

    async def then(self: MergedCommits, merged: Sequence[MergedRuns]) -> tuple[MergedRuns, ...]:
        await in_own_thread(meanwhile)
        return await commit(self, merged)

    monkeypatch.setattr(MergedCommits, "commit", then)


def test_a_delete_meanwhile_stays_deleted(
    spark: SparkSession, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition that lost rows gives way, the other is rewritten; nothing is lost, doubled or revived."""
    house, table = filled(connection, partition_by=["day"])
    before = rows_of(house, table)
    late(monkeypatch, lambda: house.call(table.delete, "day = 'a' AND y < 500"))
    done = rewrite(spark, "db.t", connection=connection, sort_by="y")
    assert (done.units, done.gave_way) == (1, 1)
    expected = [row for row in before if row["day"] == "b" or row["y"] >= 500]
    assert in_order(rows_of(house, table)) == in_order(expected)
    assert house.call(table.remove_orphans, older_than=2**50, dry_run=True).by_kind.get("data", 0) == 0
    assert house.call(table.verify, deep=True).ok


def test_a_delete_that_the_rewrite_overtakes_finds_its_rows(
    spark: SparkSession, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete that was decided before the rewrite and comes second deletes its rows from the new files."""
    house, table = filled(connection)
    before = rows_of(house, table)
    decide = reading_writes._ReplaceMatching._decide
    other = dataclasses.replace(connection, settings={"cache.max_bytes": 1 << 20})
    done = []

    async def overtaken(self: Any, base: Any) -> Any:
        found = await decide(self, base)
        if not done:
            work = partial(rewrite, spark, "db.t", connection=other, sort_by="y")
            done.append(await in_own_thread(work))
        return found

    monkeypatch.setattr(reading_writes._ReplaceMatching, "_decide", overtaken)
    assert house.call(table.delete, "y < 300").attempts > 1
    assert done[0].changed
    assert in_order(rows_of(house, table)) == in_order([row for row in before if row["y"] >= 300])
    assert house.call(table.verify, deep=True).ok


def test_appends_meanwhile_stay(
    spark: SparkSession, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are appended while the job runs are behind those that it writes."""
    house, table = filled(connection)
    new = a_row(random.Random(7), 7)
    late(monkeypatch, lambda: house.call(table.append, [new]))
    done = rewrite(spark, "db.t", connection=connection, sort_by="y")
    assert done.changed
    assert rows_of(house, table)[-1] == new
    assert len(rows_of(house, table)) == 4001


def test_what_cannot_be_rewritten(spark: SparkSession, connection: Connection) -> None:
    """Tables with a key say what to do instead; so do unknown columns and conditions on rows."""
    house, _ = filled(connection)
    house.call(house.lake.create_table, "db.keyed", pa.schema({"id": pa.int64()}), primary_key=["id"])
    with pytest.raises(InvalidInputError, match=r"compact\(full=True\)"):
        rewrite(spark, "db.keyed", connection=connection, sort_by="id")
    with pytest.raises(InvalidInputError, match="'tags' is nested"):
        rewrite(spark, "db.t", connection=connection, sort_by="tags")
    with pytest.raises(InvalidInputError, match="partition columns alone"):
        rewrite(spark, "db.t", connection=connection, sort_by="y", where="y = 1")
    with pytest.raises(InvalidInputError, match="either sort_by or zorder_by"):
        rewrite(spark, "db.t", connection=connection)
