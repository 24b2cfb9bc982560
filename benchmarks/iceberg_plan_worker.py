"""A process that plans scans of an Iceberg table and says what each plan took, and what it keeps in memory.

Started by :mod:`benchmarks.worker` as ``python -m benchmarks.iceberg_plan_worker``, anew for every
measurement of memory: what is resident grows with everything that was done before.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import time
from collections.abc import Awaitable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.memory_worker import resident_bytes
from benchmarks.worker import serve
from lakehouse import iceberg
from lakehouse.io import measure

_SETTINGS = {"cache.max_bytes": 1 << 30}
"""So that a million entries fit."""


class _Planning:
    _table: iceberg.IcebergTable | None = None

    async def open(self, url: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Opens the table, and closes the one before."""
        await self.close()
        return await _measured(self._open(url, options))

    async def _open(self, url: str, options: Mapping[str, Any]) -> None:
        self._table = await iceberg.open(url, storage_options=options, settings=_SETTINGS)
        await self._table.__aenter__()

    async def close(self) -> None:
        """Closes the table."""
        if self._table is not None:
            await self._table.__aexit__(None, None, None)
        self._table = None

    async def refresh(self) -> dict[str, Any]:
        """Looks for newer metadata."""
        assert self._table is not None
        return await _measured(self._table.refresh())

    async def plan(self, where: str) -> dict[str, Any]:
        """Plans a scan and lists its files; both go away."""
        gc.collect()
        return await _measured(self._files(where))

    async def _files(self, where: str) -> int:
        assert self._table is not None
        return int((await self._table.plan(where=where)).files().num_rows)

    async def prune(self, column: str, step: int, values: int) -> dict[str, Any]:
        """Prunes a plan of everything by a runtime filter of values ``step`` apart, at random places."""
        assert self._table is not None
        plan = await self._table.plan()
        wanted = np.random.default_rng(time.time_ns()).choice(len(plan), values, replace=False) * step + 1
        given = iceberg.RuntimeFilter.in_(column, pa.array(np.sort(wanted)))
        gc.collect()
        cpu, began = time.process_time(), time.perf_counter()
        left = plan.prune([given])
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        return {"seconds": seconds, "cpu_seconds": cpu, "files": len(left)}

    def memory(self) -> dict[str, int]:
        """Bytes that are resident now, and those that the caches of planning count."""
        gc.collect()
        pa.default_memory_pool().release_unused()
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        found = {"resident": resident_bytes(), "cache": 0}
        if self._table is not None:
            caches = self._table._source.caches
            found["cache"] = caches.lists.weight + caches.manifests.weight + caches.files.weight
        return found


async def _measured(work: Awaitable[Any]) -> dict[str, Any]:
    """Time, requests and bytes of some work, and what it gives."""
    cpu, began = time.process_time(), time.perf_counter()
    with measure() as cost:
        found = await work
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "requests": cost.by_kind(),
        "bytes": cost.bytes_read,
        "files": found,
    }


async def main() -> None:
    """Answers until nobody asks any more."""
    planning = _Planning()
    names = ("open", "close", "refresh", "plan", "prune", "memory")
    await serve({name: getattr(planning, name) for name in names})


if __name__ == "__main__":
    asyncio.run(main())
