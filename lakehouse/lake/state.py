"""State that a lake's methods share: its store, its names, what is open, and what works in the background.

Invariant: a state is configuration until its lake is entered; it starts nothing by itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from lakehouse.cache import CacheBudget
from lakehouse.catalog.control import LakeCache
from lakehouse.catalog.layers import Layers
from lakehouse.clock import Clock, SystemClock
from lakehouse.config import Settings
from lakehouse.errors import InvalidInputError
from lakehouse.iceberg import catalogs as iceberg_catalogs
from lakehouse.iceberg.publishing import publish_table, published
from lakehouse.io import ObjectStore
from lakehouse.io.work import Background
from lakehouse.storage.compact import watched
from lakehouse.storage.metadata import TableCaches, TableName
from lakehouse.storage.table import Table
from lakehouse.storage.tables import Environment, Names, OpenTable, open_table

if TYPE_CHECKING:
    from lakehouse.iceberg.catalogs import Catalogs

__all__ = ["LakeState", "same_name_error"]

_TABLE_PARTS = 2
"""Parts of the name of a table of the lake: database and table; those of catalogs have more."""


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
        self.env = Environment(
            store, self.settings, self.clock, TableCaches(self.caches), self.spawn, publish_table
        )
        self.background = Background()
        self.is_entered = False
        self._catalogs: Catalogs | None = None

    @property
    def catalogs(self) -> Catalogs:
        """Attached catalogs; made when it is first asked for, since most lakes have none."""
        if self._catalogs is None:
            self._catalogs = iceberg_catalogs.Catalogs(self.caches, settings=self.settings, clock=self.clock)
        return self._catalogs

    @property
    def attached(self) -> Catalogs | None:
        """Attached catalogs, if there ever were any."""
        return self._catalogs

    def attached_names(self) -> list[str]:
        """Returns the names of the attached catalogs."""
        return [] if self._catalogs is None else self._catalogs.names

    async def warm(self, path: tuple[str, ...]) -> None:
        """Loads what a query of a table has to know: its name, snapshot, schema and manifests."""
        if len(path) > _TABLE_PARTS:
            async with await self.catalogs.table(path) as table:
                await table.plan()
        else:
            opened = await open_table(self.env, self.names, TableName.parse(".".join(path)))
            await (await opened.newest()).entries()

    async def identity(self, catalog: str, path: tuple[str, ...]) -> uuid.UUID:
        """Returns the identity of what a name stands for now."""
        if not catalog:
            return (await self.names.resolve(TableName.parse(".".join(path)))).table
        table = await self.catalogs.table((catalog, *path))
        async with table:
            return table.metadata.identity

    def is_catalog(self, name: str) -> bool:
        """Returns whether a catalog is attached under a name."""
        return self._catalogs is not None and name in self._catalogs

    async def close_catalogs(self) -> None:
        """Closes the connections of catalogs."""
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
