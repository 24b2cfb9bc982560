"""A process that writes, reads, compacts or streams many rows and says how much memory that took.

Started by :mod:`benchmarks.worker` as ``python -m benchmarks.memory_worker``, anew for every measurement:
the peak of a process never goes down.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.table_peers import orders
from benchmarks.worker import serve
from lakehouse.lake import Lake, connect

_NAME = "bench.many"
_BATCH_ROWS = 100_000
_PUT_ROWS = 10_000
_SAMPLE_S = 0.005
_LOGS = pa.schema(
    {
        "id": pa.int64(),
        "host": pa.string(),
        "trace_id": pa.string(),
        "message": pa.string(),
        "took": pa.float64(),
    }
)
_WORDS = (
    "connection",
    "refused",
    "timeout",
    "while",
    "reading",
    "from",
    "upstream",
    "request",
    "done",
    "slow",
)


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

    async def compact(self, name: str, first: str) -> dict[str, float]:
        """All runs of a table that is there; those of a small one first, so that everything is loaded."""
        await (await self._lake.table(first)).compact(full=True)
        table = await self._lake.table(name)
        before = resident_bytes()
        with _sampled(_SAMPLE_S) as samples:
            done = await table.compact(full=True)
        seconds, resident, held = (max(column) for column in zip(*samples, strict=True))
        return {
            "before": before,
            "peak": resident,
            "held": held,
            "seconds": seconds,
            "rows": done.rows_in,
        }

    async def stream(
        self,
        rows: int,
        every_s: float,
        options: Mapping[str, object],
        indexes: Mapping[str, object],
        pool: str | None = None,
    ) -> dict[str, Any]:
        """Rows put as fast as they are taken, compaction beside; halfway and at the end, all is compacted.

        What is resident is looked at by a thread, so that it is seen in the middle of long steps too.
        """
        if pool is not None:
            pa.set_memory_pool(getattr(pa, f"{pool}_memory_pool")())
        table = await self._lake.create_table(
            _NAME, _LOGS, primary_key=["id"], options=options, indexes=indexes
        )
        random = np.random.default_rng(0)
        # Whatever is loaded late is loaded now.
        await table.upsert(_logs(np.arange(_PUT_ROWS), random))
        await table.compact(full=True)
        with _sampled(every_s) as samples:
            began = time.perf_counter()
            beside: asyncio.Task[Any] | None = None
            async with table.writer() as writer:
                for first in range(0, rows, _PUT_ROWS):
                    if beside is None and first >= rows // 2:
                        beside = asyncio.create_task(table.compact(full=True))
                    await writer.put(_logs(random.integers(0, rows, _PUT_ROWS), random))
            if beside is not None:
                await beside
            streamed = time.perf_counter() - began
            await table.compact(full=True)
            seconds = time.perf_counter() - began
        return {"samples": samples, "streamed_s": streamed, "seconds": seconds}


def _logs(ids: np.ndarray, random: np.random.Generator) -> pa.Table:
    """Rows about as a service logs them, 110 bytes each."""
    count = len(ids)
    words = np.array(_WORDS)[random.integers(0, len(_WORDS), (count, 4))]
    columns = [
        pa.array(ids),
        pa.array(np.char.add("host-", random.integers(0, 500, count).astype(str))),
        pa.array(np.char.add("trace-", random.integers(0, 1 << 60, count).astype(str))),
        pa.array(np.apply_along_axis(" ".join, 1, words)),
        pa.array(random.random(count)),
    ]
    return pa.table(columns, schema=_LOGS)


@contextlib.contextmanager
def _sampled(every_s: float) -> Iterator[list[Sequence[float]]]:
    """Seconds, resident bytes and those that Arrow holds, while the block runs; it begins at 0 seconds."""
    samples: list[Sequence[float]] = []
    ended = threading.Event()
    began = time.perf_counter()

    def look() -> None:
        while True:
            samples.append(
                (round(time.perf_counter() - began, 3), resident_bytes(), pa.total_allocated_bytes())
            )
            if ended.wait(every_s):
                return

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def resident_bytes() -> int:
    """The memory this process has resident now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


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
    names = ("connect", "close", "create", "upsert", "scan", "compact", "stream")
    await serve({name: getattr(memory, name) for name in names})


if __name__ == "__main__":
    asyncio.run(main())
