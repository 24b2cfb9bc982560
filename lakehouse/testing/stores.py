"""Stores to test with: in memory, recording, slow, and with conditions that do not hold."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from fsspec.implementations.memory import MemoryFileSystem

from lakehouse.config import IoSettings
from lakehouse.errors import ConflictError
from lakehouse.ids import new_token
from lakehouse.io import Buffer, Capabilities, ObjectStore, Stored, open_backend
from lakehouse.io.cost import REQUEST_KINDS
from lakehouse.io.decorators import StoreDecorator

__all__ = ["Call", "LatencyStore", "RecordingStore", "UnsafeStore", "memory_store"]

R = TypeVar("R")


def memory_store(settings: IoSettings | None = None) -> ObjectStore:
    """Makes a bare in-memory store of its own; its objects go when it is garbage-collected."""
    name = f"lakehouse-test-{new_token()}"
    store = open_backend(f"memory://{name}", settings=settings or IoSettings())
    weakref.finalize(store, _forget, f"/{name}/")
    return store


def _forget(prefix: str) -> None:
    # Copied first: this runs whenever a store is collected, also while another walks the dictionary.
    for path in list(MemoryFileSystem.store):
        if path.startswith(prefix):
            MemoryFileSystem.store.pop(path, None)


@dataclass(frozen=True, slots=True)
class Call:
    """One request that a store received."""

    verb: str
    key: str
    sent: int = 0
    """Bytes of the request's body."""

    def __repr__(self) -> str:
        return f"{self.verb} {self.key}" + (f" ({self.sent} B)" if self.sent else "")


class RecordingStore(StoreDecorator):
    """Writes down every request, so that a test can say what an operation costs::

    store = RecordingStore(memory_store())
    ...
    assert store.kinds() == {"get": 1}
    """

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.calls: list[Call] = []
        """All requests since the last :meth:`clear`."""

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Notes the request before it is made."""
        self.calls.append(Call(verb, key, size))
        return await request()

    def kinds(self) -> dict[str, int]:
        """Requests by kind: get, head, list, put, post, delete."""
        counts: dict[str, int] = {}
        for call in self.calls:
            kind = REQUEST_KINDS[call.verb]
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    def clear(self) -> None:
        """Forgets the requests so far."""
        self.calls.clear()

    def __repr__(self) -> str:
        return f"RecordingStore({self.kinds()})"


class LatencyStore(StoreDecorator):
    """Adds a wait before every request: constant, or drawn around it with a seed.

    Args:
        inner: the store that does the work.
        seconds: the wait; a mapping gives one per request kind (``{"get": 0.02}``).
        jitter: width of the draw as a share of the wait; 0.5 means ±50 %.
        seed: makes the draws repeatable.
    """

    def __init__(
        self, inner: ObjectStore, seconds: float | Mapping[str, float], *, jitter: float = 0.0, seed: int = 0
    ) -> None:
        super().__init__(inner)
        self._seconds = seconds
        self._jitter = jitter
        self._seed = seed
        self._rng = random.Random(seed)

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Waits, then makes the request."""
        seconds = self._seconds
        if isinstance(seconds, Mapping):
            seconds = seconds.get(REQUEST_KINDS[verb], 0.0)
        if self._jitter:
            seconds *= 1 + self._rng.uniform(-self._jitter, self._jitter)
        if seconds > 0:
            await asyncio.sleep(seconds)
        return await request()

    def __reduce__(self) -> tuple[Any, ...]:
        return _latency, (self.inner, self._seconds, self._jitter, self._seed)


def _latency(
    inner: ObjectStore, seconds: float | Mapping[str, float], jitter: float, seed: int
) -> LatencyStore:
    return LatencyStore(inner, seconds, jitter=jitter, seed=seed)


class UnsafeStore(StoreDecorator):
    """Breaks the conditions of conditional puts, as some stores that speak S3 do.

    It goes right around a backend; :func:`lakehouse.io.open.stacked` makes of it a store as
    programs have it.

    Args:
        inner: the store that does the work.
        ignores: verbs whose condition has no effect, of ``put_if_absent`` and ``put_if_match``.
        races: verbs that look first and write later, so that writers who meet all succeed.
        rate: share of the racing puts in which others come between the look and the write.
        seed: makes the draws repeatable.
    """

    def __init__(
        self,
        inner: ObjectStore,
        *,
        ignores: Collection[str] = (),
        races: Collection[str] = (),
        rate: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(inner)
        self.ignores = ignores
        """Verbs whose condition has no effect; may be changed at any time."""
        self._races, self._rate, self._seed = races, rate, seed
        self._rng = random.Random(seed)

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """Capabilities of the store inside, without its claim to be safe."""
        return dataclasses.replace(self.inner.capabilities, commit_proven=False)

    async def put_if_absent(
        self, key: str, data: Buffer, *, token: str | None = None, timed: bool = True
    ) -> Stored:
        if "put_if_absent" in self.ignores:
            return await self._overwrite(key, data, token)
        if not self._opens_a_gap("put_if_absent"):
            return await self.inner.put_if_absent(key, data, token=token, timed=timed)
        if await self.inner.exists(key):
            raise ConflictError(f"{key!r} exists already", key=key)
        await asyncio.sleep(0)
        return await self.inner.put(key, data)

    async def put_if_match(self, key: str, data: Buffer, *, version: str, token: str | None = None) -> Stored:
        if "put_if_match" in self.ignores:
            return await self._overwrite(key, data, token)
        if not self._opens_a_gap("put_if_match"):
            return await self.inner.put_if_match(key, data, version=version, token=token)
        if (await self.inner.head(key)).version != version:
            raise ConflictError(f"{key!r} is no longer version {version}", key=key)
        await asyncio.sleep(0)
        return await self.inner.put(key, data)

    async def _overwrite(self, key: str, data: Buffer, token: str | None) -> Stored:
        await self.inner.delete(key)  # a plain put would leave the token out
        return await self.inner.put_if_absent(key, data, token=token)

    def _opens_a_gap(self, verb: str) -> bool:
        return verb in self._races and self._rng.random() < self._rate

    def __reduce__(self) -> tuple[Any, ...]:
        return _unsafe, (self.inner, self.ignores, self._races, self._rate, self._seed)


def _unsafe(
    inner: ObjectStore, ignores: Collection[str], races: Collection[str], rate: float, seed: int
) -> UnsafeStore:
    return UnsafeStore(inner, ignores=ignores, races=races, rate=rate, seed=seed)
