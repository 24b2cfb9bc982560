"""The facade: connects to a warehouse, and gives access to its databases, tables and indexes.

Invariant: a lake is configuration until it is entered; entering it starts nothing but a group for
background work, and leaving it waits for that work and closes every connection.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from lakehouse.cache import CacheBudget
from lakehouse.catalog import PlannerGraph
from lakehouse.clock import Clock
from lakehouse.config import AccountConfig, CatalogConfig, Settings
from lakehouse.errors import InvalidInputError
from lakehouse.io import ObjectStore, load_catalogs, load_settings, open_store
from lakehouse.io.lent import LentStore
from lakehouse.io.proofs import check_store, gated
from lakehouse.io.retry import RetryPolicy
from lakehouse.lake.accounts import LakeAccounts
from lakehouse.lake.cache import LakeCaches
from lakehouse.lake.catalogs import LakeCatalogs
from lakehouse.lake.databases import LakeDatabases
from lakehouse.lake.inventory import LakeInventory
from lakehouse.lake.queries import LakeQueries
from lakehouse.lake.sql import LakeSql
from lakehouse.lake.state import LakeState
from lakehouse.lake.tables import LakeTables
from lakehouse.lake.views import LakeViews

__all__ = ["Lake", "connect"]


def connect(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | Mapping[str, object] | None = None,
    check: bool = False,
    clock: Clock | None = None,
    catalogs: Mapping[str, Mapping[str, Any]] | None = None,
    accounts: Mapping[str, AccountConfig | Mapping[str, Any]] | None = None,
) -> Lake:
    """Returns a warehouse: a place in a bucket or a directory that holds databases of tables.

    Args:
        url: ``s3://bucket/warehouse``, ``file:///path``, ``memory://name``; for reading also any
            scheme of fsspec, such as ``http://``, and chains such as ``zip://wh::s3://bucket/wh.zip``.
        storage_options: fsspec's, such as ``endpoint_url``, ``key`` and ``secret``, or as delta-rs,
            polars and pyiceberg spell them; the ``AWS_`` environment works too.
        settings: bounds, as ``{"cache.max_bytes": …}``; others come from the
            environment, the configuration file, the defaults.
        check: race the store on entering, for some seconds, and refuse it with an error of kind
            ``unsafe-store`` when it fails (:func:`lakehouse.check_store`, the short form).
        clock: source of time, for tests.
        catalogs: properties of catalogs to attach, by name, as :meth:`Lake.attach_catalog` takes them; others
            come from the configuration file.
        accounts: by name ``{"catalogs": …, "include": …, "exclude": …}``, which :meth:`Lake.for_account`
            begins with; others come from the configuration file.

    Example::

        async with lakehouse.connect("s3://bucket/warehouse") as lake:
            orders = await lake.table("sales.orders")
            await orders.append([{"id": 1, "amount": 9.5}])
    """
    config = CatalogConfig.parse(catalogs, accounts)
    if isinstance(settings, Settings):
        resolved = settings
    else:
        resolved, config = load_settings(settings), config.over(load_catalogs())
    store = open_store(url, storage_options=storage_options, settings=resolved, clock=clock)
    lake = Lake(
        store,
        settings=resolved,
        check=check,
        clock=clock,
        catalogs=config.catalogs,
        accounts=config.accounts,
    )
    # Nobody else closes this store, and its use before the lake is entered deserves a warning.
    lake._lent.is_owned = lake._lent.warns = True
    return lake


class Lake(
    LakeCaches,
    LakeCatalogs,
    LakeDatabases,
    LakeTables,
    LakeViews,
    LakeInventory,
    LakeQueries,
    LakeSql,
    LakeAccounts,
):
    """A warehouse. Made by :func:`connect`.

    Args:
        store: its root is the warehouse.
        settings: bounds and defaults.
        check: race the store on entering, for some seconds, and refuse it with an error of kind
            ``unsafe-store`` when it fails (:func:`lakehouse.check_store`, the short form).
        clock: source of time, for tests.
        catalogs: properties of catalogs to attach, by name.
        accounts: catalogs and authority of accounts, by name.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        settings: Settings | None = None,
        check: bool = False,
        clock: Clock | None = None,
        catalogs: Mapping[str, Mapping[str, Any]] | None = None,
        accounts: Mapping[str, AccountConfig | Mapping[str, Any]] | None = None,
    ) -> None:
        if not isinstance(store, LentStore):  # else it was unpickled from another process, with its tables
            store = LentStore(gated(store, RetryPolicy.of(store.settings, clock)))
        self._lent = store
        self._check = check
        self._state = LakeState(store, settings=settings, clock=clock)
        self._stack: contextlib.AsyncExitStack | None = None
        config = CatalogConfig.parse(catalogs, accounts)
        self._state.account_configs.update(config.accounts)
        for name, properties in config.catalogs.items():
            self._state.attach(name, properties)

    @property
    def store(self) -> ObjectStore:
        """The store, whose root is the warehouse."""
        return self._state.store

    @property
    def settings(self) -> Settings:
        """Bounds and defaults of the lake."""
        return self._state.settings

    @property
    def caches(self) -> CacheBudget:
        """Budget of all that the lake caches; ``caches.stats()`` reports hits and sizes."""
        return self._state.caches

    @property
    def graph(self) -> PlannerGraph:
        """Metadata graph: names, ids and nodes of all that the lake and its catalogs hold."""
        return self._state.graph

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled as configuration, not entered; tables in the same pickle share the store.
        options: dict[str, Any] = {
            "settings": self.settings,
            "check": self._check,
            "clock": self._state.clock,
        }
        if self._state.given:
            options["catalogs"] = dict(self._state.given)
        if self._state.account_configs:
            options["accounts"] = dict(self._state.account_configs)
        return functools.partial(type(self), **options), (self._lent,)

    def __repr__(self) -> str:
        return f"<Lake at {self.store.url}>"

    async def __aenter__(self) -> Self:
        if self._stack is not None:
            raise InvalidInputError("this lake is open already: connect a second time for a second one")
        # Left in reverse order: background work ends before the last check, and that before the store.
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self.store)
            if self._check:
                (await check_store(self.store, short=True)).raise_if_unsafe()
            stack.push_async_callback(self._state.env.recheck)
            stack.push_async_callback(self._state.background.aclose)
            stack.push_async_callback(self._state.close_accounts)
            stack.push_async_callback(self._state.open_queries.aclose)
            stack.push_async_callback(self._state.close_sql)
            self._stack = stack.pop_all()
        self._state.is_entered = True
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stack, self._stack, self._state.is_entered = self._stack, None, False
        if stack is not None:
            await stack.__aexit__(exc_type, exc, trace)
