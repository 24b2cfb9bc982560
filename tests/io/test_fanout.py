"""Bounded fan-out: how many at once, in which order, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.io import Failure, map_bounded, measure
from lakehouse.io.decorators import InstrumentedStore
from lakehouse.testing.faults import PowerCut
from lakehouse.testing.stores import memory_store

ORDERED = pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "as completed"])
SOURCE = pytest.mark.parametrize("asynchronous", [False, True], ids=["iterable", "async iterable"])


class Crew:
    """An async function of one item that can be held up, and says how many are at it."""

    def __init__(self, *, fails: Iterable[int] = ()) -> None:
        self.started: list[int] = []
        self.finished: list[int] = []
        self.cancelled: list[int] = []
        self.most = 0
        self.open = asyncio.Event()
        self.open.set()
        self._fails = set(fails)

    @property
    def under_way(self) -> int:
        """Calls that have begun and not ended."""
        return len(self.started) - len(self.finished) - len(self.cancelled)

    async def __call__(self, item: int) -> int:
        self.started.append(item)
        self.most = max(self.most, self.under_way)
        try:
            await self.open.wait()
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled.append(item)
            raise
        self.finished.append(item)
        if item in self._fails:
            raise ValueError(f"item {item}")
        return item * 10


def _source(items: Iterable[int], asynchronous: bool) -> Any:
    """The items as a plain or an asynchronous iterator; neither has a length."""

    async def stream() -> AsyncIterator[int]:
        for item in items:
            await asyncio.sleep(0)
            yield item

    return stream() if asynchronous else iter(items)


async def _settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def _tasks() -> set[asyncio.Task[Any]]:
    """All tasks but those that run the test and its fixtures."""
    return {task for task in asyncio.all_tasks() if "TestRunner" not in repr(task.get_coro())}


@pytest.fixture(autouse=True)
async def nothing_left(anyio_backend: str) -> AsyncIterator[None]:
    """Every test ends with the tasks it began with, and with no error that nobody looked at."""
    loop = asyncio.get_running_loop()
    before, handler = _tasks(), loop.get_exception_handler()
    overlooked: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: overlooked.append(context))
    yield
    gc.collect(1)  # what the test dropped is young
    await asyncio.sleep(0)
    loop.set_exception_handler(handler)
    assert _tasks() == before
    assert overlooked == []


async def _drain(results: AsyncIterator[Any], into: list[Any] | None = None) -> None:
    """Takes all results there are."""
    async for result in results:
        if into is not None:
            into.append(result)


# --- what comes out ------------------------------------------------------------------


@ORDERED
@SOURCE
@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_every_item_has_its_result(ordered: bool, asynchronous: bool, limit: int) -> None:
    """Each item's result comes once, whatever the limit and wherever items come from."""
    results = [r async for r in map_bounded(Crew(), _source(range(20), asynchronous), limit, ordered=ordered)]
    assert sorted(results) == list(range(0, 200, 10))


@ORDERED
@pytest.mark.parametrize("items", [[], {}, iter(())], ids=["list", "dict", "iterator"])
async def test_no_items_no_results(ordered: bool, items: Any) -> None:
    """Of nothing comes nothing."""
    assert [r async for r in map_bounded(Crew(), items, 4, ordered=ordered)] == []


@ORDERED
async def test_no_items_of_an_async_source(ordered: bool) -> None:
    """Of an asynchronous nothing comes nothing too."""
    assert [r async for r in map_bounded(Crew(), _source([], True), 4, ordered=ordered)] == []


async def _late_first(item: int) -> int:
    """The earlier the item, the later its result."""
    for _ in range(20 - item):
        await asyncio.sleep(0)
    return item


async def test_ordered_results_come_in_the_order_of_items() -> None:
    """In order means the order of the items, however long each takes."""
    assert [r async for r in map_bounded(_late_first, range(10), 5)] == list(range(10))


async def test_unordered_results_come_as_they_finish() -> None:
    """As completed means that the quick do not wait for the slow."""
    results = [r async for r in map_bounded(_late_first, range(5), 5, ordered=False)]
    assert results == [4, 3, 2, 1, 0]


async def test_a_stuck_item_holds_up_only_the_ordered() -> None:
    """As completed, results behind an item that hangs are delivered; in order they wait for it."""
    stuck = asyncio.Event()

    async def fn(item: int) -> int:
        if item == 0:
            await stuck.wait()
        return item

    async with aclosing(map_bounded(fn, itertools.count(), 2, ordered=False)) as results:
        assert [await anext(results) for _ in range(5)] == [1, 2, 3, 4, 5]
    async with aclosing(map_bounded(fn, itertools.count(), 2)) as ordered:
        first = asyncio.ensure_future(anext(ordered))
        await _settle()
        assert not first.done()
        stuck.set()
        assert await first == 0


@given(
    delays=st.lists(st.integers(0, 6), max_size=30),
    limit=st.integers(1, 8),
    ordered=st.booleans(),
    asynchronous=st.booleans(),
    pauses=st.integers(0, 5),
)
@settings(max_examples=80, deadline=None)
async def test_whatever_the_timing(
    delays: list[int], limit: int, ordered: bool, asynchronous: bool, pauses: int
) -> None:
    """With any mixture of quick and slow items and consumers, nothing is lost, doubled or over the limit."""
    under_way = most = ahead = 0
    delivered: list[int] = []
    pulled: list[int] = []

    def items() -> Iterator[int]:
        for item in range(len(delays)):
            pulled.append(item)
            yield item

    async def fn(item: int) -> int:
        nonlocal under_way, most, ahead
        under_way += 1
        most = max(most, under_way)
        ahead = max(ahead, len(pulled) - len(delivered))
        for _ in range(delays[item]):
            await asyncio.sleep(0)
        under_way -= 1
        return item

    async for result in map_bounded(fn, _source(items(), asynchronous), limit, ordered=ordered):
        delivered.append(result)
        for _ in range(pauses):
            await asyncio.sleep(0)
    assert (delivered if ordered else sorted(delivered)) == list(range(len(delays)))
    assert most <= limit
    assert ahead <= 2 * limit + 1  # the one being handed over is no longer ours


# --- how many at once ----------------------------------------------------------------


@ORDERED
@SOURCE
@pytest.mark.parametrize("limit", [1, 4])
async def test_never_more_calls_than_the_limit(ordered: bool, asynchronous: bool, limit: int) -> None:
    """The limit is reached and not passed."""
    crew = Crew()
    crew.open.clear()
    source = _source(range(20), asynchronous)
    consumer = asyncio.create_task(_drain(map_bounded(crew, source, limit, ordered=ordered)))
    await _settle()
    assert crew.under_way == limit
    crew.open.set()
    await consumer
    assert crew.most == limit


@SOURCE
async def test_endless_sources_are_pulled_lazily(asynchronous: bool) -> None:
    """Items are pulled when a call can start, so a source may have no end."""
    pulled: list[int] = []
    crew = Crew()
    crew.open.clear()

    def endless() -> Iterator[int]:
        for item in itertools.count():
            pulled.append(item)
            yield item

    async with aclosing(map_bounded(crew, _source(endless(), asynchronous), 3)) as results:
        first = asyncio.ensure_future(anext(results))
        await _settle()
        # An asynchronous source is at most asked for the one item behind.
        assert len(pulled) == 3
        crew.open.set()
        assert await first == 0


@ORDERED
@SOURCE
async def test_a_slow_consumer_stops_the_work(ordered: bool, asynchronous: bool) -> None:
    """No more than twice the limit is pulled ahead of the consumer, and each result makes room for one."""
    crew = Crew()
    source = _source(itertools.count(), asynchronous)
    async with aclosing(map_bounded(crew, source, 4, ordered=ordered)) as results:
        await anext(results)
        for taken in range(1, 6):
            await _settle()
            assert len(crew.started) == taken + 8
            assert crew.under_way == 0
            await anext(results)


async def test_nothing_starts_before_the_first_result_is_asked_for() -> None:
    """Making the iterator costs nothing."""
    crew = Crew()
    results = map_bounded(crew, range(5), 2)
    await _settle()
    assert crew.started == []
    await results.aclose()


@pytest.mark.parametrize("count", [1, 3])
async def test_a_few_items_make_a_few_tasks(count: int) -> None:
    """A limit far above the number of items costs nothing."""
    before = len(_tasks())
    crew = Crew()
    crew.open.clear()
    async with aclosing(map_bounded(crew, list(range(count)), 1_000)) as results:
        first = asyncio.ensure_future(anext(results))
        await asyncio.sleep(0)
        assert len(_tasks()) - before == count + 1
        crew.open.set()
        await first


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_of_nothing_is_refused(limit: int) -> None:
    """Without a call at once there is no progress; that is said at the call."""
    with pytest.raises(InvalidInputError, match="at least 1"):
        map_bounded(Crew(), range(3), limit)


async def test_an_unknown_way_with_errors_is_refused() -> None:
    """Errors are raised or collected; anything else is a mistake."""
    with pytest.raises(InvalidInputError, match="'raise' or 'collect'"):
        map_bounded(Crew(), range(3), 2, errors="ignore")  # type: ignore[call-overload]


# --- errors --------------------------------------------------------------------------


@ORDERED
@SOURCE
async def test_the_first_error_ends_it(ordered: bool, asynchronous: bool) -> None:
    """An error is raised to the consumer, and what is under way is cancelled."""
    crew = Crew()

    async def fn(item: int) -> int:
        if item == 3:
            raise ValueError("item 3")
        if item > 3:
            await asyncio.Event().wait()
        return await crew(item)

    results: list[int] = []
    source = _source(itertools.count(), asynchronous)
    with pytest.raises(ValueError, match="item 3"):
        await _drain(map_bounded(fn, source, 4, ordered=ordered), results)
    assert set(results) <= {0, 10, 20}
    if ordered:
        assert results == [0, 10, 20]


async def test_in_order_the_earliest_error_is_raised() -> None:
    """An error that happens first is not raised before that of an earlier item."""

    async def fn(item: int) -> int:
        for _ in range(10 - item):
            await asyncio.sleep(0)
        if item in (2, 5):
            raise ValueError(f"item {item}")
        return item

    results: list[int] = []
    with pytest.raises(ValueError, match="item 2"):
        await _drain(map_bounded(fn, range(8), 8), results)
    assert results == [0, 1]


@ORDERED
async def test_no_item_is_started_after_an_error(ordered: bool) -> None:
    """Once something failed, work that has not begun does not begin."""
    crew = Crew(fails=[1])
    async with aclosing(map_bounded(crew, itertools.count(), 2, ordered=ordered)) as results:
        await anext(results)
        await _settle()
        started = len(crew.started)
        await _settle()
        assert len(crew.started) == started <= 4


@ORDERED
@SOURCE
async def test_errors_can_be_collected(ordered: bool, asynchronous: bool) -> None:
    """Collected errors stand where the results would, with their items, and stop nothing."""
    crew = Crew(fails=[1, 4])
    source = _source(range(6), asynchronous)
    results = [r async for r in map_bounded(crew, source, 2, ordered=ordered, errors="collect")]
    failures = [r for r in results if isinstance(r, Failure)]
    assert [(f.item, str(f.error)) for f in failures] == [(1, "item 1"), (4, "item 4")]
    assert sorted(r for r in results if isinstance(r, int)) == [0, 20, 30, 50]
    if ordered:
        assert [isinstance(r, Failure) for r in results] == [False, True, False, False, True, False]


async def test_a_result_that_is_a_failure_is_a_result() -> None:
    """What the function returns is delivered, also when it looks like an error that was collected."""
    inner = Failure(1, ValueError("inside"))

    async def fn(item: int) -> Failure[int]:
        return inner

    assert [r async for r in map_bounded(fn, [1], 1)] == [inner]


@ORDERED
@SOURCE
@pytest.mark.parametrize("errors", ["raise", "collect"])
async def test_an_error_of_the_source_comes_behind_the_results_before_it(
    ordered: bool, asynchronous: bool, errors: Any
) -> None:
    """What the source raises is raised, once what it gave has been delivered."""

    def items() -> Iterator[int]:
        yield from range(5)
        raise OSError("source")

    async def slow(item: int) -> int:
        for _ in range(10):
            await asyncio.sleep(0)
        return item

    results: list[int] = []
    source = _source(items(), asynchronous)
    with pytest.raises(OSError, match="source"):
        await _drain(map_bounded(slow, source, 3, ordered=ordered, errors=errors), results)
    assert sorted(results) == [0, 1, 2, 3, 4]


async def test_a_source_that_keeps_raising_is_asked_once() -> None:
    """After an error the source is not pulled again, even if it would go on."""

    class Stubborn:
        asked = 0

        def __iter__(self) -> Stubborn:
            return self

        def __next__(self) -> int:
            self.asked += 1
            raise OSError("source")

    source = Stubborn()
    with pytest.raises(OSError, match="source"):
        await _drain(map_bounded(Crew(), source, 5))
    assert source.asked == 1


async def test_an_error_that_came_too_late_is_not_reported_as_overlooked() -> None:
    """Errors of calls that were cancelled because of another error are swallowed in silence."""

    async def fn(item: int) -> int:
        if item == 0:
            raise ValueError("first")
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyError("while ending")

    with pytest.raises(ValueError, match="first"):
        await _drain(map_bounded(fn, range(4), 4))


async def test_a_source_that_fails_while_it_ends_is_not_reported_as_overlooked() -> None:
    """When a source that is being waited for fails because of its cancellation, nobody needs to know."""

    async def source() -> AsyncIterator[int]:
        yield 1
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyError("while ending")

    async with aclosing(map_bounded(Crew(), source(), 2)) as results:
        assert await anext(results) == 10


@ORDERED
@pytest.mark.parametrize("errors", ["raise", "collect"])
async def test_what_is_no_error_passes_through(ordered: bool, errors: Any) -> None:
    """A power cut, or an exit, is never collected and ends everything at once."""

    async def fn(item: int) -> int:
        if item in (2, 3):
            raise PowerCut
        if item > 3:
            await asyncio.Event().wait()
        return item

    with pytest.raises(PowerCut):
        await _drain(map_bounded(fn, itertools.count(), 4, ordered=ordered, errors=errors))


# --- ending early --------------------------------------------------------------------


@ORDERED
@SOURCE
async def test_leaving_early_cancels_what_is_under_way(ordered: bool, asynchronous: bool) -> None:
    """Once the generator is closed no call is left running."""
    crew = Crew()
    source = _source(itertools.count(), asynchronous)
    async with aclosing(map_bounded(crew, source, 4, ordered=ordered)) as results:
        async for _ in results:
            crew.open.clear()
            break
        await _settle()
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
        await _drain(map_bounded(Crew(fails=[3]), source("failed"), 2))
    await _drain(map_bounded(Crew(), source("ended"), 2))
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
    consumer = asyncio.create_task(_drain(map_bounded(crew, itertools.count(), 3)))
    await _settle()
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
        await _drain(map_bounded(calls, range(3), 3))
    assert sorted(calls.tidied) == [0, 1, 2]


async def test_a_second_cancellation_leaves_nothing_behind() -> None:
    """A consumer that is cancelled again while its calls end still waits for them."""
    calls = Tidy()
    consumer = asyncio.create_task(_drain(map_bounded(calls, range(3), 3)))
    await _settle()
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
    await _settle()
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

    consumer = asyncio.create_task(_drain(map_bounded(fn, itertools.count(), 3)))
    await _settle()
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
    await _settle()
    assert crew.under_way == 0


async def test_a_cancelled_call_cancels_the_consumer() -> None:
    """A call that ends in a cancellation of its own does not leave the consumer waiting."""

    async def fn(item: int) -> int:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await _drain(map_bounded(fn, range(3), 2))


# --- together with others ------------------------------------------------------------


@ORDERED
async def test_costs_are_counted_in_worker_tasks(ordered: bool) -> None:
    """A measure block counts the requests that calls make, though tasks of their own make them."""
    store = InstrumentedStore(memory_store())
    keys = [f"k{number}" for number in range(10)]
    for key in keys:
        await store.put(key, b"x")
    with measure() as cost:
        await _drain(map_bounded(store.get, keys, 3, ordered=ordered))
    assert cost.by_kind() == {"get": 10}
    assert cost.bytes_read == 10


async def test_costs_of_concurrent_fanouts_stay_apart() -> None:
    """Each measure block counts its own fan-out."""
    store = InstrumentedStore(memory_store())
    await store.put("k", b"x")

    async def read(times: int) -> int:
        with measure() as cost:
            await _drain(map_bounded(store.get, ["k"] * times, 2))
        return cost.requests

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(read(times)) for times in (3, 5)]
    assert [task.result() for task in tasks] == [3, 5]


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
            await _drain(pipeline)
    elif ending == "left early":
        async with aclosing(pipeline):
            assert [await anext(pipeline) for _ in range(4)] == [0, 100, 200, 300]
    else:
        inner.open.clear()
        consumer = asyncio.create_task(_drain(pipeline))
        await _settle()
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
    await _drain(map_bounded(at_once, range(1_000), 10))
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
    before = _tasks()

    async def fn(item: int) -> int:
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        if rng.random() < 0.05:
            raise ValueError(item)
        return item

    ends: list[Callable[[], Awaitable[Any]]] = []
    for _ in range(rng.randrange(1, 4)):
        source = _source(range(rng.randrange(20)), rng.random() < 0.5)
        results = map_bounded(fn, source, rng.randrange(1, 5), ordered=rng.random() < 0.5)
        ends.append(lambda results=results: _random_end(results, rng))
    tasks = [asyncio.ensure_future(end()) for end in ends]
    for _ in range(rng.randrange(20)):
        await asyncio.sleep(0)
    for task in tasks:
        if rng.random() < 0.5:
            task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled() and task.exception() is not None:
            assert isinstance(task.exception(), ValueError)
    assert _tasks() == before
