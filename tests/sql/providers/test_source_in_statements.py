"""Providers in statements of the locked DuckDB: what a statement leaves, raises, and counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pyarrow as pa
import pytest

from lakehouse.config import SqlSettings
from lakehouse.errors import CorruptionError
from lakehouse.expr import Expr, to_sql
from lakehouse.io import open_store
from lakehouse.sql.engine import SqlInstance, SqlStatement
from lakehouse.sql.providers import (
    ArrowProvider,
    PlanningSource,
    TableProvider,
    arrow_source,
    needs_of,
    select_list,
)
from tests.kit.sql_sources import Batches, Watched

ROWS = pa.table({"k": range(1000), "v": [f"v{number % 7}" for number in range(1000)]})


@pytest.fixture
async def statement() -> AsyncIterator[SqlStatement]:
    """A statement under way; what it leaves is found by the tests."""
    instance = SqlInstance(SqlSettings(threads=2))
    async with instance.statement() as made:
        yield made
    await instance.aclose()


async def defined(statement: SqlStatement, provider: TableProvider, bytes_max: int = 4096) -> None:
    """Makes the provider the table ``t`` of the statement."""
    await statement.register("t_source", arrow_source(provider, statement.bridge, bytes_max=bytes_max))
    await statement.define("t", f"SELECT {select_list(provider.schema.names)} FROM t_source")


async def test_rows_arrive(statement: SqlStatement) -> None:
    """A statement reads a provider that lives on the loop which waits for the statement."""
    await defined(statement, ArrowProvider(ROWS))
    rows = await statement.stream("SELECT count(*) AS n, max(k) AS k FROM t WHERE v = $1", ["v3"])
    assert [batch.to_pylist() async for batch in rows] == [[{"n": 143, "k": 997}]]


async def test_an_error_is_raised_as_it_was(statement: SqlStatement) -> None:
    """What a provider raises is what the statement raises."""

    class Torn(ArrowProvider):
        async def scan(self, columns: Sequence[str], where: Expr | None) -> Batches:
            async for batch in super().scan(columns, where):
                yield batch
                raise CorruptionError("torn", key="data/1")

    await defined(statement, Torn(ROWS))
    with pytest.raises(CorruptionError, match="torn"):
        await statement.execute("SELECT sum(k) FROM t")


async def test_a_stream_that_is_left_leaves_no_scan(statement: SqlStatement) -> None:
    """Closing a result of which rows are left closes the scan below it."""
    provider = Watched(pa.Table.from_batches(ROWS.to_batches() * 5000))
    await defined(statement, provider)
    async with await statement.stream("SELECT * FROM t", batch_rows=1000) as rows:
        await anext(rows)
    assert (len(provider.scans), provider.ended) == (1, 1)
    assert provider.yielded < 5000


async def test_a_limit_ends_a_scan_before_its_statement_ends(statement: SqlStatement) -> None:
    """A scan is closed as soon as its rows are needed no more, while the statement goes on."""
    closed = asyncio.Event()

    class Closing(ArrowProvider):
        async def scan(self, columns: Sequence[str], where: Expr | None) -> Batches:
            try:
                async for batch in super().scan(columns, where):
                    yield batch
            finally:
                closed.set()

    await defined(statement, Closing(pa.Table.from_batches(ROWS.to_batches() * 5000)))
    assert len(await statement.execute("SELECT * FROM t LIMIT 3")) == 3
    await closed.wait()
    assert await statement.execute("SELECT 1") == [(1,)]


async def test_a_cancelled_statement_leaves_no_scan(statement: SqlStatement) -> None:
    """A call that is cancelled while a provider waits for ever closes the provider's scan."""
    waiting = asyncio.Event()

    class Endless(Watched):
        async def scan(self, columns: Sequence[str], where: Expr | None) -> Batches:
            async for batch in super().scan(columns, where):
                yield batch
                waiting.set()
                await asyncio.Event().wait()

    provider = Endless(ROWS)
    await defined(statement, provider)
    call = asyncio.create_task(statement.execute("SELECT sum(k) FROM t"))
    await waiting.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await statement.aclose()
    assert provider.ended == 1


async def test_requests_of_a_provider_are_the_statement_s(statement: SqlStatement) -> None:
    """Requests that a provider makes for a statement are counted as its cost."""
    store = open_store("memory://test-costs-of-providers")
    await store.put("a", b"1")

    class Stored(ArrowProvider):
        async def scan(self, columns: Sequence[str], where: Expr | None) -> Batches:
            await store.get("a")
            async for batch in super().scan(columns, where):
                yield batch

    await defined(statement, Stored(ROWS))
    await statement.execute("SELECT sum(k) FROM t")
    assert statement.cost.requests == 1


async def test_a_statement_is_planned_over_sources_without_rows(statement: SqlStatement) -> None:
    """The engine's plan of a statement says what each of its references needs."""
    source = PlanningSource(ROWS.schema, 1000, "__r0.")
    await statement.register("t_source", source)
    await statement.define("t", f"SELECT {select_list(ROWS.schema.names, source.prefix)} FROM t_source")
    plan = await statement.plan("SELECT count(*) FROM t WHERE k = $1", [3])
    needs = needs_of(plan, {"t": source})["t"]
    assert needs.columns == ()
    assert needs.where is not None
    assert to_sql(needs.where) == "k = 3"
