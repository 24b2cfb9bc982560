"""Files of Iceberg tables that a process has open: the driver plans by them, executors read them.

Invariant: a process keeps the stores and caches of a table's places for as long as it lives, or until other
tables take the room; equal places with equal options share them.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import ParamSpec, TypeVar

import pyarrow as pa

from lakehouse.cache import CacheBudget
from lakehouse.config import TableSettings
from lakehouse.expr import Expr
from lakehouse.expr.runtime_filter import RuntimeFilter
from lakehouse.iceberg import IcebergPlan, ScanTask, TableState
from lakehouse.iceberg.planning import ManifestSource, PlanCaches, planned
from lakehouse.iceberg.reading import Reading, task_scan
from lakehouse.spark.runtime.kept import Kept
from lakehouse.spark.runtime.worker_heap import put_loaded_aside
from lakehouse.spark.runtime.worker_memory import fit_into_limit
from lakehouse.storage.metadata import RunCaches
from lakehouse.sync.bridge import Bridge

__all__ = ["TableFiles", "table_files"]

P = ParamSpec("P")
R = TypeVar("R")

_TABLES_MAX = 16
"""Maximum tables whose files a process keeps open."""


class TableFiles:
    """The places of a table's files, open, with what is cached of them. Made by :func:`table_files`.

    Args:
        places: pickled ``Locations``.
        state: of the table; its settings bound the caches.
    """

    def __init__(self, places: bytes, state: TableState) -> None:
        fit_into_limit()
        # Stores of its own: those of the state belong to whoever opened the table.
        self._locations = pickle.loads(places)  # noqa: S301 - written by the driver
        self._bridge = Bridge(self._locations)
        caches = CacheBudget.of(state.settings)
        self._source = ManifestSource(
            self._locations, PlanCaches(caches), state.settings.iceberg.manifest_concurrency
        )
        self._runs = RunCaches(caches)

    def call(self, work: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs an async function on the event loop of the files; returns or raises what it does."""
        return self._bridge.call(work, *args, **kwargs)

    def iterate(
        self, work: Callable[P, AsyncIterator[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Generator[R, None, None]:
        """Yields the items of an async iterator, which runs on that loop."""
        return self._bridge.iterate(work, *args, **kwargs)

    async def plan(
        self, state: TableState, where: Expr | None, filters: Sequence[RuntimeFilter] = ()
    ) -> IcebergPlan:
        """Plans a scan; filters are applied unless the setting ``iceberg.runtime_filters`` is off."""
        return await planned(
            self._source,
            state.metadata,
            state.snapshot,
            state.schema,
            where=where,
            filters=filters if state.settings.iceberg.runtime_filters else (),
        )

    async def tables(
        self,
        state: TableState,
        tasks: Sequence[ScanTask],
        *,
        columns: Sequence[str],
        where: Expr | None,
        ahead_bytes: int,
    ) -> AsyncGenerator[pa.Table, None]:
        """Yields the rows of tasks; decodes no more than so many bytes ahead of their consumer."""
        scan = task_scan(
            tasks,
            Reading(
                metadata=state.metadata,
                schema=state.schema,
                locations=self._locations,
                caches=self._runs,
                settings=_bounded(state.settings.table, ahead_bytes),
            ),
            columns=columns,
            where=where,
        )
        async with aclosing(scan.tables()) as found:
            async for rows in found:
                yield rows

    def close(self) -> None:
        """Gives connections back."""
        self._bridge.close()


def _bounded(settings: TableSettings, ahead_bytes: int) -> TableSettings:
    return replace(settings, scan_memory_bytes=min(settings.scan_memory_bytes, ahead_bytes))


_kept: Kept[TableFiles] = Kept(_TABLES_MAX, TableFiles.close)


def table_files(state: TableState) -> TableFiles:
    """Returns the files of a table that this process has open; called whenever a piece of work begins."""
    put_loaded_aside()
    places = pickle.dumps(state.locations)
    key = hashlib.sha256(places + pickle.dumps(state.settings)).hexdigest()
    return _kept.get(key, lambda: TableFiles(places, state))
