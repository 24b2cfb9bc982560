"""Fresh reads, wherever they run, under random interleavings of writers, takeovers, commits and flushes.

The table adds up, and each write adds a bit of its own: the sum that a read returns says which writes it
saw, and whether one counted twice. For each read: all writes acknowledged before its call are there, none
that was not called before its return, and all that a read saw that had returned before its call.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from lakehouse.errors import CommitUnknownError, FencedError, LakehouseError
from lakehouse.io import ObjectStore
from lakehouse.storage.table import Table
from lakehouse.storage.write.streaming_writer import TableWriter
from tests.kit.streaming import some, vanish
from tests.kit.table_operations import SCHEMA
from tests.kit.turns import Turns, TurnsStore
from tests.kit.worlds import NAME, process, restored, table_of

SEEDS = range(24)


@dataclass(slots=True, kw_only=True)
class Write:
    """One bit, and when it was written."""

    called: int
    done: int | None = None
    """When it was acknowledged; None = it failed, or its outcome is not known."""
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a read saw, and when."""

    who: str
    called: int
    returned: int
    bits: int


class History:
    """Calls and returns, in their order."""

    def __init__(self) -> None:
        self._moments = itertools.count()
        self.writes: list[Write] = []
        self.reads: list[Seen] = []

    async def write(self, send: Callable[[int], Awaitable[object]]) -> bool:
        """Writes the next bit; returns whether it was acknowledged."""
        bit = 1 << len(self.writes)
        write = Write(called=next(self._moments))
        self.writes.append(write)
        try:
            await send(bit)
        except CommitUnknownError:
            return False
        except LakehouseError:
            write.failed = True
            return False
        write.done = next(self._moments)
        return True

    async def read(self, who: str, table: Table, *, by_scan: bool) -> None:
        """Reads all bits that there are."""
        called = next(self._moments)
        if by_scan:
            rows = await table.scan(freshness="wal").to_pylist()
            row = rows[0] if rows else None
        else:
            row = await table.get({"id": 1}, freshness="wal")
        bits = 0 if row is None else row["v"]
        self.reads.append(Seen(who=who, called=called, returned=next(self._moments), bits=bits))

    def check(self) -> None:
        """Raises for the first read that could not have seen what it saw."""
        for read in self.reads:
            assert 0 <= read.bits < 1 << len(self.writes), f"{read} counts a write twice"
            for number, write in enumerate(self.writes):
                is_seen = bool(read.bits >> number & 1)
                if write.done is not None and write.done < read.called:
                    assert is_seen, f"{read} misses write {number}, acknowledged before"
                assert not (is_seen and write.failed), f"{read} shows write {number}, which failed"
                assert not is_seen or write.called < read.returned
            for older in self.reads:
                if older.returned < read.called:
                    assert older.bits & ~read.bits == 0, f"{read} misses what {older} saw"


async def _begun() -> ObjectStore:
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    options = {"merge_engine": "aggregation", "fields.v.aggregate": "sum", "wal.segments_max": "3"}
    await lake.create_table(NAME, SCHEMA, primary_key=["id"], options=options)
    return store


class World:
    """Processes: two that write the log one after the other, one that commits, and readers in each."""

    def __init__(self, store: ObjectStore, turns: Turns) -> None:
        self.store, self.turns, self.history = store, turns, History()
        self.writers: list[TableWriter] = []

    async def table(self) -> Table:
        """The table in a process of its own."""
        return await table_of(TurnsStore(self.store, self.turns))

    async def stream(self, table: Table, puts: int, *, flush: bool) -> None:
        """Takes the log over and puts, until another writer takes it over."""
        try:
            writer = await table.writer().__aenter__()
        except FencedError:
            return
        self.writers.append(writer)
        for number in range(puts):

            async def put(bit: int, writer: TableWriter = writer) -> object:
                return await (await writer.put(some((1, "a", bit))))

            if not await self.history.write(put):
                return
            if flush and number % 3 == 1:
                asyncio.ensure_future(self._flush(writer))  # noqa: RUF006  it ends with the writer

    async def _flush(self, writer: TableWriter) -> None:
        try:
            await writer.flush()
        except LakehouseError:
            pass

    async def commit(self, table: Table) -> None:
        """Commits rows, which covers the log, and flushes it."""

        async def upsert(bit: int) -> object:
            return await table.upsert(some((1, "b", bit)))

        for _ in range(2):
            await self.history.write(upsert)
        await table.flush()

    async def read(self, who: str, table: Table, count: int) -> None:
        """Reads again and again."""
        for number in range(count):
            await self.history.read(who, table, by_scan=number % 3 == 2)


async def run(seed: int) -> History:
    """One interleaving."""
    turns = Turns(seed)
    world = World(await _begun(), turns)
    first, second, third = [await world.table() for _ in range(3)]
    tasks: list[asyncio.Future[object]] = [
        asyncio.ensure_future(work)
        for work in (
            world.stream(first, 10, flush=True),
            world.read("first", first, 9),
            world.read("first too", first, 9),
            world.stream(second, 4, flush=False),
            world.read("second", second, 4),
            world.commit(third),
            world.read("third", third, 3),
        )
    ]
    try:
        await turns.run(tasks)
        await world.history.read("after all", await table_of(world.store), by_scan=True)
        for table in (first, second, third):
            await world.history.read("at the end", table, by_scan=False)
    finally:
        for writer in world.writers:
            await vanish(writer)
    return world.history


@pytest.mark.parametrize("seeds", [SEEDS[part::4] for part in range(4)])
async def test_fresh_reads_see_what_was_acknowledged_and_never_go_back(seeds: range) -> None:
    """In the process of a writer, of a writer that lost the log and noticed nothing, and elsewhere."""
    for seed in seeds:
        (await run(seed)).check()
