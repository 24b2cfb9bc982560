"""Lake and connect without await: the twin of :mod:`lakehouse.lake.lake`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/lake/lake.py: edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from lakehouse.cache import CacheBudget
from lakehouse.clock import Clock
from lakehouse.config import AccountConfig, Settings
from lakehouse.lake.lake import Lake as AsyncLake
from lakehouse.lake.lake import connect as async_connect
from lakehouse.sync.bridge import Bridge
from lakehouse.sync.lake.accounts import LakeAccounts
from lakehouse.sync.lake.cache import LakeCaches
from lakehouse.sync.lake.catalogs import LakeCatalogs
from lakehouse.sync.lake.databases import LakeDatabases
from lakehouse.sync.lake.inventory import LakeInventory
from lakehouse.sync.lake.queries import LakeQueries
from lakehouse.sync.lake.sql import LakeSql
from lakehouse.sync.lake.tables import LakeTables
from lakehouse.sync.lake.views import LakeViews
from lakehouse.sync.planner_graph import PlannerGraph

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

        with lakehouse.sync.connect("s3://bucket/warehouse") as lake:
            orders = lake.table("sales.orders")
            orders.append([{"id": 1, "amount": 9.5}])
    """
    wrapped = async_connect(
        url,
        storage_options=storage_options,
        settings=settings,
        check=check,
        clock=clock,
        catalogs=catalogs,
        accounts=accounts,
    )
    return Lake(wrapped, Bridge(wrapped))


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
    """A warehouse. Made by :func:`connect`."""

    _wrapped: AsyncLake

    def __init__(self, wrapped: AsyncLake, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    @property
    def settings(self) -> Settings:
        """Bounds and defaults of the lake."""
        return self._wrapped.settings

    @property
    def caches(self) -> CacheBudget:
        """Budget of all that the lake caches; ``caches.stats()`` reports hits and sizes."""
        return self._wrapped.caches

    @property
    def graph(self) -> PlannerGraph:
        """Metadata graph: names, ids and nodes of all that the lake and its catalogs hold."""
        return PlannerGraph(self._wrapped.graph, self._bridge)

    def __repr__(self) -> str:
        return repr(self._wrapped)

    def __enter__(self) -> Self:
        self._bridge.open()
        return self

    def __exit__(self, *why: object) -> None:
        self._bridge.close()

    def close(self) -> None:
        """Ends it: iterations end, calls of other threads are waited for, connections are given back.

        A lake that is not used as a context manager and not closed is closed when nothing refers to it
        any more, or when the interpreter ends.
        """
        self._bridge.close()
