"""``lake.cache``: statistics, refresh, prewarm and clear of a lake with tables of ours and of Iceberg's."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import lakehouse
from lakehouse.catalog.control import LakeCache
from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.sources import Pointer
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.io import measure
from lakehouse.lake import Lake
from tests.iceberg.catalogs.test_through_pyiceberg import ROWS, sql_table

SCHEMA = pa.schema({"id": pa.int64()})


@contextlib.asynccontextmanager
async def lake_of(directory: Path, *tables: str) -> AsyncIterator[Lake]:
    """A lake with tables of one row in its database ``db``."""
    async with lakehouse.connect(f"memory://caches/{directory.name}") as lake:
        if not await lake.table_exists("db.first"):
            await lake.create_database("db")
        for name in tables:
            await (await lake.create_table(f"db.{name}", SCHEMA, primary_key="id")).append([{"id": 1}])
        yield lake


async def reads(lake: Lake, name: str) -> dict[str, int]:
    """Requests that looking at a table's newest files costs."""
    with measure() as cost:
        await (await (await lake.table(name)).core.newest()).entries()
    return cost.by_kind()


def entries(lake: Lake, entry: str) -> int:
    """Entries that a cache holds."""
    return sum(row["entries"] for row in lake.cache.stats().to_pylist() if row["entry"] == entry)


async def test_a_prewarmed_table_needs_no_request_for_content(tmp_path: Path) -> None:
    """After a prewarm a read asks for the name and the newest snapshot, and not for what these lead to."""
    async with lake_of(tmp_path, "first"):
        pass
    async with lake_of(tmp_path) as lake:
        cold = await reads(lake, "db.first")
    async with lake_of(tmp_path) as lake:
        held = await lake.table("db.first")
        report = await lake.cache.prewarm(["db.first"])
        assert (report.warmed, dict(report.errors)) == (1, {})
        assert await reads(lake, "db.first") == {"get": 2}
        assert sum(cold.values()) > 2
        del held


async def test_one_broken_table_harms_no_other(tmp_path: Path) -> None:
    """A prewarm of many tables reports the one that is not there, by its name, and warms the others."""
    async with lake_of(tmp_path, "first", "second") as lake:
        report = await lake.cache.prewarm(["db.first", "db.gone", ("db", "second")])
        assert report.warmed == 2
        assert [type(error) for error in report.errors.values()] == [NotFoundError]
        assert list(report.errors) == ["db.gone"]


async def test_own_commits_leave_their_content_in_memory(tmp_path: Path) -> None:
    """A commit keeps the snapshot, the schema and manifests that it wrote: the next read here asks whether
    there is a newer snapshot and for nothing else."""
    async with lake_of(tmp_path, "first") as lake:
        table = await lake.table("db.first")
        for number in range(140):  # enough for entries to move from snapshots into a manifest
            await table.append([{"id": number}])
        with measure() as cost:
            view = await table.core.newest()
            ours = list(await view.entries())
        assert view.snapshot.manifests
        assert cost.by_kind() == {"get": 1}
        await lake.cache.clear()
        assert list(await (await table.core.newest()).entries()) == ours


async def test_a_manifest_kept_at_commit_is_the_one_that_was_written(tmp_path: Path) -> None:
    """What a commit keeps of a manifest of many files is what reading it gives, positions included."""
    async with lake_of(tmp_path) as lake:
        table = await lake.create_table(
            "db.wide", pa.schema({"id": pa.int64(), "part": pa.int64()}), primary_key=["part", "id"],
            partition_by=["part"],
        )  # fmt: skip
        await table.append([{"id": 1, "part": number} for number in range(130)])
        kept = list(await (await table.core.newest()).entries())
        await lake.cache.clear()
        with measure() as cost:
            assert list(await (await table.core.newest()).entries()) == kept
        assert cost.by_kind()["get"] > 1


async def test_a_deep_refresh_of_one_table_leaves_the_others(tmp_path: Path) -> None:
    """Snapshots, schema and manifests of the table named go, those of its neighbour stay."""
    async with lake_of(tmp_path, "first", "second") as lake:
        before = entries(lake, "table-schemas")
        assert await lake.cache.refresh("db.first") == 0  # nothing stale was held
        assert entries(lake, "table-schemas") == before
        assert await lake.cache.refresh("db.first", deep=True) >= 2
        assert entries(lake, "table-schemas") == before - 1
        assert await reads(lake, "db.second") == {"get": 2}


async def test_a_deep_refresh_makes_nodes_anew(tmp_path: Path) -> None:
    """The node of a version that did not change is made of content that is read again, for every account."""
    async with lake_of(tmp_path, "first") as lake:
        graphs = [lake.graph, lake.for_account("somebody").graph]
        for graph in graphs:
            node = await graph.table("db.first")
            assert await graph.table("db.first") is node
            await lake.cache.refresh("db.first")
            assert await graph.resolve(node.id) is node
            await lake.cache.refresh("db.first", deep=True)
            with measure() as cost:
                anew = await graph.resolve(node.id)
            assert anew == node
            assert anew is not node
            assert cost.requests >= (2 if graph is lake.graph else 0)  # of others the pointers stay


async def test_a_dropped_table_leaves_no_content(tmp_path: Path) -> None:
    """Dropping a table drops all that was kept of it, manifests included, and nothing of its neighbour."""
    async with lake_of(tmp_path, "first", "second") as lake:
        schemas, snapshots = entries(lake, "table-schemas"), entries(lake, "table-snapshots")
        await lake.drop_table("db.first")
        assert entries(lake, "table-schemas") == schemas - 1
        assert entries(lake, "table-snapshots") < snapshots
        assert await reads(lake, "db.second") == {"get": 2}


async def test_drop_and_recreate_under_one_name_never_shows_old_content(tmp_path: Path) -> None:
    """A table made anew under the name of a dropped one has its own schema and no rows, at once."""
    async with lake_of(tmp_path, "first") as lake:
        await lake.cache.prewarm(["db.first"])
        await lake.drop_table("db.first")
        await lake.create_table("db.first", pa.schema({"other": pa.string()}))
        table = await lake.table("db.first")
        assert (await table.scan().to_arrow()).schema.names == ["other"]
        assert (await table.scan().to_arrow()).num_rows == 0


async def test_a_refreshed_table_loads_only_what_is_new(tmp_path: Path) -> None:
    """After a commit elsewhere, a plan of a table of Iceberg's fetches the new manifest list and the one new
    manifest; those that it knew stay in memory."""
    properties = sql_table(tmp_path, f"file://{tmp_path}/warehouse")
    with contextlib.closing(SqlCatalog("ice", uri=properties["uri"])) as elsewhere:
        theirs = elsewhere.load_table("web.events")
        for _ in range(4):
            theirs.append(ROWS)
        async with lake_of(tmp_path) as lake:
            await lake.attach_catalog("ice", properties)
            table = await lake.table("ice.web.events")
            with measure() as cold:
                await table.plan()
            theirs.append(ROWS)
            await lake.cache.refresh("ice.web.events")
            await table.refresh()
            with measure() as grown:
                await table.plan()
            with measure() as warm:
                plan = await table.plan()
            assert (cold.requests, grown.requests, warm.requests) == (1 + 5, 1 + 1, 0)
            assert str(plan.explain()).endswith("manifest cache: hits=6 misses=0")
            await lake.cache.refresh("ice.web.events", deep=True)
            with measure() as deep:
                plan = await table.plan()
            assert deep.requests == 1 + 6
            assert str(plan.explain()).endswith("manifest cache: hits=0 misses=6")


async def test_refresh_reaches_what_it_names(tmp_path: Path) -> None:
    """A target with the name of an attached catalog first is in it; any other is in the warehouse."""
    async with lake_of(tmp_path) as lake:
        await lake.attach_catalog("ice", {"type": "directory", "warehouse": f"file://{tmp_path}/none"})
        account = lake._state.layers.account()
        places = [("ice", ("db", "t")), ("", ("db", "t")), ("", ("ice2", "t"))]

        async def held(*targets: Any) -> list[tuple[str, tuple[str, ...]]]:
            for catalog, path in places:
                account.pointers.put(account.pointer_key(catalog, path), pointer(path))
            for target in targets:
                await lake.cache.refresh(target)
            keys = [(catalog, path, account.pointer_key(catalog, path)) for catalog, path in places]
            return [(catalog, path) for catalog, path, key in keys if key in account.pointers]

        assert await held("ice") == places[1:]
        assert await held("ice.db.t") == places[1:]
        assert await held("db") == [places[0], places[2]]
        assert await held(("db", "t")) == [places[0], places[2]]
        assert await held(None) == []


def pointer(path: tuple[str, ...]) -> Pointer:
    """A pointer of a table."""
    return Pointer(
        path=path,
        kind=NodeKind.TABLE,
        identity=uuid.uuid4(),
        version="1",
        content_key=("1",),
        location="",
    )


async def test_listeners_hear_what_is_dropped(tmp_path: Path) -> None:
    """Whoever keeps something beside the layers is told the account, the catalog and the path."""
    heard: list[Any] = []

    class Listener:
        """Notes what it hears."""

        def dropped(self, account: str, catalog: str | None, path: tuple[str, ...]) -> None:
            """Hears of a drop."""
            heard.append((account, catalog, path))

        def content_dropped(self, identities: Collection[uuid.UUID]) -> None:
            """Hears nothing that is asked for here."""

    async with lake_of(tmp_path) as lake:
        lake._state.layers.listeners.append(Listener())
        await lake.cache.refresh("db.t")
        await lake.cache.clear()
        assert heard == [("default", "", ("db", "t")), ("default", None, ())]


async def test_clear_empties_one_cache_or_all(tmp_path: Path) -> None:
    """One cache by its name, or every one; a name that is none is an error with the nearest."""
    async with lake_of(tmp_path, "first") as lake:
        assert await lake.cache.clear("table-schemas") == 1
        assert await lake.cache.clear("table-schemas") == 0
        await reads(lake, "db.first")
        await lake.cache.clear()
        assert lake.caches.weight == 0
        with pytest.raises(InvalidInputError, match="table-schemas"):
            await lake.cache.clear("table-schema")


async def test_an_account_clears_its_own_caches_alone(tmp_path: Path) -> None:
    """Shared content is not an account's to clear, and neither are metrics of all its to see."""
    async with lake_of(tmp_path, "first") as lake:
        scoped = LakeCache(
            lake._state.layers,
            warm=lake._state.warm,
            identify=lake._state.identity,
            catalogs=list,
            account="me",
            sees_all=False,
        )
        lake._state.layers.account("me")
        held = entries(lake, "table-schemas")
        assert await scoped.clear() == 0
        assert entries(lake, "table-schemas") == held
        with pytest.raises(InvalidInputError, match="there is no cache"):
            await scoped.clear("table-schemas")
        with pytest.raises(InvalidInputError, match="metrics"):
            scoped.metrics()
        assert set(scoped.stats()["account"].to_pylist()) <= {None, "me"}


@pytest.mark.parametrize("target", ["", "db.", ".t", ()])
async def test_a_target_without_a_name_is_refused(tmp_path: Path, target: Any) -> None:
    """An empty part is an error, not everything."""
    async with lake_of(tmp_path) as lake:
        with pytest.raises(InvalidInputError, match="empty part"):
            await lake.cache.refresh(target)


async def test_invalidations_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A refresh leaves a line that says whose, of what, and how many entries went."""
    caplog.set_level(logging.INFO, "lakehouse")
    async with lake_of(tmp_path) as lake:
        await lake.cache.refresh("db.t", deep=False)
    (record,) = [one for one in caplog.records if "caches refreshed" in one.getMessage()]
    assert record.__dict__["lakehouse"]["path"] == ("db", "t")
