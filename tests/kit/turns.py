"""Processes whose requests take turns: a seed decides which request is sent, or answered, next.

The rest of a process runs as far as it can between two turns. So a seed stands for one interleaving of all
requests and answers, and what goes wrong in it goes wrong again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from lakehouse.io import ObjectStore
from lakehouse.io.decorators import StoreDecorator

__all__ = ["Turns", "TurnsStore"]

R = TypeVar("R")
_STEPS = 12
"""Steps of the event loop in which whatever was set off by a turn comes to its next request."""


class Turns:
    """Decides whose turn it is."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._waiting: list[asyncio.Future[None]] = []
        self._is_over = True
        """Whether requests go through as they come."""

    async def wait(self) -> None:
        """Waits for a turn."""
        if not self._is_over:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    async def run(self, tasks: Collection[asyncio.Future[object]]) -> None:
        """Gives turns until these tasks are done; afterwards nobody waits."""
        self._is_over = False
        while not all(task.done() for task in tasks):
            for _ in range(_STEPS):
                await asyncio.sleep(0)
            self._waiting = [turn for turn in self._waiting if not turn.done()]
            if self._waiting:
                self._waiting.pop(self._chance.randrange(len(self._waiting))).set_result(None)
            else:
                await asyncio.sleep(0.0005)  # something computes in a thread
        self._is_over = True
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)
        await asyncio.gather(*tasks)


class TurnsStore(StoreDecorator):
    """The store as one process sees it: a turn for each request, and one for each answer."""

    def __init__(self, inner: ObjectStore, turns: Turns) -> None:
        super().__init__(inner)
        self._turns = turns

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        await self._turns.wait()
        try:
            return await request()
        finally:
            await self._turns.wait()
