"""A clock that moves when a test says so."""

from __future__ import annotations

import asyncio
import heapq
import itertools

from lakehouse.errors import InvalidInputError

__all__ = ["ManualClock"]

_TURNS = 20
"""Turns of the loop that others get before time moves on; tasks that wait for tasks need several."""


class ManualClock:
    """Implements :class:`lakehouse.clock.Clock`; time stands still until :meth:`advance`.

    With ``skip=True`` a sleep moves the clock itself and returns at once, for tests of
    code whose waits are of no interest.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000, *, skip: bool = False) -> None:
        self._now_s = now_ms / 1000
        self._steady = 0.0
        self._skip = skip
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._tie = itertools.count()
        self.slept: list[float] = []
        """Every sleep asked for, in seconds."""

    def now_ms(self) -> int:
        """Returns wall time, milliseconds since 1970."""
        return round(self._now_s * 1000)

    def steady(self) -> float:
        """Seconds since the clock was made."""
        return self._steady

    def set_wall(self, now_ms: int) -> None:
        """Makes the wall clock jump, forwards or backwards; the steady clock does not notice."""
        self._now_s = now_ms / 1000

    async def sleep(self, seconds: float) -> None:
        """Waits until the clock was advanced that far."""
        self.slept.append(seconds)
        if self._skip:
            self._move(max(0.0, seconds))
            await asyncio.sleep(0)
            return
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._steady + seconds, next(self._tie), wake))
        await wake

    async def advance(self, seconds: float) -> None:
        """Moves both clocks, waking sleepers in the order of their times and letting them run.

        Whoever wakes and sleeps again within that time wakes again, at the right moment.
        """
        if seconds < 0:
            raise InvalidInputError(f"the steady clock does not go back {-seconds:g} s; set_wall jumps")
        await _settle()  # who is about to sleep, sleeps from now on
        target = self._steady + seconds
        while self._sleepers and self._sleepers[0][0] <= target:
            due, _, wake = heapq.heappop(self._sleepers)
            self._move(due - self._steady)
            if not wake.done():
                wake.set_result(None)
                await _settle()
        self._move(target - self._steady)

    def _move(self, seconds: float) -> None:
        self._steady += seconds
        self._now_s += seconds

    def __repr__(self) -> str:
        sleepers = sum(not wake.done() for _, _, wake in self._sleepers)
        return f"ManualClock(now_ms={self.now_ms()}, steady={self._steady:g}, sleepers={sleepers})"


async def _settle() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
