"""The manual clock: time that moves when a test says so, and only then."""

from __future__ import annotations

import asyncio

import pytest

from lakehouse.clock import Clock
from lakehouse.errors import InvalidInputError
from lakehouse.testing.manual_clock import ManualClock


def test_it_is_a_clock() -> None:
    """What the engine asks of a clock, a manual one has."""
    assert isinstance(ManualClock(), Clock)


def test_time_stands_still() -> None:
    """Neither clock moves by itself."""
    clock = ManualClock(5_000)
    assert (clock.now_ms(), clock.steady()) == (5_000, 0.0)
    assert (clock.now_ms(), clock.steady()) == (5_000, 0.0)


async def test_advance_moves_both_clocks() -> None:
    """Wall and steady time advance together."""
    clock = ManualClock(5_000)
    await clock.advance(1.5)
    assert (clock.now_ms(), clock.steady()) == (6_500, 1.5)


async def test_the_wall_clock_jumps_alone() -> None:
    """Setting the wall clock, forwards or backwards, leaves steady time alone."""
    clock = ManualClock(5_000)
    await clock.advance(1)
    clock.set_wall(1_000)
    assert (clock.now_ms(), clock.steady()) == (1_000, 1.0)


async def test_steady_time_does_not_go_back() -> None:
    """Advancing by a negative time is an error."""
    with pytest.raises(InvalidInputError, match="does not go back"):
        await ManualClock().advance(-1)


async def test_a_sleeper_wakes_when_its_time_has_come() -> None:
    """A sleep ends at its moment, not before."""
    clock = ManualClock()
    sleeper = asyncio.create_task(clock.sleep(10))
    await clock.advance(9.9)
    assert not sleeper.done()
    await clock.advance(0.1)
    assert sleeper.done()


async def test_sleepers_wake_in_the_order_of_their_times() -> None:
    """One advance wakes several sleepers by time, equal times first come first served."""
    clock, woken = ManualClock(), []

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.steady()))

    tasks = [asyncio.create_task(sleep(name, at)) for name, at in (("c", 3), ("a", 1), ("b", 2), ("b2", 2))]
    await clock.advance(10)
    assert woken == [("a", 1), ("b", 2), ("b2", 2), ("c", 3)]
    assert all(task.done() for task in tasks)


@pytest.mark.parametrize("through_a_task", [False, True])
async def test_one_advance_carries_a_loop_of_sleeps(through_a_task: bool) -> None:
    """Who wakes and sleeps again within one advance wakes at every right moment, also task within task."""
    clock, woken = ManualClock(), []

    async def tick() -> None:
        for _ in range(5):
            sleep = clock.sleep(1)
            await (asyncio.wait_for(sleep, None if not through_a_task else 60) if through_a_task else sleep)
            woken.append(clock.steady())

    task = asyncio.create_task(tick())
    await clock.advance(10)
    assert woken == [1, 2, 3, 4, 5]
    assert task.done()
    assert clock.steady() == 10


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    """A sleep that was cancelled neither wakes nor counts."""
    clock = ManualClock()
    sleeper = asyncio.create_task(clock.sleep(5))
    await asyncio.sleep(0)
    assert "sleepers=1" in repr(clock)
    sleeper.cancel()
    await asyncio.sleep(0)
    assert "sleepers=0" in repr(clock)
    await clock.advance(10)
    assert sleeper.cancelled()


async def test_a_sleep_of_no_time_gives_way_only() -> None:
    """Sleeping for no time lets others run and returns."""
    clock, ran = ManualClock(), []
    other = asyncio.create_task(asyncio.to_thread(lambda: None))
    asyncio.get_running_loop().call_soon(ran.append, True)
    await clock.sleep(0)
    assert ran
    await other


async def test_skip_turns_sleeps_into_leaps() -> None:
    """With skip, a sleep returns at once and the clock has moved by it; it is written down."""
    clock = ManualClock(0, skip=True)
    await clock.sleep(3)
    await clock.sleep(-1)
    await clock.sleep(0.5)
    assert (clock.steady(), clock.now_ms()) == (3.5, 3_500)
    assert clock.slept == [3, -1, 0.5]
