"""Limits of loads: slots, turns, queues and deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from lakehouse.catalog.layers import Limiter, LoadLimits
from lakehouse.config import CatalogSettings
from lakehouse.errors import UnavailableError


def limiter(concurrency: int = 1, *, queue_max: int = 100, deadline_s: float = 60.0) -> Limiter:
    """A limiter of loads."""
    return Limiter("loads", concurrency=concurrency, queue_max=queue_max, deadline_s=deadline_s)


def held(gate: asyncio.Event, order: list[str], name: str) -> Callable[[], Awaitable[str]]:
    """A load that notes when it runs, and ends when it may."""

    async def load() -> str:
        order.append(name)
        await gate.wait()
        return name

    return load


async def settled() -> None:
    """Lets everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_no_more_loads_run_at_once_than_there_are_slots() -> None:
    """A load beyond the slots begins when another ends, and all are answered."""
    limits, gate, order = limiter(2), asyncio.Event(), list[str]()
    loads = [asyncio.ensure_future(limits.run(held(gate, order, str(n)))) for n in range(5)]
    await settled()
    assert (order, limits.under_way, limits.waiting) == (["0", "1"], 2, 3)
    gate.set()
    assert [await load for load in loads] == ["0", "1", "2", "3", "4"]
    assert (limits.under_way, limits.waiting) == (0, 0)


async def test_a_full_queue_answers_at_once() -> None:
    """Whoever comes when the queue is full is refused with a kind of its own, and nobody else is harmed."""
    limits, gate, order = limiter(1, queue_max=1), asyncio.Event(), list[str]()
    loads = [asyncio.ensure_future(limits.run(held(gate, order, str(n)))) for n in range(2)]
    await settled()
    with pytest.raises(UnavailableError, match=r"catalog\.queue_max") as caught:
        await limits.run(held(gate, order, "refused"))
    assert caught.value.kind == "overloaded"
    gate.set()
    assert [await load for load in loads] == ["0", "1"]


async def test_accounts_take_turns() -> None:
    """One load of an account does not wait behind all that another account has queued before it."""
    limits, order = limiter(), list[str]()
    gate = asyncio.Event()
    first = asyncio.ensure_future(limits.run(held(gate, order, "first"), account="greedy"))
    await settled()
    greedy = [
        asyncio.ensure_future(limits.run(held(gate, order, f"greedy {n}"), account="greedy"))
        for n in range(4)
    ]
    await settled()
    modest = asyncio.ensure_future(limits.run(held(gate, order, "modest"), account="modest"))
    await settled()
    gate.set()
    await asyncio.wait([first, modest, *greedy])
    assert order == ["first", "greedy 0", "modest", "greedy 1", "greedy 2", "greedy 3"]


async def test_a_load_that_hangs_is_given_up() -> None:
    """A load past its deadline is an UnavailableError, its slot is free again, and the load is cancelled."""
    limits, order = limiter(deadline_s=0.01), list[str]()
    ended = asyncio.Event()

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(UnavailableError, match="given up") as caught:
        await limits.run(hangs)
    assert caught.value.kind == "timeout"
    await asyncio.wait_for(ended.wait(), 1)
    gate = asyncio.Event()
    gate.set()
    assert await limits.run(held(gate, order, "next")) == "next"


async def test_a_load_that_ignores_cancellation_keeps_no_slot() -> None:
    """A loader that swallows its cancellation wedges neither its caller nor those behind it."""
    limits, let_go, order = limiter(deadline_s=0.01), asyncio.Event(), list[str]()

    async def stubborn() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    with pytest.raises(UnavailableError):
        await limits.run(stubborn)
    open_gate = asyncio.Event()
    open_gate.set()
    assert await limits.run(held(open_gate, order, "next")) == "next"
    let_go.set()
    await settled()


async def test_waiting_has_the_same_deadline() -> None:
    """A load whose turn does not come in time is given up too, and leaves the queue."""
    limits, gate, order = limiter(deadline_s=0.01), asyncio.Event(), list[str]()
    async with limits.slot():
        with pytest.raises(UnavailableError) as caught:
            await limits.run(held(gate, order, "late"))
        assert (caught.value.kind, limits.waiting, order) == ("timeout", 0, [])
    assert limits.under_way == 0


async def test_a_waiter_that_is_cancelled_leaves_its_turn_to_others() -> None:
    """Cancelled before or just after its turn came, a waiter takes no slot with it."""
    limits, gate, order = limiter(), asyncio.Event(), list[str]()
    first = asyncio.ensure_future(limits.run(held(gate, order, "first")))
    await settled()
    waiting = [asyncio.ensure_future(limits.run(held(gate, order, str(n)))) for n in range(3)]
    await settled()
    waiting[1].cancel()
    gate.set()
    await first
    waiting[0].cancel()
    assert await waiting[2] == "2"
    assert (limits.under_way, limits.waiting) == (0, 0)


async def test_an_error_is_the_loads_own() -> None:
    """What a load raises arrives as it is, and gives the slot back."""
    limits = limiter()

    async def fails() -> None:
        raise UnavailableError("the catalog is away", kind="unreachable")

    with pytest.raises(UnavailableError, match="the catalog is away"):
        await limits.run(fails)
    assert limits.under_way == 0


@pytest.mark.parametrize("sort", ["listings", "statistics", "refreshes"])
async def test_no_sort_of_load_starves_the_foreground(sort: str) -> None:
    """However many listings, statistics or refreshes are queued, a foreground load begins at once."""
    settings = CatalogSettings(listing_concurrency=1, statistics_concurrency=1, refresh_concurrency=1)
    limits, gate, order = LoadLimits(settings), asyncio.Event(), list[str]()
    crowd = [
        asyncio.ensure_future(limits.by_sort[sort].run(held(gate, order, f"{sort} {n}"))) for n in range(500)
    ]
    await settled()
    open_gate = asyncio.Event()
    open_gate.set()
    assert await limits.foreground.run(held(open_gate, order, "load")) == "load"
    assert order == [f"{sort} 0", "load"]
    gate.set()
    await asyncio.wait(crowd)


def test_slots_of_a_loop_that_is_gone_are_free_again() -> None:
    """A loop that ended in the middle of a load leaves no slot taken."""
    limits = limiter()

    async def abandon() -> None:
        await limits.slot().__aenter__()

    asyncio.run(abandon())

    async def use() -> int:
        async with limits.slot():
            return limits.under_way

    assert asyncio.run(use()) == 1
