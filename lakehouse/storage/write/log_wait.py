"""Reports of a streaming writer that waits for its log: how long it has waited, and log lines about it.

Invariant: a segment that is written soon is not mentioned; one that is not leads to a warning at intervals,
and to one more when it is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lakehouse.clock import Clock
from lakehouse.log import get_logger

__all__ = ["LogWait"]

_log = get_logger(__name__)
_FIRST_S = 3.0
"""Seconds of waiting before the first warning."""
_AGAIN_S = 15.0
"""Seconds between warnings after that."""


class LogWait:
    """Measures and reports the waits of one writer.

    Args:
        table: its name, for the log lines.
        clock: measures the wait.
        puts: returns how many puts are queued behind the segment that is being written.
    """

    def __init__(self, table: str, clock: Clock, puts: Callable[[], int]) -> None:
        self._table, self._clock, self._puts = table, clock, puts
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._has_warned = False

    @property
    def seconds(self) -> float:
        """Seconds for which the current segment has been waiting to be written; 0 when none is."""
        return 0.0 if self._since is None else self._clock.steady() - self._since

    @contextmanager
    def waiting(self, puts: int, deadline_s: float) -> Iterator[None]:
        """Marks that a segment of so many puts is written inside the block, for at most ``deadline_s``."""
        self._since = self._clock.steady()
        self._has_warned = False
        self._warn_after(_FIRST_S, puts, deadline_s)
        written = False
        try:
            yield
            written = True
        finally:
            waited, self._since = self.seconds, None
            if self._timer is not None:
                self._timer.cancel()
            if self._has_warned and written:
                _log.warning("the log goes on", table=self._table, waited_s=round(waited, 1))

    def _warn_after(self, seconds: float, puts: int, deadline_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._warn, puts, deadline_s)

    def _warn(self, puts: int, deadline_s: float) -> None:
        self._has_warned = True
        _log.warning(
            "the log cannot be written, puts wait",
            table=self._table,
            puts=puts + self._puts(),
            waited_s=round(self.seconds, 1),
            gives_up_after_s=deadline_s,
        )
        self._warn_after(_AGAIN_S, puts, deadline_s)
