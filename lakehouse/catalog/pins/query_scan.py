"""Scan of a query: rows of one table at the snapshot that the query reads.

Invariant: the table is pinned when rows are first asked for, and every reading shows that state.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from lakehouse.iceberg import IcebergScan
from lakehouse.storage.scan import RowForms, Scan, TableScan

__all__ = ["QueryScan"]


class QueryScan(RowForms):
    """The rows of a table that match a condition, as a query sees them. Made by ``Query.scan``.

    Args:
        begin: pins the table if it is not pinned yet, and returns a scan of it; called for each reading, so
            that a query that has ended refuses it.
    """

    def __init__(self, begin: Callable[[], Awaitable[TableScan | IcebergScan]]) -> None:
        super().__init__()
        self._begin = begin

    @asynccontextmanager
    async def _reading(self, columns: Sequence[str] | None = None) -> AsyncGenerator[Scan, None]:
        found = await self._begin()
        async with found._reading(columns) as scan:
            self.report = scan.report
            yield scan
