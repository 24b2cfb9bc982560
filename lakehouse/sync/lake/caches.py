"""LakeCache without await: the twin of :mod:`lakehouse.catalog.control.caches`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/catalog/control/caches.py: edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lakehouse.catalog.control import LakeCache as AsyncLakeCache
from lakehouse.catalog.control import PrewarmReport
from lakehouse.sync.bridge import Bridge

__all__ = ["LakeCache"]


class LakeCache:
    """Caches of a lake: ``lake.cache``."""

    def __init__(self, wrapped: AsyncLakeCache, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def __repr__(self) -> str:
        return repr(self._wrapped)

    def stats(self) -> pa.Table:
        """Returns one row for each cache: settings, bytes, entries, hits, misses, loads, failures and ages.

        Caches of pointers have one row for each account; those that all share have no account.

        Example::

            stats = lake.cache.stats()
            print(stats.select(["entry", "hits", "misses", "bytes", "last_error"]).to_pandas())
        """
        return self._wrapped.stats()

    def metrics(self) -> str:
        """Returns counters and sizes of all caches in Prometheus' text format."""
        return self._wrapped.metrics()

    def refresh(self, target: str | Sequence[str] | None = None, *, deep: bool = False) -> int:
        """Drops what may be stale, so that the next look reads it anew; returns how many entries.

        Only pointers and listings may be stale. What they lead to never changes: it stays, and a table that
        has grown loads only what is new in it.

        Args:
            target: ``catalog``, ``catalog.namespace``, ``database`` or ``database.table``, also as parts;
                None = all that this account knows.
            deep: drop the content of these tables as well, for all accounts: nodes, snapshots, schemas,
                partitions, statistics, manifest lists and manifests are read again when they are asked for.
                Blocks of data files stay, and so does what tables that are open hold: the newest snapshot
                that they know.

        Example::

            lake.cache.refresh("ice.sales.orders")
        """
        return self._bridge.call(self._wrapped.refresh, target, deep=deep)

    def prewarm(self, tables: Iterable[str | Sequence[str]]) -> PrewarmReport:
        """Loads pointer, snapshot and schema of tables, some at once; a broken one harms no other.

        Example::

            report = lake.cache.prewarm(["sales.orders", "ice.sales.customers"])
        """
        return self._bridge.call(self._wrapped.prewarm, tables)

    def clear(self, entry: str | None = None) -> int:
        """Empties a cache, or all; returns how many entries went.

        An account empties its own caches; those that all share are emptied through the lake itself.

        Args:
            entry: name of one cache, as in :meth:`stats`; None = all, blocks of data files too.
        """
        return self._bridge.call(self._wrapped.clear, entry)
