"""Threads for what takes long and waits for nobody: building, sorting, encoding, libraries.

Invariant: all of it together uses at most as many threads of an event loop as ``io.threads`` has
by default, so that searching many files at once does not starve the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from lakehouse.config import IoSettings

__all__ = ["in_own_thread", "in_thread"]

R = TypeVar("R")

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("lakehouse.io.work.threads")


async def in_thread(work: Callable[..., R], *args: object) -> R:
    """Runs computation in a thread of the limiter for computation."""
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(IoSettings().threads)
        _limiter.set(limiter)
    return await anyio.to_thread.run_sync(work, *args, limiter=limiter)


async def in_own_thread(work: Callable[..., R], *args: object) -> R:
    """Runs what may wait for anything, such as a source of rows, in a thread nobody else waits for.

    Were it counted with computation, sources that wait for one another would hold all its threads.
    """
    return await anyio.to_thread.run_sync(work, *args, limiter=anyio.CapacityLimiter(1))
