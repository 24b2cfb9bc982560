"""A scheduler that a seed drives: which of the ready callbacks runs next is drawn.

Time passes only when all wait. Every order in which tasks may interleave has a chance, and a seed that fails
fails again.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

__all__ = ["LoopClock", "run_seeded", "with_seeds"]

T = TypeVar("T")


class _SeededLoop(asyncio.SelectorEventLoop):
    """An event loop without threads and files."""

    _ready: deque[Any]
    _scheduled: list[Any]

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self._now = 0.0

    def time(self) -> float:
        """Seconds of its own time."""
        return self._now

    def _run_once(self) -> None:
        if not self._ready and not self._scheduled:
            raise AssertionError("everybody waits, and nothing will ever happen")
        if not self._ready:
            self._now = max(self._now, self._scheduled[0]._when)
        others = list(self._ready)
        if others:
            self._ready.clear()
            self._ready.append(others.pop(self.random.randrange(len(others))))
        super()._run_once()  # type: ignore[misc]
        self._ready.extendleft(reversed(others))


class LoopClock:
    """The time of the running loop as a :class:`lakehouse.clock.Clock`."""

    def now_ms(self) -> int:
        """Milliseconds since the loop began, as wall time."""
        return round(self.steady() * 1000)

    def steady(self) -> float:
        """Seconds since the loop began."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Waits on the loop."""
        await asyncio.sleep(seconds)


def run_seeded(main: Callable[[random.Random], Awaitable[T]], seed: int) -> T:
    """Runs a coroutine function, given the source of randomness, in the order that the seed draws."""
    loop = _SeededLoop(seed)
    try:

        async def body() -> T:
            return await main(loop.random)

        return loop.run_until_complete(body())
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left))
        loop.close()


def with_seeds(main: Callable[[random.Random], Awaitable[object]], seeds: Iterable[int]) -> None:
    """Runs it under each seed; a failure says which."""
    for seed in seeds:
        try:
            run_seeded(main, seed)
        except BaseException as error:
            error.add_note(f"seed {seed}: run_seeded({getattr(main, '__name__', main)}, {seed}) fails again")
            raise
