"""Commits of files that other processes uploaded: their runs, and what becomes of files that lose."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from lakehouse.errors import ConflictError
from lakehouse.expr import parse_where
from lakehouse.format.metadata.file_entry import FileEntry
from lakehouse.format.metadata.snapshot import CommitKind
from lakehouse.format.schema import TableSchema
from lakehouse.io import ObjectStore
from lakehouse.storage.commit.changes import AddFiles, ReplacePartitions
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.table import Table
from lakehouse.storage.write.conditional_writes import overwriting_change
from lakehouse.storage.write.distributed_writes import commit_uploaded, in_runs
from tests.kit.table_operations import LAYOUTS, SCHEMA
from tests.kit.worlds import NAME, process, restored
from tests.kit.written_files import schema_of

Row = dict[str, Any]


def some(*numbers: int, value: int = 0, part: str = "a") -> list[Row]:
    """Rows with these ids."""
    return [{"id": number, "part": part, "v": value} for number in numbers]


PLAIN = {"keyed": {"primary_key": ["id"]}, "partitioned": LAYOUTS["key holds partition"], **LAYOUTS}


async def made(layout: str = "keyed") -> Table:
    """An empty table."""
    lake = process(await restored({}))
    await lake.create_database("db")
    return await lake.create_table(NAME, SCHEMA, **PLAIN[layout])


async def uploaded(table: Table, *tasks: list[Row]) -> list[UploadedFiles]:
    """What tasks uploaded, one for each list."""
    view = await table.core.newest()
    return [await table.core.write(view, rows) for rows in tasks]


def replacing(written: list[UploadedFiles], schema: TableSchema) -> ReplacePartitions:
    """Replaces the partitions of the first task's files."""
    mine = {one.partition for one in written[0].entries}
    files = in_runs(written, schema)
    return ReplacePartitions(kind=CommitKind.OVERWRITE, holds=mine.__contains__, written=files)


async def values(table: Table) -> dict[int, int]:
    """What is read, by id."""
    return {row["id"]: row["v"] for row in await table.scan().to_pylist()}


async def data_files(store: ObjectStore, table: Table) -> int:
    """Objects below the table's data directory."""
    return len([one async for one in store.list(f"{table.core.root}/data/")])


def entry(low: int, high: int, *, run: int = 0, bucket: int = 0) -> FileEntry:
    """A file with keys in a range."""
    return FileEntry(
        path=f"{low}-{high}-{run}",
        bucket=bucket,
        run=run,
        size=1,
        rows=1,
        min_key=bytes([low]),
        max_key=bytes([high]),
    )


def runs_of(tasks: Sequence[Sequence[FileEntry]]) -> dict[str, int]:
    """The run of each file."""
    found = in_runs([UploadedFiles(entries=tuple(one)) for one in tasks], schema_of())
    return {one.path: one.run for one in found.entries}


def test_files_with_ranges_apart_are_one_run() -> None:
    """Tasks that wrote ranges of keys of their own wrote one run together."""
    assert runs_of([[entry(1, 2), entry(3, 4)], [entry(7, 9)], [entry(5, 6)]]) == {
        "1-2-0": 0,
        "3-4-0": 0,
        "7-9-0": 0,
        "5-6-0": 0,
    }


def test_overlapping_files_are_several_runs_whatever_the_order_of_tasks() -> None:
    """Files with common ranges stand in different runs, the same ones in any order of the tasks."""
    tasks = [[entry(1, 5)], [entry(2, 3)], [entry(4, 9)], [entry(6, 7)]]
    found = runs_of(tasks)
    assert found == {"1-5-0": 0, "2-3-0": 1, "4-9-0": 1, "6-7-0": 0}
    for order in itertools.permutations(tasks):
        assert runs_of(order) == found


def test_later_runs_of_a_task_stay_above_its_earlier_ones() -> None:
    """What a task wrote over its own rows is newer than these in the commit as well."""
    found = runs_of([[entry(1, 5), entry(1, 5, run=1)], [entry(2, 8)]])
    assert found["1-5-0"] < found["1-5-1"]


def test_rows_without_a_key_stand_in_the_order_of_tasks() -> None:
    """Files of an append-only table are numbered through."""
    schema = schema_of(primary_key=())
    tasks = [[entry(0, 0, run=0), entry(1, 1, run=1)], [entry(2, 2, run=0)]]
    found = in_runs([UploadedFiles(entries=tuple(one)) for one in tasks], schema)
    assert [(one.path, one.run) for one in found.entries] == [("0-0-0", 0), ("1-1-1", 1), ("2-2-0", 2)]


def test_the_oldest_first_upload_counts() -> None:
    """Orphan removal asks when the first file of the whole write was uploaded."""
    found = in_runs(
        [UploadedFiles(first_upload_ms=7, rows=1), UploadedFiles(first_upload_ms=5, rows=2), UploadedFiles()],
        schema_of(),
    )
    assert (found.first_upload_ms, found.rows) == (5, 3)


@pytest.mark.parametrize("layout", list(PLAIN))
async def test_what_tasks_uploaded_is_one_commit(layout: str) -> None:
    """The rows of all tasks are visible in one snapshot."""
    table = await made(layout)
    written = await uploaded(table, some(1, 3), some(2, 4, part="b"))
    schema = await table.schema()
    done = await commit_uploaded(
        table.core, AddFiles(kind=CommitKind.APPEND, written=in_runs(written, schema))
    )
    assert (done.snapshot, done.rows, done.changed) == (2, 4, True)
    assert set(await values(table)) == {1, 2, 3, 4}


async def test_a_sequence_is_committed_once_and_the_files_of_the_repetition_are_deleted() -> None:
    """A job that is run again after its outcome was not known changes nothing and leaves nothing."""
    table = await made()
    store, schema = table.core.env.store, await table.schema()
    first = await uploaded(table, some(1, value=1))
    again = await uploaded(table, some(1, value=2))
    writer = ("job", 1)
    done = await commit_uploaded(
        table.core, AddFiles(kind=CommitKind.UPSERT, written=in_runs(first, schema)), writer=writer
    )
    twice = await commit_uploaded(
        table.core, AddFiles(kind=CommitKind.UPSERT, written=in_runs(again, schema)), writer=writer
    )
    assert (twice.snapshot, twice.changed) == (done.snapshot, False)
    assert await values(table) == {1: 1}
    assert await data_files(store, table) == 1


async def test_a_commit_that_cannot_be_made_leaves_no_file() -> None:
    """Uploads from before the time that orphans are removed up to are refused and deleted."""
    table = await made()
    store, schema = table.core.env.store, await table.schema()
    [written] = await uploaded(table, some(1))
    await table.remove_orphans()
    head = (await table.core.newest()).snapshot
    assert head.orphan_horizon_ms is not None
    late = dataclasses.replace(written, first_upload_ms=head.orphan_horizon_ms)
    with pytest.raises(ConflictError, match="uploaded too long ago"):
        await commit_uploaded(table.core, AddFiles(kind=CommitKind.APPEND, written=in_runs([late], schema)))
    assert await data_files(store, table) == 0


async def test_a_condition_is_overwritten_by_what_tasks_uploaded() -> None:
    """Rows that match are replaced, others stay."""
    table = await made()
    await table.append(some(1, 2, 3, value=1))
    written = await uploaded(table, some(2, value=9), some(4, value=9))
    schema = await table.schema()
    done = await commit_uploaded(
        table.core,
        overwriting_change(table.core, parse_where("id >= 2"), in_runs(written, schema), schema),
    )
    assert (done.rows, await values(table)) == (2, {1: 1, 2: 9, 4: 9})


async def test_partitions_are_replaced_by_what_tasks_uploaded() -> None:
    """Files of the partitions are taken away as of the head, those of others stay."""
    table = await made("partitioned")
    await table.append([*some(1, value=1), *some(2, value=1, part="b")])
    written = await uploaded(table, some(3, value=9))
    schema = await table.schema()
    await commit_uploaded(table.core, replacing(written, schema))
    assert await values(table) == {2: 1, 3: 9}


async def test_rows_of_the_log_that_are_replaced_are_flushed_and_the_files_kept() -> None:
    """Replacing partitions that the log has rows of needs a flush, and no second upload."""
    table = await made("partitioned")
    async with table.writer() as writer:
        await (await writer.put(some(1, value=1)))
        written = await uploaded(table, some(3, value=9))
        schema = await table.schema()
        await commit_uploaded(table.core, replacing(written, schema))
    assert await values(table) == {3: 9}
