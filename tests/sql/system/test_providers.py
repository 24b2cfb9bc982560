"""Providers of system tables: what they load, what broken tables cost, and who sees what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pyarrow as pa
import pytest

from lakehouse.errors import LakehouseError, NotFoundError
from lakehouse.expr import Expr, parse_where
from lakehouse.io import ObjectStore
from lakehouse.lake import Lake
from lakehouse.sql.system import SystemTables
from lakehouse.testing import RecordingStore, memory_store
from tests.kit.system_tables import host_of, read

_ID = pa.schema({"id": pa.int64()})
_TABLES = ("hr.people", "sales.items", "sales.orders", "web.hits")


async def _filled(store: ObjectStore) -> dict[str, str]:
    """Makes the tables; returns the directory of each."""
    directories = {}
    async with Lake(store) as lake:
        for database in ("hr", "sales", "web"):
            await lake.create_database(database)
        for name in _TABLES:
            table = await lake.create_table(name, _ID)
            await table.append([{"id": 1}])
            directories[name] = table.location.rpartition("/")[2]
    return directories


@asynccontextmanager
async def _recorded() -> AsyncIterator[tuple[Lake, RecordingStore, dict[str, str]]]:
    """A lake that has just begun, the requests that it makes, and the directories of its tables."""
    inner = memory_store()
    directories = await _filled(inner)
    store = RecordingStore(inner)
    async with Lake(store) as lake:
        yield lake, store, directories


def _shown(found: pa.Table) -> list[str]:
    return [f"{row['database_name']}.{row['table_name']}" for row in found.to_pylist()]


def _loaded(store: RecordingStore, directories: dict[str, str]) -> set[str]:
    """Tables of which an object was read."""
    keys = [call.key for call in store.calls if call.verb.startswith("get")]
    return {name for name, directory in directories.items() if any(directory in key for key in keys)}


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("table_name = 'orders'", ["sales.orders"]),
        ("database_name = 'sales'", ["sales.items", "sales.orders"]),
        ("database_name in ('hr', 'web')", ["hr.people", "web.hits"]),
        ("database_name = 'sales' and not (table_name = 'items')", ["sales.orders"]),
        ("table_name >= 'items' and table_name < 'p'", ["sales.items", "sales.orders"]),
        ("database_name = 'hr' or table_name = 'hits'", ["hr.people", "web.hits"]),
        ("catalog_name = 'ice'", []),
    ],
)
async def test_only_tables_that_are_asked_for_are_loaded(where: str, wanted: list[str]) -> None:
    """A condition on names decides which tables are read at all, whatever it is made of."""
    async with _recorded() as (lake, store, directories):
        tables, condition = SystemTables(host_of(lake)), parse_where(where)
        provider = tables.provider(("system", "files"))
        assert provider is not None
        assert provider.applies(condition)
        assert _shown(await read(tables, "system", "files", where=condition)) == wanted
        assert _loaded(store, directories) == {*wanted}


async def test_one_table_costs_the_same_among_many() -> None:
    """The requests for one table are those of its database and its own, however many others there are."""
    costs = []
    for more in (0, 20):
        inner = memory_store()
        await _filled(inner)
        async with Lake(inner) as lake:
            for number in range(more):
                await lake.create_table(f"web.t{number}", _ID)
        store = RecordingStore(inner)
        async with Lake(store) as lake:
            where = parse_where("database_name = 'sales' and table_name = 'orders'")
            await read(SystemTables(host_of(lake)), "system", "files", where=where)
        costs.append(len(store.calls))
    assert costs == [11, 11]


@pytest.mark.parametrize(
    "where",
    ["bytes > 5", "database_name = path", "lower(table_name) = 'x'", "table_name is null and bytes = 1"],
)
async def test_other_conditions_stay_with_duckdb(where: str) -> None:
    """A condition on anything but names, or in words that are not applied here, is not accepted."""
    async with Lake(memory_store()) as lake:
        for name in ("files", "settings"):
            provider = SystemTables(host_of(lake)).provider(("system", name))
            assert provider is not None
            assert not provider.applies(parse_where(where))


async def test_information_schema_loads_what_is_asked_for() -> None:
    """Names in a condition narrow information_schema too: other tables are not loaded."""
    async with _recorded() as (lake, store, directories):
        where = parse_where("table_schema = 'sales' and table_name in ('orders', 'nothing')")
        found = await read(SystemTables(host_of(lake)), "information_schema", "columns", where=where)
        assert [(row["table_name"], row["column_name"]) for row in found.to_pylist()] == [("orders", "id")]
        assert _loaded(store, directories) == {"sales.orders"}
        known = lake.graph.system_rows("information_schema.columns", schema="sales", table="orders")
        assert found == await known.to_arrow()


async def test_nothing_is_read_before_rows_are_asked_for() -> None:
    """Making every provider, with its columns, costs no request."""
    async with _recorded() as (lake, store, _):
        async with lake.query() as query:
            tables = SystemTables(host_of(lake), query)
            known = [tables.columns(path) for path in tables.names()]
            known += [tables.columns(("sales", f"orders${one}")) for one in tables.relations_of_tables()]
        assert all(known)
        assert store.calls == []


async def test_columns_that_nobody_asks_for_are_left_out() -> None:
    """A scan yields the columns it is asked for, in their order; without any it still counts its rows."""
    async with _recorded() as (lake, _, _):
        provider = SystemTables(host_of(lake)).provider(("system", "files"))
        assert provider is not None
        some = [batch async for batch in provider.scan(["rows", "table_name"], None)]
        assert some[0].schema.names == ["rows", "table_name"]
        none = [batch async for batch in provider.scan([], None)]
        assert sum(batch.num_rows for batch in none) == len(_TABLES)


async def test_a_broken_table_costs_its_own_rows() -> None:
    """A table that cannot be read is a warning; the rows of all others are there."""
    store = memory_store()
    await _filled(store)
    async with Lake(store) as lake:
        directory = (await lake.table("sales.items")).location.removeprefix(store.url).strip("/")
        async for meta in store.list(f"{directory}/"):
            if "snapshot" in meta.key:
                await store.put(meta.key, b"{")
    async with Lake(store) as lake:
        tables = SystemTables(host_of(lake))
        for name in ("files", "snapshots", "changelog"):
            found = await read(tables, "system", name)
            assert {*_shown(found)} == {*_TABLES} - {"sales.items"}
        assert [warning.path for warning in tables.warnings] == [("sales", "items")] * 3
        assert {warning.kind for warning in tables.warnings} == {"corruption"}
        result = await lake.sql("SELECT DISTINCT table_name FROM system.files")
        assert [warning.path for warning in result.warnings] == [("sales", "items")]
        async with lake.query() as query:
            with pytest.raises(LakehouseError, match="items"):
                await read(SystemTables(host_of(lake), query), "sales", "items$files")


async def test_accounts_see_their_tables_only() -> None:
    """What an account may not see is in none of its system tables, nor are warnings of it."""
    async with _recorded() as (lake, _, _):
        ana = lake.for_account("ana", include=["sales"])
        tables = SystemTables(host_of(ana))
        for name in ("snapshots", "files", "schemas", "partitions"):
            found = await read(tables, "system", name)
            assert {*_shown(found)} == {"sales.items", "sales.orders"}
        schemata = await read(tables, "information_schema", "schemata")
        assert schemata["schema_name"].to_pylist() == ["information_schema", "sales"]
        assert tables.warnings == []
        async with ana.query() as query:
            with pytest.raises(NotFoundError):
                await read(SystemTables(host_of(ana), query), "hr", "people$files")


async def test_jobs_are_those_of_tables_that_are_seen() -> None:
    """A job under way has a row until it ends, for those who see its table."""
    async with _recorded() as (lake, _, _):
        state, ended, began = lake._state, asyncio.Event(), asyncio.Event()

        async def work() -> None:
            began.set()
            await ended.wait()

        for name in ("hr.people", "sales.items"):
            state.spawn(work, job=("compact", name))
        state.spawn(work)
        await began.wait()
        found = await read(SystemTables(host_of(lake)), "system", "jobs")
        assert [(row["job"], row["table_name"]) for row in found.to_pylist()] == [
            ("compact", "people"),
            ("compact", "items"),
        ]
        seen = await read(SystemTables(host_of(lake.for_account("ana", include=["sales"]))), "system", "jobs")
        assert seen["table_name"].to_pylist() == ["items"]
        ended.set()
        await state.background.aclose()
        assert (await read(SystemTables(host_of(lake)), "system", "jobs")).num_rows == 0


async def test_leaving_early_reads_no_more() -> None:
    """A scan that is closed after its first batch leaves no load behind."""
    async with _recorded() as (lake, store, _):
        provider = SystemTables(host_of(lake)).provider(("system", "changelog"))
        assert provider is not None
        async with aclosing(provider.scan(["change"], None)) as batches:
            await anext(batches)
        count = len(store.calls)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(store.calls) == count


async def test_a_condition_without_names_is_about_none() -> None:
    """A constant condition is DuckDB's own."""
    condition: Expr = parse_where("1 = 1")
    async with Lake(memory_store()) as lake:
        provider = SystemTables(host_of(lake)).provider(("system", "files"))
        assert provider is not None
        assert not provider.applies(condition)
