"""The end of a fan-out, wanted or not: nothing is left behind; and fan-outs together."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.io import map_bounded, measure
from lakehouse.io.decorators import InstrumentedStore
from lakehouse.testing.stores import memory_store
from tests.kit.crew import ORDERED, SOURCE, Crew, drain, settle, source_of, tasks

pytestmark = pytest.mark.usefixtures("nothing_left")


@ORDERED
@SOURCE
async def test_leaving_early_cancels_what_is_under_way(ordered: bool, asynchronous: bool) -> None:
    """Once the generator is closed no call is left running."""
    crew = Crew()
    source = source_of(itertools.count(), asynchronous)
    async with aclosing(map_bounded(crew, source, 4, ordered=ordered)) as results:
        async for _ in results:
            crew.open.clear()
            break
        await settle()
        assert crew.under_way > 0
    assert crew.under_way == 0
    assert crew.cancelled


async def test_an_async_source_is_closed() -> None:
    """However the iteration ends, an asynchronous generator it pulls from is closed with it."""
    closed = []

    async def source(name: str) -> AsyncIterator[int]:
        try:
            for item in range(100):
                yield item
                await asyncio.sleep(0)
        finally:
            closed.append(name)

    async with aclosing(map_bounded(Crew(), source("left early"), 2)) as results:
        await anext(results)
    with pytest.raises(ValueError, match="item 3"):
        await drain(map_bounded(Crew(fails=[3]), source("failed"), 2))
    await drain(map_bounded(Crew(), source("ended"), 2))
    assert closed == ["left early", "failed", "ended"]


async def test_a_plain_iterator_can_be_gone_on_with() -> None:
    """An iterator that was left early stays the caller's."""
    items = iter(range(100))
    async with aclosing(map_bounded(Crew(), items, 2)) as results:
        await anext(results)
    assert next(items) < 10


async def _hung_up(crew: Crew) -> asyncio.Task[None]:
    """A consumer whose calls all hang."""
    crew.open.clear()
    consumer = asyncio.create_task(drain(map_bounded(crew, itertools.count(), 3)))
    await settle()
    assert crew.under_way == 3
    return consumer


async def test_cancelling_the_consumer_cancels_the_work() -> None:
    """A task that is cancelled while it waits for a result leaves no call running."""
    crew = Crew()
    consumer = await _hung_up(crew)
    consumer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consumer
    assert len(crew.cancelled) == 3


async def test_a_cancel_scope_around_the_consumer_cancels_the_work() -> None:
    """An anyio scope that times out ends the work, and ends nothing but its own block."""
    crew = Crew()
    crew.open.clear()
    with anyio.move_on_after(0.01) as scope:
        async with aclosing(map_bounded(crew, itertools.count(), 3)) as results:
            await anext(results)
    assert scope.cancelled_caught
    assert len(crew.cancelled) == 3
    assert crew.under_way == 0


class Tidy:
    """Calls that hang, and take a while to tidy up when they are cancelled."""

    def __init__(self) -> None:
        self.tidied: list[int] = []

    async def __call__(self, item: int) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            self.tidied.append(item)
        return item


async def test_a_cancel_scope_waits_for_calls_that_tidy_up() -> None:
    """A scope that times out is left when the calls it cancelled have tidied up."""
    calls = Tidy()
    with anyio.move_on_after(0.01):
        await drain(map_bounded(calls, range(3), 3))
    assert sorted(calls.tidied) == [0, 1, 2]


async def test_a_second_cancellation_leaves_nothing_behind() -> None:
    """A consumer that is cancelled again while its calls end still waits for them."""
    calls = Tidy()
    consumer = asyncio.create_task(drain(map_bounded(calls, range(3), 3)))
    await settle()
    for _ in range(3):
        consumer.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await consumer
    assert sorted(calls.tidied) == [0, 1, 2]


async def test_a_cancellation_while_leaving_is_not_swallowed() -> None:
    """A consumer that is cancelled while it waits for calls to end is cancelled once they have."""
    calls = Tidy()

    async def fn(item: int) -> int:
        return await calls(item) if item else item

    results = map_bounded(fn, itertools.count(), 3)
    await anext(results)
    await settle()
    closing = asyncio.ensure_future(results.aclose())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert len(calls.tidied) == 3


async def test_calls_that_refuse_to_be_cancelled_are_the_last() -> None:
    """A call that makes a result of its cancellation ends its worker all the same."""
    calls = []

    async def fn(item: int) -> int:
        calls.append(item)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return item

    consumer = asyncio.create_task(drain(map_bounded(fn, itertools.count(), 3)))
    await settle()
    consumer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consumer
    assert calls == [0, 1, 2]


async def test_a_generator_that_is_dropped_ends_its_work() -> None:
    """Leaving the loop without closing stops the work once the generator is collected."""
    crew = Crew()

    async def leave() -> None:
        async for _ in map_bounded(crew, itertools.count(), 3):
            crew.open.clear()
            break

    await leave()
    gc.collect()
    await settle()
    assert crew.under_way == 0


async def test_a_cancelled_call_cancels_the_consumer() -> None:
    """A call that ends in a cancellation of its own does not leave the consumer waiting."""

    async def fn(item: int) -> int:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await drain(map_bounded(fn, range(3), 2))


# --- together with others ------------------------------------------------------------


@ORDERED
async def test_costs_are_counted_in_worker_tasks(ordered: bool) -> None:
    """A measure block counts the requests that calls make, though tasks of their own make them."""
    store = InstrumentedStore(memory_store())
    keys = [f"k{number}" for number in range(10)]
    for key in keys:
        await store.put(key, b"x")
    with measure() as cost:
        await drain(map_bounded(store.get, keys, 3, ordered=ordered))
    assert cost.by_kind() == {"get": 10}
    assert cost.bytes_read == 10


async def test_costs_of_concurrent_fanouts_stay_apart() -> None:
    """Each measure block counts its own fan-out."""
    store = InstrumentedStore(memory_store())
    await store.put("k", b"x")

    async def read(times: int) -> int:
        with measure() as cost:
            await drain(map_bounded(store.get, ["k"] * times, 2))
        return cost.requests

    async with asyncio.TaskGroup() as group:
        readers = [group.create_task(read(times)) for times in (3, 5)]
    assert [reader.result() for reader in readers] == [3, 5]


@ORDERED
async def test_fanouts_nest(ordered: bool) -> None:
    """A call may fan out itself; limits multiply, results do not mix."""
    most = under_way = 0

    async def leaf(item: int) -> int:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return item

    async def branch(base: int) -> list[int]:
        items = range(base, base + 5)
        return [r async for r in map_bounded(leaf, items, 2, ordered=ordered)]

    results = [r async for r in map_bounded(branch, range(0, 60, 10), 3)]
    assert [sorted(r) for r in results] == [list(range(base, base + 5)) for base in range(0, 60, 10)]
    assert most == 6


@pytest.mark.parametrize("ending", ["left early", "failed", "cancelled"])
async def test_fanouts_feed_each_other(ending: str) -> None:
    """One fan-out may be the source of another, and however the outer ends the inner ends with it."""
    inner = Crew()
    outer = Crew(fails=[40] if ending == "failed" else [])
    pipeline = map_bounded(outer, map_bounded(inner, itertools.count(), 3), 2)
    if ending == "failed":
        with pytest.raises(ValueError, match="item 40"):
            await drain(pipeline)
    elif ending == "left early":
        async with aclosing(pipeline):
            assert [await anext(pipeline) for _ in range(4)] == [0, 100, 200, 300]
    else:
        inner.open.clear()
        consumer = asyncio.create_task(drain(pipeline))
        await settle()
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer
    assert inner.under_way == outer.under_way == 0


async def test_calls_that_never_wait_do_not_starve_others() -> None:
    """Calls that return at once leave turns of the loop to everybody else."""
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def at_once(item: int) -> int:
        return item

    ticker = asyncio.create_task(tick())
    await drain(map_bounded(at_once, range(1_000), 10))
    ticker.cancel()
    assert turns >= 1_000 // 20


async def _random_end(results: Any, rng: random.Random) -> None:
    """Takes some results, then leaves in one of the ways there are."""
    taken, enough = 0, rng.randrange(8)
    async with aclosing(results):
        async for _ in results:
            taken += 1
            if taken > enough:
                break


@given(seed=st.integers(0, 1 << 20))
@settings(max_examples=60, deadline=None)
async def test_no_ending_leaves_a_task(seed: int) -> None:
    """Whichever way an iteration ends, at whatever moment, its tasks are gone with it."""
    rng = random.Random(seed)
    before = tasks()

    async def fn(item: int) -> int:
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        if rng.random() < 0.05:
            raise ValueError(item)
        return item

    consumers: list[asyncio.Future[None]] = []
    for _ in range(rng.randrange(1, 4)):
        source = source_of(range(rng.randrange(20)), rng.random() < 0.5)
        results = map_bounded(fn, source, rng.randrange(1, 5), ordered=rng.random() < 0.5)
        consumers.append(asyncio.ensure_future(_random_end(results, rng)))
    for _ in range(rng.randrange(20)):
        await asyncio.sleep(0)
    for consumer in consumers:
        if rng.random() < 0.5:
            consumer.cancel()
    await asyncio.wait(consumers)
    for consumer in consumers:
        if not consumer.cancelled() and consumer.exception() is not None:
            assert isinstance(consumer.exception(), ValueError)
    assert tasks() == before
