"""Time as a value that is passed in, so that tests can hold it still.

Two clocks that must not be mixed: the *wall* clock names moments that other machines agree
on (snapshot times); the *steady* clock measures how long something takes and never
jumps. The steady clock counts the time a machine was suspended: a laptop that slept
for an hour has used up its commit deadline, although no program ran.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol, runtime_checkable

__all__ = ["Clock", "SystemClock"]

_STEADY_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@runtime_checkable
class Clock(Protocol):
    """Source of time for the engine."""

    def now_ms(self) -> int:
        """Returns wall time in milliseconds since 1970-01-01 UTC."""
        ...

    def steady(self) -> float:
        """Returns seconds on a clock that never jumps and counts suspended time."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits that long by this clock."""
        ...


class SystemClock:
    """The machine's own clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Returns wall time in milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def steady(self) -> float:
        """Returns seconds since boot, suspended time included (monotonic time elsewhere than Linux)."""
        return time.clock_gettime(_STEADY_ID)

    async def sleep(self, seconds: float) -> None:
        """Waits on the event loop."""
        await asyncio.sleep(seconds)

    def __repr__(self) -> str:
        return "SystemClock()"
