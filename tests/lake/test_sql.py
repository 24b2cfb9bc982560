"""SQL of a lake: one DuckDB for an account, which is made late and ends with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import lakehouse
from lakehouse.config import Settings
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.io import ObjectStore, measure
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.testing import memory_store
from tests.kit.sql_tables import rows_of, sql_tables


async def test_duckdb_is_made_by_the_first_statement_and_ends_with_the_lake() -> None:
    """A lake that runs no SQL has no DuckDB; one that did leaves none behind."""
    async with sql_tables("keyed") as tables:
        state = tables.lake._state
        assert state._sql is None
        await tables.lake.sql("SELECT 1")
        assert state._sql is not None
    assert state._sql is None


async def test_a_lake_that_was_not_entered_runs_no_sql() -> None:
    """SQL needs a lake that is open, and says so."""
    with pytest.raises(InvalidInputError, match="was entered"):
        await lakehouse.connect("memory://never-entered").sql("SELECT 1")


async def test_each_account_has_a_duckdb_of_its_own_and_sees_its_databases() -> None:
    """Statements of accounts share no DuckDB, and what an account may not see is not there."""
    async with sql_tables("keyed") as tables, tables.lake.for_account("acme", include=["acme_*"]) as acme:
        assert await (await acme.sql("SELECT 1 AS one")).to_pylist() == [{"one": 1}]
        await tables.lake.sql("SELECT 1")
        assert acme._state.sql_instance is not tables.lake._state.sql_instance
        with pytest.raises(NotFoundError):
            await acme.sql("SELECT * FROM db.keyed")


async def test_sql_of_a_query_reads_what_the_query_pinned() -> None:
    """query.sql shows the state that scans and lookups of the query show."""
    async with sql_tables("compacted") as tables, tables.lake.query() as query:
        before = await query.scan("db.compacted").count()
        await (await tables.lake.table("db.compacted")).upsert(rows_of(500, 510))
        rows = await query.sql("SELECT count(*) AS n FROM db.compacted WHERE id >= ?", [0])
        assert await rows.to_pylist() == [{"n": before}]
        assert [pin.name for pin in query.pins] == ["db.compacted"]
        with pytest.raises(InvalidInputError, match="open already"):
            await query.sql("BEGIN QUERY; SELECT 1; END QUERY")


async def test_statements_wait_for_turns_and_do_not_block_each_other() -> None:
    """More statements than there are turns all answer, while the loop goes on."""
    async with sql_tables("keyed", settings={"sql.concurrency": 2}) as tables:
        texts = [f"SELECT count(*) + {number} AS n FROM db.keyed" for number in range(12)]
        results = await asyncio.gather(*(tables.lake.sql(text) for text in texts))
        found = [(await result.to_pylist())[0]["n"] for result in results]
        assert found == [87 + number for number in range(12)]


async def _written(*runs: tuple[int, int], **how: Any) -> ObjectStore:
    """A store with a table ``db.t`` of these runs; nobody has its files in a cache."""
    store = memory_store()
    async with Lake(stacked(store)) as lake:
        await lake.create_database("db")
        table = await lake.create_table("db.t", rows_of(0, 1).schema, **how)
        for first, last in runs:
            await table.append(rows_of(first, last))
    return stacked(store)


async def test_a_query_of_plain_files_costs_what_a_scan_does_and_a_footer_each() -> None:
    """No HEAD and no LIST: each file is read by ranges, and its footer once for planning and reading."""
    store = await _written((0, 1000), (1000, 2000))
    async with Lake(store) as lake:
        table = await lake.table("db.t")
        await table.current_snapshot()
        with measure() as scanned:
            await table.scan(columns=["id"]).to_arrow()
    async with Lake(store) as lake, lake.query() as query:
        await query.pinned_table("db.t")
        result = await lake.sql("SELECT sum(id) FROM db.t")
        kinds = result.cost.by_kind()
        assert set(kinds) == {"get"}
        assert result.cost.bytes_read > 0
        assert kinds["get"] <= scanned.by_kind()["get"] + 2 * 2


async def test_the_cost_of_a_statement_grows_while_its_result_is_read() -> None:
    """Requests of a result that streams count until its end."""
    store = await _written((0, 500), (0, 500), primary_key="id")
    async with Lake(store, settings=Settings.resolve({"sql.result_buffer_bytes": 0})) as lake:
        result = await lake.sql("SELECT * FROM db.t")
        await result.to_arrow()
        assert result.cost.bytes_read > 5_000
