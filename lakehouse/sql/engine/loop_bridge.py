"""The way from DuckDB's threads to the event loop: coroutines are run there, and waited for here.

DuckDB reads files and pulls rows on threads that it makes itself. They know no event loop and no context
variables, so the bridge remembers both of whoever began the statement.

Invariant: after :meth:`LoopBridge.aclose` no coroutine of it runs and no thread waits for one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

from lakehouse.errors import InternalError, InvalidInputError
from lakehouse.io.cost import measure

__all__ = ["LoopBridge"]

R = TypeVar("R")


class LoopBridge:
    """Runs coroutines of the loop that it is made on, for threads that wait for them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        with measure() as self.cost:
            self._context = contextvars.copy_context()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended = False
        self.error: BaseException | None = None
        """The first error of what DuckDB asked for, which it hands on as text only."""

    def wait(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Runs a coroutine on the loop, and blocks this thread until it has ended."""
        if threading.get_ident() == self._thread:
            coroutine.close()
            raise InternalError("a statement of SQL waits for the event loop on the loop's own thread")
        return self.start(coroutine).result()

    def start(self, coroutine: Coroutine[Any, Any, R]) -> concurrent.futures.Future[R]:
        """Begins a coroutine on the loop, from any thread; cancelling the future cancels the coroutine."""
        future: concurrent.futures.Future[R] = concurrent.futures.Future()
        try:
            self._loop.call_soon_threadsafe(self._begin, coroutine, future, context=self._context)
        except RuntimeError as error:  # the loop is closed
            coroutine.close()
            raise _ended_error() from error
        return future

    def keep(self, error: BaseException) -> None:
        """Remembers an error of a producer, unless another one was first or the statement has ended."""
        if self.error is None and not self._ended:
            self.error = error

    def cancel(self) -> None:
        """Cancels what runs, and refuses what comes later; called on the loop."""
        self._ended = True
        for task in self._tasks:
            task.cancel()

    async def aclose(self) -> None:
        """Cancels what runs, and waits until it has ended."""
        self.cancel()
        with anyio.CancelScope(shield=True):
            while self._tasks:
                await asyncio.wait(self._tasks)

    def _begin(self, coroutine: Coroutine[Any, Any, R], future: concurrent.futures.Future[R]) -> None:
        if self._ended and future.set_running_or_notify_cancel():
            future.set_exception(_ended_error())
        if self._ended or future.cancelled():
            coroutine.close()
            return
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finish(done, future))
        future.add_done_callback(lambda done: self._drop(task, done))

    def _drop(self, task: asyncio.Task[R], future: concurrent.futures.Future[R]) -> None:
        if future.cancelled():
            self._loop.call_soon_threadsafe(task.cancel)

    def _finish(self, task: asyncio.Task[R], future: concurrent.futures.Future[R]) -> None:
        self._tasks.discard(task)
        if not future.set_running_or_notify_cancel():
            return
        if task.cancelled():
            future.set_exception(_ended_error())
        elif (error := task.exception()) is not None:
            self.keep(error)
            future.set_exception(error)
        else:
            future.set_result(task.result())


def _ended_error() -> InvalidInputError:
    return InvalidInputError("the statement has ended, nothing is read for it any more", kind="closed")
