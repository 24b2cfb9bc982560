"""Queries of a lake, through its graph: what they read, what they cost, and bundles of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse
import lakehouse.sync
from lakehouse.catalog import BundleEnd, Candidate, RelationStatus, Resolutions, UserObjectsRequest
from lakehouse.config import Settings
from lakehouse.errors import InvalidInputError, NotFoundError, UnavailableError
from lakehouse.io import measure
from lakehouse.lake import Lake
from lakehouse.testing import ManualClock, RecordingStore, memory_store
from tests.kit.iceberg_plans import DAY, data_file, manifest, on_disk, three_days

_SCHEMA = pa.schema({"id": pa.int64(), "amount": pa.int64()})


@contextlib.asynccontextmanager
async def _lake(directory: Path) -> AsyncIterator[Lake]:
    """A lake with two tables, and a catalog with one."""
    on_disk(three_days(), directory / "web" / "events")
    async with Lake(memory_store()) as lake:
        await lake.create_database("db")
        for name in ("db.orders", "db.items"):
            table = await lake.create_table(name, _SCHEMA, primary_key="id")
            await table.append([{"id": 1, "amount": 10}])
        await lake.attach_catalog("ice", {"type": "directory", "warehouse": f"file://{directory}"})
        yield lake


async def test_a_query_reads_one_state_of_tables_of_all_catalogs(tmp_path: Path) -> None:
    """Rows, lookups and plans of a query stay as they were first seen."""
    async with _lake(tmp_path) as lake, lake.query() as query:
        orders = await lake.table("db.orders")
        assert await query.get("db.orders", {"id": 1}) == {"id": 1, "amount": 10}
        assert (await query.plan("ice.web.events")).files().num_rows == 30
        await orders.append([{"id": 2, "amount": 20}])
        on_disk(three_days(manifest("m9", [data_file(DAY + 9, 99)])), tmp_path / "web" / "events")
        assert await query.scan("db.orders").count() == 1
        assert (await query.plan("ice.web.events")).files().num_rows == 30
        assert [pin.name for pin in query.pins] == ["db.orders", "ice.web.events"]


async def test_own_commits_are_seen_by_the_next_query(tmp_path: Path) -> None:
    """What this process commits is in the next query, whatever the bound of pointers."""
    async with _lake(tmp_path) as lake:
        for count in (1, 2, 3):
            async with lake.query() as query:
                assert await query.scan("db.orders").count() == count
            await (await lake.table("db.orders")).append([{"id": count + 1, "amount": 0}])


async def test_pinned_reads_cost_nothing_when_warm(tmp_path: Path) -> None:
    """Pins and lookups of a known table make no request within the bound of its pointer."""
    async with _lake(tmp_path) as lake:
        async with lake.query() as query:
            await query.get("db.orders", {"id": 1})
        async with lake.query() as query:
            with measure() as cost:
                await query.pin("db.orders")
                assert await query.get("db.orders", {"id": 1}) is not None
            assert cost.requests == 0


async def test_pins_and_schemas_of_many_tables_cost_one_look_each_in_a_window() -> None:
    """Warm pins, schemas and bundles make no request; a window later each table costs one look."""
    clock = ManualClock()
    async with Lake(RecordingStore(memory_store()), clock=clock) as lake:
        store = lake.store
        await lake.create_database("db")
        names = [f"db.t{number}" for number in range(12)]
        for name in names:
            await (await lake.create_table(name, _SCHEMA)).append([{"id": 1, "amount": 1}])

        async def planned() -> dict[str, int]:
            with measure() as cost:
                async with lake.query() as query:
                    chunks = [chunk async for chunk in query.user_objects(names)]
                    assert len(query.pins) == len(names)
                assert chunks[-1].as_dict()["end"]["found"] == len(names)
                for name in names:
                    await lake.graph.schema_at(name)
            return dict(cost.by_kind())

        await planned()
        assert await planned() == {}
        await clock.advance(lake.settings.meta.cache.pointer.ttl + 0.1)
        after = await planned()
        assert sum(after.values()) <= len(names), (after, store)
        assert await planned() == {}


async def test_a_known_iceberg_table_is_planned_without_a_request(tmp_path: Path) -> None:
    """The next query of a table that is open, in the same version, plans out of memory."""
    async with _lake(tmp_path) as lake:
        async with lake.query() as query:
            await query.plan("ice.web.events")
        async with lake.query() as query:
            await query.pin("ice.web.events")
            with measure() as cost:
                assert (await query.plan("ice.web.events", "id < 20")).files().num_rows == 2
            assert cost.requests == 0


async def test_what_a_query_pinned_is_read_after_an_expiry(tmp_path: Path) -> None:
    """A snapshot that this process itself expires stays readable for the query that pinned it."""
    async with _lake(tmp_path) as lake, lake.query() as query:
        await query.pin("db.orders")
        orders = await lake.table("db.orders")
        await orders.overwrite([{"id": 5, "amount": 50}])
        await orders.expire_snapshots(retain=1)
        assert await query.scan("db.orders").to_pylist() == [{"id": 1, "amount": 10}]
        with pytest.raises(NotFoundError):
            async with lake.query() as other:
                await other.scan("db.orders", snapshot=2).count()


async def test_snapshots_are_pinned_and_schemas_read_through_the_graph(tmp_path: Path) -> None:
    """``snapshot_pin`` resolves a choice to an id, ``schema_at`` reads the schema of then."""
    async with _lake(tmp_path) as lake:
        orders = await lake.table("db.orders")
        before = await lake.graph.snapshot_pin("db.orders")
        await orders.add_column("note", "string")
        after = await lake.graph.snapshot_pin("db.orders")
        assert (before.snapshot, after.snapshot) == (2, 3)
        assert (await lake.graph.snapshot_pin("db.orders", snapshot=2)).schema_id == before.schema_id
        assert list((await lake.graph.schema_at("db.orders", 2)).field_ids) == ["id", "amount"]
        assert list((await lake.graph.schema_at("db.orders")).field_ids) == ["id", "amount", "note"]
        with pytest.raises(NotFoundError):
            await lake.graph.snapshot_pin("db.orders", snapshot=99)


async def test_the_columns_of_a_bundle_are_those_of_the_pinned_snapshot(tmp_path: Path) -> None:
    """A relation that was pinned before a change of its schema is described as it was."""
    async with _lake(tmp_path) as lake, lake.query() as query:
        await query.pin("db.orders")
        await (await lake.table("db.orders")).add_column("note", "string")
        chunks = [chunk async for chunk in query.user_objects(["db.orders", "ice.web.events", "db.none"])]
        part, end = chunks[1].part, chunks[-1].part
        assert isinstance(part, Resolutions)
        assert isinstance(end, BundleEnd)
        orders, events, missing = part.items
        assert orders.relation is not None
        assert [column.name for column in orders.relation.columns] == ["id", "amount"]
        assert events.relation is not None
        assert (events.relation.backend, events.relation.name) == ("iceberg", "ice.web.events")
        assert missing.status is RelationStatus.NOT_FOUND
        assert (end.found, end.not_found) == (2, 1)


async def test_a_view_brings_its_tables_along(tmp_path: Path) -> None:
    """A bundle of a view pins and sends the tables that the view reads."""
    async with _lake(tmp_path) as lake:
        await lake.create_view(
            "db.sold",
            {"duckdb": "SELECT * FROM db.orders JOIN db.items USING (id)"},
            depends_on=["db.orders", "db.items"],
        )
        async with lake.query() as query:
            stream = lake.graph.user_objects(["db.sold"], query=query)
            names = [
                item.relation.name
                async for chunk in stream
                if isinstance(chunk.part, Resolutions)
                for item in chunk.part.items
                if item.relation is not None
            ]
            assert names == ["db.sold", "db.orders", "db.items"]
            assert [pin.name for pin in query.pins] == ["db.orders", "db.items"]


async def test_a_bundle_without_a_query_ends_its_own(tmp_path: Path) -> None:
    """A stream that is given no query pins in one that ends with it, also when it is left early."""
    async with _lake(tmp_path) as lake:
        request = UserObjectsRequest.of([Candidate(ref="db.orders")], engine_kind="postgres")
        stream = lake.graph.user_objects(request)
        await anext(stream)
        assert len(lake.graph.queries.open) == 1
        await stream.aclose()
        assert len(lake.graph.queries.open) == 0


async def test_a_query_is_joined_by_another_lake() -> None:
    """A lake elsewhere over the same warehouse reads what was shared, by its id alone."""
    url = "memory://joined-queries"
    async with lakehouse.connect(url) as lake, lakehouse.connect(url) as other:
        await lake.create_database("db")
        table = await lake.create_table("db.orders", _SCHEMA)
        await table.append([{"id": 1, "amount": 10}])
        async with lake.query() as query:
            await query.pin("db.orders")
            number = await query.share()
            await table.append([{"id": 2, "amount": 20}])
            async with other.join_query(number) as joined:
                assert await joined.scan("db.orders").count() == 1
            async with other.query() as fresh:
                assert await fresh.scan("db.orders").count() == 2


async def test_queries_end_with_their_lake(tmp_path: Path) -> None:
    """A query that outlives its lake's block refuses use."""
    async with _lake(tmp_path) as lake:
        query = await lake.query().__aenter__()
    with pytest.raises(InvalidInputError, match="has ended"):
        await query.pin("db.orders")


async def test_an_account_queries_what_it_sees_and_joins_its_own() -> None:
    """A query of an account finds no hidden table, and only its account joins what it shares."""
    async with Lake(memory_store()) as lake:
        for database in ("acme_sales", "other"):
            await lake.create_database(database)
            await (await lake.create_table(f"{database}.t", _SCHEMA)).append([{"id": 1, "amount": 1}])
        acme = lake.for_account("acme", include=["acme_*"])
        async with acme.query() as query:
            assert await query.scan("acme_sales.t").count() == 1
            with pytest.raises(NotFoundError):
                await query.scan("other.t").count()
            assert query.account == "acme"
            hidden = [item async for item in query.user_objects(["other.t"])][1].part
            assert isinstance(hidden, Resolutions)
            assert hidden.items[0].status is RelationStatus.NOT_FOUND
            number = await query.share()
            async with acme.join_query(number) as joined:
                assert await joined.scan("acme_sales.t").count() == 1
            with pytest.raises(NotFoundError, match="no shared query"):
                async with lake.join_query(number):
                    pass
        scan = acme.data_files()
        assert set((await scan.to_arrow())["table"].to_pylist()) == {"acme_sales.t"}


async def test_queries_of_all_accounts_count_together() -> None:
    """The bound on open queries is the lake's, and leaving the lake ends those of its accounts."""
    settings = Settings.resolve({"catalog.queries_max": 2})
    async with Lake(memory_store(), settings=settings) as lake:
        first = await lake.query().__aenter__()
        second = await lake.for_account("acme").query().__aenter__()
        with pytest.raises(UnavailableError, match="2 queries are open"):
            await lake.for_account("other").query().__aenter__()
    for query in (first, second):
        assert query.remaining_s == 0


def test_a_query_without_await() -> None:
    """The blocking lake has queries, scans, lookups, sharing and bundles of the same names."""
    url = "memory://blocking-queries"
    with lakehouse.sync.connect(url) as lake:
        lake.create_database("db")
        table = lake.create_table("db.orders", _SCHEMA, primary_key="id")
        table.append([{"id": 1, "amount": 10}])
        with lake.query(lifetime_s=100) as query:
            assert query.get("db.orders", {"id": 1}) == {"id": 1, "amount": 10}
            table.append([{"id": 2, "amount": 20}])
            assert query.scan("db.orders").count() == 1
            assert query.get_many("db.orders", [{"id": 1}, {"id": 2}]).num_rows == 1
            assert query.pin("db.orders") == query.pins[0] == query.pin_all("db.orders")[0]
            assert 0 < query.remaining_s <= query.renew() <= 100
            chunks = list(query.user_objects(["db.orders"]))
            assert [chunk.number for chunk in chunks] == [0, 1, 2]
            with lake.join_query(query.share()) as joined:
                assert joined.id == query.id
                assert joined.scan("db.orders").count() == 1
            with pytest.raises(InvalidInputError, match="plans are of Iceberg"):
                query.plan("db.orders")
        with pytest.raises(InvalidInputError, match="has ended"):
            query.scan("db.orders").count()
        with pytest.raises(InvalidInputError, match="has not begun"):
            lake.query().pin("db.orders")
        other = lake.query().__enter__()
        other.close()
        assert other.remaining_s == 0
        assert other.id in repr(other)
