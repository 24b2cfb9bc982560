"""One timer limits many calls."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from lakehouse.io.work.time_limit import TimeLimit


async def _nap(limit: TimeLimit, seconds: float) -> str:
    with limit.bounded():
        await asyncio.sleep(seconds)
        return "slept"


async def test_a_call_within_the_limit_gives_its_result() -> None:
    """A call that is quick enough notices nothing of the limit."""
    assert await _nap(TimeLimit(5), 0) == "slept"


async def test_a_call_beyond_the_limit_is_a_timeout() -> None:
    """A call that takes too long ends with TimeoutError, and its task goes on uncancelled."""
    with pytest.raises(TimeoutError):
        await _nap(TimeLimit(0.01), 60)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_each_call_has_the_whole_limit() -> None:
    """A call that begins later comes due later, though one timer serves both."""
    limit = TimeLimit(0.1)
    ended: list[str] = []

    async def call(name: str, wait: float, seconds: float) -> None:
        await asyncio.sleep(wait)
        try:
            await _nap(limit, seconds)
            ended.append(f"{name} slept")
        except TimeoutError:
            ended.append(f"{name} timed out")

    async with asyncio.TaskGroup() as group:
        for name, wait, seconds in (("first", 0, 60), ("second", 0.06, 0.06), ("third", 0.06, 60)):
            group.create_task(call(name, wait, seconds))
    assert ended == ["first timed out", "second slept", "third timed out"]


async def test_the_limit_holds_after_a_pause() -> None:
    """The timer is set again when calls come after all others have ended."""
    limit = TimeLimit(0.01)
    assert await _nap(limit, 0) == "slept"
    await asyncio.sleep(0.03)
    with pytest.raises(TimeoutError):
        await _nap(limit, 60)


async def test_a_cancellation_from_outside_stays_one() -> None:
    """A cancelled scope ends the call as cancelled, not as timed out."""
    with anyio.move_on_after(0.01) as scope:
        await _nap(TimeLimit(60), 60)
    assert scope.cancelled_caught


async def test_a_cancellation_beside_the_limit_wins() -> None:
    """Cancelled from outside while the limit ends it, a call is cancelled: somebody waits for that."""
    task = asyncio.ensure_future(_stubborn(TimeLimit(0.01)))
    await asyncio.sleep(0.03)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _stubborn(limit: TimeLimit) -> None:
    """Takes a moment to go when cancelled."""
    with limit.bounded():
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)


async def test_errors_of_the_call_pass() -> None:
    """What the call raises is what its caller sees, a TimeoutError of its own included."""
    with pytest.raises(ValueError, match="its own"), TimeLimit(5).bounded():
        raise ValueError("its own")
