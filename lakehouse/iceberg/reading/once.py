"""Values that are loaded once for a scan, however many files need them at the same time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import anyio

__all__ = ["Once"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Once(Generic[K, V]):
    """Loaded values by key; what fails is tried again by the next one who asks."""

    def __init__(self) -> None:
        self._locks: dict[K, anyio.Lock] = {}
        self._values: dict[K, V] = {}

    async def get(self, key: K, load: Callable[[], Awaitable[V]]) -> V:
        """Returns the value of a key, loaded by the first who asks while the others wait."""
        async with self._locks.setdefault(key, anyio.Lock()):
            if key not in self._values:
                self._values[key] = await load()
            return self._values[key]
