"""The batches of a result, fetched one by one in threads while DuckDB makes them.

Invariant: DuckDB is interrupted before its reader is closed, since a bare close reads all that is left.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from lakehouse.errors import InvalidInputError

if TYPE_CHECKING:
    from lakehouse.sql.engine.statement import SqlStatement

__all__ = ["BatchStream"]


class BatchStream:
    """Batches of rows, in order; made by :meth:`SqlStatement.stream`, and read by one task at a time."""

    def __init__(self, statement: SqlStatement, reader: Any) -> None:
        self._statement = statement
        self._reader = reader
        self.schema: pa.Schema = reader.schema
        """Columns of the result, also of one without rows."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        if self._reader is None:
            raise StopAsyncIteration
        batch = await self._statement.run(self._next)
        if batch is None:
            await self._statement.run(self._close)
            raise StopAsyncIteration
        return batch

    async def aclose(self) -> None:
        """Ends the stream, and with it the statement when rows are left; it may be called twice."""
        if self._reader is not None:
            self._reader = None
            await self._statement.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _next(self) -> pa.RecordBatch | None:
        if self._reader is None:
            raise InvalidInputError("this result was closed while it was read", kind="closed")
        try:
            return self._reader.read_next_batch()
        except StopIteration:
            return None

    def _close(self) -> None:
        self._reader = None
        self._statement.close_reader()
