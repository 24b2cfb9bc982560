"""Sources of DuckDB for tests: a bridge from a loop of its own, and sources that say what they were asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
from duckdb._sources import ArrowScanSource
from duckdb._sources.nodes import Node

from lakehouse.expr import Expr, to_sql
from lakehouse.sql.engine.loop_bridge import LoopBridge
from lakehouse.sql.providers import ArrowProvider, TableProvider, select_list

__all__ = ["AskedSource", "Batches", "Watched", "bridge_to_a_loop", "read_by"]

Batches: TypeAlias = AsyncGenerator[pa.RecordBatch, None]
"""Result of a provider's scan."""


@contextmanager
def bridge_to_a_loop() -> Generator[LoopBridge, None, None]:
    """A bridge to a loop in a thread of its own, as a statement has one to its lake's."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def made() -> LoopBridge:
        return LoopBridge()

    bridge = asyncio.run_coroutine_threadsafe(made(), loop).result()
    try:
        yield bridge
    finally:
        asyncio.run_coroutine_threadsafe(bridge.aclose(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def read_by(
    make: Callable[[TableProvider, LoopBridge], object], **providers: TableProvider
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with a view over each provider, which ``make`` has turned into something to register."""
    with bridge_to_a_loop() as bridge, duckdb.connect(config={"threads": 2}) as connection:
        for name, provider in providers.items():
            connection.register(f"{name}_source", make(provider, bridge))
            listed = select_list(provider.schema.names)
            connection.execute(f"CREATE TEMP VIEW {name} AS SELECT {listed} FROM {name}_source")
        yield connection


class Watched(ArrowProvider):
    """A provider of rows in memory that notes its scans, and when they end."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table)
        self.scans: list[tuple[list[str], str | None]] = []
        self.yielded = self.ended = 0

    async def scan(self, columns: Sequence[str], where: Expr | None) -> Batches:
        """Notes the scan and its end."""
        self.scans.append((list(columns), None if where is None else to_sql(where)))
        try:
            async for batch in super().scan(columns, where):
                self.yielded += 1
                yield batch
        finally:
            self.ended += 1


class AskedSource(ArrowScanSource):  # type: ignore[misc]
    """A source of two batches that takes every condition, applies none, and notes what it was asked."""

    schema_is_stable = True

    def __init__(self, name: str, schema: pa.Schema, events: list[Any]) -> None:
        super().__init__(None)
        self.name, self.schema, self.events = name, schema, events
        self.offered: list[Node] = []

    def __arrow_c_schema__(self) -> object:
        """The columns."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All rows."""
        return self.stream(None, ())[0]

    def rows(self) -> int:
        """Two."""
        return 2

    def accepts(self, predicate: Node) -> bool:
        """Takes the condition, and keeps it."""
        self.offered.append(predicate)
        return True

    def stream(self, columns: Sequence[int] | None, filters: Sequence[Node]) -> tuple[object, bool]:
        """Says that it was opened, and says it again at its end."""
        places = range(len(self.schema)) if columns is None else columns
        self.events.append(("open", self.name, tuple(places)))
        chosen = pa.schema([self.schema.field(place) for place in places])

        def batches() -> Iterator[pa.RecordBatch]:
            for value in (1, 2):
                yield pa.RecordBatch.from_arrays(
                    [pa.array([value], pa.int64()).cast(field.type) for field in chosen], schema=chosen
                )
            self.events.append(("end", self.name))

        return pa.RecordBatchReader.from_batches(chosen, batches()).__arrow_c_stream__(), True
