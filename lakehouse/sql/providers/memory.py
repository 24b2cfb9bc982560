"""Rows in memory as a provider: small tables of the system, and tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pyarrow as pa

from lakehouse.expr import Expr, bind, matching
from lakehouse.io.work import in_thread

__all__ = ["ArrowProvider"]


class ArrowProvider:
    """Provides the rows of an Arrow table."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        return self._table.schema

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return int(self._table.num_rows)

    def applies(self, where: Expr) -> bool:
        """Returns True: every condition that can be written is evaluated."""
        return True

    async def scan(self, columns: Sequence[str], where: Expr | None) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yields the table's batches, of these columns and of the rows for which the condition is true."""
        bound = None if where is None else bind(where, self.schema)
        for batch in self._table.to_batches():
            kept = batch if bound is None else await in_thread(_kept, batch, bound)
            yield kept.select(list(columns))


def _kept(batch: pa.RecordBatch, where: Expr) -> pa.RecordBatch:
    return batch.filter(matching(where, batch))
