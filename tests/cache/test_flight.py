"""One load for all who wait, whoever is cancelled."""

from __future__ import annotations

import asyncio
import gc
import os
from typing import Any

import anyio
import pytest

from lakehouse.cache import CacheSpec
from lakehouse.errors import InvalidInputError, UnavailableError
from tests.kit.loaders import Loader, budget_of, settled, until

SPEC = CacheSpec(name="test")


async def test_concurrent_misses_collapse_to_one_load() -> None:
    """Everybody who misses a key at the same time gets the value of one load."""
    region, loader = budget_of().region(SPEC), Loader({("k",): "v"}, is_open=False)
    waiters = [asyncio.create_task(region.get(("k",), loader.one)) for _ in range(50)]
    await until(1, loader.asked)
    loader.gate.set()
    assert [await waiter for waiter in waiters] == ["v"] * 50
    assert loader.asked == [("k",)]
    counted = region.stats().counters
    assert (counted.hits, counted.misses, counted.loads) == (0, 50, 1)


async def test_different_keys_load_beside_each_other() -> None:
    """A slow load of one key does not hold up another key."""
    region = budget_of().region(SPEC)
    slow, quick = Loader({("a",): 1}, is_open=False), Loader({("b",): 2})
    waiting = asyncio.create_task(region.get(("a",), slow.one))
    assert await region.get(("b",), quick.one) == 2
    slow.gate.set()
    assert await waiting == 1


async def test_a_failure_reaches_every_waiter() -> None:
    """The very error of the load is raised by everybody who waited for it, once each."""
    region, loader = budget_of().region(SPEC), Loader(is_open=False)
    loader.error = UnavailableError("the store is away")
    waiters = [asyncio.create_task(region.get(("k",), loader.one)) for _ in range(5)]
    await until(1, loader.asked)
    loader.gate.set()
    raised = await asyncio.gather(*waiters, return_exceptions=True)
    assert all(error is loader.error for error in raised)
    assert region.stats().counters.load_failures == 1


async def test_tracebacks_do_not_pile_up() -> None:
    """An error raised by many waiters keeps the traceback of the load, not those of all of them."""
    region, loader = budget_of().region(SPEC), Loader(is_open=False)
    loader.error = UnavailableError("the store is away")
    waiters = [asyncio.create_task(region.get(("k",), loader.one)) for _ in range(100)]
    await until(1, loader.asked)
    loader.gate.set()
    await asyncio.gather(*waiters, return_exceptions=True)
    depth, trace = 0, loader.error.__traceback__
    while trace is not None:
        depth, trace = depth + 1, trace.tb_next
    assert depth < 20


async def test_cancelling_one_waiter_leaves_the_load_to_the_others() -> None:
    """A load goes on as long as somebody waits for it, whoever began it."""
    region, loader = budget_of().region(SPEC), Loader({("k",): "v"}, is_open=False)
    first = asyncio.create_task(region.get(("k",), loader.one))
    await until(1, loader.asked)
    second = asyncio.create_task(region.get(("k",), loader.one))
    await settled()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    loader.gate.set()
    assert await second == "v"
    assert loader.cancelled == 0
    assert region.get_if_present(("k",)) == "v"


async def test_the_last_waiter_takes_the_load_along() -> None:
    """A load is cancelled when the last who waits for it is, and the next caller starts anew."""
    region, loader = budget_of().region(SPEC), Loader({("k",): "v"}, is_open=False)
    waiters = [asyncio.create_task(region.get(("k",), loader.one)) for _ in range(3)]
    await until(1, loader.asked)
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)
    await settled()
    assert loader.cancelled == 1
    loader.gate.set()
    assert await region.get(("k",), loader.one) == "v"
    assert len(loader.asked) == 2
    assert region.stats().counters.load_failures == 0


async def test_a_timeout_around_a_get_cancels_its_load() -> None:
    """A cancel scope that runs out ends the load nobody else waits for."""
    region, loader = budget_of().region(SPEC), Loader({("k",): "v"}, is_open=False)
    with anyio.move_on_after(0.01) as scope:
        await region.get(("k",), loader.one)
    await settled()
    assert scope.cancelled_caught
    assert loader.cancelled == 1
    assert len(region) == 0


async def test_a_caller_right_behind_a_cancelled_load_starts_another() -> None:
    """A load that is being cancelled is not joined, however long it takes to clean up."""
    region, loader = budget_of().region(SPEC), Loader({("k",): "v"}, is_open=False)
    cleaned = asyncio.Event()

    async def load(key: Any) -> Any:
        try:
            return await loader.one(key)
        finally:
            await cleaned.wait()

    first = asyncio.create_task(region.get(("k",), load))
    await until(1, loader.asked)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    second = asyncio.create_task(region.get(("k",), loader.one))
    await settled()
    assert len(loader.asked) == 2
    loader.gate.set()
    cleaned.set()
    assert await second == "v"


async def test_a_load_cancelled_under_its_waiters_is_an_error_to_them() -> None:
    """Waiters that were not cancelled never see a cancellation; they may try again."""
    budget = budget_of()
    region, loader = budget.region(SPEC), Loader({("k",): "v"}, is_open=False)
    waiter = asyncio.create_task(region.get(("k",), loader.one))
    await until(1, loader.asked)
    await budget.aclose()
    with pytest.raises(UnavailableError, match="try again"):
        await waiter


async def test_a_bulk_load_is_joined_key_by_key() -> None:
    """A key that a bulk load is fetching is loaded by nobody else."""
    region, loader = budget_of().region(SPEC), Loader({(1,): "a", (2,): "b", (3,): "c"}, is_open=False)
    bulk = asyncio.create_task(region.get_many([(1,), (2,)], loader.many))
    await until(1, loader.asked)
    single = asyncio.create_task(region.get((2,), loader.one))
    other = asyncio.create_task(region.get_many([(2,), (3,)], loader.many))
    await until(2, loader.asked)
    loader.gate.set()
    assert await bulk == {(1,): "a", (2,): "b"}
    assert await single == "b"
    assert await other == {(2,): "b", (3,): "c"}
    assert loader.asked == [((1,), (2,)), ((3,),)]


async def test_a_bulk_load_outlives_its_caller_while_one_key_is_awaited() -> None:
    """Cancelling who began a bulk load leaves it to whoever waits for any of its keys."""
    region, loader = budget_of().region(SPEC), Loader({(1,): "a", (2,): "b"}, is_open=False)
    bulk = asyncio.create_task(region.get_many([(1,), (2,)], loader.many))
    await until(1, loader.asked)
    single = asyncio.create_task(region.get((2,), loader.one))
    await settled()
    bulk.cancel()
    await asyncio.gather(bulk, return_exceptions=True)
    loader.gate.set()
    assert await single == "b"
    assert region.get_if_present((1,)) == "a"


def test_values_outlive_the_loop_and_loads_do_not() -> None:
    """A second event loop finds the values of the first; what was being loaded is loaded anew."""
    region = budget_of().region(SPEC)
    region.put(("kept",), "v")

    async def leave_a_load_behind() -> None:
        loader = Loader({("k",): "old"}, is_open=False)
        asyncio.get_running_loop().create_task(region.get(("k",), loader.one))
        await until(1, loader.asked)

    async def use() -> tuple[Any, Any]:
        loader = Loader({("k",): "new"})
        return region.get_if_present(("kept",)), await region.get(("k",), loader.one)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave_a_load_behind())
    try:
        assert asyncio.run(use()) == ("v", "new")
    finally:
        stray = asyncio.all_tasks(loop)
        for task in stray:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*stray, return_exceptions=True))
        loop.close()
    assert region.get_if_present(("k",)) == "new"


async def test_a_second_running_loop_is_refused() -> None:
    """Loading from two threads' loops at once is an error that says what to do."""
    region, loader = budget_of().region(SPEC), Loader({("k",): "v"})
    await region.get(("k",), loader.one)

    def elsewhere() -> str:
        with pytest.raises(InvalidInputError, match="of its own") as caught:
            asyncio.run(region.get(("other",), loader.one))
        return caught.value.kind

    assert await anyio.to_thread.run_sync(elsewhere) == "wrong-loop"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_forked_child_goes_on_with_the_values() -> None:
    """A child process keeps the values and loads on a loop of its own."""
    region = budget_of().region(SPEC)

    async def in_parent() -> int:
        await region.get(("a",), Loader({("a",): 1}).one)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                # The child's copy of this loop still says that it is running.
                asyncio._set_running_loop(None)
                child_loop = asyncio.new_event_loop()
                loaded = child_loop.run_until_complete(region.get(("b",), Loader({("b",): 2}).one))
                status = 0 if (region.get_if_present(("a",)), loaded) == (1, 2) else 2
            finally:
                os._exit(status)
        return child

    child = asyncio.run(in_parent())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


async def test_a_load_that_ends_the_program_is_told_to_its_waiters_alone() -> None:
    """What is no Exception reaches whoever waits, and is not reported as overlooked besides."""

    class Ends(BaseException):
        pass

    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    region, loader = budget_of().region(SPEC), Loader()
    loader.error = Ends()
    with pytest.raises(Ends):
        await region.get(("k",), loader.one)
    loader.error = None
    await settled()
    gc.collect()
    asyncio.get_running_loop().set_exception_handler(None)
    assert not reported
