"""State that a lake's methods share: its store, its names, what is open, and what works in the background.

Invariant: a state is configuration until its lake is entered; it starts nothing by itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from lakehouse.cache import CacheBudget, CacheSpec
from lakehouse.catalog import sources as catalog_sources
from lakehouse.catalog.control import LakeCache
from lakehouse.catalog.graph import Engines, MetadataGraph
from lakehouse.catalog.layers import Layers
from lakehouse.catalog.registry import OpenTables
from lakehouse.catalog.sources import SourceSet, WarehouseSource
from lakehouse.clock import Clock, SystemClock
from lakehouse.config import Settings
from lakehouse.errors import InvalidInputError
from lakehouse.iceberg import catalogs as iceberg_catalogs
from lakehouse.iceberg.publishing import publish_table, published
from lakehouse.io import ObjectStore
from lakehouse.io.work import Background
from lakehouse.storage.compact import watched
from lakehouse.storage.metadata import NameListing, TableCaches
from lakehouse.storage.table import Table
from lakehouse.storage.tables import Environment, Names, OpenTable

if TYPE_CHECKING:
    from lakehouse.iceberg.catalogs import Catalogs

__all__ = ["LakeState", "same_name_error"]

_NAME_POINTERS = CacheSpec(name="name-pointers")


class LakeState:
    """State of one lake.

    Args:
        store: its root is the warehouse.
        settings: bounds and defaults; None = the defaults.
        clock: source of time; None = the machine's.
    """

    def __init__(
        self, store: ObjectStore, *, settings: Settings | None = None, clock: Clock | None = None
    ) -> None:
        self.store = store
        self.settings = settings or Settings()
        self.clock = clock or SystemClock()
        self.caches = CacheBudget.of(self.settings, clock=clock)
        self.layers = Layers(self.caches, self.settings, self.clock)
        self.cache = LakeCache(
            self.layers, warm=self.warm, identify=self.identity, catalogs=self.attached_names
        )
        self.names = Names(store, self.settings.table)
        self.registry = OpenTables()
        self.names.listeners.append(self.registry.name_changed)
        self.env = Environment(
            store,
            self.settings,
            self.clock,
            TableCaches(self.caches),
            self.spawn,
            publish_table,
            self.registry,
        )
        self.sources = SourceSet(WarehouseSource(self.env, self.names, self.listing()))
        self.engines = Engines(self.layers)
        self.graph = MetadataGraph(self.layers, self.sources, engines=self.engines)
        self.registry.watch(self.graph)
        self.background = Background()
        self.is_entered = False
        self._catalogs: Catalogs | None = None

    @property
    def catalogs(self) -> Catalogs:
        """Attached catalogs; made when it is first asked for, since most lakes have none."""
        if self._catalogs is None:
            self._catalogs = iceberg_catalogs.Catalogs(self.caches, settings=self.settings, clock=self.clock)
        return self._catalogs

    def listing(self) -> NameListing:
        """Returns listings of names, which all accounts share."""
        return NameListing(
            self.store,
            self.names.pointer,
            self.caches.region(_NAME_POINTERS),
            concurrency=self.settings.table.read_concurrency,
        )

    def attach(self, name: str, properties: Mapping[str, Any]) -> None:
        """Attaches a catalog; nothing is contacted."""
        self.catalogs.attach(name, properties)
        self.sources.attach(catalog_sources.IcebergSource(name, self.catalogs, self.layers.table))

    async def detach(self, name: str) -> None:
        """Detaches a catalog, with its connections and all that is kept of it."""
        self.sources.get(name)
        await self.sources.detach(name)
        self.graph.detached(name)
        await self.catalogs.detach(name)

    @property
    def attached(self) -> Catalogs | None:
        """Attached catalogs, if there ever were any."""
        return self._catalogs

    def attached_names(self) -> list[str]:
        """Returns the names of the attached catalogs."""
        return [] if self._catalogs is None else self._catalogs.names

    async def warm(self, path: tuple[str, ...]) -> None:
        """Loads what a query of a table has to know: its name, snapshot, schema and manifests."""
        await self.graph.relation(path)
        opened = await self.graph.open(path)
        if isinstance(opened, OpenTable):
            await (await opened.newest()).entries()
        else:
            async with opened as table:
                await table.plan()

    async def identity(self, catalog: str, path: tuple[str, ...]) -> uuid.UUID:
        """Returns the identity of what a name stands for now."""
        return (await self.graph.pointer((catalog, *path) if catalog else path, max_staleness=0.0)).identity

    def is_catalog(self, name: str) -> bool:
        """Returns whether a catalog is attached under a name."""
        return self._catalogs is not None and name in self._catalogs

    async def close_catalogs(self) -> None:
        """Closes the connections of catalogs."""
        await self.sources.aclose()
        if self._catalogs is not None:
            await self._catalogs.aclose()

    def spawn(self, work: Callable[..., Awaitable[None]], *args: object, optional: bool = False) -> bool:
        """Starts background work if the lake is entered and so awaits its end; returns whether it did."""
        if not self.is_entered:
            return False
        self.background.start(work, *args, optional=optional)
        return True

    def handle(self, table: OpenTable) -> Table:
        """Returns a user's handle of a table, whose commits begin what they make due."""
        return Table(published(watched(table)))


def same_name_error(name: str) -> InvalidInputError:
    """Returns the error for one name of a database and of a catalog."""
    return InvalidInputError(
        f"{name!r} would be both a database of this lake, with tables {name}.table, and a catalog, with "
        f"tables {name}.namespace.table: give the catalog another name",
        name=name,
    )
