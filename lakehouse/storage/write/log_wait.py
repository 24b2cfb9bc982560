"""How long a streaming writer has waited for its log, and the log lines that say so.

Invariant: of a segment that is written soon nothing is said; of one that is not, something every so often,
and once more when it is written.
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
_AGAIN_S = 15.0


class LogWait:
    """The wait of one writer.

    Args:
        table: its name, for people.
        clock: measures the wait.
        puts: how many are queued behind the segment.
    """

    def __init__(self, table: str, clock: Clock, puts: Callable[[], int]) -> None:
        self._table, self._clock, self._puts = table, clock, puts
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._has_told = False

    @property
    def seconds(self) -> float:
        """For how long the segment that is being written has been; 0 when none is."""
        return 0.0 if self._since is None else self._clock.steady() - self._since

    @contextmanager
    def waiting(self, puts: int, deadline_s: float) -> Iterator[None]:
        """While the block runs, a segment of so many puts is being written, for at most so long."""
        self._since = self._clock.steady()
        self._has_told = False
        self._tell_after(_FIRST_S, puts, deadline_s)
        written = False
        try:
            yield
            written = True
        finally:
            waited, self._since = self.seconds, None
            if self._timer is not None:
                self._timer.cancel()
            if self._has_told and written:
                _log.warning("the log goes on", table=self._table, waited_s=round(waited, 1))

    def _tell_after(self, seconds: float, puts: int, deadline_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._tell, puts, deadline_s)

    def _tell(self, puts: int, deadline_s: float) -> None:
        self._has_told = True
        _log.warning(
            "the log cannot be written, puts wait",
            table=self._table,
            puts=puts + self._puts(),
            waited_s=round(self.seconds, 1),
            gives_up_after_s=deadline_s,
        )
        self._tell_after(_AGAIN_S, puts, deadline_s)
