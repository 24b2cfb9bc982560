"""Rows of which only the number matters, as ``count(*)`` asks: nothing is read for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pyarrow as pa

from lakehouse.errors import InternalError
from lakehouse.expr import Expr

__all__ = ["CountedRows"]

_BATCH_ROWS = 1 << 20


class CountedRows:
    """Rows without values: a ``TableProvider``.

    Args:
        schema: columns, which nobody may ask for.
        rows: number of rows.
    """

    def __init__(self, schema: pa.Schema, rows: int) -> None:
        self.schema, self.rows = schema, rows

    def applies(self, where: Expr) -> bool:
        """Returns False: there is nothing to ask."""
        return False

    async def scan(self, columns: Sequence[str], where: Expr | None) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yields batches without columns."""
        if columns or where is not None:
            raise InternalError(f"rows that were only to be counted are asked for {', '.join(columns)}")
        for begin in range(0, self.rows, _BATCH_ROWS):
            nothing = pa.nulls(min(_BATCH_ROWS, self.rows - begin))
            yield pa.RecordBatch.from_arrays([nothing], ["nothing"]).select([])
