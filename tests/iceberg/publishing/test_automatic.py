"""Publication that nobody asks for: behind compactions, where the option says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from lakehouse.io import ObjectStore
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from lakehouse.testing import Fault, FaultKind, FaultyStore, ManualClock
from tests.kit.publications import publications
from tests.kit.published import ROWS, numbered
from tests.kit.worlds import NAME, restored, table_of


def connected(store: ObjectStore) -> Lake:
    """A process whose waits take no time."""
    clock = ManualClock(skip=True)
    return Lake(stacked(store, clock=clock), clock=clock)


async def made(lake: Lake, publish: str) -> Table:
    """A table with two runs, and nothing published."""
    await lake.create_database("db")
    options = {"iceberg.publish": publish}
    table = await lake.create_table(NAME, ROWS, primary_key="id", options=options)
    await table.upsert(numbered(0, 5))
    await table.upsert(numbered(3, 8))
    return table


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Lets others go on until something holds."""
    async with asyncio.timeout(20):
        while not await holds():  # noqa: ASYNC110  nobody would set an event
            await asyncio.sleep(0.005)


async def test_a_compaction_is_followed_by_a_publication() -> None:
    """With ``auto``, what a compaction made of the rows is published without a call."""
    store = await restored({})
    async with connected(store) as lake:
        table = await made(lake, "auto")
        await asyncio.sleep(0.05)
        assert await publications(store, table) == []
        await table.compact(full=True)

        async def published() -> bool:
            return bool(await publications(store, table))

        await until(published)
    (found,) = await publications(store, await table_of(store))
    assert (list(found.rows.values()), found.held) == ([8], True)


async def test_without_the_option_nothing_is_published() -> None:
    """``off`` is the default, and compactions publish nothing then."""
    store = await restored({})
    async with connected(store) as lake:
        table = await made(lake, "off")
        await table.compact(full=True)
    assert await publications(store, await table_of(store)) == []


async def test_a_publication_that_fails_reaches_no_caller() -> None:
    """The compaction is reported as done, the lake is left in order, and the next compaction publishes."""
    store = await restored({})
    faulty = FaultyStore(store)
    async with connected(faulty) as lake:
        table = await made(lake, "auto")
        faulty.planned = [Fault(kind=FaultKind.FAIL_BEFORE, verb="list_page")] * 3
        assert (await table.compact(full=True)).changed
        await asyncio.sleep(0.1)
        faulty.planned = []
        await table.upsert(numbered(8, 9))
        await table.compact(full=True)
    (*_, newest) = await publications(store, await table_of(store))
    assert list(newest.rows.values())[-1] == 9


async def test_a_table_has_one_listener_however_often_it_is_opened() -> None:
    """Opening a table again adds no second publication."""
    async with connected(await restored({})) as lake:
        table = await made(lake, "auto")
        count = len(table.core.listeners)
        again = await lake.table(NAME)
        assert len(again.core.listeners) == count == 3
