"""The store's clock, as far as answers tell it.

Invariant: two machines whose clocks disagree write snapshot times of the store both talk to; small
differences are left alone, since an HTTP date has whole seconds only.
"""

from __future__ import annotations

from lakehouse.clock import Clock

__all__ = ["StoreTime"]

_TOLERANCE_MS = 2_000


class StoreTime:
    """Wall time, corrected when the machine's clock is off by more than two seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = 0

    def learn(self, store_time_ms: int | None) -> None:
        """Takes note of the time in an answer that came just now."""
        if store_time_ms is not None:
            self._ahead_ms = store_time_ms - self._clock.now_ms()

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        now = self._clock.now_ms()
        return now + self._ahead_ms if abs(self._ahead_ms) > _TOLERANCE_MS else now
