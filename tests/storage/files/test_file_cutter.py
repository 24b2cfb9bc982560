"""Rows become files of the target size, in their order, or nothing at all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import UnavailableError
from lakehouse.format.metadata import FileFormat
from lakehouse.io import ObjectStore
from lakehouse.storage.files.file_cutter import FileCutter
from lakehouse.storage.rows.partitioner import PartitionRows
from lakehouse.testing.faults import Fault, FaultKind, FaultyStore
from lakehouse.testing.stores import RecordingStore, memory_store
from tests.kit.written_files import ROOT, keys_in, options_of, read_file, schema_of

ROWS = 20_000
KEYED, KEYLESS = schema_of(), schema_of(primary_key=(), buckets=3)


def rows_from(first: int, count: int) -> pa.Table:
    """Rows in the order of their ids, which do not compress well."""
    chance = random.Random(first)
    return pa.table(
        {
            "id": range(first, first + count),
            "day": pa.array([20_000] * count, pa.int32()).cast(pa.date32()),
            "name": [f"{chance.getrandbits(128):032x}" for _ in range(count)],
            "amount": [number / 7 for number in range(count)],
        },
        schema=KEYED.arrow(),
    )


def cutter_of(store: ObjectStore, **arguments: Any) -> FileCutter:
    """A cutter whose files have some 4,000 rows."""
    schema, target = arguments.pop("schema", KEYED), arguments.pop("target_bytes", 100_000)
    options = options_of(target_bytes=target)
    return FileCutter(store, ROOT, schema, options, format=FileFormat.PARQUET, **arguments)


async def tables(count: int, *, rows: int = 500) -> AsyncGenerator[pa.Table, None]:
    """Yields tables of consecutive rows."""
    for number in range(count):
        yield rows_from(number * rows, rows)


def whole(table: pa.Table) -> Iterable[PartitionRows]:
    """Returns a table as one part."""
    return [PartitionRows(source=table)]


def by_parity(table: pa.Table) -> Iterable[PartitionRows]:
    """Returns the rows of even and of odd ids as parts of two buckets."""
    odd = pa.compute.bit_wise_and(table.column("id"), 1)
    for bucket in (1, 0):
        yield PartitionRows(bucket=bucket, source=table.filter(pa.compute.equal(odd, bucket)))


async def test_rows_at_hand_become_files_of_equal_length() -> None:
    """There is no small rest, and every row is in one file, in order."""
    store = memory_store()
    cutter = cutter_of(store)
    files = await cutter.upload(cutter.cut([(PartitionRows(source=rows_from(0, ROWS)), None)]))
    lengths = [entry.rows for entry in files.entries]
    assert len(lengths) > 3
    assert max(lengths) - min(lengths) <= 0.1 * max(lengths)
    read = [row["id"] for entry in files.entries for row in await read_file(store, entry, KEYED)]
    assert read == list(range(ROWS))
    assert (files.rows, {entry.run for entry in files.entries}) == (ROWS, {0})
    assert await keys_in(store) == sorted(f"{ROOT}/{path}" for path in files.paths)


async def test_files_are_handed_out_in_order_whichever_is_first_in_the_store() -> None:
    """Entries have the order of their rows, not of the answers."""

    class FirstIsLast(RecordingStore):
        async def put(self, key: str, data: Any) -> Any:
            await asyncio.sleep(0.0 if self.calls else 0.2)
            return await super().put(key, data)

    cutter = cutter_of(FirstIsLast(memory_store()), at_once=4)
    files = await cutter.upload(cutter.cut([(PartitionRows(source=rows_from(0, ROWS)), None)]))
    keys = [entry.min_key or b"" for entry in files.entries]
    assert len(keys) > 3
    assert keys == sorted(keys)


async def test_runs_keep_the_order_of_rows_without_a_key() -> None:
    """Files of one part are in one bucket and have a run each, so that their rows can follow each other."""
    cutter = cutter_of(memory_store(), schema=KEYLESS)
    first = await cutter.upload(cutter.cut([(PartitionRows(source=rows_from(0, ROWS)), None)]))
    count = len(first.entries)
    assert [(entry.run, entry.bucket) for entry in first.entries] == [(run, 0) for run in range(count)]
    then = await cutter.upload(cutter.cut([(PartitionRows(source=rows_from(0, 1)), None)]))
    assert [(entry.run, entry.bucket) for entry in then.entries] == [(count, count % 3)]


async def test_rows_that_arrive_wait_until_they_fill_a_file() -> None:
    """Files are full but for the last one of each bucket, whatever the tables that rows come in."""
    store = memory_store()
    cutter = cutter_of(store, schema=schema_of(buckets=2), room=1 << 30)
    files = await cutter.upload(cutter.collect(tables(40), by_parity))
    for bucket in (0, 1):
        mine = [entry for entry in files.entries if entry.bucket == bucket]
        assert len(mine) > 1
        assert max(entry.rows for entry in mine[:-1]) < 1.3 * min(entry.rows for entry in mine[:-1])
        assert sum(entry.rows for entry in mine) == ROWS // 2
        assert [entry.min_key for entry in mine] == sorted(entry.min_key or b"" for entry in mine)


async def test_too_many_rows_that_wait_become_a_file() -> None:
    """Where there is little room, the largest collection goes before it fills a file."""
    room = 3 * rows_from(0, 500).nbytes
    cutter = cutter_of(memory_store(), target_bytes=1 << 27, room=room)
    files = await cutter.upload(cutter.collect(tables(40), whole))
    assert all(entry.rows <= 4 * 500 for entry in files.entries)
    assert files.rows == ROWS


async def test_a_source_that_fails_leaves_nothing() -> None:
    """Files that are in the store by then are deleted, and so are those of earlier uploads."""

    async def failing() -> AsyncGenerator[pa.Table, None]:
        async for table in tables(40):
            yield table
        raise KeyError("mine")

    store = RecordingStore(memory_store())
    cutter = cutter_of(store, room=1 << 30)
    await cutter.upload(cutter.cut([(PartitionRows(source=rows_from(0, ROWS)), None)]))
    with pytest.raises(KeyError, match="mine"):
        await cutter.upload(cutter.collect(failing(), whole))
    assert store.kinds()["put"] > 6
    assert await keys_in(store) == []


async def test_a_store_that_fails_leaves_nothing() -> None:
    """A put that was applied and whose answer was lost is deleted as well."""
    inner = memory_store()
    cutter = cutter_of(FaultyStore(inner, [Fault(kind=FaultKind.FAIL_AFTER, verb="put", at=3)]))
    with pytest.raises(UnavailableError):
        await cutter.upload(cutter.cut([(PartitionRows(source=rows_from(0, ROWS)), None)]))
    assert await keys_in(inner) == []


async def test_uploads_can_be_waited_for() -> None:
    """Whoever cuts waits for the first files, and not for those after them."""
    cutter = cutter_of(memory_store(), at_once=2)
    done: list[int] = []

    async def files() -> AsyncGenerator[Any, None]:
        for number in range(6):
            if number > 2:
                await cutter.wait_for(number - 2)
                done.append(len(cutter.paths))
            yield cutter.file(PartitionRows(source=rows_from(number, 1)))

    await cutter.upload(files())
    assert all(paths >= number for number, paths in enumerate(done, start=1))
    assert cutter.count == 6
