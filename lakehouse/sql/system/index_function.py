"""Table function ``index_metas('s3://…')``: rows of every index below a URL, whatever it belongs to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing

import pyarrow as pa

from lakehouse.config import Settings
from lakehouse.expr import Expr
from lakehouse.index import COMPACT, IndexSource, iterate_index_metas
from lakehouse.sql.system.complaints import Complaints
from lakehouse.sql.system.fitting import fitted
from lakehouse.sql.system.table_relations import TABLE_RELATIONS

__all__ = ["IndexMetasProvider"]


class IndexMetasProvider:
    """Rows of ``index_metas(url)``, in the columns of ``system.puffin_index_meta`` without names of tables.

    Args:
        url: place of the index files.
        open_source: opens the index files below a URL.
        settings: bounds.
        concurrency: files read at once; None = the setting ``index.concurrency``.
        complaints: takes warnings.
    """

    rows = 10_000
    schema: pa.Schema = TABLE_RELATIONS["puffin_index_meta"].schema

    def __init__(
        self,
        url: str,
        open_source: Callable[[str], AbstractAsyncContextManager[IndexSource]],
        *,
        settings: Settings,
        concurrency: int | None = None,
        complaints: Complaints,
    ) -> None:
        self._url, self._open, self._settings = url, open_source, settings
        self._concurrency, self._complaints = concurrency, complaints

    def applies(self, where: Expr) -> bool:
        """Returns False: DuckDB filters."""
        return False

    async def scan(self, columns: Sequence[str], where: Expr | None) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yields the rows as files are read."""
        is_masked = self._complaints.is_masked
        async with self._open(self._url) as source:
            scan = iterate_index_metas(
                source,
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
