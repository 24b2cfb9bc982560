"""Index files below any URL: of another warehouse, of GreptimeDB's directory, or whatever else lies there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lakehouse.cache import CacheBudget
from lakehouse.clock import Clock
from lakehouse.config import Settings
from lakehouse.index import GreptimeManifests, IndexSource, PrefixSource
from lakehouse.io import ObjectStore, open_beside
from lakehouse.storage.indexes import SourceKind, source_kind
from lakehouse.storage.metadata import TableCaches
from lakehouse.storage.tables import Environment, Names, TableIndexSource

__all__ = ["index_source_at"]


@asynccontextmanager
async def index_source_at(
    near: ObjectStore, url: str, *, settings: Settings, clock: Clock
) -> AsyncIterator[IndexSource]:
    """Opens the index files below a URL, with the credentials of another store.

    A warehouse is read by its tables' newest snapshots, a directory of GreptimeDB by its manifests, anything
    else by a listing.
    """
    async with open_beside(near, url, settings=settings, clock=clock) as store:
        match await source_kind(store):
            case SourceKind.TABLES:
                # With caches of its own, which end with the call.
                env = Environment(store, settings, clock, TableCaches(CacheBudget.of(settings)))
                yield TableIndexSource(env, Names(store, settings.table))
            case SourceKind.GREPTIME:
                yield GreptimeManifests(store, "")
            case _:
                yield PrefixSource(store)
