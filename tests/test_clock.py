"""The clock: two kinds of time, and a sleep that takes as long as it says."""

from __future__ import annotations

import asyncio
import pickle
import time

from lakehouse.clock import Clock, SystemClock

CLOCK = SystemClock()


def test_the_system_clock_is_a_clock() -> None:
    """What the engine asks of a clock, the machine's has."""
    assert isinstance(CLOCK, Clock)


def test_wall_time_is_milliseconds_since_1970() -> None:
    """now_ms() lies between two readings of the machine's time."""
    before, now, after = time.time_ns(), CLOCK.now_ms(), time.time_ns()
    assert before // 1_000_000 <= now <= after // 1_000_000
    assert isinstance(now, int)


def test_steady_time_does_not_go_back() -> None:
    """steady() never decreases."""
    readings = [CLOCK.steady() for _ in range(1_000)]
    assert readings == sorted(readings)


def test_steady_time_counts_suspended_time() -> None:
    """On Linux steady() is the time since boot, suspended time included."""
    expected = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    assert abs(CLOCK.steady() - expected) < 5


async def test_sleep_takes_its_time() -> None:
    """sleep() lasts at least as long as asked, by the steady clock."""
    before = CLOCK.steady()
    await CLOCK.sleep(0.02)
    assert CLOCK.steady() - before >= 0.019


async def test_sleep_gives_way() -> None:
    """While one task sleeps, even for no time, others run."""
    ran = []

    async def other() -> None:
        ran.append(True)

    async with asyncio.TaskGroup() as group:
        group.create_task(other())
        await CLOCK.sleep(0)
        await CLOCK.sleep(0)
        assert ran


def test_a_clock_travels() -> None:
    """A clock goes to Spark workers with the store that holds it."""
    assert isinstance(pickle.loads(pickle.dumps(CLOCK)), SystemClock)
