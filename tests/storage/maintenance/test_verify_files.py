"""Checks of one data file against its entry: a sound file has no problem, any other has one."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import google_crc32c
import pyarrow as pa
import pytest

from lakehouse.config import IndexSettings
from lakehouse.format.keys import encode_value
from lakehouse.format.metadata import ColumnStats, FileEntry, FileFormat
from lakehouse.format.schema import TableSchema, parse_indexes
from lakehouse.storage.maintenance.verify_files import FileCheck, FileFindings
from lakehouse.storage.maintenance.verify_report import Problem
from tests.kit.blob_samples import flipped
from tests.kit.sstable_samples import SCHEMA, rows_of
from tests.kit.stored_runs import ROOT, StoredRuns
from tests.kit.worlds import process, restored, saved, table_of


async def written(schema: TableSchema = SCHEMA, **options: Any) -> StoredRuns:
    """A file of three row groups, without every seventh amount."""
    runs = StoredRuns(schema, parquet_row_group_rows=100, index_min_rows=1, **options)
    await runs.add(rows_of(300))
    return runs


async def found(runs: StoredRuns, entry: FileEntry | None = None) -> list[FileFindings]:
    """The problems of the file, as an entry describes it."""
    check = FileCheck(runs.store, ROOT, IndexSettings())
    return await check.file(entry or runs.entries[0], runs.schema)


def bound(number: int) -> bytes:
    """The bound that an id is."""
    return encode_value(number, SCHEMA.field("id").type)


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.SSTABLE])
async def test_a_sound_file_has_no_problem(file_format: FileFormat) -> None:
    """Rows, keys, statistics and indexes are as the entry says."""
    schema = dataclasses.replace(SCHEMA, indexes=parse_indexes({"note": "bloom"}, SCHEMA.fields))
    runs = await written(schema, file_format_level0=file_format.value)
    assert runs.entries[0].index is not None
    assert await found(runs) == []


async def test_deleted_rows_are_no_problem() -> None:
    """Rows that delete have no values but their keys."""
    runs = StoredRuns(SCHEMA)
    await runs.add(pa.table({"id": pa.array([1, 2], pa.int64())}), deletes=True)
    assert await found(runs) == []


async def test_a_missing_file_is_named() -> None:
    """An object that is gone is a problem of its file."""
    runs = await written()
    (entry,) = runs.entries
    await runs.store.delete(f"{ROOT}/{entry.path}")
    assert [finding[:2] for finding in await found(runs)] == [(entry.path, Problem.MISSING)]


async def test_a_file_that_cannot_be_read_is_named() -> None:
    """A flipped bit of its rows is a problem of the file."""
    runs = await written()
    (entry,) = runs.entries
    object_key = f"{ROOT}/{entry.path}"
    await runs.store.put(object_key, flipped((await runs.store.get(object_key)).data, 8 * 20))
    assert [finding[:2] for finding in await found(runs)] == [(entry.path, Problem.UNREADABLE)]


@pytest.mark.parametrize("is_gone", [True, False])
async def test_a_damaged_index_is_named(is_gone: bool) -> None:
    """An index file that is gone or damaged is a problem of its own; the data file is sound."""
    schema = dataclasses.replace(SCHEMA, indexes=parse_indexes({"note": "bloom"}, SCHEMA.fields))
    runs = await written(schema)
    index = runs.entries[0].index
    assert index is not None
    object_key = f"{ROOT}/{index.path}"
    data = (await runs.store.get(object_key)).data
    if is_gone:
        await runs.store.delete(object_key)
    else:
        await runs.store.put(object_key, flipped(data, 8 * 10))
    expected = Problem.MISSING if is_gone else Problem.UNREADABLE
    assert [finding[:2] for finding in await found(runs)] == [(index.path, expected)]


WRONG: dict[str, tuple[dict[str, Any], Problem, str]] = {
    "nulls": ({"stats": {2: ColumnStats(nulls=1)}}, Problem.STATS, "'amount'"),
    "bound below": (
        {"stats": {1: ColumnStats(nulls=0, low=bound(10), high=bound(598))}},
        Problem.STATS,
        "'id'",
    ),
    "bound above": ({"stats": {1: ColumnStats(nulls=0, low=bound(0), high=bound(9))}}, Problem.STATS, "'id'"),
    "exact bounds": (
        {"stats": {1: ColumnStats(nulls=0, low=bound(0), high=bound(599), exact=True)}},
        Problem.STATS,
        "'id'",
    ),
    "bucket": ({"bucket": 1, "total_buckets": 2}, Problem.ROWS, "bucket 1"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_rows_are_compared_with_their_entry(what: str) -> None:
    """A sound file whose rows are not those that its entry describes has a problem that says why."""
    changes, expected, said = WRONG[what]
    runs = await written()
    ((path, problem, detail),) = await found(runs, dataclasses.replace(runs.entries[0], **changes))
    assert (path, problem) == (runs.entries[0].path, expected)
    assert said in detail


async def test_wider_bounds_are_no_problem() -> None:
    """Bounds that are not exact only have to hold."""
    runs = await written()
    wide = {1: ColumnStats(nulls=0, low=bound(-5), high=bound(700))}
    assert await found(runs, dataclasses.replace(runs.entries[0], stats=wide)) == []


async def test_rows_of_another_partition_are_found() -> None:
    """Every row has the values of the partition that its entry says."""
    schema = dataclasses.replace(SCHEMA, primary_key=(), partition_by=("id",))
    runs = StoredRuns(schema)
    (entry,) = await runs.add(rows_of(1))
    assert await found(runs) == []
    ((_, problem, detail),) = await found(runs, dataclasses.replace(entry, partition=(bound(7),)))
    assert (problem, detail) == (Problem.ROWS, "some rows have another id than their partition")


async def test_large_files_are_checked_by_their_checksum() -> None:
    """Of a file that is read in pieces every byte counts, also one that no row needs."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table("db.t", pa.schema({"id": pa.int64(), "s": pa.string()}), primary_key="id")
    texts = [random.Random(number).randbytes(10).hex() for number in range(40_000)]
    rows = pa.table({"id": pa.array(range(40_000)), "s": texts})
    await table.append(rows)
    assert (await table.verify(deep=True)).ok
    world = await saved(store)
    (key,) = [key for key in world if "/data/" in key]
    data = bytearray(world[key])
    assert len(data) > 300_000
    data[1] ^= 1
    report = await (await table_of(await restored({**world, key: bytes(data)}))).verify(deep=True)
    assert [one.problem for one in report.damages] == [Problem.UNREADABLE]
    assert f"{google_crc32c.value(bytes(data)):08x}" in str(report)
