"""Work beside other work: what nobody waits for, such as hints, and what is waited for later.

A task group would do, if it did not put every error of the block it surrounds into an exception
group; what users do inside ``async with lakehouse.connect(…)`` should raise what it raises.

Invariant: after :meth:`Background.aclose` nothing of it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio

from lakehouse.log import get_logger

__all__ = ["Background", "BackgroundJob", "beside", "finish"]

_log = get_logger(__name__)
_GRACE_S = 10.0

R = TypeVar("R")


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, R]) -> AsyncIterator[Awaitable[R]]:
    """Starts work that the block waits for when it needs the result, as often as it likes.

    What nobody waited for by the end of the block is cancelled, and what it raised is dropped.
    """
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()


async def finish(work: Coroutine[Any, Any, R]) -> R:
    """Runs work that must not stay half done, such as giving something back; a cancellation waits for it."""
    task = asyncio.get_running_loop().create_task(work)
    interrupted: asyncio.CancelledError | None = None
    # Shielded from the scopes around it; cancellations of the task itself wait their turn as well.
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                interrupted = error
    if interrupted is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # looked at, so that asyncio does not report it as overlooked
    raise interrupted


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundJob:
    """Background work that users may want to know of."""

    name: str
    """Sort of work, such as ``compact``."""
    table: str
    """Full name of the table that it is done for."""
    began_ms: int
    """When it began, in milliseconds since 1970."""


class Background:
    """Tasks with an end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._jobs: dict[asyncio.Task[None], BackgroundJob] = {}
        self._optional: set[asyncio.Task[None]] = set()

    @property
    def jobs(self) -> list[BackgroundJob]:
        """Jobs under way, oldest first."""
        return list(self._jobs.values())

    def start(
        self,
        work: Callable[..., Awaitable[None]],
        *args: Any,
        optional: bool = False,
        job: BackgroundJob | None = None,
    ) -> None:
        """Runs the function beside others; what it raises is logged.

        Args:
            work: an async function.
            args: its arguments.
            optional: cancelled at the end instead of waited for.
            job: the work as users know it; None = they need not.
        """
        task = asyncio.get_running_loop().create_task(self._run(work, args))
        for tasks in (self._tasks, self._optional) if optional else (self._tasks,):
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        if job is not None:
            self._jobs[task] = job
            task.add_done_callback(self._jobs.pop)

    async def _run(self, work: Callable[..., Awaitable[None]], args: tuple[Any, ...]) -> None:
        try:
            await work(*args)
        except Exception as error:  # noqa: BLE001  the top of a task: nobody else sees it
            _log.warning("background work failed", error=repr(error))

    async def aclose(self) -> None:
        """Waits a while for what is under way, and cancels what is left."""
        for task in self._optional:
            task.cancel()
        tasks = list(self._tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_GRACE_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
