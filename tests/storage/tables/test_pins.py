"""Pins: which snapshot they hold, until when, and what becomes of one that cannot be dropped."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest

from lakehouse.errors import ConflictError, NotFoundError
from lakehouse.io import ObjectStore
from lakehouse.storage.table import Table
from lakehouse.storage.tables.pins import drop_pin, make_pin
from lakehouse.testing import Fault, FaultKind, FaultyStore, ManualClock
from tests.kit.timed_store import HOUR_S, TimedStore
from tests.kit.worlds import NAME, Row, process, restored, table_of

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.int64()})


async def made(store: ObjectStore, *, commits: int = 4) -> Table:
    """A table whose every commit replaces all rows: snapshot n + 1 has the row n."""
    lake = process(store, clock=ManualClock())
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key="id")
    for number in range(1, commits + 1):
        await table.overwrite([{"id": number, "v": number}])
    return table


async def rows(table: Table, snapshot: int) -> list[Row]:
    """What a snapshot holds."""
    return await table.scan(snapshot=snapshot).to_pylist()


async def pins(table: Table) -> list[tuple[str, int, str]]:
    """Names, snapshots and kinds of all tags and pins."""
    return [(one["name"], one["snapshot"], one["kind"]) for one in (await table.tags()).to_pylist()]


async def test_a_pin_holds_its_snapshot_until_it_is_dropped() -> None:
    """A pinned snapshot is not let expire; once the pin is dropped it is."""
    table = await made(await restored({}))
    await make_pin(table.core, 2, name="mine", ttl_s=60)
    assert await pins(table) == [("mine", 2, "pin")]
    await table.expire_snapshots(retain=1)
    assert await rows(table, 2) == [{"id": 1, "v": 1}]
    await drop_pin(table.core, "mine")
    assert await pins(table) == []
    with pytest.raises(NotFoundError):
        await rows(table, 2)


async def test_a_pin_ends_by_the_clock_of_the_store() -> None:
    """However wrong the machine's clock is, the end is so many seconds after the store's time."""
    store = TimedStore(await restored({}))
    await made(store)
    store.advance(HOUR_S)
    table = await table_of(store, clock=ManualClock())
    await make_pin(table.core, 2, name="mine", ttl_s=90)
    [pin] = (await table.tags()).to_pylist()
    assert pin["expires"].timestamp() * 1000 == store.now_ms + 90_000


async def test_a_snapshot_that_expired_cannot_be_pinned() -> None:
    """A pin comes too late for a snapshot that is gone, and is not made."""
    table = await made(await restored({}))
    await table.expire_snapshots(retain=1)
    with pytest.raises((NotFoundError, ConflictError)):
        await make_pin(table.core, 2, name="late", ttl_s=60)
    assert await pins(table) == []


async def test_a_pin_that_is_not_there_is_dropped_already() -> None:
    """Dropping a pin twice is no error, and makes no snapshot."""
    table = await made(await restored({}))
    before = await table.current_snapshot()
    await drop_pin(table.core, "mine")
    assert await table.current_snapshot() == before


async def test_readers_of_one_snapshot_have_a_pin_each() -> None:
    """The end of one reader's block takes no other's pin away."""
    table = await made(await restored({}))
    async with table.pin(2) as outer:
        async with table.pin(2) as inner:
            assert (outer, inner, len(await pins(table))) == (2, 2, 2)
        assert len(await pins(table)) == 1
    assert await pins(table) == []


@pytest.mark.parametrize("fails", [False, True])
async def test_a_pin_that_cannot_be_taken_away_hides_nothing(fails: bool) -> None:
    """What the block raised is raised, or nothing; the pin stays, and ends by itself."""
    store = FaultyStore(await restored({}))
    table = await made(store)
    refused = await table_of(store)
    with pytest.raises(RuntimeError, match="of the block") if fails else contextlib.nullcontext():
        async with refused.pin(2):
            store.planned = [Fault(kind=FaultKind.THROTTLE, verb="put_if_absent")] * 100
            if fails:
                raise RuntimeError("of the block")
    store.planned = []
    await table.expire_snapshots(retain=1, grace_s=0)
    assert await rows(table, 2) == [{"id": 1, "v": 1}]
