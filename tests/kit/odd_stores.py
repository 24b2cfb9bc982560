"""Stores that the tests of ``lakehouse.io`` put around others: what real ones lack, and who wrote what."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from lakehouse.io import Buffer, Capabilities, Fetched, ObjectStore, RetryPolicy, Stored
from lakehouse.io.decorators import StoreDecorator
from lakehouse.testing.manual_clock import ManualClock

R = TypeVar("R")


def quick_policy(**changes: Any) -> RetryPolicy:
    """A policy without waits, so that attempts are counted whatever the error."""
    return RetryPolicy(
        **{"attempts": 4, "base_s": 0, "clock": ManualClock(skip=True), "rng": random.Random(0), **changes}
    )


class TokenlessStore(StoreDecorator):
    """Keeps no tokens, as most file systems do."""

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Takes the token out of whatever comes back."""
        result = await request()
        if isinstance(result, Fetched):
            return dataclasses.replace(result, token=None)  # type: ignore[return-value]
        return result


class NoSuffixStore(StoreDecorator):
    """Cannot read the end of an object whose size it is not told."""

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """The same without suffix reads."""
        return dataclasses.replace(self.inner.capabilities, suffix_range=False)


class OnePieceStore(StoreDecorator):
    """Takes objects in one piece only."""

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """The same without parts."""
        return dataclasses.replace(self.inner.capabilities, multipart=False)


class HistoryStore(StoreDecorator):
    """Remembers the tokens of the conditional puts that were applied, in order."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.applied: list[str | None] = []

    async def put_if_absent(
        self, key: str, data: Buffer, *, token: str | None = None, timed: bool = True
    ) -> Stored:
        stored = await self.inner.put_if_absent(key, data, token=token, timed=timed)
        self.applied.append(token)
        return stored

    async def put_if_match(self, key: str, data: Buffer, *, version: str, token: str | None = None) -> Stored:
        stored = await self.inner.put_if_match(key, data, version=version, token=token)
        self.applied.append(token)
        return stored


class ShuffledStore(StoreDecorator):
    """Lets other tasks run before and after each request, as often as the seed says."""

    def __init__(self, inner: ObjectStore, rng: random.Random) -> None:
        super().__init__(inner)
        self._rng = rng

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Gives way, makes the request, gives way again."""
        for _ in range(self._rng.randrange(4)):
            await asyncio.sleep(0)
        result = await request()
        for _ in range(self._rng.randrange(4)):
            await asyncio.sleep(0)
        return result


class ScriptedStore(StoreDecorator):
    """Raises what the script says, call by call; ``None`` and the end of the script let a call through."""

    def __init__(self, inner: ObjectStore, verb: str, script: Sequence[Exception | None]) -> None:
        super().__init__(inner)
        self._verb = verb
        self._script = list(script)

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Makes the request, or fails as told."""
        error = self._script.pop(0) if verb == self._verb and self._script else None
        if error is not None:
            raise error
        return await request()
