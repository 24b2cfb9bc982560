"""Coroutines that threads of others wait for."""

from __future__ import annotations

import asyncio
import threading

import pytest

from lakehouse.errors import InternalError, InvalidInputError, NotFoundError
from lakehouse.io.cost import active_costs, measure
from lakehouse.sql.engine import LoopBridge


async def _fails() -> None:
    raise NotFoundError("the object is gone")


async def _loop_thread() -> int:
    return threading.get_ident()


async def test_a_coroutine_runs_on_the_loop_for_a_thread() -> None:
    """What a thread asks for runs on the loop's thread, and the thread gets its result."""
    bridge = LoopBridge()
    assert await asyncio.to_thread(lambda: bridge.wait(_loop_thread())) == threading.get_ident()
    await bridge.aclose()


async def test_costs_are_counted_for_whoever_made_the_bridge() -> None:
    """Coroutines count into the bridge's cost and into those around it, though a thread asked for them."""

    async def costs() -> list[int]:
        return [id(cost) for cost in active_costs()]

    with measure() as outer:
        bridge = LoopBridge()
    thread = asyncio.get_running_loop().run_in_executor(None, lambda: bridge.wait(costs()))
    assert await thread == [id(outer), id(bridge.cost)]
    await bridge.aclose()


async def test_the_first_error_is_kept() -> None:
    """The first error of what was asked for is kept as the object that it is."""
    bridge = LoopBridge()
    with pytest.raises(NotFoundError) as caught:
        await asyncio.to_thread(lambda: bridge.wait(_fails()))
    with pytest.raises(NotFoundError):
        await asyncio.to_thread(lambda: bridge.wait(_fails()))
    assert bridge.error is caught.value
    await bridge.aclose()


async def test_cancelling_ends_what_waits_and_refuses_what_comes() -> None:
    """A thread that waits is let go by an error, which is not kept; so is one that comes later."""
    bridge, begun = LoopBridge(), asyncio.Event()

    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    waiting = asyncio.create_task(asyncio.to_thread(lambda: bridge.wait(forever())))
    await begun.wait()
    await bridge.aclose()
    for thread in (waiting, asyncio.to_thread(lambda: bridge.wait(forever()))):
        with pytest.raises(InvalidInputError) as caught:
            await thread
        assert caught.value.kind == "closed"
    assert bridge.error is None


async def test_a_future_that_is_cancelled_cancels_its_coroutine() -> None:
    """Whoever began a coroutine ends it by its future, before it began and while it runs."""
    bridge, begun, ended = LoopBridge(), asyncio.Event(), asyncio.Event()

    async def forever() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running, early = bridge.start(forever()), bridge.start(_fails())
    assert early.cancel()
    await begun.wait()
    assert running.cancel()
    await ended.wait()
    assert bridge.error is None
    await bridge.aclose()


async def test_the_loop_does_not_wait_for_itself() -> None:
    """Waiting on the loop's own thread is an error instead of a deadlock."""
    bridge = LoopBridge()
    with pytest.raises(InternalError, match="own thread"):
        bridge.wait(_loop_thread())
    await bridge.aclose()


def test_a_loop_that_is_gone_is_an_error() -> None:
    """A thread that asks after the loop was closed gets an error and does not wait."""

    async def made() -> LoopBridge:
        return LoopBridge()

    bridge = asyncio.run(made())
    with pytest.raises(InvalidInputError) as caught:
        bridge.start(_loop_thread())
    assert caught.value.kind == "closed"
