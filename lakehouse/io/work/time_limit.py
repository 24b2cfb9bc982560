"""One time limit for many calls, with one timer for all of them.

``asyncio.timeout`` makes, heaps and cancels a timer for every call; beside a small
request that costs as much as the rest of the stack together. Here the limit is the same
for every call, so they come due in the order they began, and only the oldest needs a
timer. What a caller sees is the same: TimeoutError after the limit, at its own
``await``, and a cancellation from outside stays a cancellation.
"""

from __future__ import annotations

import asyncio

__all__ = ["TimeLimit"]


class TimeLimit:
    """Ends calls that take longer than ``seconds``; belongs to the loop it is first used on."""

    __slots__ = ("_open", "_seconds", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._open: dict[_Call, None] = {}  # in the order they began, which is the order they come due
        self._timer: asyncio.TimerHandle | None = None

    def bounded(self) -> _Call:
        """Returns a block for one call, which raises TimeoutError when it takes too long."""
        return _Call(self)

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


class _Call:
    """A call under way: the block in which it is made, so that no frame of its own waits for the answer."""

    __slots__ = ("_cancelling", "_limit", "due", "expired", "task")

    def __init__(self, limit: TimeLimit) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._limit, self.task = limit, task
        self.due, self.expired = 0.0, False
        self._cancelling = task.cancelling()

    def __enter__(self) -> None:
        limit, loop = self._limit, asyncio.get_running_loop()
        self.due = loop.time() + limit._seconds
        limit._open[self] = None
        if limit._timer is None:
            limit._timer = loop.call_at(self.due, limit._sweep, loop)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._limit._open.pop(self, None)
        # As asyncio.timeout does it: our own cancel is taken back, and is an error of ours
        # only when nobody else has asked for a cancellation meanwhile.
        cancelled = isinstance(error, asyncio.CancelledError)
        if self.expired and self.task.uncancel() <= self._cancelling and cancelled:
            raise TimeoutError(f"longer than {self._limit._seconds:g} s")
