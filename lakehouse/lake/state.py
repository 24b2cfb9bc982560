"""State that a lake's methods share: its store, its names, what is open, and what works in the background.

Invariant: a state is configuration until its lake is entered; it starts nothing by itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from lakehouse.cache import CacheBudget, CacheSpec
from lakehouse.catalog import sources as catalog_sources
from lakehouse.catalog.accounts import ActiveAccounts
from lakehouse.catalog.bundles import PlannerGraph
from lakehouse.catalog.control import LakeCache
from lakehouse.catalog.graph import Engines
from lakehouse.catalog.ids import DEFAULT_ACCOUNT
from lakehouse.catalog.layers import Layers
from lakehouse.catalog.pins import OpenQueries, Query, SqlValues
from lakehouse.catalog.registry import OpenTables
from lakehouse.catalog.sources import CatalogSource, SourceSet, WarehouseSource
from lakehouse.clock import Clock, SystemClock
from lakehouse.config import AccountConfig, Settings
from lakehouse.doors import door
from lakehouse.errors import InvalidInputError
from lakehouse.iceberg import catalogs as iceberg_catalogs
from lakehouse.iceberg.publishing import publish_table, published
from lakehouse.iceberg.scopes import Scopes
from lakehouse.index import IndexSource
from lakehouse.io import ObjectStore
from lakehouse.io.work import Background, BackgroundJob
from lakehouse.lake.attached import (
    AttachedWarehouse,
    attached_warehouse,
    is_warehouse,
    unrestricted,
    without_access,
)
from lakehouse.lake.index_places import index_source_at
from lakehouse.storage.compact import watched
from lakehouse.storage.metadata import NameListing, TableCaches
from lakehouse.storage.table import Table
from lakehouse.storage.tables import Environment, Names, OpenTable

if TYPE_CHECKING:
    from lakehouse.iceberg.catalogs import Catalogs
    from lakehouse.sql.engine import SqlInstance
    from lakehouse.sql.session import SqlResult, SqlSession

__all__ = ["LakeState", "same_name_error"]

# SQL needs DuckDB, which not every lake has: it is loaded when a statement is first run.
_loaded, _ = door(
    __name__, {"lakehouse.sql.engine": "SqlInstance", "lakehouse.sql.session": "SqlSession run_text"}
)
_NAME_POINTERS = CacheSpec(name="name-pointers")


class LakeState:
    """State of one lake, as one account sees it.

    Args:
        store: its root is the warehouse.
        settings: bounds and defaults; None = the defaults.
        clock: source of time; None = the machine's.
    """

    account = DEFAULT_ACCOUNT

    def __init__(
        self, store: ObjectStore, *, settings: Settings | None = None, clock: Clock | None = None
    ) -> None:
        self.store = store
        self.settings = settings or Settings()
        self.clock = clock or SystemClock()
        self.caches = CacheBudget.of(self.settings, clock=clock)
        self.layers = Layers(self.caches, self.settings, self.clock)
        self.scopes = Scopes(self.caches)
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
        self.open_queries = OpenQueries(self.settings.catalog.queries_max)
        """Queries of all accounts."""
        self.background = Background()
        self.is_entered = False
        self.listing_env = self.env
        """Environment of what looks into directories rather than names."""
        self.accounts: ActiveAccounts[Any] = ActiveAccounts(self.settings.catalog, self.clock)
        self.account_configs: dict[str, AccountConfig] = {}
        """Catalogs and authority that accounts begin with, by name."""
        self.given: dict[str, Mapping[str, Any]] = {}
        """Properties that each catalog was attached with, by name; secrets too."""
        self._catalogs: Catalogs | None = None
        self._graph: PlannerGraph | None = None
        self._sql: SqlInstance | None = None

    @property
    def graph(self) -> PlannerGraph:
        """Metadata graph of the account."""
        self.use()
        if self._graph is None:
            self._graph = PlannerGraph(
                self.layers,
                self.sources,
                self.env,
                account=self.account,
                open_queries=self.open_queries,
                engines=self.engines,
            )
            self.registry.watch(self._graph)
            self._graph.queries.runs_sql = self.run_sql
        return self._graph

    @property
    def sql_instance(self) -> SqlInstance:
        """DuckDB of the account, which is made when a statement first needs it."""
        self.use()
        if not self.is_entered:
            raise InvalidInputError(
                "SQL runs in a lake that was entered: async with lakehouse.connect(…) as lake", kind="closed"
            )
        if self._sql is None:
            self._sql = _loaded("SqlInstance")(self.settings.sql)
        return self._sql

    async def run_sql(
        self,
        query: Query | None,
        text: str,
        parameters: SqlValues | None,
        database: str | None,
    ) -> SqlResult:
        """Runs a text of SQL in a session of its own."""
        result: SqlResult = await _loaded("run_text")(self, text, parameters, database=database, query=query)
        return result

    def sql_session(self, database: str | None) -> SqlSession:
        """Returns a session of SQL."""
        session: SqlSession = _loaded("SqlSession")(self, database=database)
        return session

    async def close_sql(self) -> None:
        """Ends the statements of all accounts, and the DuckDB of each."""
        for one in (*self.accounts, self):
            await one.end_sql()

    async def end_sql(self) -> None:
        """Ends the statements of the account, and its DuckDB."""
        instance, self._sql = self._sql, None
        if instance is not None:
            await instance.aclose()

    @property
    def catalogs(self) -> Catalogs:
        """Attached catalogs; made when it is first asked for, since most lakes have none."""
        if self._catalogs is None:
            self._catalogs = iceberg_catalogs.Catalogs(
                self.caches, settings=self.settings, clock=self.clock, scopes=self.scopes
            )
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
        given, access = without_access(name, properties)
        self.sources.expect_free(name)
        if is_warehouse(given):
            made: CatalogSource = attached_warehouse(
                name, given, settings=self.settings, clock=self.clock, caches=self.caches, scopes=self.scopes
            )
        else:
            self.catalogs.attach(name, given)
            made = catalog_sources.IcebergSource(name, self.catalogs, self.layers.table)
        self.sources.attach(catalog_sources.restricted(made, access))
        self.given[name] = dict(properties)

    async def detach(self, name: str) -> None:
        """Detaches a catalog, with its connections and all that is kept of it."""
        inner = unrestricted(self.sources.get(name))
        await self.sources.detach(name)
        self.graph.detached(name)
        del self.given[name]
        if isinstance(inner, AttachedWarehouse):
            inner.leave()
        elif self._catalogs is not None and name in self._catalogs:
            await self._catalogs.detach(name)

    async def update(self, name: str, changes: Mapping[str, Any]) -> None:
        """Replaces credentials of a catalog, and which of its namespaces are seen."""
        old = self.sources.get(name)
        merged = {one: value for one, value in {**self.given[name], **changes}.items() if value is not None}
        given, access = without_access(name, merged)
        inner = unrestricted(old)
        if isinstance(inner, AttachedWarehouse):
            await inner.update(given)
        else:
            await self.catalogs.update(name, {**dict.fromkeys(self.catalogs.properties[name]), **given})
        self.sources.replace(catalog_sources.restricted(inner, access))
        self.given[name] = merged
        # Names that were listed and found may be hidden now; content may stay.
        self.layers.account(self.account).drop(name)

    def attached_names(self) -> list[str]:
        """Returns the names of the attached catalogs, in order."""
        return [name for name in self.sources.names if name]

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
        return bool(name) and name in self.sources

    def use(self) -> None:
        """Notes that the account is used."""

    async def close_accounts(self) -> None:
        """Closes the connections of catalogs, those of all accounts."""
        for one in (*self.accounts, self):
            await one.close_catalogs()

    async def close_catalogs(self) -> None:
        """Closes the connections of catalogs."""
        await self.sources.aclose()
        if self._catalogs is not None:
            await self._catalogs.aclose()

    def spawn(
        self,
        work: Callable[..., Awaitable[None]],
        *args: object,
        optional: bool = False,
        job: tuple[str, str] | None = None,
    ) -> bool:
        """Starts background work if the lake is entered and so awaits its end; returns whether it did.

        Args:
            work: an async function.
            args: its arguments.
            optional: cancelled at the end instead of waited for.
            job: what users call it, and the table that it is done for; None = it is none that they know.
        """
        if not self.is_entered:
            return False
        known = job and BackgroundJob(name=job[0], table=job[1], began_ms=self.clock.now_ms())
        self.background.start(work, *args, optional=optional, job=known)
        return True

    # --- what system tables of SQL tell of -------------------------------------------

    @property
    def jobs(self) -> Sequence[BackgroundJob]:
        """Jobs of the lake under way, those of tables that the account does not see among them."""
        return self.background.jobs

    def index_source(self, url: str) -> AbstractAsyncContextManager[IndexSource]:
        """Opens the index files below a URL that a statement names, with the credentials of the lake."""
        return index_source_at(self.store, url, settings=self.settings, clock=self.clock)

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
