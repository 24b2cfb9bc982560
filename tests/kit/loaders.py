"""Loads that tests can count, hold back and make fail."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse.cache import CacheBudget
from lakehouse.config import CacheSettings
from lakehouse.testing import ManualClock

__all__ = ["Loader", "budget_of", "settled", "until"]


class Loader:
    """A source of values: a dictionary behind a gate, which counts what is asked of it."""

    def __init__(self, values: Mapping[Any, Any] | None = None, *, is_open: bool = True) -> None:
        self.values: dict[Any, Any] = dict(values or {})
        self.asked: list[Any] = []
        """Keys of single loads and key tuples of bulk loads, in order."""
        self.cancelled = 0
        self.error: BaseException | None = None
        """Raised in place of an answer."""
        self.gate = asyncio.Event()
        if is_open:
            self.gate.set()

    async def one(self, key: Any) -> Any:
        """Loads one key; None when there is no value. The value is read before the gate, as
        a slow answer of a store is."""
        self.asked.append(key)
        value = self.values.get(key)
        await self._pass()
        return value

    async def many(self, keys: Sequence[Any]) -> dict[Any, Any]:
        """Loads several keys."""
        self.asked.append(tuple(keys))
        found = {key: self.values[key] for key in keys if key in self.values}
        await self._pass()
        return found

    async def _pass(self) -> None:
        error = self.error
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if error is not None:
            raise error


def budget_of(max_bytes: int = 1 << 20, *, clock: ManualClock | None = None, **settings: Any) -> CacheBudget:
    """A budget for tests; one entry may take all of it."""
    given = {"max_entry_share": 1.0, **settings}
    return CacheBudget(CacheSettings(max_bytes=max_bytes, **given), clock=clock or ManualClock())


async def settled() -> None:
    """Lets every task run until it waits for something."""
    for _ in range(10):
        await asyncio.sleep(0)


async def until(count: int, asked: Sequence[Any]) -> None:
    """Waits until so many loads were asked for."""
    for _ in range(1_000):
        if len(asked) >= count:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{len(asked)} loads were asked for, {count} expected")
