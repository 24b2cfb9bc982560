"""Maintenance by executors: the reports and the effects are those of one process."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import InvalidInputError
from lakehouse.io.work.progress import Progress
from lakehouse.spark.jobs.maintenance import expire, rebuild_indexes, remove_orphans, verify
from lakehouse.spark.runtime.connection import Connection, Warehouse, warehouse
from lakehouse.storage.maintenance.orphans import spans_of
from lakehouse.storage.maintenance.verify_report import Problem
from lakehouse.storage.table import Table

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.int64()})


def filled(connection: Connection, **layout: Any) -> tuple[Warehouse, Table]:
    """A table of three commits in two partitions."""
    house = warehouse(connection)
    house.call(house.lake.create_database, "db")
    layout = {"primary_key": ["part", "id"], "partition_by": ["part"], **layout}
    table = house.call(house.lake.create_table, "db.t", SCHEMA, **layout)
    for number in range(3):
        rows = [{"id": one, "part": "ab"[one % 2], "v": number} for one in range(200)]
        house.call(table.upsert, rows)
    return house, table


def directory(connection: Connection, table: Table) -> Path:
    """Where the table's objects are."""
    return Path(connection.url.removeprefix("file://")) / table.core.root


def orphaned(house: Warehouse, table: Table) -> None:
    """Rows that are uploaded for a commit which never comes."""
    view = house.call(table.core.newest)
    rows = pa.table({"id": [1, 2, 3], "part": ["a", "b", "c"], "v": [1, 1, 1]}, schema=SCHEMA)
    house.call(table.core.write, view, rows)


@pytest.mark.parametrize("spans", [1, 6])
def test_orphans_are_deleted_and_nothing_else(
    spark: SparkSession, connection: Connection, spans: int
) -> None:
    """Uploads without a commit go, however the listing is cut; files of snapshots and foreign ones stay."""
    house, table = filled(connection)
    orphaned(house, table)
    strange = directory(connection, table) / "data" / "notes.txt"
    strange.write_text("mine")
    time.sleep(0.2)  # the store's clock is estimated from below, and nothing that may be newer is an orphan
    now = int(time.time() * 1000) + 1000
    expected = house.call(table.remove_orphans, older_than=now, dry_run=True)
    assert expected.objects == 3
    planned = remove_orphans(spark, "db.t", connection=connection, older_than=now, dry_run=True, spans=spans)
    done = remove_orphans(spark, "db.t", connection=connection, older_than=now, spans=spans)
    for found in (planned, done):
        assert (found.objects, found.bytes, found.by_kind) == (
            expected.objects,
            expected.bytes,
            expected.by_kind,
        )
        assert (found.young, found.foreign, found.listed) == (
            expected.young,
            expected.foreign,
            expected.listed,
        )
        assert sorted(found.paths) == sorted(expected.paths)
    assert done.cost.by_kind()["delete"] >= 1
    assert strange.exists()
    assert house.call(table.verify, deep=True).ok
    assert remove_orphans(spark, "db.t", connection=connection, older_than=now).objects == 0


def test_young_uploads_stay(spark: SparkSession, connection: Connection) -> None:
    """What is younger than orphan.min_age may be of a commit under way."""
    house, table = filled(connection)
    orphaned(house, table)
    found = remove_orphans(spark, "db.t", connection=connection)
    assert (found.objects, found.young) == (0, 3)


def test_spans_cover_every_key_once() -> None:
    """Spans of a directory follow each other from its first key to its last."""
    paths = [f"data/p={part}/bucket-{number}/{part}{number}" for part in "xyz" for number in range(4)]
    for count in (1, 5, 100):
        spans = spans_of(paths, count)
        for name in {one.directory for one in spans}:
            mine = [one for one in spans if one.directory == name]
            assert mine[0].first is None
            assert mine[-1].end is None
            assert [one.end for one in mine[:-1]] == [one.first for one in mine[1:]]


def test_damage_is_found_by_executors(spark: SparkSession, connection: Connection) -> None:
    """A flipped byte and a missing file are reported as in one process, for the same snapshots."""
    house, table = filled(connection)
    told: list[Progress] = []
    sound = verify(spark, "db.t", connection=connection, progress=told.append)
    assert sound.ok
    assert told[-1].done == told[-1].total == sound.bytes
    first, second = sorted((directory(connection, table) / "data").rglob("*.parquet"))[:2]
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 0xFF
    first.write_bytes(data)
    second.unlink()
    expected = house.call(table.verify, deep=True)
    found = verify(spark, "db.t", connection=connection)
    assert {one.problem for one in found.damages} >= {Problem.MISSING, Problem.UNREADABLE}
    assert found.relation() == expected.relation()
    assert (found.files, found.snapshots, found.bytes) == (
        expected.files,
        expected.snapshots,
        expected.bytes,
    )
    assert found.cost.bytes_read >= expected.bytes / 2


def test_a_shallow_verification_reads_no_data(spark: SparkSession, connection: Connection) -> None:
    """Without ``deep``, and to see what there is to read, no data file is opened."""
    filled(connection)
    for options in ({"deep": False}, {"dry_run": True}):
        found = verify(spark, "db.t", connection=connection, **options)
        assert found.ok
        assert not found.deep
        assert found.files == 6


def test_files_are_indexed_by_executors(spark: SparkSession, connection: Connection) -> None:
    """Files that were written before an index was asked for get it, and only those."""
    house, table = filled(connection)
    house.call(table.set_option, "index.min_rows", "1")
    house.call(table.add_index, "v", "bloom")
    planned = rebuild_indexes(spark, "db.t", connection=connection, dry_run=True)
    some = rebuild_indexes(spark, "db.t", connection=connection, where="part = 'a'")
    rest = rebuild_indexes(spark, "db.t", connection=connection)
    assert (planned.files, planned.rows) == (6, 600)
    assert (some.files, rest.files) == (3, 3)
    assert some.bytes > 0
    assert all(one.index for one in house.call(house.call(table.core.newest).files))
    assert not rebuild_indexes(spark, "db.t", connection=connection).changed
    assert house.call(table.verify, deep=True).ok
    with pytest.raises(InvalidInputError, match="partition columns alone"):
        rebuild_indexes(spark, "db.t", connection=connection, where="v = 1")


def test_snapshots_expire(spark: SparkSession, connection: Connection) -> None:
    """What is not among the newest so many goes; the rows of the newest stay."""
    house, table = filled(connection)
    planned = expire(spark, "db.t", connection=connection, retain=1, grace_s=0, dry_run=True)
    done = expire(spark, "db.t", connection=connection, retain=1, grace_s=0)
    assert planned.expired == done.expired == 3
    assert done.snapshots == 3
    assert house.call(table.scan().count) == 200
    assert house.call(table.verify, deep=True).ok
