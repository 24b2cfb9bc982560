"""The sides of a comparison on Spark: lakehouse, and Iceberg with its own runtime, over one bucket.

Each has a process, a session of two cores and the same memory; both read their rows from the same local
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

__all__ = ["ICEBERG", "LAKEHOUSE", "SparkSide", "SparkSides", "iceberg_missing", "open_spark_sides"]

ICEBERG = "Iceberg"
LAKEHOUSE = "lakehouse"
_ENVIRONMENT = "iceberg_spark"
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    LAKEHOUSE: {"primary_key": ["id"], "bucket": 4},
    ICEBERG: {},
}


@dataclass(frozen=True, slots=True)
class SparkSide:
    """One engine on Spark."""

    name: str
    worker: Worker
    wire: Relay

    async def write(self, table: str, path: str, **options: Any) -> None:
        """Makes a table of the rows of local files; lakehouse's has a key and four buckets."""
        chosen, before = {**_OPTIONS[self.name], **options}, self.wire.sent
        await self.worker.ask("write", name=table, path=path, options=chosen)
        # A side that keeps its files in memory is no peer of one that has them in the store.
        assert self.wire.sent > before, f"{self.name} wrote {table} and sent nothing to the object store"

    async def ask(self, command: str, **arguments: Any) -> Any:
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


def iceberg_missing() -> tuple[str, ...]:
    """What a page says when the peer cannot be had here."""
    return () if python_of(_ENVIRONMENT) else ("Iceberg was left out: `make peers` makes its environment.",)


@contextlib.asynccontextmanager
async def open_spark_sides(
    server: ServerInfo,
    bucket: str,
    *,
    sides: Sequence[str] = (LAKEHOUSE, ICEBERG),
    memory: str = "3g",
    worker_memory: str | None = None,
) -> AsyncIterator[SparkSides]:
    """The sides, with sessions."""
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lakehouse-bench-")))
        wire = await stack.enter_async_context(relay(server.endpoint_url))
        found = {}
        for name, module, python in (
            (LAKEHOUSE, "benchmarks.spark_worker", None),
            (ICEBERG, "benchmarks.iceberg_spark_worker", python_of(_ENVIRONMENT)),
        ):
            if name not in sides or (name == ICEBERG and python is None):
                continue
            given = {} if python is None else {"python": python}
            worker = await stack.enter_async_context(started(module, **given))
            options = {**server.storage_options, "endpoint_url": wire.url}
            more: dict[str, Any] = {"worker_memory": worker_memory}
            if name == ICEBERG:
                more = {"jars": [str(path) for path in jars_of(_ENVIRONMENT)]}
            await worker.ask("connect", bucket=bucket, options=options, memory=memory, **more)
            stack.push_async_callback(worker.ask, "stop")
            found[name] = SparkSide(name, worker, wire)
        yield SparkSides(found, folder, wire)
