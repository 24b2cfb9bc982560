"""Small warehouses for tests of tables: built once, copied for each test, read back as plain Python.

A world is what a store holds, as bytes by key. Copies of it are warehouses of their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from lakehouse.clock import Clock
from lakehouse.config import IoSettings
from lakehouse.io import ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from lakehouse.testing import memory_store

__all__ = ["NAME", "Row", "StepIn", "World", "process", "restored", "saved", "table_of"]

R = TypeVar("R")
Row = dict[str, Any]
World = dict[str, bytes]

NAME = "db.t"
_AT_ONCE = IoSettings(retry_attempts=3, retry_base_s=0)


async def saved(store: ObjectStore) -> World:
    """What a store holds."""
    return {one.key: (await store.get(one.key)).data async for one in store.list("")}


async def restored(world: World) -> ObjectStore:
    """A store of its own that holds the same; requests to it are tried three times, without waiting."""
    store = memory_store(_AT_ONCE)
    for key, data in world.items():
        await store.put(key, data)
    return store


def process(store: ObjectStore, *, clock: Clock | None = None) -> Lake:
    """A process that has connected to the warehouse and remembers nothing yet."""
    return Lake(stacked(store, clock=clock), clock=clock)


async def table_of(store: ObjectStore, *, clock: Clock | None = None) -> Table:
    """The table as a process of its own sees it."""
    return await process(store, clock=clock).table(NAME)


class StepIn(StoreDecorator):
    """Lets somebody else act right before a request about some key."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.act: Callable[[], Awaitable[None]] | None = None
        """Acts once; None = nobody does any more."""
        self._key, self._verb, self._left = "", "", 0

    def before(self, number: int, key: str, act: Callable[[], Awaitable[None]], *, verb: str = "") -> None:
        """Before the request of that number, counted from now and 0, of the verb on a key with this text."""
        self._key, self._verb, self._left, self.act = key, verb, number, act

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        act = self.act
        if act is not None and self._key in key and self._verb in ("", verb):
            if self._left == 0:
                self.act = None
                await act()
            self._left -= 1
        return await request()
