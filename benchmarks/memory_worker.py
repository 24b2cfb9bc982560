"""A process that writes, reads or compacts many rows and says how much memory that took at most.

Started by :mod:`benchmarks.worker` as ``python -m benchmarks.memory_worker``, anew for every measurement:
the peak of a process never goes down.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.table_peers import orders
from benchmarks.worker import serve
from lakehouse.lake import Lake, connect

_NAME = "bench.many"
_BATCH_ROWS = 100_000


class _Memory:
    _lake: Lake

    async def connect(self, url: str, options: Mapping[str, Any], settings: Mapping[str, object]) -> None:
        self._lake = connect(url, storage_options=options, settings=settings)
        await self._lake.__aenter__()
        await self._lake.create_database("bench", if_not_exists=True)

    async def close(self) -> None:
        await self._lake.__aexit__(None, None, None)

    async def create(self, options: Mapping[str, object]) -> None:
        """A table without rows."""
        await self._lake.drop_table(_NAME, if_exists=True)
        schema = orders(1, "int64").schema
        await self._lake.create_table(_NAME, schema, primary_key=["id"], options=options)

    async def upsert(self, rows: int) -> dict[str, float]:
        """Rows that are made batch by batch, in one commit."""
        table = await self._lake.table(_NAME)
        schema = orders(1, "int64").schema
        reader = pa.RecordBatchReader.from_batches(schema, _batches(rows))
        before, began = peak_bytes(), time.perf_counter()
        await table.upsert(reader)
        return {"before": before, "peak": peak_bytes(), "seconds": time.perf_counter() - began}

    async def scan(self) -> dict[str, float]:
        """All rows, batch by batch, none of which is kept."""
        table = await self._lake.table(_NAME)
        before, began, rows = peak_bytes(), time.perf_counter(), 0
        async for batch in table.scan().batches():
            rows += batch.num_rows
        seconds = time.perf_counter() - began
        return {"before": before, "peak": peak_bytes(), "seconds": seconds, "rows": rows}

    async def compact(self, name: str) -> dict[str, float]:
        """All runs of a table that is there."""
        table = await self._lake.table(name)
        before, began = peak_bytes(), time.perf_counter()
        done = await table.compact(full=True)
        return {
            "before": before,
            "peak": peak_bytes(),
            "seconds": time.perf_counter() - began,
            "rows": done.rows_in,
        }


def _batches(rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of keys that lie anywhere: every batch covers the whole range."""
    for at in range(0, rows, _BATCH_ROWS):
        table = orders(min(_BATCH_ROWS, rows - at), "int64", seed=at)
        ids = pa.array(range(at // _BATCH_ROWS, rows, -(-rows // _BATCH_ROWS)))
        yield from table.set_column(0, "id", ids.slice(0, table.num_rows)).to_batches()


def peak_bytes() -> int:
    """The most memory this process ever had resident."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


async def main() -> None:
    """Answers until nobody asks any more."""
    memory = _Memory()
    names = ("connect", "close", "create", "upsert", "scan", "compact")
    await serve({name: getattr(memory, name) for name in names})


if __name__ == "__main__":
    asyncio.run(main())
