"""The sides of a comparison on Spark: lakehouse, and Iceberg and Delta with their runtimes, over one bucket.

Each has a process, a session of two cores and the same memory; all read their rows from the same local
files. All of them reach the store through one relay, which counts bytes (:mod:`benchmarks.wire`).
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peer_env import jars_of, python_of
from benchmarks.wire import Relay, relay
from benchmarks.worker import Worker, started
from lakehouse.testing.endpoint import ServerInfo

__all__ = ["DELTA", "ICEBERG", "LAKEHOUSE", "SparkSide", "SparkSides", "open_spark_sides", "peers_missing"]

DELTA = "Delta"
ICEBERG = "Iceberg"
LAKEHOUSE = "lakehouse"
_ENVIRONMENT = "spark_4_1"
_WORKERS = {
    LAKEHOUSE: "benchmarks.spark_worker",
    ICEBERG: "benchmarks.iceberg_spark_worker",
    DELTA: "benchmarks.delta_spark_worker",
}
_OPTIONS: Mapping[str, Mapping[str, Any]] = {LAKEHOUSE: {"primary_key": ["id"], "bucket": 4}}


@dataclass(frozen=True, slots=True)
class SparkSide:
    """One engine on Spark."""

    name: str
    worker: Worker
    wire: Relay

    async def write(self, table: str, path: str, **options: Any) -> None:
        """Makes a table of the rows of local files; lakehouse's has a key and four buckets."""
        chosen, before = {**_OPTIONS.get(self.name, {}), **options}, self.wire.sent
        await self.worker.ask("write", name=table, path=path, options=chosen)
        # A side that keeps its files in memory is no peer of one that has them in the store.
        assert self.wire.sent > before, f"{self.name} wrote {table} and sent nothing to the object store"

    async def ask(self, command: str, /, **arguments: Any) -> Any:
        """What the worker answers."""
        return await self.worker.ask(command, **arguments)


@dataclass(frozen=True, slots=True)
class SparkSides:
    """All sides that can be had, and what they share."""

    sides: Mapping[str, SparkSide]
    folder: Path
    """For local files."""
    wire: Relay
    """What they go through."""


def peers_missing() -> tuple[str, ...]:
    """What a page says when peers cannot be had here."""
    if python_of(_ENVIRONMENT):
        return ()
    return ("Iceberg and Delta were left out: `make peers` makes their environment.",)


@contextlib.asynccontextmanager
async def open_spark_sides(
    server: ServerInfo,
    bucket: str,
    *,
    sides: Sequence[str] = (LAKEHOUSE, ICEBERG, DELTA),
    memory: str = "3g",
    worker_memory: str | None = None,
) -> AsyncIterator[SparkSides]:
    """The sides, with sessions."""
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lakehouse-bench-")))
        wire = await stack.enter_async_context(relay(server.endpoint_url))
        found = {}
        python = python_of(_ENVIRONMENT)
        for name in sides:
            more: dict[str, Any] = {"worker_memory": worker_memory}
            given = {}
            if name != LAKEHOUSE:
                if python is None:
                    continue
                more = {"jars": [str(path) for path in jars_of(_ENVIRONMENT)]}
                given = {"python": python}
            worker = await stack.enter_async_context(started(_WORKERS[name], **given))
            options = {**server.storage_options, "endpoint_url": wire.url}
            await worker.ask("connect", bucket=bucket, options=options, memory=memory, **more)
            stack.push_async_callback(worker.ask, "stop")
            found[name] = SparkSide(name, worker, wire)
        yield SparkSides(found, folder, wire)
