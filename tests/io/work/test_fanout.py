"""Bounded fan-out: how many at once, in which order, and what becomes of errors."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.io import Failure, map_bounded
from lakehouse.testing.faults import PowerCut
from tests.kit.crew import ORDERED, SOURCE, Crew, drain, settle, source_of, tasks

pytestmark = pytest.mark.usefixtures("nothing_left")

# --- what comes out ------------------------------------------------------------------


@ORDERED
@SOURCE
@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_every_item_has_its_result(ordered: bool, asynchronous: bool, limit: int) -> None:
    """Each item's result comes once, whatever the limit and wherever items come from."""
    results = [
        r async for r in map_bounded(Crew(), source_of(range(20), asynchronous), limit, ordered=ordered)
    ]
    assert sorted(results) == list(range(0, 200, 10))


@ORDERED
@pytest.mark.parametrize("items", [[], {}, iter(())], ids=["list", "dict", "iterator"])
async def test_no_items_no_results(ordered: bool, items: Any) -> None:
    """Of nothing comes nothing."""
    assert [r async for r in map_bounded(Crew(), items, 4, ordered=ordered)] == []


@ORDERED
async def test_no_items_of_an_asyncsource_of(ordered: bool) -> None:
    """Of an asynchronous nothing comes nothing too."""
    assert [r async for r in map_bounded(Crew(), source_of([], True), 4, ordered=ordered)] == []


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
        await settle()
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

    async for result in map_bounded(fn, source_of(items(), asynchronous), limit, ordered=ordered):
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
    source = source_of(range(20), asynchronous)
    consumer = asyncio.create_task(drain(map_bounded(crew, source, limit, ordered=ordered)))
    await settle()
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

    async with aclosing(map_bounded(crew, source_of(endless(), asynchronous), 3)) as results:
        first = asyncio.ensure_future(anext(results))
        await settle()
        # An asynchronous source is at most asked for the one item behind.
        assert len(pulled) == 3
        crew.open.set()
        assert await first == 0


@ORDERED
@SOURCE
async def test_a_slow_consumer_stops_the_work(ordered: bool, asynchronous: bool) -> None:
    """No more than twice the limit is pulled ahead of the consumer, and each result makes room for one."""
    crew = Crew()
    source = source_of(itertools.count(), asynchronous)
    async with aclosing(map_bounded(crew, source, 4, ordered=ordered)) as results:
        await anext(results)
        for taken in range(1, 6):
            await settle()
            assert len(crew.started) == taken + 8
            assert crew.under_way == 0
            await anext(results)


async def test_nothing_starts_before_the_first_result_is_asked_for() -> None:
    """Making the iterator costs nothing."""
    crew = Crew()
    results = map_bounded(crew, range(5), 2)
    await settle()
    assert crew.started == []
    await results.aclose()


@pytest.mark.parametrize("count", [1, 3])
async def test_a_few_items_make_a_few_tasks(count: int) -> None:
    """A limit far above the number of items costs nothing."""
    before = len(tasks())
    crew = Crew()
    crew.open.clear()
    async with aclosing(map_bounded(crew, list(range(count)), 1_000)) as results:
        first = asyncio.ensure_future(anext(results))
        await asyncio.sleep(0)
        assert len(tasks()) - before == count + 1
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
    source = source_of(itertools.count(), asynchronous)
    with pytest.raises(ValueError, match="item 3"):
        await drain(map_bounded(fn, source, 4, ordered=ordered), results)
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
        await drain(map_bounded(fn, range(8), 8), results)
    assert results == [0, 1]


@ORDERED
async def test_no_item_is_started_after_an_error(ordered: bool) -> None:
    """Once something failed, work that has not begun does not begin."""
    crew = Crew(fails=[1])
    async with aclosing(map_bounded(crew, itertools.count(), 2, ordered=ordered)) as results:
        await anext(results)
        await settle()
        started = len(crew.started)
        await settle()
        assert len(crew.started) == started <= 4


@ORDERED
@SOURCE
async def test_errors_can_be_collected(ordered: bool, asynchronous: bool) -> None:
    """Collected errors stand where the results would, with their items, and stop nothing."""
    crew = Crew(fails=[1, 4])
    source = source_of(range(6), asynchronous)
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
    source = source_of(items(), asynchronous)
    with pytest.raises(OSError, match="source"):
        await drain(map_bounded(slow, source, 3, ordered=ordered, errors=errors), results)
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
        await drain(map_bounded(Crew(), source, 5))
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
        await drain(map_bounded(fn, range(4), 4))


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
        await drain(map_bounded(fn, itertools.count(), 4, ordered=ordered, errors=errors))
