"""obstore's runtime: whether it runs in this process, and when it is done with Python.

obstore works in threads of its own, one set per process, begun by its first request. That has two ends:

- A forked child has none of these threads: what it asked obstore would never be answered.
- A thread that hands over an answer returns to Python once more after the event loop has the answer. When
  the interpreter ends in that moment, CPython ends the thread in the midst of Rust code, and the process
  aborts.

For the second there is proof instead of a pause: obstore holds on to the future of a request until the
thread that answers it has left Python. When no future is left, none of its threads is on its way back.

Invariant: nothing of this waits longer than ``_SETTLING_MAX_S``.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import sys
import time
from typing import TypeVar
from weakref import WeakSet

from lakehouse.log import get_logger

__all__ = ["Requests", "is_lost", "log_loss"]

F = TypeVar("F", bound=asyncio.Future)  # type: ignore[type-arg]

_PAUSE_S = 0.001
_SETTLING_MAX_S = 1.0
"""A request that hangs at the end of a process must not hold it up."""
_log = get_logger(__name__)
_is_lost = _has_told = False


def is_lost() -> bool:
    """Whether this process was forked from one that had loaded obstore, and so must not use it."""
    return _is_lost


def log_loss() -> None:
    """Says in the log, once per process, that requests are made without obstore."""
    global _has_told
    if not _has_told:
        _has_told = True
        _log.info("requests go without obstore: this process was forked from one that had loaded it")


class Requests:
    """Requests of one store whose threads may not be done with Python."""

    def __init__(self) -> None:
        self._futures: WeakSet[asyncio.Future[object]] = WeakSet()

    def follow(self, answer: F) -> F:
        """The same future, known until obstore has dropped it."""
        self._futures.add(answer)
        _futures.add(answer)  # of stores that nobody refers to any more too
        return answer

    async def settle(self) -> None:
        """Waits until obstore's threads are done with the requests that have ended or were given up."""
        ends = time.monotonic() + _SETTLING_MAX_S
        while not _are_settled(self._futures) and time.monotonic() < ends:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_PAUSE_S)


_futures: WeakSet[asyncio.Future[object]] = WeakSet()
"""Futures of the requests of all stores of the process."""


def _are_settled(futures: WeakSet[asyncio.Future[object]]) -> bool:
    if futures:
        _collect()
    return not futures


def _collect() -> None:
    """Lets obstore's binding drop what its threads gave up while they did not hold the interpreter's lock."""
    from obstore import Bytes

    Bytes(b"")  # any call of it does so


@atexit.register
def _settle_all() -> None:
    ends = time.monotonic() + _SETTLING_MAX_S
    while not _are_settled(_futures) and time.monotonic() < ends:
        time.sleep(_PAUSE_S)
        if not _is_any_held():
            return


def _is_any_held() -> bool:
    """Whether somebody else than objects of Python refers to a future.

    An exception that ends the program keeps the event loop's last steps alive, and with them their futures.
    """
    mine, *theirs = [
        sys.getrefcount(one) - len(gc.get_referrers(one)) for one in [object(), *_futures]
    ]  # the first shows how much of the difference is of this very list
    return any(difference > mine for difference in theirs)


def _forked() -> None:
    global _is_lost, _has_told
    _is_lost, _has_told = "obstore" in sys.modules, False
    _futures.clear()  # the parent's


os.register_at_fork(after_in_child=_forked)
