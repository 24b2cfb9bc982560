"""When to try again: with jitter, and with an end."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Self

from lakehouse.clock import Clock, SystemClock
from lakehouse.config import IoSettings

__all__ = ["Backoff", "RetryPolicy"]

_DOUBLINGS_MAX = 60
"""Beyond these any bound is the cap's; without an end the power would overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, how long and how far apart."""

    attempts: int = 6
    base_s: float = 0.05
    cap_s: float = 5.0
    deadline_s: float = 30.0
    clock: Clock = field(default_factory=SystemClock)
    rng: random.Random | None = None
    """Source of the jitter; None = this process's own, so that copies elsewhere draw differently."""

    @classmethod
    def of(cls, settings: IoSettings, clock: Clock | None = None) -> Self:
        """The policy that the settings describe."""
        return cls(
            attempts=settings.retry_attempts,
            base_s=settings.retry_base_s,
            cap_s=settings.retry_cap_s,
            deadline_s=settings.retry_deadline_s,
            clock=clock or SystemClock(),
        )


class Backoff:
    """The waits of one operation: exponential, with full jitter, until the policy ends.

    Make one when the first attempt has failed: the deadline counts from there, so that an
    attempt which took long to fail (a time-out) is still tried again.
    """

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._attempt = 1
        self._started = policy.clock.steady()

    async def wait(self) -> bool:
        """Waits before the next attempt; False when there must not be one."""
        policy = self._policy
        if self._attempt >= policy.attempts:
            return False
        # Full jitter: the wait is anywhere up to the bound, so that clients that failed
        # together do not come back together.
        doublings = min(self._attempt - 1, _DOUBLINGS_MAX)
        bound = min(policy.cap_s, policy.base_s * 2**doublings)
        draw = random.uniform if policy.rng is None else policy.rng.uniform
        seconds = draw(0, bound)
        if policy.clock.steady() + seconds - self._started > policy.deadline_s:
            return False
        self._attempt += 1
        await policy.clock.sleep(seconds)
        return True
