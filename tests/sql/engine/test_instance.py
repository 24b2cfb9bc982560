"""One locked DuckDB and its turns."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.config import SqlSettings
from lakehouse.errors import InvalidInputError, LakehouseError
from lakehouse.sql.engine import SqlInstance
from lakehouse.testing import memory_store
from tests.kit.duckdb_calls import calls_on_this_thread

ROWS = 2_000


async def _sum(instance: SqlInstance, data: bytes) -> int:
    """A query over a file of a store, and over a source that asks the loop for each batch."""
    store = memory_store()
    await store.put("1.parquet", data)

    async def batch() -> pa.RecordBatch:
        await asyncio.sleep(0)
        return pa.record_batch({"b": range(ROWS)})

    async with instance.statement() as statement:
        bridge = statement.bridge
        schema = pa.schema({"b": pa.int64()})
        batches = (bridge.wait(batch()) for _ in range(3))
        await statement.register("source", pa.RecordBatchReader.from_batches(schema, batches))
        path = statement.files.add(store, "1.parquet", len(data))
        text = "SELECT sum(a)::BIGINT AS total FROM read_parquet($1) JOIN source ON a = b"
        async with await statement.stream(text, [path]) as stream:
            return sum([row["total"] async for batch in stream for row in batch.to_pylist()])


def _parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": range(ROWS)}), sink, row_group_size=500)
    return sink.getvalue()


async def test_rows_of_a_query_arrive_as_batches() -> None:
    """A statement streams the rows of a query, and their columns are known before the first."""
    instance = SqlInstance(SqlSettings(threads=2))
    async with instance.statement() as statement:
        rows = await statement.stream("SELECT a, a * $1 AS b FROM range(3) t(a)", [10])
        assert rows.schema.names == ["a", "b"]
        assert [row async for batch in rows for row in batch.to_pylist()] == [
            {"a": a, "b": a * 10} for a in range(3)
        ]
    await instance.aclose()


async def test_nothing_is_made_before_the_first_statement(tmp_path: Path) -> None:
    """An instance that is not used makes no DuckDB, no thread and no directory."""
    instance = SqlInstance(SqlSettings(spill_directory=str(tmp_path)))
    assert not os.listdir(tmp_path)
    await instance.aclose()


async def test_sixty_four_statements_at_once_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements of one loop that read files and sources of that loop do not wait for each other, and no
    call of DuckDB is made on the loop's thread."""
    noted = calls_on_this_thread(monkeypatch)
    instance, data = SqlInstance(SqlSettings(threads=2, concurrency=4)), _parquet()
    found = await asyncio.gather(*(_sum(instance, data) for _ in range(64)))
    await instance.aclose()
    assert found == [3 * sum(range(ROWS))] * 64
    assert not noted


async def test_statements_wait_for_turns() -> None:
    """No more statements are under way than there are turns; the next one begins when one ends."""
    instance = SqlInstance(SqlSettings(threads=1, concurrency=1))
    order: list[str] = []

    async def second() -> None:
        async with instance.statement():
            order.append("second")

    async with instance.statement():
        waiting = asyncio.create_task(second())
        for _ in range(20):
            await asyncio.sleep(0)
        order.append("first")
    await waiting
    assert order == ["first", "second"]
    await instance.aclose()


async def test_a_turn_is_given_back_after_an_error() -> None:
    """A block that fails, or whose wait for a turn is cancelled, holds no turn."""
    instance = SqlInstance(SqlSettings(threads=1, concurrency=1))
    async with instance.statement():
        waiting = asyncio.create_task(instance.statement().__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    with pytest.raises(KeyError):
        async with instance.statement():
            raise KeyError
    async with instance.statement() as statement:
        assert await statement.execute("SELECT 1") == [(1,)]
    await instance.aclose()


async def test_closing_ends_statements_and_threads(tmp_path: Path) -> None:
    """Leaving the lake ends statements that are under way, and leaves no thread, task or directory."""
    instance = SqlInstance(SqlSettings(threads=2, spill_directory=str(tmp_path)))
    tasks = asyncio.all_tasks()
    begun = asyncio.Event()

    async def long() -> None:
        async with instance.statement() as statement:
            begun.set()
            await statement.stream("SELECT count(*) FROM range(100000000000) t(a) WHERE a % 7 = 3")

    running = asyncio.create_task(long())
    await begun.wait()
    assert os.listdir(tmp_path)
    await instance.aclose()
    await instance.aclose()
    with pytest.raises(LakehouseError) as caught:
        await running
    assert caught.value.kind in ("interrupted", "closed")
    assert not os.listdir(tmp_path)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lakehouse-sql")]
    assert asyncio.all_tasks() == tasks
    with pytest.raises(InvalidInputError) as closed:
        async with instance.statement():
            pass
    assert closed.value.kind == "closed"


async def test_a_forked_child_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was forked after the first statement is told to open the lake again."""
    instance = SqlInstance(SqlSettings(threads=1))
    async with instance.statement():
        pass
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        with pytest.raises(InvalidInputError) as caught:
            async with instance.statement():
                pass
    assert caught.value.kind == "wrong-process"
    await instance.aclose()


async def test_another_loop_is_refused() -> None:
    """An instance belongs to the loop of its first statement."""
    instance = SqlInstance(SqlSettings(threads=1))

    async def use() -> None:
        async with instance.statement():
            pass

    await use()
    with pytest.raises(InvalidInputError) as caught:
        await asyncio.to_thread(asyncio.run, use())
    assert caught.value.kind == "wrong-loop"
    await instance.aclose()


async def test_a_cancelled_end_still_gives_everything_back() -> None:
    """A statement whose task is cancelled while it is given back, more than once, is given back first."""
    instance = SqlInstance(SqlSettings(threads=1, concurrency=1))
    held, leaving = threading.Event(), asyncio.Event()

    async def run() -> None:
        async with instance.statement() as statement:
            statement.database.call(held.wait)  # what comes next waits for it
            leaving.set()

    task = asyncio.create_task(run())
    await leaving.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    held.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with instance.statement() as statement:
        # The database's own connection, and this statement's.
        assert await statement.execute("SELECT count FROM duckdb_connection_count()") == [(2,)]
    await instance.aclose()
