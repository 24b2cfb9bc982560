"""Compaction that nobody asks for: who does it, when, and that it ends with its connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pyarrow as pa
import pytest

from lakehouse.io import ObjectStore
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.storage.compact.background import auto_compaction
from lakehouse.storage.table import Table
from lakehouse.testing import Fault, FaultKind, FaultyStore, ManualClock
from tests.kit.worlds import NAME, StepIn, restored, table_of

SCHEMA = pa.schema({"id": pa.int64()})


def connected(store: ObjectStore) -> Lake:
    """A process whose waits take no time."""
    clock = ManualClock(skip=True)
    return Lake(stacked(store, clock=clock), clock=clock)


async def made(lake: Lake, **options: object) -> Table:
    """An empty table."""
    await lake.create_database("db")
    return await lake.create_table(NAME, SCHEMA, primary_key="id", options=options)


async def commit(table: Table, times: int) -> None:
    """Upserts of one row each."""
    for number in range(times):
        await table.upsert([{"id": number}])


async def kinds(table: Table) -> list[str]:
    """What the snapshots say they are, without the first."""
    found: list[str] = (await table.snapshots())["kind"].to_pylist()
    return found[1:]


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Lets others go on until something holds."""
    async with asyncio.timeout(20):
        while not await holds():  # noqa: ASYNC110  nobody would set an event
            await asyncio.sleep(0.005)


async def test_a_commit_that_passes_the_trigger_is_followed_by_a_compaction() -> None:
    """Up to the trigger nothing happens; then the runs become one, and rows stay."""
    async with connected(await restored({})) as lake:
        table = await made(lake, **{"compaction.auto": "on"})
        await commit(table, 4)
        await asyncio.sleep(0.05)
        assert await kinds(table) == ["upsert"] * 4
        await commit(table, 1)

        async def compacted() -> bool:
            return "compact" in await kinds(table)

        await until(compacted)
        assert (await table.files()).num_rows == 1
        assert await table.scan().count() == 4


async def test_runs_do_not_pile_up() -> None:
    """However many commits there are, the number of runs stays about the trigger."""
    async with connected(await restored({})) as lake:
        table = await made(lake, **{"compaction.auto": "on"})
        most = 0
        for number in range(40):
            await table.upsert([{"id": number}])
            await asyncio.sleep(0.02)
            most = max(most, (await table.files()).num_rows)
        assert most < 15
        assert await table.scan().count() == 40


@pytest.mark.parametrize("mode", ["off", "writer"])
async def test_processes_that_are_not_asked_leave_it(mode: str) -> None:
    """By default, and where it is turned off, commits of batches are followed by nothing."""
    async with connected(await restored({})) as lake:
        table = await made(lake, **({"compaction.auto": mode} if mode == "off" else {}))
        await commit(table, 12)
        await asyncio.sleep(0.1)
        assert await kinds(table) == ["upsert"] * 12


async def test_a_process_with_a_streaming_writer_compacts_by_default() -> None:
    """While it is open, also batches of the same process count."""
    async with connected(await restored({})) as lake:
        table = await made(lake)
        with auto_compaction(table._table).writing():
            await commit(table, 6)

            async def compacted() -> bool:
                return "compact" in await kinds(table)

            await until(compacted)
        before = await kinds(table)
        await commit(table, 12)
        await asyncio.sleep(0.1)
        assert await kinds(table) == [*before, *["upsert"] * 12]


async def test_a_writer_waits_at_the_stop_trigger() -> None:
    """With too many runs, room is made before it goes on; with few it goes on at once."""
    async with connected(await restored({})) as lake:
        table = await made(lake)
        automatic = auto_compaction(table._table)
        await commit(table, 7)
        assert await automatic.make_room(table._table) is None
        await commit(table, 1)
        done = await automatic.make_room(table._table)
        assert done is not None
        assert (done.runs_in, (await table.files()).num_rows) == (8, 1)


async def test_turned_off_a_writer_goes_on_at_the_stop_trigger(caplog: pytest.LogCaptureFixture) -> None:
    """Where nobody is to compact, a streaming writer does not either: it goes on, and warns."""
    async with connected(await restored({})) as lake:
        table = await made(lake, **{"compaction.auto": "off", "compaction.stop_trigger": 3})
        await commit(table, 3)
        async with table.writer() as writer:
            for number in range(3):
                await (await writer.put([{"id": number}]))
                await writer.flush()
        assert "compact" not in await kinds(table)
        assert (await table.files()).num_rows == 6
        assert "compaction.auto is off" in caplog.text


async def test_turning_it_off_is_heard_by_a_process_that_has_not_looked_since() -> None:
    """A process that knows older options asks for the newest before it compacts."""
    store = await restored({})
    async with connected(store) as lake, connected(store) as other:
        table = await made(lake, **{"compaction.auto": "on", "compaction.stop_trigger": 3})
        await commit(table, 4)
        await (await other.table(NAME)).set_option("compaction.auto", "off")
        await commit(table, 1)
        await asyncio.sleep(0.1)
        assert await kinds(table) == [*["upsert"] * 4, "alter", "upsert"]
        await (await other.table(NAME)).set_option("compaction.auto", "writer")
        await commit(table, 1)
        assert await auto_compaction(table.core).make_room(table.core) is not None
        await commit(table, 3)
        await (await other.table(NAME)).set_option("compaction.auto", "off")
        assert await auto_compaction(table.core).make_room(table.core) is None


async def test_closing_does_not_wait_for_it() -> None:
    """A compaction under way ends with its connection, and leaves no file behind."""
    store = await restored({})
    hooked = StepIn(store)
    reached = asyncio.Event()

    async def stall() -> None:
        reached.set()
        await asyncio.sleep(60)

    async with connected(hooked) as lake:
        table = await made(lake, **{"compaction.auto": "on"})
        hooked.before(5, "/data/", stall, verb="put")
        await commit(table, 5)
        await asyncio.wait_for(reached.wait(), 20)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    table = await table_of(store)
    assert await kinds(table) == ["upsert"] * 5
    data = [one.key async for one in store.list("") if "/data/" in one.key]
    assert len(data) == 5


async def test_a_failure_is_no_ones_error() -> None:
    """When it cannot be done, commits go on, and the next one tries again."""
    store = FaultyStore(await restored({}))
    async with connected(store) as lake:
        table = await made(lake, **{"compaction.auto": "on"})
        await commit(table, 4)
        store.planned = [Fault(kind=FaultKind.FAIL_BEFORE, verb="get_range")] * 100
        store.planned += [Fault(kind=FaultKind.FAIL_BEFORE, verb="get")] * 100
        await table.upsert([{"id": 10}])
        await asyncio.sleep(0.1)
        store.planned = []
        await table.upsert([{"id": 11}])

        async def compacted() -> bool:
            return "compact" in await kinds(table)

        await until(compacted)
        assert await table.scan().count() == 6
