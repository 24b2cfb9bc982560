"""Reads that take long are pinned in time; others leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lakehouse.errors import UnavailableError
from lakehouse.storage.table import Table
from lakehouse.storage.tables import long_reads
from lakehouse.storage.tables.long_reads import holding, until_pinned_s
from lakehouse.storage.tables.pins import make_pin
from lakehouse.testing import ManualClock
from tests.kit.streaming import rows_of
from tests.kit.worlds import table_of
from tests.storage.metadata.test_expiry_guard import BEFORE, READS, delete_old, filled

LONG = {name: read for name, read in READS.items() if not name.startswith("get")}
GRACE_S = 3_600.0


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every read is a long one."""
    monkeypatch.setattr(long_reads, "_SHARE", 0.0)
    monkeypatch.setattr(long_reads, "_AGAIN_SHARE", 0.0)


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Waits until something holds."""
    for _ in range(2_000):
        if await holds():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it does not come to hold")


async def has_pin(table: Table) -> bool:
    """Whether somebody holds a snapshot."""
    return (await table.tags()).num_rows > 0


def test_half_of_the_grace_may_pass_without_a_pin() -> None:
    """A read is pinned when half of ``delete_grace_s`` is over."""
    assert until_pinned_s(GRACE_S) == GRACE_S / 2


@pytest.mark.parametrize("what", LONG)
async def test_a_short_read_leaves_no_commit(what: str) -> None:
    """A read that ends before half of the grace is over makes no snapshot for a pin."""
    store = await filled()
    table = await table_of(store)
    await LONG[what](table)
    assert "tag" not in (await table.snapshots()).column("kind").to_pylist()


@pytest.mark.parametrize("what", LONG)
@pytest.mark.usefixtures("at_once")
async def test_a_long_read_is_pinned_until_it_ends(what: str) -> None:
    """What a read still needs when half of the grace is over stays, though its snapshot expires then."""
    store, clock = await filled(), ManualClock(skip=True)
    table, others = await table_of(store, clock=clock), await table_of(store.inner)

    async def expired() -> None:
        await eventually(lambda: has_pin(others))
        await delete_old(store)
        await clock.advance(GRACE_S)

    store.before(0, "/data/", expired)
    await LONG[what](table)
    assert store.act is None
    assert not await has_pin(await table_of(store))
    assert await rows_of(await table_of(store)) == [*BEFORE, (99, "b", 9)]


@pytest.mark.usefixtures("at_once")
async def test_a_consumer_that_waits_holds_what_it_reads() -> None:
    """While whoever takes the rows of a scan is at other work, the snapshot is pinned; closing lets it go."""
    store = await filled()
    table, others = await table_of(store), await table_of(store.inner)
    batches = table.scan().batches()
    await anext(batches)
    await eventually(lambda: has_pin(others))
    await batches.aclose()
    assert not await has_pin(others)


@pytest.mark.usefixtures("at_once")
async def test_a_read_whose_store_was_away_is_pinned_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pin that the store did not take is tried again while the read goes on."""
    failures = [UnavailableError("away"), UnavailableError("away")]

    async def failing(*args: Any, **how: Any) -> None:
        if failures:
            raise failures.pop()
        await make_pin(*args, **how)

    monkeypatch.setattr(long_reads, "make_pin", failing)
    table = await table_of(await filled())
    async with holding(table.core, await table.current_snapshot(), grace_s=GRACE_S):
        await eventually(lambda: has_pin(table))
    assert not failures
    assert not await has_pin(table)


async def test_a_read_of_many_processes_has_one_pin_that_ends_by_itself() -> None:
    """Tasks of a read that began long ago elsewhere make its pin once, and leave it to the others."""
    table = await table_of(await filled())
    number = await table.current_snapshot()
    for _ in range(2):
        async with holding(table.core, number, grace_s=GRACE_S, age_s=GRACE_S, pin="pin-shared"):
            await eventually(lambda: has_pin(table))
    [pin] = (await table.tags()).to_pylist()
    assert (pin["name"], pin["snapshot"], pin["kind"]) == ("pin-shared", number, "pin")
    assert pin["expires"] is not None


async def test_a_read_that_cannot_be_pinned_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader whose snapshot has expired when it would be pinned reads on while the objects are there."""
    store = await filled()
    table = await table_of(store)
    number = await table.current_snapshot()
    await (await table_of(store.inner)).upsert([{"id": 99, "part": "b", "v": 9}])
    await (await table_of(store.inner)).expire_snapshots(retain=1)
    tried = asyncio.Event()

    async def noticed(*args: Any, **how: Any) -> None:
        try:
            await make_pin(*args, **how)
        finally:
            tried.set()

    monkeypatch.setattr(long_reads, "make_pin", noticed)
    async with holding(table.core, number, grace_s=GRACE_S, age_s=GRACE_S):
        await tried.wait()
    assert not await has_pin(table)
