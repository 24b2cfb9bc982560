"""Rows of a provider on their way to DuckDB: read on the event loop, pulled on threads that wait.

Invariant: a stream that is read to its end, fails, or is let go before either, leaves nothing running once
its statement has ended.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa

from lakehouse.expr import Expr
from lakehouse.sql.engine.loop_bridge import LoopBridge
from lakehouse.sql.providers.declared import Declared, checked, fitted
from lakehouse.sql.providers.provider import TableProvider
from lakehouse.sql.providers.read_ahead import ReadAhead

__all__ = ["Handover"]

_ROWS_MIN = 10_000
"""Rows of a batch below which handing it over costs DuckDB more than joining it to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """How the rows of one provider reach one statement."""

    provider: TableProvider
    bridge: LoopBridge
    declared: Declared
    bytes_max: int
    """Bytes that are read ahead in each scan."""

    def reader(self, places: Sequence[int], where: Expr | None) -> pa.RecordBatchReader:
        """Returns a stream of these declared columns, for threads that may wait; they begin it."""
        asked = self.declared.asked(places)
        return pa.RecordBatchReader.from_batches(
            asked, self._pulled(asked, self._scanned(self.declared.provided(places), where))
        )

    def _pulled(
        self, asked: pa.Schema, batches: AsyncGenerator[pa.RecordBatch, None]
    ) -> Generator[pa.RecordBatch, None, None]:
        ahead = ReadAhead(self.bytes_max)
        reading = self.bridge.start(ahead.read(batches))
        # The first batch comes as it is, for a LIMIT may need no more than that.
        rows = 1
        try:
            while taken := self.bridge.wait(ahead.take(rows)):
                found = [fitted(batch, asked) for batch in taken]
                yield found[0] if len(found) == 1 else pa.concat_batches(found)
                rows = _ROWS_MIN
            reading.result()  # raises what it raised
        finally:
            # Whoever lets go of a stream may be the loop itself, so nothing is waited for here.
            reading.cancel()

    async def _scanned(self, wanted: pa.Schema, where: Expr | None) -> AsyncGenerator[pa.RecordBatch, None]:
        async with aclosing(self.provider.scan(wanted.names, where)) as batches:
            async for batch in batches:
                yield checked(batch, wanted)
