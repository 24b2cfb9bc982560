"""Staleness on every kind of catalog: unseen within the bound, seen after it, always seen after a refresh."""

from __future__ import annotations

import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType

from lakehouse.catalog.nodes import TableNode
from lakehouse.io import ObjectStore, open_store
from lakehouse.lake import Lake
from lakehouse.testing import ManualClock, MemoryCatalog, memory_store
from tests.kit.iceberg_rest import rest_catalog

_ROWS = pa.table({"id": [1, 2, 3]})
_BOUND_S = 2.0
"""Default of ``meta.cache.pointer.ttl``."""


class _World(ABC):
    """A table that somebody else changes, and its name in a lake."""

    name = "far.web.events"
    partitions = True
    """Whether partition fields of such tables change."""

    @abstractmethod
    async def attach(self, lake: Lake) -> None:
        """Attaches the catalog of the table."""

    @abstractmethod
    async def insert(self) -> None:
        """Commits rows."""

    @abstractmethod
    async def add_column(self) -> None:
        """Adds the column ``more``."""

    async def partition(self) -> None:
        """Partitions the table by ``id``."""
        raise AssertionError(f"{self.name} has one partitioning")


class _Warehouse(_World):
    """A table of the warehouse itself, changed by another process."""

    name = "web.events"
    partitions = False

    def __init__(self, store: ObjectStore) -> None:
        self.other = Lake(store)

    async def attach(self, lake: Lake) -> None:
        await self.other.create_database("web")
        table = await self.other.create_table("web.events", _ROWS.schema)
        await table.append(_ROWS)

    async def insert(self) -> None:
        await (await self.other.table("web.events")).append(_ROWS)

    async def add_column(self) -> None:
        await (await self.other.table("web.events")).add_column("more", pa.int64())


class _Attached(_Warehouse):
    """A table of another warehouse of ours."""

    name = "far.web.events"

    def __init__(self, directory: Path) -> None:
        self.url = f"file://{directory}/other"
        super().__init__(open_store(self.url))

    async def attach(self, lake: Lake) -> None:
        await super().attach(lake)
        await lake.attach_catalog("far", {"type": "lakehouse", "warehouse": self.url})


class _Memory(_World):
    """A table of a catalog in memory."""

    def __init__(self) -> None:
        self.catalog = MemoryCatalog("far")
        self.catalog.add_table("web.events", _ROWS.schema)
        self.catalog.commit("web.events")

    async def attach(self, lake: Lake) -> None:
        lake._state.sources.attach(self.catalog)

    async def insert(self) -> None:
        self.catalog.commit("web.events")

    async def add_column(self) -> None:
        self.catalog.change_schema("web.events", pa.schema({"id": pa.int64(), "more": pa.int64()}))

    async def partition(self) -> None:
        self.catalog.change_partitions("web.events", ["id"])


class _Sql(_World):
    """An Iceberg table of a SQL catalog, changed by pyiceberg."""

    def __init__(self, directory: Path) -> None:
        self.uri = f"sqlite:///{directory}/catalog.db"
        self.warehouse = f"file://{directory}/warehouse"
        with self.catalog() as catalog:
            catalog.create_namespace("web")
            location = f"{self.warehouse}/web/events"
            catalog.create_table("web.events", _ROWS.schema, location=location).append(_ROWS)

    def catalog(self) -> contextlib.closing[SqlCatalog]:
        return contextlib.closing(SqlCatalog("far", uri=self.uri, warehouse=self.warehouse))

    async def attach(self, lake: Lake) -> None:
        await lake.attach_catalog("far", {"type": "sql", "uri": self.uri})

    async def insert(self) -> None:
        with self.catalog() as catalog:
            catalog.load_table("web.events").append(_ROWS)

    async def add_column(self) -> None:
        with self.catalog() as catalog, catalog.load_table("web.events").update_schema() as change:
            change.add_column("more", LongType())

    async def partition(self) -> None:
        with self.catalog() as catalog, catalog.load_table("web.events").update_spec() as change:
            change.add_identity("id")


class _Directory(_Sql):
    """The same table, found in its directory."""

    async def attach(self, lake: Lake) -> None:
        await lake.attach_catalog("far", {"type": "directory", "warehouse": self.warehouse})


class _Rest(_Sql):
    """The same table, served by a REST catalog."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        super().__init__(directory)
        self.server = stack.enter_context(rest_catalog())
        self.server.tables[("web", "events")] = self._answer

    def _answer(self) -> dict[str, Any]:
        with self.catalog() as catalog:
            location = catalog.load_table("web.events").metadata_location
        document = json.loads(Path(location.removeprefix("file://")).read_text())
        return {"metadata-location": location, "metadata": document, "config": {}}

    async def attach(self, lake: Lake) -> None:
        await lake.attach_catalog("far", {"type": "rest", "uri": self.server.url})


KINDS = ("warehouse", "lakehouse", "memory", "directory", "sql", "rest")


@asynccontextmanager
async def _seen(kind: str, directory: Path) -> AsyncIterator[tuple[_World, Lake, ManualClock]]:
    clock = ManualClock()
    store = memory_store()
    with ExitStack() as stack:
        makers: dict[str, Any] = {
            "warehouse": lambda: _Warehouse(store),
            "lakehouse": lambda: _Attached(directory),
            "memory": _Memory,
            "directory": lambda: _Directory(directory),
            "sql": lambda: _Sql(directory),
            "rest": lambda: _Rest(directory, stack),
        }
        world: _World = makers[kind]()
        async with Lake(store, clock=clock) as lake:
            await world.attach(lake)
            yield world, lake, clock


async def _state(lake: Lake, name: str) -> tuple[Any, ...]:
    node = await lake.graph.table(name)
    assert isinstance(node, TableNode)
    return node.current_snapshot, tuple(node.field_ids), node.partition_keys


async def _change(world: _World, changes: Iterable[str]) -> None:
    for change in changes:
        await getattr(world, change)()


CHANGES = ("insert", "add_column", "partition")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_change_of_others_is_unseen_within_the_bound_and_seen_after_it(
    kind: str, change: str, tmp_path: Path
) -> None:
    """Inserts and changes of schema and partitions by another process are seen when the bound is over."""
    async with _seen(kind, tmp_path) as (world, lake, clock):
        if change == "partition" and not world.partitions:
            pytest.skip("such tables have one partitioning")
        before = await _state(lake, world.name)
        await _change(world, [change])
        await clock.advance(_BOUND_S - 0.1)
        assert await _state(lake, world.name) == before
        await clock.advance(0.2)
        assert await _state(lake, world.name) != before


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refresh_shows_all_changes_at_once(kind: str, tmp_path: Path) -> None:
    """After a refresh of the table, its namespace or everything all changes are seen together."""
    async with _seen(kind, tmp_path) as (world, lake, _):
        await _state(lake, world.name)
        parts = world.name.split(".")
        for depth in (len(parts), len(parts) - 1, 0):
            before = await _state(lake, world.name)
            await _change(world, ["insert"])
            assert await _state(lake, world.name) == before
            await lake.cache.refresh(".".join(parts[:depth]) or None)
            assert (await _state(lake, world.name))[0] != before[0]
        await _change(world, ["add_column", *["partition"] * world.partitions])
        await lake.cache.refresh(world.name)
        snapshot, columns, partitions = await _state(lake, world.name)
        assert "more" in columns
        assert bool(partitions) is world.partitions
        assert snapshot is not None
