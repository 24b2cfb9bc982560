"""Batches of a result."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pyarrow as pa
import pytest

from lakehouse.config import SqlSettings
from lakehouse.errors import InvalidInputError
from lakehouse.sql.engine import SqlInstance, SqlStatement

SCHEMA = pa.schema({"a": pa.int64()})
BATCH = pa.record_batch([list(range(10_000))], schema=SCHEMA)


class _Source:
    """Batches without an end, counted, and whether a producer of them was closed."""

    def __init__(self) -> None:
        self.pulled = 0
        self.closed = threading.Event()

    def __arrow_c_schema__(self) -> object:
        return SCHEMA.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(SCHEMA, self._batches()).__arrow_c_stream__()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            while True:
                self.pulled += 1
                yield BATCH
        finally:
            self.closed.set()


@pytest.fixture
async def instance() -> AsyncIterator[SqlInstance]:
    """An instance of two threads."""
    made = SqlInstance(SqlSettings(threads=2))
    yield made
    await made.aclose()


@pytest.fixture
async def statement(instance: SqlInstance) -> AsyncIterator[SqlStatement]:
    """A statement under way."""
    async with instance.statement() as made:
        yield made


async def test_rows_stream_while_they_are_made(statement: SqlStatement) -> None:
    """The first batch is there although the source never ends."""
    source = _Source()
    await statement.register("source", source)
    async with await statement.stream("SELECT a + 1 AS b FROM source") as batches:
        assert batches.schema == pa.schema({"b": pa.int64()})
        assert (await anext(batches)).column("b")[0].as_py() == 1


async def test_batches_have_the_rows_that_are_asked_for(statement: SqlStatement) -> None:
    """A batch has at most so many rows, and all rows arrive in their order."""
    batches = await statement.stream("SELECT a FROM range(10000) t(a)", batch_rows=3000)
    found = [batch async for batch in batches]
    assert max(batch.num_rows for batch in found) <= 3000
    assert pa.Table.from_batches(found).column("a").to_pylist() == list(range(10_000))


async def test_a_result_without_rows_has_columns(statement: SqlStatement) -> None:
    """The columns of an empty result are known."""
    batches = await statement.stream("SELECT 1 AS a WHERE false")
    assert batches.schema.names == ["a"]
    assert [batch async for batch in batches if batch.num_rows] == []


async def test_closing_early_does_not_read_the_rest(statement: SqlStatement) -> None:
    """A stream that is closed before its end interrupts DuckDB first, which would drain the source else."""
    source = _Source()
    await statement.register("source", source)
    batches = await statement.stream("SELECT a FROM source")
    await anext(batches)
    at = time.monotonic()
    await batches.aclose()
    await batches.aclose()
    assert time.monotonic() - at < 1
    assert source.closed.is_set()
    assert source.pulled < 1000


async def test_a_limit_closes_the_producer(statement: SqlStatement) -> None:
    """A LIMIT that is met ends the source although the statement goes on."""
    source = _Source()
    await statement.register("source", source)
    batches = await statement.stream("SELECT a FROM source LIMIT 10")
    assert sum([batch.num_rows async for batch in batches]) == 10
    assert await asyncio.to_thread(source.closed.wait, 2)
    assert [row async for batch in await statement.stream("SELECT 1 AS a") for row in batch.to_pylist()]


async def test_an_exhausted_stream_ends_only_itself(statement: SqlStatement) -> None:
    """After its last row a stream may be asked again and be closed, and the statement lives on."""
    batches = await statement.stream("SELECT 1 AS a")
    assert [batch.num_rows async for batch in batches] == [1]
    assert [batch async for batch in batches] == []
    await batches.aclose()
    assert [batch.num_rows async for batch in await statement.stream("SELECT 2 AS a")] == [1]


async def test_a_statement_reads_one_result_at_a_time(statement: SqlStatement) -> None:
    """A query beside a stream that is not read to its end is refused with what to do."""
    source = _Source()
    await statement.register("source", source)
    batches = await statement.stream("SELECT a FROM source")
    with pytest.raises(InvalidInputError, match="read it to its end"):
        await statement.stream("SELECT 1")
    assert (await anext(batches)).num_rows


async def test_the_loop_goes_on_beside_a_query(statement: SqlStatement) -> None:
    """While DuckDB computes, other tasks run."""
    turns = 0
    query = asyncio.create_task(statement.stream("SELECT count(*) FROM range(20000000) t(a) WHERE a % 7 = 3"))
    while not query.done():
        await asyncio.sleep(0)
        turns += 1
    async with query.result() as batches:
        assert (await anext(batches)).num_rows == 1
    assert turns > 10
