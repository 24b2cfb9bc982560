"""Compaction by executors: the same as in one process, whatever others do meanwhile."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.metadata.file_entry import FileEntry, Level
from lakehouse.io.work.progress import Progress
from lakehouse.spark.jobs import compaction as jobs_compact
from lakehouse.spark.jobs import job as jobs
from lakehouse.spark.jobs.compaction import compact
from lakehouse.spark.jobs.job import waves_of
from lakehouse.spark.runtime.connection import Connection, Warehouse, warehouse
from lakehouse.spark.runtime.tasks import run_tasks
from lakehouse.storage.table import Table

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.int64(), "w": pa.string()})
LAYOUTS: dict[str, dict[str, Any]] = {
    "one bucket": {"primary_key": ["id"]},
    "two buckets": {"primary_key": ["id"], "bucket": 2},
    "key holds partition": {"primary_key": ["part", "id"], "partition_by": ["part"]},
    "rows move between partitions": {"primary_key": ["id"], "partition_by": ["part"], "bucket": 2},
    "append-only": {"partition_by": ["part"]},
}


def filled(
    connection: Connection,
    layout: str = "one bucket",
    *,
    options: dict[str, object] | None = None,
    keys: int = 3000,
    seed: int = 1,
) -> tuple[Warehouse, Table]:
    """A table of some commits of random rows, and with a key of deletions."""
    house = warehouse(connection)
    house.call(house.lake.create_database, "db", if_not_exists=True)
    options = {"parquet.row_group_rows": 128, **(options or {})}
    table = house.call(house.lake.create_table, "db.t", SCHEMA, options=options, **LAYOUTS[layout])
    drawn = random.Random(seed)
    for _ in range(5):
        add(house, table, drawn, keys)
        if "primary_key" in LAYOUTS[layout]:
            names = LAYOUTS[layout]["primary_key"]
            gone = [one_row(drawn, keys) for _ in range(keys // 20)]
            house.call(table.delete, keys=[{name: row[name] for name in names} for row in gone])
    return house, table


def one_row(drawn: random.Random, keys: int) -> dict[str, Any]:
    """A row of a random key."""
    value = drawn.choice([None, drawn.randrange(99)])
    return {
        "id": drawn.randrange(keys),
        "part": drawn.choice("abc"),
        "v": value,
        "w": "x" * drawn.randrange(9),
    }


def add(house: Warehouse, table: Table, drawn: random.Random, keys: int) -> None:
    """A commit of random rows."""
    house.call(table.append, [one_row(drawn, keys) for _ in range(keys // 4)])


def rows_of(house: Warehouse, table: Table) -> list[Any]:
    """What a reader sees, in some fixed order."""
    return sorted(house.call(table.scan().to_pylist), key=repr)


def files_of(house: Warehouse, table: Table) -> list[FileEntry]:
    """The entries of the newest snapshot."""
    return list(house.call(house.call(table.core.newest).files))


def described(files: list[FileEntry]) -> list[Any]:
    """All that entries say but names, sizes and what snapshot they came with."""
    known = []
    for one in files:
        place = (one.partition, one.bucket, one.run, one.level.value, one.lo, one.hi)
        known.append((*place, one.rows, one.deletes, one.min_key, one.max_key, sorted(one.stats.items())))
    return sorted(known, key=repr)


def twin(connection: Connection, tmp_path: Path) -> tuple[Warehouse, Table]:
    """The same table in another warehouse."""
    there = tmp_path / "twin"
    shutil.copytree(connection.url.removeprefix("file://"), there)
    house = warehouse(Connection(url=f"file://{there}"))
    return house, house.call(house.lake.table, "db.t")


def is_sound(house: Warehouse, table: Table) -> bool:
    """Whether every file is what its snapshot says."""
    return bool(house.call(table.verify, deep=True).ok)


@pytest.mark.parametrize(("layout", "full"), [(name, True) for name in LAYOUTS] + [("two buckets", False)])
def test_the_table_is_what_one_process_makes_of_it(
    spark: SparkSession, connection: Connection, tmp_path: Path, layout: str, full: bool
) -> None:
    """Rows, runs, levels, statistics and the report are those of an in-process compaction."""
    house, table = filled(connection, layout, options={"compaction.trigger": 3})
    other_house, other = twin(connection, tmp_path)
    expected = other_house.call(other.compact, full=full)
    assert compact(spark, "db.t", connection=connection, full=full, dry_run=True).units == expected.units
    done = compact(spark, "db.t", connection=connection, full=full)
    assert (done.units, done.rows_in, done.files_in) == (expected.units, expected.rows_in, expected.files_in)
    assert (done.rows_out, done.files_out, done.reasons) == (
        expected.rows_out,
        expected.files_out,
        expected.reasons,
    )
    assert done.changed
    assert done.commits == 1
    assert described(files_of(house, table)) == described(files_of(other_house, other))
    assert rows_of(house, table) == rows_of(other_house, other)
    assert is_sound(house, table)
    assert not compact(spark, "db.t", connection=connection, full=full).changed


def test_a_large_unit_is_cut_and_stays_one_run(
    spark: SparkSession, connection: Connection, tmp_path: Path
) -> None:
    """Parts of a merge unit are merged apart: their files follow each other at one interval."""
    house, table = filled(connection)
    other_house, other = twin(connection, tmp_path)
    other_house.call(other.compact, full=True)
    size = sum(one.size for one in files_of(house, table))
    done = compact(spark, "db.t", connection=connection, full=True, task_bytes=size // 5)
    files = files_of(house, table)
    assert done.units == 1
    assert done.files_out == len(files) >= 3
    assert {(one.level, one.lo, one.hi) for one in files} == {
        (one.level, one.lo, one.hi) for one in files_of(other_house, other)
    }
    ends = sorted((one.min_key, one.max_key) for one in files)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ends))
    assert rows_of(house, table) == rows_of(other_house, other)
    assert is_sound(house, table)


def test_what_others_changed_meanwhile_gives_way(
    spark: SparkSession, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit that another compaction was quicker with is left as it is, with no file of ours left behind."""
    house, table = filled(connection, "two buckets")
    before = rows_of(house, table)
    between(monkeypatch, lambda: house.call(table.compact, full=True))
    done = compact(spark, "db.t", connection=connection, full=True)
    assert (done.changed, done.units, done.gave_way) == (False, 0, 2)
    assert rows_of(house, table) == before
    assert house.call(table.remove_orphans, older_than=2**50, dry_run=True).by_kind.get("data", 0) == 0
    assert is_sound(house, table)


def test_rows_committed_meanwhile_stay_above(
    spark: SparkSession, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits between plan and commit are kept: what they changed is what a reader sees."""
    house, table = filled(connection)
    new = {"id": 7, "part": "z", "v": -1, "w": "new"}

    def meanwhile() -> None:
        house.call(table.upsert, [new])
        house.call(table.delete, keys=[{"id": 8}])

    between(monkeypatch, meanwhile)
    done = compact(spark, "db.t", connection=connection, full=True)
    assert done.changed
    found = {row["id"]: row for row in rows_of(house, table)}
    assert found[7] == new
    assert 8 not in found
    assert sum(one.level is Level.BOTTOM for one in files_of(house, table)) == 1


def between(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Does something when executors are done and nothing is committed yet."""
    commit = jobs_compact._Compaction._commit

    def late(self: Any, units: Any) -> None:
        meanwhile()
        commit(self, units)

    monkeypatch.setattr(jobs_compact._Compaction, "_commit", late)


def test_a_job_tells_what_it_costs_and_how_far_it_is(spark: SparkSession, connection: Connection) -> None:
    """Requests of executors are in the cost, rows in the progress; a short job makes its own commits only."""
    house, table = filled(connection, "two buckets")
    told: list[Progress] = []
    done = compact(spark, "db.t", connection=connection, full=True, progress=told.append)
    assert done.cost.bytes_read >= done.bytes_in * 0.9
    assert done.cost.bytes_written >= done.bytes_out
    assert told[-1].step == "merge rows"
    assert told[-1].done == told[-1].total == done.rows_in
    assert "tag" not in house.call(table.snapshots).column("kind").to_pylist()


def test_only_some_partitions(spark: SparkSession, connection: Connection) -> None:
    """A condition on partitions chooses units; one on other columns is refused."""
    house, table = filled(connection, "key holds partition")
    done = compact(spark, "db.t", connection=connection, full=True, where="part = 'a'")
    assert done.units == 1
    bottoms = {one.partition for one in files_of(house, table) if one.level is Level.BOTTOM}
    assert len(bottoms) == 1
    with pytest.raises(InvalidInputError, match="partition columns alone"):
        compact(spark, "db.t", connection=connection, where="v = 1")


def test_waves_keep_units_together() -> None:
    """A wave ends with a unit, once it has tasks enough."""
    units = [["a"] * count for count in (3, 1, 1, 5, 1)]
    assert waves_of(units, 4) == [[0, 1], [2, 3], [4]]
    assert waves_of([], 4) == []


def test_attempts_that_do_not_count_do_no_harm(
    spark: SparkSession, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of tasks that ran twice one output is committed; the files of the other are orphans."""
    house, table = filled(connection, "two buckets")
    before = rows_of(house, table)

    def twice(*args: Any) -> Any:
        run_tasks(*args)
        return run_tasks(*args)

    monkeypatch.setattr(jobs, "run_tasks", twice)
    done = compact(spark, "db.t", connection=connection, full=True)
    assert (done.units, done.commits, done.files_out) == (2, 1, 2)
    assert rows_of(house, table) == before
    orphans = house.call(table.remove_orphans, older_than=2**50, dry_run=True)
    assert orphans.by_kind["data"] == 2
    assert is_sound(house, table)


def test_an_error_of_an_executor_ends_the_job(spark: SparkSession, connection: Connection) -> None:
    """A damaged file is named as in one process; nothing is committed."""
    house, table = filled(connection)
    directory = Path(connection.url.removeprefix("file://")) / table.core.root
    file = directory / files_of(house, table)[0].path
    file.write_bytes(file.read_bytes()[:-100])
    files = {one.path for one in files_of(house, table)}
    with pytest.raises(CorruptionError, match=file.name):
        compact(spark, "db.t", connection=connection, full=True)
    assert {one.path for one in files_of(house, table)} == files


def test_tables_in_the_object_store(spark: SparkSession, s3_connection: Connection) -> None:
    """Executors reach the store with the options of the connection; requests of all are in the cost."""
    house, table = filled(s3_connection, "two buckets")
    before = rows_of(house, table)
    done = compact(spark, "db.t", connection=s3_connection, full=True)
    assert done.units == 2
    assert done.cost.by_kind()["put"] >= 3  # two files and the commit
    assert rows_of(house, table) == before
    assert is_sound(house, table)
