"""A store whose clock stands still until a test moves it, for what depends on the age of objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from lakehouse.io import Fetched, ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.protocols import ListPage, ObjectMeta, Stored

__all__ = ["HOUR_S", "TimedStore"]

HOUR_S = 3_600


class TimedStore(StoreDecorator):
    """Answers by its own clock, and says that objects were written when it was by that clock."""

    def __init__(self, inner: ObjectStore, now_ms: int = 1_700_000_000_000) -> None:
        super().__init__(inner)
        self.now_ms = now_ms
        """Milliseconds since 1970."""
        self.written: dict[str, int] = {}
        """When each object was written last; those it does not know, when the clock began."""
        self._began = now_ms

    def advance(self, seconds: float) -> None:
        """Moves the clock."""
        self.now_ms += int(seconds * 1000)

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[Any]], size: int = 0) -> Any:
        """Makes the request and puts the store's time into its answer."""
        answer = await request()
        if isinstance(answer, Stored):
            self.written[key] = self.now_ms
        if isinstance(answer, Stored | Fetched):
            return dataclasses.replace(answer, store_time_ms=self.now_ms)
        if isinstance(answer, ObjectMeta):
            return dataclasses.replace(self._dated(answer), store_time_ms=self.now_ms)
        if isinstance(answer, ListPage):
            return dataclasses.replace(answer, objects=tuple(map(self._dated, answer.objects)))
        return answer

    def _dated(self, one: ObjectMeta) -> ObjectMeta:
        return dataclasses.replace(one, modified_ms=self.written.get(one.key, self._began))
