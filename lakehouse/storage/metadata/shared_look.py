"""A look at the bucket that concurrent calls share, each of them one that began after the call.

::

    calls   a    b c d           e f
    looks   [a's look][b, c, d's look][e, f's look]

Whoever comes while a look is under way waits for the next, as the answer that is on its way may be older
than the call. All who wait for the next one share it.

Invariant: no call is given the answer of a look that began before the call. Looks follow one another, so
there are at most two for the calls of any moment. A caller that is cancelled takes nothing from the others;
when the last one goes, so does the look.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, TypeVar, cast

from lakehouse.errors import UnavailableError

__all__ = ["SharedLook"]

R = TypeVar("R")


class SharedLook(Generic[R]):
    """Makes looks for the calls that ask for one; see above.

    Args:
        look: asks the bucket; it must not ask for a shared look itself.
    """

    __slots__ = ("_last", "_look")

    def __init__(self, look: Callable[[], Awaitable[R]]) -> None:
        self._look = look
        self._last: _Look[R] | None = None

    async def __call__(self) -> R:
        """Returns the answer of a look that begins after the call, or raises its error."""
        loop = asyncio.get_running_loop()
        last = self._last
        if last is None or last.loop is not loop or last.has_begun:
            last = self._last = _Look(self._look, loop, last)
        return await last.answer()


class _Look(Generic[R]):
    """One look, and the calls that wait for it."""

    __slots__ = ("_ask", "_context", "_error", "_following", "_result", "_task", "_trace", "_waiters",
                 "has_begun", "loop")  # fmt: skip

    def __init__(
        self, ask: Callable[[], Awaitable[R]], loop: asyncio.AbstractEventLoop, before: _Look[R] | None
    ) -> None:
        self._ask = ask
        self.loop = loop
        self.has_begun = False
        """Whether it is too late to share it; so it is as soon as it was cancelled."""
        # It may begin in the callback of another: what it costs belongs to who asked first.
        self._context = contextvars.copy_context()
        self._waiters: set[asyncio.Future[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._following: _Look[R] | None = None
        self._result: R | None = None
        self._error: BaseException | None = None
        self._trace: TracebackType | None = None
        if before is not None and before.loop is loop and before.is_under_way:
            before._following = self
        else:
            self._start()

    @property
    def is_under_way(self) -> bool:
        return self._task is not None and not self._task.done()

    def _start(self) -> None:
        self._task = self.loop.create_task(self._run(), context=self._context)
        self._task.add_done_callback(self._ended)

    async def _run(self) -> None:
        self.has_begun = True
        self._result = await self._ask()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            # Not the waiters were cancelled, who may be there still when the loop closes.
            self._error = UnavailableError("a look for the newest snapshot was cancelled: try again")
        else:
            self._error = task.exception()
            self._trace = None if self._error is None else self._error.__traceback__
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        if self._following is not None:
            self._following._begin()

    def _begin(self) -> None:
        """Starts the look when the one before it has ended, for those who still wait."""
        if self._waiters:
            self._start()
        else:
            self.has_begun = True

    async def answer(self) -> R:
        """Waits for the look."""
        waiter: asyncio.Future[None] = self.loop.create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)
            if not self._waiters and self._task is not None and not self._task.done():
                self.has_begun = True
                self._task.cancel()
        if self._error is not None:
            # With its first traceback: else the frames of every waiter would pile up in it.
            raise self._error.with_traceback(self._trace)
        return cast(R, self._result)
