"""Reading ahead of a reader, as far as there is room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pyarrow as pa
import pytest

from lakehouse.errors import CorruptionError
from lakehouse.sql.providers.read_ahead import ReadAhead

BATCH = pa.record_batch({"a": pa.array(range(100), pa.int64())})


class Source:
    """Batches without end, or with an error in place of one; it knows how many were read."""

    def __init__(self, count: int, *, fails: bool = False) -> None:
        self.count, self.fails, self.read, self.closed = count, fails, 0, False

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yields them."""
        try:
            for _ in range(self.count):
                self.read += 1
                yield BATCH
            if self.fails:
                raise CorruptionError("torn")
        finally:
            self.closed = True


@asynccontextmanager
async def reading(source: Source, batches_max: int) -> AsyncIterator[tuple[ReadAhead, asyncio.Task[None]]]:
    """A task that reads the source ahead, cancelled at the end."""
    ahead = ReadAhead(batches_max * BATCH.nbytes)
    task = asyncio.get_running_loop().create_task(ahead.read(source.batches()))
    yield ahead, task
    task.cancel()
    await asyncio.wait([task])


async def settled() -> None:
    """Lets every task run until it waits."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_no_more_is_read_than_there_is_room_for() -> None:
    """Reading stops at the number of bytes, and goes on with what is taken."""
    source = Source(1000)
    async with reading(source, 5) as (ahead, _):
        await settled()
        assert source.read == 5
        assert await ahead.take(200) == [BATCH] * 2
        await settled()
        assert source.read == 7
    assert source.closed


@pytest.mark.parametrize("asked", [1, 1000, 100_000])
async def test_every_batch_is_taken_once(asked: int) -> None:
    """Takes end with nothing when all batches were taken, however many rows each asks for."""
    source = Source(23)
    async with reading(source, 5) as (ahead, task):
        taken = 0
        while batches := await ahead.take(asked):
            taken += len(batches)
        await task
    assert taken == 23


async def test_a_large_batch_comes_alone() -> None:
    """A batch that is as large as is asked for is not joined to those before it."""
    ahead = ReadAhead(1 << 20)

    async def batches() -> AsyncGenerator[pa.RecordBatch, None]:
        for rows in (10, 100, 20, 30):
            yield BATCH.slice(0, rows)

    await ahead.read(batches())
    sizes = []
    while taken := await ahead.take(50):
        sizes.append([batch.num_rows for batch in taken])
    assert sizes == [[10], [100], [20, 30]]


async def test_what_was_read_before_an_error_is_taken() -> None:
    """An error ends the takes, behind what was read before it."""
    source = Source(3, fails=True)
    async with reading(source, 5) as (ahead, task):
        assert len(await ahead.take(1000)) == 3
        assert await ahead.take(1000) == []
        with pytest.raises(CorruptionError):
            await task


async def test_empty_batches_are_left_out() -> None:
    """A batch without rows wakes nobody."""
    ahead = ReadAhead(1)

    async def batches() -> AsyncGenerator[pa.RecordBatch, None]:
        for batch in (BATCH.slice(0, 0), BATCH):
            yield batch

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ahead.read(batches()))
        assert await ahead.take(1) == [BATCH]
