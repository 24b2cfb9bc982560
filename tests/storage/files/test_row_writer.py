"""A write leaves files that hold its rows, described rightly, or nothing at all."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.config import TableSettings
from lakehouse.errors import InvalidInputError, UnavailableError
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.storage.files.row_writer import write_rows
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.testing.faults import Fault, FaultKind, FaultyStore
from lakehouse.testing.stores import LatencyStore, RecordingStore, memory_store
from tests.kit.written_files import (
    OPTIONS,
    ROOT,
    fold_files,
    keys_in,
    options_of,
    read_file,
    schema_of,
    table_of,
)

DAYS = [dt.date(2026, 1, day) for day in (1, 2, 3)]
ROW = st.fixed_dictionaries(
    {
        "id": st.integers(-30, 30),
        "day": st.sampled_from(DAYS),
        "name": st.sampled_from(["", "a", "a\x00", "ä", "b" * 20]),
        "amount": st.none() | st.floats(allow_nan=False, width=32),
    }
)
SCHEMA = st.builds(
    schema_of,
    primary_key=st.sampled_from([("id",), ("name",), ("day", "id"), ("name", "id")]),
    partition_by=st.sampled_from([(), ("day",), ("name", "day")]),
    buckets=st.sampled_from([1, 3]),
)
CHUNKS = st.lists(st.lists(ROW, max_size=40), max_size=6)
SIZES = st.builds(
    options_of,
    sst=st.booleans(),
    buffer_bytes=st.sampled_from([1, 500, 1 << 20]),
    target_bytes=st.sampled_from([1, 4000, 1 << 20]),
)


def _rows(count: int, *, seed: int = 0) -> pa.Table:
    """Rows of distinct keys in random order."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": random.permutation(count),
            "day": pa.array(random.integers(20_000, 20_004, count).astype(np.int32)).cast(pa.date32()),
            "name": [f"name {i}" for i in range(count)],
            "amount": random.random(count),
        }
    )


def _key(row: dict[str, Any], schema: TableSchema) -> tuple[Any, ...]:
    return tuple(row[name] for name in schema.primary_key)


@settings(deadline=None, max_examples=50)
@given(chunks=CHUNKS, schema=SCHEMA, options=SIZES)
async def test_the_files_hold_the_last_row_of_each_key(
    chunks: list[list[dict[str, Any]]], schema: TableSchema, options: Any
) -> None:
    """Read back and folded by their runs, files are what a dict would be; each is sorted, and described."""
    store = memory_store()
    written = await write_rows(store, ROOT, schema, options, [table_of(rows) for rows in chunks])
    rows = [row for chunk in chunks for row in chunk]
    assert await fold_files(store, written, schema) == {_key(row, schema): row for row in rows}
    assert written.rows == len(rows)
    assert written.bytes == sum(entry.size for entry in written.entries)
    assert await keys_in(store) == sorted(f"{ROOT}/{entry.path}" for entry in written.entries)


@settings(deadline=None, max_examples=50)
@given(
    chunks=CHUNKS,
    partition_by=st.sampled_from([(), ("day",)]),
    buckets=st.sampled_from([1, 2]),
    options=SIZES,
)
async def test_rows_without_a_key_stay_as_they_are(
    chunks: list[list[dict[str, Any]]], partition_by: tuple[str, ...], buckets: int, options: Any
) -> None:
    """An append-only table keeps every row, in order within its partition, by the numbers of the runs."""
    store = memory_store()
    schema = schema_of(primary_key=(), partition_by=partition_by, buckets=buckets)
    written = await write_rows(store, ROOT, schema, options, [table_of(rows) for rows in chunks])
    found: dict[object, list[dict[str, Any]]] = {}
    for entry in sorted(written.entries, key=lambda one: one.run):
        rows = await read_file(store, entry, schema)
        for row in rows:
            row.pop("_VALUE_KIND")
        found.setdefault(rows[0]["day"] if partition_by else None, []).extend(rows)
        assert (entry.min_key, entry.max_key) == (None, None)
    expected: dict[object, list[dict[str, Any]]] = {}
    for row in (row for chunk in chunks for row in chunk):
        expected.setdefault(row["day"] if partition_by else None, []).append(row)
    assert found == expected
    assert {entry.bucket for entry in written.entries} <= set(range(buckets))


@settings(deadline=None, max_examples=50)
@given(rows=st.lists(ROW, min_size=1, max_size=40), schema=SCHEMA, options=SIZES)
async def test_deletes_are_files_of_keys(
    rows: list[dict[str, Any]], schema: TableSchema, options: Any
) -> None:
    """A delete needs the key alone; without the partition in it, its files belong to none."""
    store = memory_store()
    keys = table_of(rows).select(list(schema.primary_key))
    written = await write_rows(store, ROOT, schema, options, keys, deletes=True)
    state = await fold_files(store, written, schema)
    assert state.keys() == {_key(row, schema) for row in rows}
    assert all(value is None for row in state.values() for value in row.values())
    assert all(entry.deletes == entry.rows for entry in written.entries)
    if not schema.key_holds_partition:
        assert {entry.partition for entry in written.entries} == {()}


async def test_input_without_rows_writes_nothing() -> None:
    """Empty input has no entries and costs no request."""
    store = RecordingStore(memory_store())
    assert await write_rows(store, ROOT, schema_of(), OPTIONS, []) == UploadedFiles()
    assert store.calls == []


async def test_a_small_write_is_one_put() -> None:
    """One file in one request, and nothing else; sixty-four thousand rows are small."""
    store = RecordingStore(memory_store())
    written = await write_rows(store, ROOT, schema_of(), OPTIONS, _rows(64_000))
    assert store.kinds() == {"put": 1}
    (entry,) = written.entries
    assert entry.path.endswith(".parquet")
    assert written.first_upload_ms is not None


async def test_presorted_input_is_one_run_whatever_the_buffers() -> None:
    """Buffers that follow each other by key share a run number, so nothing needs to be merged."""
    table = _rows(5_000).sort_by("id")
    options = options_of(buffer_bytes=table.nbytes // 10)
    written = await write_rows(memory_store(), ROOT, schema_of(), options, table)
    assert len(written.entries) > 5
    assert {entry.run for entry in written.entries} == {0}
    again = await write_rows(memory_store(), ROOT, schema_of(), options, pa.concat_tables([table, table]))
    assert {entry.run for entry in again.entries} == {0, 1}


async def test_files_are_cut_at_the_target_size() -> None:
    """A large part becomes files of about the same size, near the target."""
    options = options_of(target_bytes=100_000)
    written = await write_rows(memory_store(), ROOT, schema_of(), options, _rows(60_000))
    sizes = [entry.size for entry in written.entries]
    assert len(sizes) > 3
    assert max(sizes) < 130_000
    assert min(sizes) > 50_000


async def test_several_files_are_under_way_at_once() -> None:
    """Uploads overlap, up to the bound."""
    table = _rows(4_000)
    options = options_of(buffer_bytes=table.nbytes // 16)
    most = now = 0

    class Counting(RecordingStore):
        async def put(self, key: str, data: Any) -> Any:
            nonlocal most, now
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.02)
            now -= 1
            return await super().put(key, data)

    async def write(concurrency: int) -> None:
        bound = TableSettings(write_concurrency=concurrency)
        await write_rows(Counting(memory_store()), ROOT, schema_of(), options, table, settings=bound)

    await write(2)
    assert most == 2
    most = 0
    await write(1)
    assert most == 1


def _bad_in_chunk_seven() -> Iterator[pa.Table]:
    for number in range(9):
        table = _rows(100, seed=number)
        if number == 7:
            names = pa.array([None if i == 3 else "x" for i in range(100)], pa.string())
            table = table.set_column(2, "name", names)
        yield table


async def test_a_bad_row_late_in_the_input_leaves_nothing() -> None:
    """Files of earlier rows are deleted; the error names column and row of the whole input."""
    store = RecordingStore(memory_store())
    with pytest.raises(InvalidInputError) as caught:
        await write_rows(store, ROOT, schema_of(), options_of(buffer_bytes=4_000), _bad_in_chunk_seven())
    assert caught.value.context["column"] == "name"
    assert caught.value.context["row"] == 703
    assert store.kinds()["put"] >= 4
    assert await keys_in(store) == []


async def test_an_error_of_the_source_leaves_nothing() -> None:
    """What the caller's generator raises comes through, and nothing stays behind."""

    async def rows() -> AsyncIterator[pa.Table]:
        for number in range(5):
            yield _rows(100, seed=number)
        raise KeyError("mine")

    store = memory_store()
    with pytest.raises(KeyError, match="mine"):
        await write_rows(store, ROOT, schema_of(), options_of(buffer_bytes=4_000), rows())
    assert await keys_in(store) == []


@pytest.mark.parametrize("kind", [FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER])
async def test_an_error_of_the_store_leaves_nothing(kind: FaultKind) -> None:
    """A put that fails ends the write, also one that was applied and whose answer was lost."""
    inner = memory_store()
    store = FaultyStore(inner, [Fault(kind=kind, verb="put", at=5)])
    with pytest.raises(UnavailableError):
        await write_rows(store, ROOT, schema_of(), options_of(buffer_bytes=4_000), _rows(5_000))
    assert await keys_in(inner) == []


async def test_files_that_cannot_be_deleted_do_not_hide_the_error() -> None:
    """When the store fails for good, the first error is the one that is raised."""

    class Dying(RecordingStore):
        async def call(self, verb: str, key: str, request: Any, size: int = 0) -> Any:
            if verb == "delete_batch" or len(self.calls) > 3:
                raise UnavailableError(f"{verb} failed")
            return await super().call(verb, key, request, size)

    with pytest.raises(UnavailableError, match="put failed"):
        await write_rows(
            Dying(memory_store()), ROOT, schema_of(), options_of(buffer_bytes=4_000), _rows(5_000)
        )


async def test_a_cancelled_write_leaves_nothing() -> None:
    """Cancellation takes back what was uploaded."""
    inner = memory_store()
    store = LatencyStore(inner, {"put": 0.01})
    with anyio.move_on_after(0.3) as scope:
        await write_rows(store, ROOT, schema_of(), options_of(buffer_bytes=2_000), _rows(200_000))
    assert scope.cancelled_caught
    assert await keys_in(inner) == []


async def test_keys_alone_are_taken_for_a_delete() -> None:
    """Other columns are refused, so that a table of the wrong shape deletes nothing."""
    with pytest.raises(InvalidInputError, match="no column 'day'"):
        await write_rows(memory_store(), ROOT, schema_of(), OPTIONS, _rows(3), deletes=True)
    with pytest.raises(InvalidInputError, match="no primary key"):
        await write_rows(memory_store(), ROOT, schema_of(primary_key=()), OPTIONS, _rows(3), deletes=True)


class _Discarding(RecordingStore):
    """Takes objects and forgets them, so that memory is the writer's own."""

    async def put(self, key: str, data: Any) -> Any:
        return await super().put(key, b"")


async def test_memory_is_bounded_by_the_buffer_whatever_the_input() -> None:
    """Input of any length needs a few buffers, and the files under way."""
    buffer_bytes = 1 << 20
    before = highest = pa.total_allocated_bytes()
    given = 0

    def source() -> Iterator[pa.Table]:
        nonlocal highest, given
        for number in range(300):
            highest = max(highest, pa.total_allocated_bytes())
            table = _rows(5_000, seed=number)
            given += table.nbytes
            yield table

    options = options_of(buffer_bytes=buffer_bytes, target_bytes=1 << 18)
    written = await write_rows(_Discarding(memory_store()), ROOT, schema_of(), options, source())
    assert written.rows == 1_500_000
    assert given > 40 * buffer_bytes
    assert highest - before < 10 * buffer_bytes
