"""Catalogs of Iceberg tables as sources: what a look costs, what tells two versions apart, what is kept."""

from __future__ import annotations

import contextlib
import copy
import pickle
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import lakehouse
from lakehouse.catalog.ids import NodeKind
from lakehouse.errors import CorruptionError, NotFoundError, UnavailableError
from lakehouse.io import measure, open_store
from lakehouse.lake import Lake
from lakehouse.testing import ManualClock
from tests.iceberg.catalogs.test_through_pyiceberg import sql_table
from tests.kit.iceberg_metadata import FIRST, SECOND, document, encoded
from tests.kit.iceberg_rest import RestServer, rest_catalog

NAME = "ice.web.events"


@contextlib.asynccontextmanager
async def _attached(properties: Mapping[str, Any], name: str) -> AsyncIterator[tuple[Lake, ManualClock]]:
    clock = ManualClock()
    async with lakehouse.connect(
        f"memory://graph-iceberg/{name}", clock=clock, settings={"io.retry_attempts": 1}
    ) as lake:
        await lake.attach_catalog("ice", properties)
        yield lake, clock


async def _write(directory: str, version: int, **changes: Any) -> None:
    """Writes a version of a table's metadata into its directory, with the hint."""
    async with open_store(directory) as store:
        made = encoded(document(location=store.url, **changes))
        await store.put(f"metadata/v{version}.metadata.json", made)
        await store.put("metadata/version-hint.text", str(version).encode())


def _older(number: int) -> dict[str, Any]:
    """Changes that make a document of the state before its last snapshot."""
    whole = copy.deepcopy(document())
    return {
        "current-snapshot-id": number,
        "snapshots": [one for one in whole["snapshots"] if one["snapshot-id"] == number],
        "snapshot-log": [],
        "refs": {},
    }


async def test_a_directory_is_looked_at_by_its_hint_and_read_once() -> None:
    """Cold a directory costs what ``iceberg.open`` does; a look that finds nothing new reads no metadata."""
    root = "memory://graph-directory/once"
    await _write(f"{root}/web/events", 1)
    async with _attached({"type": "directory", "warehouse": root}, "once") as (lake, clock):
        with measure() as cold:
            node = await lake.graph.table(NAME)
        assert cold.by_kind() == {"get": 5}
        with measure() as warm:
            assert await lake.graph.resolve(node.id) is node
            await lake.graph.snapshot(node, number=FIRST)
            await lake.graph.facts_at(node, FIRST)
        assert warm.by_kind() == {}
        await clock.advance(2.1)
        with measure() as look:
            assert await lake.graph.resolve(node.id) is node
        # The hint, and the three names that a next version could have: its metadata are told by their HEAD.
        assert look.by_kind() == {"get": 4, "head": 1}


async def test_a_new_version_is_seen_after_the_bound() -> None:
    """A commit to a directory is unseen while the pointer is fresh, and then seen whole."""
    root = "memory://graph-directory/new"
    await _write(f"{root}/web/events", 1, **_older(FIRST))
    async with _attached({"type": "directory", "warehouse": root}, "new") as (lake, clock):
        node = await lake.graph.table(NAME)
        assert node.current_snapshot == FIRST
        await _write(f"{root}/web/events", 2)
        await clock.advance(1.9)
        assert (await lake.graph.table(NAME)).current_snapshot == FIRST
        await clock.advance(0.2)
        newer = await lake.graph.table(NAME)
        assert (newer.current_snapshot, newer.previous_snapshot, newer.id) == (SECOND, FIRST, node.id)
        assert newer.version != node.version


async def test_a_table_made_again_under_the_path_of_its_predecessor_is_another_one() -> None:
    """A path that is used twice never shows the old table (StarRocks#54786)."""
    root = "memory://graph-directory/again"
    at = f"{root}/web/events"
    await _write(at, 1)
    async with _attached({"type": "directory", "warehouse": root}, "again") as (lake, clock):
        old = await lake.graph.table(NAME)
        changes = {"table-uuid": "11111111-2222-4333-8444-555555555555", "properties": {"made": "again"}}
        await _write(at, 1, **changes, **_older(FIRST))
        await clock.advance(2.1)
        new = await lake.graph.table(NAME)
        assert new.id != old.id
        assert (new.current_snapshot, old.current_snapshot) == (FIRST, SECOND)
        with pytest.raises(NotFoundError):
            await lake.graph.resolve(old.id)


async def test_a_file_written_over_is_another_version() -> None:
    """Metadata of the same uuid under the same path, with other bytes, are told apart by their ETag."""
    root = "memory://graph-directory/over"
    await _write(f"{root}/web/events", 1)
    async with _attached({"type": "directory", "warehouse": root}, "over") as (lake, clock):
        old = await lake.graph.table(NAME)
        await _write(f"{root}/web/events", 1, **_older(FIRST))
        await clock.advance(2.1)
        new = await lake.graph.table(NAME)
        assert (new.id, new.current_snapshot) == (old.id, FIRST)


async def test_tables_of_version_1_without_a_uuid_have_a_stable_id() -> None:
    """Where metadata tell no uuid, a table is told by its place, and stays itself over its versions."""
    root = "memory://graph-directory/first"
    plain = document()
    fields = plain["schemas"][1]["fields"]
    old = {
        "format-version": 1,
        "schema": {"type": "struct", "fields": fields},
        "partition-spec": [],
        "table-uuid": None,
    }
    await _write(f"{root}/web/events", 1, **old)
    async with _attached({"type": "directory", "warehouse": root}, "first") as (lake, clock):
        node = await lake.graph.table(NAME)
        await _write(f"{root}/web/events", 2, **old, properties={"a": "b"})
        await clock.advance(2.1)
        again = await lake.graph.table(NAME)
        assert again.id == node.id
        assert again.version != node.version


async def test_facts_say_what_the_metadata_say() -> None:
    """Columns, key, partitions, references and location come out of the metadata file."""
    root = "memory://graph-directory/facts"
    await _write(f"{root}/web/events", 1)
    async with _attached({"type": "directory", "warehouse": root}, "facts") as (lake, _clock):
        node = await lake.graph.table(NAME)
        assert (node.format, node.primary_key, node.not_null) == ("iceberg", ("x",), ("x",))
        assert node.partition_keys == ("bucket(4, x)",)
        assert dict(node.field_ids) == {"x": 1, "y": 2}
        assert '"doc":"the key"' in node.schema_json
        before = await lake.graph.facts_at(node, FIRST)
        assert before.current_snapshot == FIRST
        snapshots = await lake.graph.snapshots(node)
        assert [one.id for one in snapshots] == [FIRST, SECOND]
        assert (await lake.graph.snapshot(node, as_of_ms=1515100955770)).id == FIRST


async def test_a_sql_catalog_costs_one_get_and_then_none(tmp_path: Path) -> None:
    """The metadata file is read once, and no more while the catalog names the same one."""
    properties = sql_table(tmp_path, f"file://{tmp_path}/warehouse")
    async with _attached(properties, "sql") as (lake, clock):
        with measure() as cold:
            node = await lake.graph.table(NAME)
        assert cold.by_kind() == {"get": 1}
        await clock.advance(2.1)
        with measure() as look:
            assert await lake.graph.resolve(node.id) is node
        assert look.by_kind() == {}


@contextlib.contextmanager
def _rest(root: Path) -> Iterator[RestServer]:
    """A REST catalog with one table, whose metadata stand in a file."""
    with rest_catalog() as server:
        server.tables["web", "events"] = lambda: _loaded(root, 1)
        yield server


def _loaded(root: Path, version: int, **changes: Any) -> dict[str, Any]:
    at = root / "events" / "metadata"
    at.mkdir(parents=True, exist_ok=True)
    made = document(location=f"file://{root}/events", **changes)
    path = at / f"0000{version}-a.metadata.json"
    path.write_bytes(encoded(made))
    return {
        "metadata-location": f"file://{path}",
        "metadata": made,
        "config": {"s3.secret-access-key": "SECRET-HANDED-OUT"},
    }


async def test_a_rest_catalog_costs_one_load_and_one_get_and_then_one_load(tmp_path: Path) -> None:
    """Cold: a load and the metadata file; each window after that a load alone."""
    with _rest(tmp_path) as server:
        async with _attached({"type": "rest", "uri": server.url}, "rest") as (lake, clock):
            with measure() as cold:
                node = await lake.graph.table(NAME)
            assert cold.by_kind() == {"get": 1}
            asked = len(server.asked)
            with measure() as warm:
                assert await lake.graph.resolve(node.id) is node
                assert await lake.graph.table(NAME) is node
            await clock.advance(2.1)
            with measure() as look:
                assert await lake.graph.resolve(node.id) is node
            assert (warm.by_kind(), look.by_kind()) == ({}, {})
            assert len(server.asked) == asked + 1


async def test_a_rest_catalog_that_is_down_is_not_wedged(tmp_path: Path) -> None:
    """A catalog that refuses is stale within the bound, then an error, then itself again (doris#64966)."""
    with _rest(tmp_path) as server:
        async with _attached({"type": "rest", "uri": server.url, "token": "good"}, "down") as (lake, clock):
            node = await lake.graph.table(NAME)
            for status in (401, 503):
                server.failing = status
                await clock.advance(1)
                assert await lake.graph.resolve(node.id) is node
                await clock.advance(1.1)
                for _ in range(2):
                    with pytest.raises((UnavailableError, lakehouse.errors.PermissionDeniedError)):
                        await lake.graph.resolve(node.id)
                server.failing = None
                assert await lake.graph.resolve(node.id) is node


async def test_no_cached_value_holds_credentials(tmp_path: Path) -> None:
    """Neither what a catalog hands out nor what it was attached with is in any cache."""
    with _rest(tmp_path) as server:
        properties = {"type": "rest", "uri": server.url, "token": "SECRET-TOKEN"}
        async with _attached(properties, "secrets") as (lake, _clock):
            server.token = "SECRET-TOKEN"
            node = await lake.graph.table(NAME)
            pointer = await lake.graph.pointer(NAME)
            kept: list[Any] = [node, pointer]
            for region in lake.caches.regions():
                kept += [value for _, value in region.held(())]
            for value in kept:
                shown = repr(value).encode()
                with contextlib.suppress(TypeError, AttributeError, pickle.PicklingError):
                    shown += pickle.dumps(value)
                assert b"SECRET" not in shown


async def test_a_version_that_is_kept_no_more_is_read_again() -> None:
    """A pointer whose content was evicted leads to the same content, though a newer version is there."""
    root = "memory://graph-directory/evicted"
    await _write(f"{root}/web/events", 1, **_older(FIRST))
    async with _attached({"type": "directory", "warehouse": root}, "evicted") as (lake, _clock):
        pointer = await lake.graph.pointer(NAME)
        await _write(f"{root}/web/events", 2)
        lake._state.layers.drop_content([pointer.identity])
        facts = await lake._state.sources.get("ice").table(pointer)
        assert facts.current_snapshot == FIRST


async def test_detaching_leaves_nothing() -> None:
    """Pointers, metadata, listings and nodes of a catalog go with it (floecat#371)."""
    root = "memory://graph-directory/detach"
    await _write(f"{root}/web/events", 1)
    async with _attached({"type": "directory", "warehouse": root}, "detach") as (lake, _clock):
        before = {stat.name: stat.entries for stat in lake.caches.stats()}
        node = await lake.graph.table(NAME)
        await lake.graph.resolve_tables(prefix="ice.web")
        await lake.graph.namespace("ice.web")
        await lake.detach_catalog("ice")
        assert {stat.name: stat.entries for stat in lake.caches.stats() if stat.entries} == {
            name: entries for name, entries in before.items() if entries
        }
        for asked in (lake.graph.resolve(node.id), lake.graph.table(NAME), lake.table(NAME)):
            with pytest.raises(NotFoundError):
                await asked


VIEW = uuid.UUID("21222324-2526-2728-292a-2b2c2d2e2f30")


def _view(sql: str, number: int = 1, **changes: Any) -> dict[str, Any]:
    """A REST catalog's answer to the loading of a view."""
    version = {
        "version-id": number,
        "schema-id": 0,
        "timestamp-ms": 1_700_000_000_000 + number,
        "summary": {},
        "representations": [
            {"type": "sql", "sql": sql, "dialect": "spark"},
            {"type": "sql", "sql": sql.lower(), "dialect": "duckdb"},
        ],
        "default-namespace": ["web"],
    }
    field = {"id": 1, "name": "n", "type": "long", "required": False}
    metadata = {
        "view-uuid": str(VIEW),
        "format-version": 1,
        "location": "file:///views/v",
        "schemas": [{"type": "struct", "schema-id": 0, "fields": [field]}],
        "current-version-id": number,
        "versions": [version],
        "version-log": [{"timestamp-ms": version["timestamp-ms"], "version-id": number}],
        "properties": {"owner": "ann"},
        **changes,
    }
    return {"metadata-location": "file:///views/v/metadata/v1.json", "metadata": metadata, "config": {}}


async def test_views_of_a_rest_catalog_are_nodes_and_renewed(tmp_path: Path) -> None:
    """A view is listed as one, read by its name, the same node while it does not change, then another."""
    with _rest(tmp_path) as server:
        server.views["web", "v"] = lambda: _view("SELECT count(*) AS n FROM events")
        properties = {"type": "rest", "uri": server.url, "view-endpoints-supported": "true"}
        async with _attached(properties, "views") as (lake, clock):
            node = await lake.graph.view("ice.web.v")
            assert (node.version, node.owner, node.columns) == ("1@1700000000001", "ann", ("n",))
            assert (node.dialect, node.sql) == ("duckdb", "select count(*) as n from events")
            assert node.search_path == ("ice.web",)
            assert sorted(node.texts) == ["duckdb", "spark"]
            assert [name async for name in lake.tables("ice.web")] == ["ice.web.events"]
            listed = await lake.graph.sources.get("ice").page(("web",), limit=10)
            assert [(one.path[-1], one.kind) for one in listed.entries] == [
                ("events", NodeKind.TABLE),
                ("v", NodeKind.VIEW),
            ]
            await clock.advance(2.1)
            asked = len(server.asked)
            assert await lake.graph.resolve(node.id) is node
            assert server.asked[asked:] == ["GET /v1/namespaces/web/views/v"]
            server.views["web", "v"] = lambda: _view("SELECT 2 AS n", 2)
            await clock.advance(2.1)
            assert (await lake.graph.view("ice.web.v")).sql == "select 2 as n"
            del server.views["web", "v"]
            await clock.advance(2.1)
            with pytest.raises(NotFoundError, match=r"no table 'web\.v'"):
                await lake.graph.view("ice.web.v")


async def test_a_catalog_without_views_is_not_asked_for_any(tmp_path: Path) -> None:
    """Where the server says nothing of views, listings and names that are missing cost what they did."""
    with _rest(tmp_path) as server:
        async with _attached({"type": "rest", "uri": server.url}, "no-views") as (lake, _clock):
            with pytest.raises(NotFoundError):
                await lake.graph.relation("ice.web.v")
            assert not [one for one in server.asked if "/views" in one]


async def test_a_view_without_its_current_version_is_corruption(tmp_path: Path) -> None:
    """Metadata of a view that lack the version they call current are named as damaged."""
    with _rest(tmp_path) as server:
        server.views["web", "v"] = lambda: _view("SELECT 1", **{"current-version-id": 7})
        properties = {"type": "rest", "uri": server.url, "view-endpoints-supported": "true"}
        async with _attached(properties, "damaged-view") as (lake, _clock):
            with pytest.raises(CorruptionError, match=r"web\.v has no version 7"):
                await lake.graph.view("ice.web.v")
