"""Work that nobody waits for, such as hints: started beside everything else, ended with its owner.

A task group would do, if it did not put every error of the block it surrounds into an exception
group; what users do inside ``async with lakehouse.connect(…)`` should raise what it raises.

Invariant: after :meth:`Background.aclose` nothing of it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from lakehouse.log import get_logger

__all__ = ["Background"]

_log = get_logger(__name__)
_GRACE_S = 10.0


class Background:
    """Tasks with an end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Runs the function beside others; what it raises is logged."""
        task = asyncio.get_running_loop().create_task(self._run(work, args))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, work: Callable[..., Awaitable[None]], args: tuple[Any, ...]) -> None:
        try:
            await work(*args)
        except Exception as error:  # noqa: BLE001  the top of a task: nobody else sees it
            _log.warning("background work failed", error=repr(error))

    async def aclose(self) -> None:
        """Waits a while for what is under way, and cancels what is left."""
        tasks = list(self._tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_GRACE_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
