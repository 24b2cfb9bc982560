"""Loads under way, and everybody who waits for them.

A load runs in a task of its own, so that cancelling one waiter never cancels it for the
others; when the last waiter is cancelled, so is the load. A *background* flight (a
refresh) goes on without waiters. Waiters get the values or the very error of the load.

Flights belong to the event loop they began on. On another loop they are forgotten: they
may still reach their own waiters, and never a cache.

::

            launch()             the load returns or raises
    Flight ──────────► under way ──────────────────────────► done: waiters wake, check() raises the error
                         │  ▲                                  ▲
                         │  └ enter(), leave() of some         │ who still waits gets UnavailableError
                         ▼                                     │
                       cancelled: the last waiter has left a load that is not in the background,
                                  or Airspace.clear()
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from types import TracebackType
from typing import Any

from lakehouse.errors import InvalidInputError, UnavailableError

__all__ = ["Airspace", "Flight", "Home"]


class Flight:
    """A load of one or more keys."""

    __slots__ = (
        "_error", "_load", "_trace", "_waiters", "background", "began", "done", "keys", "tags", "task",
        "values",
    )  # fmt: skip

    def __init__(
        self,
        keys: Sequence[Any],
        load: Callable[[Flight], Awaitable[Mapping[Any, Any]]],
        *,
        tags: tuple[Hashable, ...] = (),
        background: bool = False,
        began: float = 0.0,
    ) -> None:
        self.keys = keys
        self.tags = tags
        """Tags known before the load."""
        self.background = background
        self.began = began
        """Steady time at the start: the values are true of a later moment."""
        self.values: Mapping[Any, Any] = {}
        self.done = False
        self.task: asyncio.Task[None] | None = None
        self._load = load
        self._waiters: set[asyncio.Future[None]] = set()
        self._error: BaseException | None = None
        self._trace: TracebackType | None = None

    async def fly(self) -> None:
        """Runs the load and wakes the waiters, whatever comes of it."""
        try:
            self.values = await self._load(self)
        except BaseException as error:
            self._error, self._trace = error, error.__traceback__
            if not isinstance(error, Exception):
                raise  # cancelled, or the program ends; the waiters must not hang meanwhile
        finally:
            self.done = True
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def enter(self) -> asyncio.Future[None]:
        """A place among the waiters; everyone must :meth:`leave`."""
        waiter = asyncio.get_running_loop().create_future()
        if self.done:
            waiter.set_result(None)
        self._waiters.add(waiter)
        return waiter

    def leave(self, waiter: asyncio.Future[None]) -> bool:
        """Gives the place up. True when that was the last waiter of an unfinished load, which
        is cancelled then."""
        self._waiters.discard(waiter)
        if self._waiters or self.done or self.background or self.task is None:
            return False
        self.task.cancel()
        return True

    def check(self) -> None:
        """Raises the load's error, if it failed."""
        if isinstance(self._error, asyncio.CancelledError):
            # Not the waiter was cancelled: it must not look as if.
            raise UnavailableError(
                f"the load of {self.keys[0]!r} was cancelled under its waiters: the cache or the event loop "
                "is closing; try again",
                key=self.keys[0],
            )
        if self._error is not None:
            # With its first traceback: else the frames of every waiter would pile up in it.
            raise self._error.with_traceback(self._trace)


class Airspace:
    """The flights of one event loop."""

    __slots__ = ("_tasks", "loop", "pid", "refreshing")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.pid = os.getpid()
        self.refreshing = 0
        """Background flights under way."""
        self._tasks: set[asyncio.Task[None]] = set()

    def launch(self, flight: Flight) -> None:
        """Begins the load."""
        task = self.loop.create_task(flight.fly())
        flight.task = task
        if flight.background:
            self.refreshing += 1
            task.add_done_callback(self._landed)
        # Loops keep weak references to tasks only.
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the waiters have it; asyncio would report it as overlooked

    def _landed(self, _: asyncio.Task[None]) -> None:
        self.refreshing -= 1

    async def clear(self) -> None:
        """Cancels all flights and waits until they are down."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class Home:
    """Knows the airspace of the loop that runs now."""

    __slots__ = ("_airspace",)

    def __init__(self) -> None:
        self._airspace: Airspace | None = None

    def here(self) -> Airspace:
        """The airspace of this loop; a new one when the loop or the process has changed."""
        loop = asyncio.get_running_loop()
        old = self._airspace
        if old is not None:
            here = old.pid == os.getpid()
            if here and old.loop is loop:
                return old
            if here and old.loop.is_running():
                raise InvalidInputError(
                    "the cache is used from two running event loops: give each loop, that is each thread, "
                    "a cache budget of its own",
                    kind="wrong-loop",
                )
        self._airspace = Airspace(loop)
        return self._airspace
