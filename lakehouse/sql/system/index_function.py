"""Table function ``index_metas('s3://…')``: rows of every index below a URL, whatever it belongs to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

import pyarrow as pa

from lakehouse.cache import CacheBudget
from lakehouse.clock import SystemClock
from lakehouse.config import Settings
from lakehouse.expr import Expr
from lakehouse.index import COMPACT, GreptimeManifests, IndexSource, PrefixSource, iterate_index_metas
from lakehouse.io import ObjectStore
from lakehouse.sql.system.fitting import fitted
from lakehouse.sql.system.table_relations import TABLE_RELATIONS
from lakehouse.sql.system.complaints import Complaints
from lakehouse.storage.indexes import SourceKind, source_kind
from lakehouse.storage.metadata import TableCaches
from lakehouse.storage.tables import Environment, Names, TableIndexSource

__all__ = ["IndexMetasProvider"]


class IndexMetasProvider:
    """Rows of ``index_metas(url)``, in the columns of ``system.puffin_index_meta`` without names of tables.

    A warehouse is read by its tables' newest snapshots, a directory of GreptimeDB by its manifests, anything
    else by a listing.

    Args:
        url: place of the index files.
        open_store: opens the store of a URL, which is closed at the end.
        settings: bounds.
        concurrency: files read at once; None = the setting ``index.concurrency``.
        complaints: takes warnings.
    """

    rows = 10_000
    schema: pa.Schema = TABLE_RELATIONS["puffin_index_meta"].schema

    def __init__(
        self,
        url: str,
        open_store: Callable[[str], ObjectStore],
        *,
        settings: Settings,
        concurrency: int | None = None,
        complaints: Complaints,
    ) -> None:
        self._url, self._open, self._settings = url, open_store, settings
        self._concurrency, self._complaints = concurrency, complaints

    def applies(self, where: Expr) -> bool:
        """Returns False: DuckDB filters."""
        return False

    async def scan(self, columns: Sequence[str], where: Expr | None) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yields the rows as files are read."""
        is_masked = self._complaints.is_masked
        async with self._open(self._url) as store:
            scan = iterate_index_metas(
                await self._source(store),
                concurrency=self._concurrency,
                mask_locations=is_masked,
                settings=self._settings.index,
            )
            try:
                async with aclosing(scan.batches(COMPACT)) as batches:
                    async for batch in batches:
                        yield fitted(pa.Table.from_batches([batch]), self.schema, columns)
            finally:
                for problem in scan.problems:
                    self._complaints.add("", (), problem.kind, problem.message)

    async def _source(self, store: ObjectStore) -> IndexSource:
        match await source_kind(store):
            case SourceKind.TABLES:
                # With caches of its own, which end with the call.
                caches = TableCaches(CacheBudget.of(self._settings))
                env = Environment(store, self._settings, SystemClock(), caches)
                return TableIndexSource(env, Names(store, self._settings.table))
            case SourceKind.GREPTIME:
                return GreptimeManifests(store, "")
        return PrefixSource(store)
