"""Complaints about catalogs and caches of other engines: what they report does not happen here.

Each test names the report. How long plans of very many files take (DuckDB#397, ClickHouse#96024, Trino#26563)
is measured by ``benchmarks``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakehouse.catalog.nodes import TableNode
from lakehouse.config import Settings
from lakehouse.errors import CorruptionError, PermissionDeniedError, UnavailableError
from lakehouse.expr.parse import parse_where
from lakehouse.iceberg import RuntimeFilter
from lakehouse.iceberg import open as open_iceberg
from lakehouse.io import measure
from lakehouse.lake import Lake
from lakehouse.spark.runtime.iceberg_files import TableFiles
from lakehouse.testing import ManualClock, MemoryCatalog, memory_graph, memory_store
from tests.iceberg.catalogs.test_through_pyiceberg import ROWS, sql_table
from tests.kit.expiring_store import ExpiringStore, expiring_store
from tests.kit.iceberg_plans import DAY, data_file, manifest, three_days
from tests.kit.iceberg_rest import RestServer, rest_catalog
from tests.kit.iceberg_spark_tables import SPARK_FOLDER
from tests.kit.iceberg_tables import Table as Written
from tests.kit.iceberg_tables import on_disk, table_files

_ID = pa.schema({"id": pa.int64()})
_MORE = pa.schema({"id": pa.int64(), "more": pa.int64()})


def _orders(clock: ManualClock | None = None) -> MemoryCatalog:
    catalog = MemoryCatalog("mem", clock=clock)
    catalog.add_table("sales.orders", _ID, primary_key=["id"])
    catalog.commit("sales.orders")
    return catalog


# --- Doris --------------------------------------------------------------------------


async def test_inserts_of_others_are_visible_within_two_seconds() -> None:
    """An insert is seen when the bound is over, and nobody says REFRESH (doris#57228: ten minutes)."""
    clock = ManualClock()
    catalog = _orders(clock)
    graph = memory_graph(catalog, clock=clock)
    assert (await graph.table("mem.sales.orders")).current_snapshot == 0
    catalog.commit("sales.orders")
    await clock.advance(2.01)
    assert (await graph.table("mem.sales.orders")).current_snapshot == 1


async def test_a_new_column_waits_for_one_bound_and_not_for_two() -> None:
    """Snapshot and schema come from one pointer: a row is never seen without its column (doris#57187)."""
    clock = ManualClock()
    catalog = _orders(clock)
    graph = memory_graph(catalog, clock=clock)
    await graph.table("mem.sales.orders")
    await clock.advance(1.0)
    catalog.change_schema("sales.orders", _MORE)
    catalog.commit("sales.orders")
    for _ in range(30):
        node = await graph.table("mem.sales.orders")
        assert (node.current_snapshot == 1) is ("more" in node.field_ids)
        await clock.advance(0.1)
    assert "more" in (await graph.table("mem.sales.orders")).field_ids


async def test_listing_thousands_of_tables_loads_none() -> None:
    """Names of 5,000 tables cost pages of names, cold and warm (doris#65988: five minutes)."""
    catalog = MemoryCatalog("mem")
    for number in range(5_000):
        catalog.add_table(f"sales.t{number:04}", _ID)
    graph = memory_graph(catalog)
    names = [name async for name in graph.table_names("mem.sales")]
    assert len(names) == 5_000
    assert set(catalog.counts()) == {"page"}
    page = await graph.resolve_tables(prefix="mem.sales")
    assert page.items
    assert "table" not in catalog.counts()


async def test_partition_fields_and_schema_are_of_one_version() -> None:
    """A node has the partitioning of its own version, however many processes look (doris#60867)."""
    clock = ManualClock()
    catalog = _orders(clock)
    one, other = memory_graph(catalog, clock=clock), memory_graph(catalog.seen_with(""), clock=clock)
    old = await one.table("mem.sales.orders")
    catalog.change_partitions("sales.orders", ["id"])
    new = await other.table("mem.sales.orders")
    assert (old.partition_keys, new.partition_keys) == ((), ("id",))
    assert old.version != new.version
    await clock.advance(2.01)
    assert (await one.table("mem.sales.orders")).partition_keys == new.partition_keys


async def test_a_query_loads_a_table_once() -> None:
    """Name, node, snapshot and schema of a cold table are one look and one load each (doris#65785)."""
    catalog = _orders()
    graph = memory_graph(catalog)
    node = await graph.table("mem.sales.orders")
    assert node.current_snapshot is not None
    await graph.snapshot(node, number=node.current_snapshot)
    await graph.facts_at(node, node.current_snapshot)
    again = await graph.resolve(await graph.resolve_name("mem.sales.orders"))
    assert again is node
    assert all(count == 1 for count in catalog.counts().values())
    assert catalog.counts()["pointer"] == catalog.counts()["table"] == 1


async def test_what_is_shared_discloses_nothing() -> None:
    """Who may not list a namespace finds no table in it that others have loaded (doris#65785)."""
    store = memory_store()
    async with Lake(store) as lake:
        await lake.create_database("hr")
        await lake.create_table("hr.people", _ID)
        await lake.graph.table("hr.people")
        acme = lake.for_account("acme", exclude=["hr"])
        assert not await acme.table_exists("hr.people")
        assert "people" not in str(acme.cache.stats().to_pylist())


async def test_few_giant_tables_push_out_no_other_account() -> None:
    """Bytes bound the caches, and an account keeps its floor (doris#66579, #66717: bounded by count)."""
    store = memory_store()
    wide = pa.schema({f"column_{number:05}": pa.int64() for number in range(1_000)})
    settings = {"cache.max_bytes": 1 << 20, "cache.account_floor_bytes": 64 << 10}
    async with Lake(store, settings=Settings.resolve(settings)) as lake:
        small = lake.for_account("small")
        small._state.sources.attach(_orders())
        number = await small.graph.resolve_name("mem.sales.orders")
        await small.graph.resolve(number)
        giant = MemoryCatalog("giant")
        for count in range(20):
            giant.add_table(f"x.t{count}", wide)
        loud = lake.for_account("loud")
        loud._state.sources.attach(giant)
        for count in range(20):
            await loud.graph.table(f"giant.x.t{count}")
        assert lake.caches.weight <= 1 << 20
        mine = [row for row in lake.cache.stats().to_pylist() if row["account"] == "small"]
        assert sum(row["entries"] for row in mine) >= 1


async def test_a_refresh_changes_nothing_under_a_query(tmp_path: Path) -> None:
    """A table that one reader refreshes stays as it was for every other reader (doris#65851, #66007)."""
    async with Lake(memory_store()) as lake:
        await lake.attach_catalog("ice", sql_table(tmp_path, f"file://{tmp_path}/warehouse"))
        reader, refreshed = await lake.table("ice.web.events"), await lake.table("ice.web.events")
        with SqlCatalog("ice", uri=f"sqlite:///{tmp_path}/catalog.db") as catalog:
            catalog.load_table("web.events").append(ROWS)
        await refreshed.refresh()
        await lake.cache.refresh("ice.web.events", deep=True)
        assert (await reader.snapshots()).num_rows == 1
        assert await reader.scan().count() == ROWS.num_rows
        assert (await refreshed.snapshots()).num_rows == 2


async def test_a_refresh_waits_for_no_load() -> None:
    """A refresh answers while a load hangs, and the value of the load is not kept (doris#64705)."""
    async with Lake(memory_store()) as lake:
        catalog = _orders()
        lake._state.sources.attach(catalog)
        held = catalog.hold("pointer")
        slow = asyncio.ensure_future(lake.graph.table("mem.sales.orders"))
        await held.arrived()
        async with asyncio.timeout(5):
            await lake.cache.refresh("mem.sales.orders")
        catalog.commit("sales.orders")
        held.release()
        await slow
        assert (await lake.graph.table("mem.sales.orders")).current_snapshot == 1


async def test_connections_are_given_back_by_eviction_and_detach(tmp_path: Path) -> None:
    """A catalog that comes and goes leaves no entry, scope or task (doris#66913, floecat#371)."""
    on_disk(three_days(), tmp_path / "db" / "t")
    async with Lake(memory_store()) as lake:
        state = lake._state

        async def passing(times: int) -> tuple[int, int, int, int]:
            for _ in range(times):
                await lake.attach_catalog("ice", {"type": "directory", "warehouse": tmp_path.as_uri()})
                await lake.detach_catalog("ice")
            entries = sum(one.entries for one in lake.caches.stats())
            return entries, lake.caches.weight, len(state.scopes), len(asyncio.all_tasks())

        async def used() -> None:
            await lake.attach_catalog("ice", {"type": "directory", "warehouse": tmp_path.as_uri()})
            table = await lake.table("ice.db.t")
            await lake.graph.table("ice.db.t")
            assert len(await table.plan()) == 30
            await lake.detach_catalog("ice")

        await used()
        before = await passing(3)
        for _ in range(20):
            await used()
        assert await passing(480) == before
        assert before[2] == 0


async def _attached(lake: Lake, table: Written, directory: Path) -> None:
    """Attaches a directory with one table, ``ice.db.t``."""
    on_disk(table, directory / "db" / "t")
    await lake.attach_catalog("ice", {"type": "directory", "warehouse": directory.as_uri()})


def _days(count: int) -> Written:
    """A table of one file for each of so many days, all in one manifest."""
    files = [data_file(DAY + number, number) for number in range(count)]
    days = three_days()
    (snapshot,) = days.snapshots
    return dataclasses.replace(
        days, snapshots=[dataclasses.replace(snapshot, manifests=[manifest("all", files)])]
    )


async def test_a_partition_list_that_cannot_be_read_fails_no_query(tmp_path: Path) -> None:
    """Partitions are told as a problem; nodes and plans that need no such manifest go on (doris#57987)."""
    async with Lake(memory_store()) as lake:
        await _attached(lake, three_days(), tmp_path)
        (tmp_path / "db/t/metadata/m2.avro").unlink()
        info = await lake.graph.partitions("ice.db.t")
        assert (info.partitions, "m2.avro" in str(info.problem)) == ((), True)
        assert isinstance(await lake.graph.table("ice.db.t"), TableNode)
        assert len(await (await lake.table("ice.db.t")).plan("at < timestamp '2024-01-02 00:00:00'")) == 10


async def test_partition_lists_are_read_once_for_a_snapshot(tmp_path: Path) -> None:
    """Asked again by each query and each refresh, they cost no request (doris#65785: 4 to 6 times)."""
    async with Lake(memory_store(), clock=ManualClock()) as lake:
        await _attached(lake, three_days(), tmp_path)
        first = await lake.graph.partitions("ice.db.t")
        assert len(first.partitions) == 3
        with measure() as cost:
            assert await lake.graph.partitions("ice.db.t") == first
            assert await lake.graph.partitions("ice.db.t", 1) == first
        assert cost.requests == 0


async def test_partition_lists_are_bounded_by_bytes(tmp_path: Path) -> None:
    """A table of very many partitions is answered and does not outgrow the budget (StarRocks#67760)."""
    settings = Settings.resolve({"cache.max_bytes": 1 << 17, "cache.account_floor_bytes": 0})
    async with Lake(memory_store(), settings=settings) as lake:
        await _attached(lake, _days(300), tmp_path)
        for _ in range(2):
            assert len((await lake.graph.partitions("ice.db.t")).partitions) == 300
            assert lake.caches.weight <= 1 << 17


async def test_histories_of_snapshots_are_bounded_by_bytes() -> None:
    """Tables of thousands of snapshots are listed within the budget (StarRocks#47630: out of memory)."""
    settings = Settings.resolve({"cache.max_bytes": 1 << 18, "cache.account_floor_bytes": 0})
    async with Lake(memory_store(), settings=settings) as lake:
        catalog = _orders()
        for _ in range(1_000):
            catalog.commit("sales.orders")
        lake._state.sources.attach(catalog)
        node = await lake.graph.table("mem.sales.orders")
        assert len(await lake.graph.snapshots(node)) == 1_001
        assert lake.caches.weight <= 1 << 18


async def test_plans_depend_on_no_one_machine(tmp_path: Path) -> None:
    """A state that travelled is planned alike by any process, with nothing of who opened it (doris#62006)."""
    on_disk(three_days(), tmp_path / "t")
    async with await open_iceberg((tmp_path / "t").as_uri()) as table:
        wanted = sorted(task.path for task in (await table.plan("id < 150")).tasks())
        travelled = pickle.dumps((pickle.dumps(table.state().locations), table.state()))
    places, state = pickle.loads(travelled)
    files = TableFiles(places, state)
    try:
        plan = await asyncio.to_thread(files.call, files.plan, state, parse_where("id < 150"))
        assert sorted(task.path for task in plan.tasks()) == wanted
    finally:
        await asyncio.to_thread(files.close)


# --- credentials --------------------------------------------------------------------


@pytest.fixture
def files() -> Iterator[ExpiringStore]:
    """A store with an Iceberg table, which the key ``k1`` may read."""
    metadata, contents = table_files(three_days(), "s3://bucket/wh/db/t")
    with expiring_store() as store:
        store.objects = {f"bucket/wh/db/t/{name}": data for name, data in contents.items()}
        store.objects["metadata"] = metadata.encode()
        store.keys = {"k1"}
        yield store


@pytest.fixture
def rest(files: ExpiringStore) -> Iterator[RestServer]:
    """A REST catalog that hands out the first good key of the store with its table."""
    metadata = files.objects["metadata"].decode()

    def answer() -> dict[str, Any]:
        key = min(files.keys)
        return {
            "metadata-location": f"s3://bucket/wh/db/t/{metadata}",
            "metadata": json.loads(files.objects[f"bucket/wh/db/t/{metadata}"]),
            "config": {
                "s3.endpoint": files.url,
                "s3.access-key-id": key,
                "s3.secret-access-key": f"secret of {key}",
                "s3.region": "us-east-1",
            },
        }

    with rest_catalog() as server:
        server.tables[("db", "t")] = answer
        yield server


async def test_a_401_wedges_no_catalog(rest: RestServer) -> None:
    """A catalog that refused a token for a while answers on, and nothing is restarted (doris#64966)."""
    async with Lake(memory_store(), clock=ManualClock()) as lake:
        rest.token = "t1"
        await lake.attach_catalog("ice", {"type": "rest", "uri": rest.url, "token": "t1"})
        await lake.graph.table("ice.db.t")
        rest.token = "other"
        await lake.cache.refresh("ice")
        with pytest.raises(PermissionDeniedError):
            await lake.graph.table("ice.db.t")
        rest.token = "t1"
        assert isinstance(await lake.graph.table("ice.db.t"), TableNode)


async def test_expired_credentials_are_never_used_again(rest: RestServer, files: ExpiringStore) -> None:
    """Expired keys are asked for again, no cache has them (StarRocks#75431, DuckDB#1352, Iceberg#16473)."""
    clock = ManualClock()
    async with Lake(memory_store(), clock=clock) as lake:
        await lake.attach_catalog("ice", {"type": "rest", "uri": rest.url})
        await lake.graph.table("ice.db.t")
        table = await lake.table("ice.db.t")
        files.keys = {"k2"}
        assert len(await table.plan()) == 30
        asked = len(files.asked)
        await clock.advance(2.1)
        await lake.graph.table("ice.db.t")
        assert len(await (await lake.table("ice.db.t")).plan()) == 30
        assert {key for key, _, status in files.asked[asked:] if status == 200} <= {"k2"}


async def test_a_catalog_that_is_down_is_used_again_when_it_is_back() -> None:
    """Answers within the bound, then an error that says so, and the next answer when there is one."""
    clock = ManualClock()
    catalog = _orders(clock)
    graph = memory_graph(catalog, clock=clock)
    node = await graph.table("mem.sales.orders")
    catalog.is_down = True
    assert await graph.table("mem.sales.orders") is node
    await clock.advance(2.1)
    for _ in range(3):
        with pytest.raises(UnavailableError, match="cannot be reached"):
            await graph.table("mem.sales.orders")
    catalog.mend()
    assert (await graph.table("mem.sales.orders")).id == node.id


# --- StarRocks, DuckDB --------------------------------------------------------------


async def test_a_path_that_is_used_again_shows_nothing_old(tmp_path: Path) -> None:
    """A table that is made again under its old metadata path is another one (StarRocks#54786, #54915)."""
    clock = ManualClock()
    home = tmp_path / "db" / "t"
    first = Path(on_disk(three_days(), home))
    document = json.loads(first.read_text())  # noqa: ASYNC240 - the test's own files
    async with Lake(memory_store(), clock=clock) as lake:
        await lake.attach_catalog("ice", {"type": "directory", "warehouse": tmp_path.as_uri()})
        old = await lake.graph.table("ice.db.t")
        shutil.rmtree(home)
        again = Path(on_disk(three_days(), home))
        assert again == first
        other = {**document, "table-uuid": "7a9f1de0-5f5e-4c39-9d2c-5b3a1e9a0001", "last-updated-ms": 1}
        empty = json.dumps({**other, "snapshots": [], "current-snapshot-id": -1, "refs": {}})
        again.write_text(empty)  # noqa: ASYNC240 - likewise
        await clock.advance(2.1)
        new = await lake.graph.table("ice.db.t")
        assert (old.current_snapshot, new.current_snapshot) == (1, None)
        assert new.id != old.id


async def test_a_query_that_was_planned_before_reads_no_manifest_list_again(tmp_path: Path) -> None:
    """A second plan of a snapshot makes no request at all (StarRocks#67033)."""
    on_disk(three_days(), tmp_path / "db" / "t")
    async with Lake(memory_store()) as lake:
        await lake.attach_catalog("ice", {"type": "directory", "warehouse": tmp_path.as_uri()})
        table = await lake.table("ice.db.t")
        await table.plan()
        with measure() as cost:
            await table.plan("id > 3")
        assert cost.requests == 0


async def test_own_writes_are_visible_at_once() -> None:
    """Who commits sees the commit in the next node and the next scan, whatever was cached (DuckDB#982)."""
    async with Lake(memory_store()) as lake:
        await lake.create_database("sales")
        table = await lake.create_table("sales.orders", _ID)
        before = await lake.graph.table("sales.orders")
        await table.append([{"id": 1}])
        after = await lake.graph.table("sales.orders")
        assert after.current_snapshot != before.current_snapshot
        assert await (await lake.table("sales.orders")).scan().count() == 1


async def test_no_plan_is_made_of_files_that_were_evicted_while_filling(tmp_path: Path) -> None:
    """Plans see every file, though what they load is pushed out meanwhile (StarRocks#70522: 507 of 7,593)."""
    settings = Settings.resolve({"cache.max_bytes": 40 << 10, "cache.account_floor_bytes": 0})
    async with Lake(memory_store(), settings=settings) as lake:
        await _attached(lake, three_days(), tmp_path)
        tables = [await lake.table("ice.db.t") for _ in range(4)]
        for _ in range(5):
            plans = [asyncio.ensure_future(table.plan()) for table in tables]
            await asyncio.sleep(0)
            await lake.cache.clear()
            assert [len(plan) for plan in await asyncio.gather(*plans)] == [30] * 4


async def test_a_manifest_that_was_served_in_part_is_not_kept(tmp_path: Path) -> None:
    """A cut manifest fails the plan, and the next plan has every file; nobody refreshes (StarRocks#70522)."""
    async with Lake(memory_store()) as lake:
        await _attached(lake, three_days(), tmp_path)
        table, cut = await lake.table("ice.db.t"), tmp_path / "db/t/metadata/m1.avro"
        whole = cut.read_bytes()
        cut.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(CorruptionError, match=r"m1\.avro"):
            await table.plan()
        cut.write_bytes(whole)
        assert len(await table.plan()) == 30


# --- Trino, Impala ------------------------------------------------------------------


async def test_no_number_of_manifests_is_too_many_to_keep(tmp_path: Path) -> None:
    """A second plan over more than a hundred manifests reads none of them (Trino#27358)."""
    days = three_days()
    (snapshot,) = days.snapshots
    many = [manifest(f"n{number}", [data_file(DAY, number)]) for number in range(120)]
    written = dataclasses.replace(days, snapshots=[dataclasses.replace(snapshot, manifests=many)])
    async with Lake(memory_store()) as lake:
        await _attached(lake, written, tmp_path)
        table = await lake.table("ice.db.t")
        assert len(await table.plan()) == 120
        with measure() as cost:
            assert len(await table.plan("id < 50")) == 5
        assert cost.requests == 0


@pytest.mark.parametrize("name", ["position_deletes", "equality_deletes", "vectors"])
async def test_runtime_filters_and_deletes_together_lose_no_row(name: str) -> None:
    """Of a table with deletes a filter keeps each row that has its keys (IMPALA-11740: empty result)."""
    async with await open_iceberg((SPARK_FOLDER / name).as_uri(), moved=True) as table:
        rows = await table.scan(columns=["id"]).to_arrow()
        ids = sorted(rows["id"].to_pylist())
        wanted = ids[:: max(1, len(ids) // 5)]
        found = await table.scan(columns=["id"], runtime_filters=[RuntimeFilter.in_("id", wanted)]).to_arrow()
        assert wanted
        assert set(wanted) <= set(found["id"].to_pylist()) <= set(ids)
