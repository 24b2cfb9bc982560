"""One time limit for many calls, with one timer for all of them.

``asyncio.timeout`` makes, heaps and cancels a timer for every call; beside a small
request that costs as much as the rest of the stack together. Here the limit is the same
for every call, so they come due in the order they began, and only the oldest needs a
timer. What a caller sees is the same: TimeoutError after the limit, at its own
``await``, and a cancellation from outside stays a cancellation.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

__all__ = ["TimeLimit"]


class _Call:
    """A call under way."""

    __slots__ = ("due", "expired", "task")

    def __init__(self, task: asyncio.Task[object], due: float) -> None:
        self.task = task
        self.due = due
        self.expired = False


class TimeLimit:
    """Ends calls that take longer than ``seconds``; belongs to the loop it is first used on."""

    __slots__ = ("_open", "_seconds", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._open: dict[_Call, None] = {}  # in the order they began, which is the order they come due
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def bounded(self) -> Iterator[None]:
        """Has the block raise TimeoutError when it takes too long; a block adds no frame that waits."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        call = _Call(task, loop.time() + self._seconds)
        self._open[call] = None
        if self._timer is None:
            self._timer = loop.call_at(call.due, self._sweep, loop)
        cancelling = task.cancelling()
        cancelled = False
        try:
            yield
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:
            self._open.pop(call, None)
            # As asyncio.timeout does it: our own cancel is taken back, and is an error of ours
            # only when nobody else has asked for a cancellation meanwhile.
            if call.expired and task.uncancel() <= cancelling and cancelled:
                raise TimeoutError(f"longer than {self._seconds:g} s")

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancels every call that is due, and sets the timer for the next one."""
        now = loop.time()
        for call in list(self._open):
            if call.due > now:
                self._timer = loop.call_at(call.due, self._sweep, loop)
                return
            del self._open[call]
            call.expired = True
            call.task.cancel()
        self._timer = None
