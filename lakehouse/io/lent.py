"""The store that a lake lends to its tables: it ends with the lake, whoever still holds a table.

A lake that is entered opens it, and one that is left closes it: what is asked of it then is an error and
not a new connection that nobody gives back. A lake that is never entered may be used all the same, as what
arrives by pickle is; then the event loop gives the connections back when it ends, or the garbage collector
when nothing refers to the store any more.

Invariant: of a store that is owned no connection outlives the event loop it was made on.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import warnings
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

from lakehouse.errors import InvalidInputError
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.store import ObjectStore

__all__ = ["LentStore"]

R = TypeVar("R")


class _State(enum.Enum):
    NEW = enum.auto()
    OPEN = enum.auto()
    CLOSED = enum.auto()


class LentStore(StoreDecorator):
    """A store that is open as long as its lake; outermost of the stack.

    Args:
        inner: the store.
        is_owned: nobody else closes it.
        warns: its use before it was opened is worth a ResourceWarning.
        lender: whoever lends it, and how that is entered, for messages.
    """

    def __init__(
        self,
        inner: ObjectStore,
        *,
        is_owned: bool = False,
        warns: bool = False,
        lender: tuple[str, str] = ("lake", "lakehouse.connect(…) as lake"),
    ) -> None:
        super().__init__(inner)
        self._lender = lender
        self.is_owned, self.warns = is_owned, warns
        self._state = _State.NEW
        self._keeper: AsyncGenerator[None, None] | None = None
        self._dropped: weakref.finalize[..., LentStore] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def check_open(self) -> None:
        if self._state is _State.CLOSED:
            what, entered = self._lender
            raise InvalidInputError(
                f"this {what} is closed: use it and what it gave out in 'async with {entered}', or open "
                "another one",
                kind="closed",
                url=self.url,
            )

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Makes the request unless the lake was left."""
        self.check_open()
        if self._state is _State.NEW and self.is_owned and self._loop is not asyncio.get_running_loop():
            await self._keep()
        return await request()

    async def _keep(self) -> None:
        """Has the connections given back by the event loop."""
        if self.warns:
            warnings.warn(
                "a {} is used without being entered: write 'async with {}', which gives its connections "
                "back at once, and lets a lake's writers compact".format(*self._lender),
                ResourceWarning,
                stacklevel=2,
            )
            self.warns = False
        self._loop = asyncio.get_running_loop()
        self._let_go()
        # The loop closes asynchronous generators that were begun when it ends.
        self._keeper = keeper = _closing(self.inner)
        # Not by the generator's own end: the garbage collector would finalize the connections beside it.
        self._dropped = weakref.finalize(self, _give_back, self._loop, keeper)
        self._dropped.atexit = False
        await anext(keeper)

    def _let_go(self) -> None:
        if self._dropped is not None:
            self._dropped.detach()
        self._keeper = self._dropped = None

    async def __aenter__(self) -> LentStore:
        keeper, self._loop = self._keeper, None
        self._let_go()
        if keeper is not None:
            await keeper.aclose()
        self._state = _State.OPEN
        return self

    async def aclose(self) -> None:
        self._state = _State.CLOSED
        await super().aclose()

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.inner, self._lender)


async def _closing(store: ObjectStore) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await store.aclose()


def _give_back(loop: asyncio.AbstractEventLoop, keeper: AsyncGenerator[None, None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended, and closed it
        loop.call_soon_threadsafe(lambda: loop.create_task(keeper.aclose()))


def _arrived(inner: ObjectStore, lender: tuple[str, str]) -> LentStore:
    """The store where it was unpickled: configuration, which connects when it is used."""
    return LentStore(inner, is_owned=True, lender=lender)
