"""Rows read ahead of DuckDB, up to a number of bytes, on the event loop that the provider lives on.

Invariant: one task reads the rows from the first to the last and closes them, so that they are left in the
context they were entered in.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pyarrow as pa

__all__ = ["ReadAhead"]


class ReadAhead:
    """The batches of one scan between :meth:`read`, a task of its own, and its one reader.

    Args:
        bytes_max: bytes that may wait for the reader; the batch that reaches it is kept whole.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: deque[tuple[pa.RecordBatch, int]] = deque()
        """Batches with their bytes, which take long to count."""
        self._bytes = self._rows = 0
        self._more, self._room = asyncio.Event(), asyncio.Event()
        self._ended = False

    async def read(self, batches: AsyncGenerator[pa.RecordBatch, None]) -> None:
        """Reads all batches, as far ahead as there is room."""
        try:
            async with aclosing(batches):
                async for batch in batches:
                    if batch.num_rows:
                        await self._put(batch)
        finally:
            self._ended = True
            self._more.set()

    async def take(self, rows: int) -> list[pa.RecordBatch]:
        """Returns neighbouring batches of about so many rows, or what there is room for; none at the end.

        A batch that is large enough comes alone.
        """
        while not (self._rows >= rows or self._bytes >= self._bytes_max or self._ended):
            self._more.clear()
            await self._more.wait()
        taken: list[pa.RecordBatch] = []
        missing = rows
        while self._waiting and missing > 0 and (not taken or self._waiting[0][0].num_rows < rows):
            taken.append(self._popped())
            missing -= taken[-1].num_rows
        self._room.set()
        return taken

    async def _put(self, batch: pa.RecordBatch) -> None:
        size = batch.nbytes
        self._waiting.append((batch, size))
        self._rows += batch.num_rows
        self._bytes += size
        self._more.set()
        while self._bytes >= self._bytes_max:
            self._room.clear()
            await self._room.wait()

    def _popped(self) -> pa.RecordBatch:
        batch, size = self._waiting.popleft()
        self._rows -= batch.num_rows
        self._bytes -= size
        return batch
