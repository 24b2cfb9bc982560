"""What the tests of fan-out share: calls that can be held up, sources, and a look at what is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

ORDERED = pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "as completed"])
SOURCE = pytest.mark.parametrize("asynchronous", [False, True], ids=["iterable", "async iterable"])


def tasks() -> set[asyncio.Task[Any]]:
    """All tasks but those that run the test and its fixtures."""
    return {task for task in asyncio.all_tasks() if "TestRunner" not in repr(task.get_coro())}


class Crew:
    """An async function of one item that can be held up, and says how many are at it."""

    def __init__(self, *, fails: Iterable[int] = ()) -> None:
        self.started: list[int] = []
        self.finished: list[int] = []
        self.cancelled: list[int] = []
        self.most = 0
        self.open = asyncio.Event()
        self.open.set()
        self._fails = set(fails)

    @property
    def under_way(self) -> int:
        """Calls that have begun and not ended."""
        return len(self.started) - len(self.finished) - len(self.cancelled)

    async def __call__(self, item: int) -> int:
        self.started.append(item)
        self.most = max(self.most, self.under_way)
        try:
            await self.open.wait()
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled.append(item)
            raise
        self.finished.append(item)
        if item in self._fails:
            raise ValueError(f"item {item}")
        return item * 10


def source_of(items: Iterable[int], asynchronous: bool) -> Any:
    """The items as a plain or an asynchronous iterator; neither has a length."""

    async def stream() -> AsyncIterator[int]:
        for item in items:
            await asyncio.sleep(0)
            yield item

    return stream() if asynchronous else iter(items)


async def settle() -> None:
    """Gives everybody time to get as far as they can."""
    for _ in range(50):
        await asyncio.sleep(0)


async def drain(results: AsyncIterator[Any], into: list[Any] | None = None) -> None:
    """Takes all results there are."""
    async for result in results:
        if into is not None:
            into.append(result)
