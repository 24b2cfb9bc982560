"""When to try again: with jitter, and with an end.

A store that is away, or asks for fewer requests, is waited for until the deadline: a restart must not fail
whatever runs meanwhile. Other failures get a number of attempts. So does an endpoint from which nothing was
ever heard: its address is wrong more often than it is restarted, and whoever made the mistake waits.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Self

from lakehouse.clock import Clock, SystemClock
from lakehouse.config import IoSettings
from lakehouse.errors import LakehouseError, UnavailableError

__all__ = ["Backoff", "Contact", "RetryPolicy"]

_DOUBLINGS_MAX = 60
"""Beyond these any bound is the cap's; without an end the power would overflow."""
_GAVE_UP = "Gave up after"
_AWAY_STATUSES = frozenset({502, 503, 504})


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


class Contact:
    """Whether a store has ever answered; shared by all its requests."""

    __slots__ = ("has_answered",)

    def __init__(self, *, has_answered: bool = False) -> None:
        self.has_answered = has_answered

    def hear(self, error: LakehouseError | None) -> None:
        """Notes how a request ended; None = it succeeded."""
        if not isinstance(error, UnavailableError) or "status" in error.context:
            self.has_answered = True


class Backoff:
    """The waits of one operation: exponential, with full jitter, until the policy ends.

    Make one when the first attempt has failed: the deadline counts from there, so that an
    attempt which took long to fail (a time-out) is still tried again.
    """

    def __init__(self, policy: RetryPolicy, contact: Contact | None = None) -> None:
        self._policy = policy
        self._contact = contact or Contact(has_answered=True)
        self._attempt = 1
        self._started = policy.clock.steady()

    async def wait(self, error: LakehouseError | None = None) -> bool:
        """Waits before the next attempt; False when there must not be one.

        Args:
            error: of the attempt before.
        """
        policy = self._policy
        # Full jitter: the wait is anywhere up to the bound, so that clients that failed
        # together do not come back together.
        doublings = min(self._attempt - 1, _DOUBLINGS_MAX)
        bound = min(policy.cap_s, policy.base_s * 2**doublings)
        lasts = bound > 0 and self._is_away(error)  # attempts without a pause must be counted
        if self._attempt >= policy.attempts and not lasts:
            return False
        draw = random.uniform if policy.rng is None else policy.rng.uniform
        seconds = draw(0, bound)
        left = self._started + policy.deadline_s - policy.clock.steady()
        if lasts and left > 0:
            seconds = min(seconds, left)  # the last attempt is at the deadline, not a wait before it
        if seconds > left:
            return False
        self._attempt += 1
        await policy.clock.sleep(seconds)
        return True

    def give_up(self, error: LakehouseError) -> None:
        """Adds to the message of the last error how often and how long it was tried."""
        if self._attempt > 1 and _GAVE_UP not in error.message:
            seconds = self._policy.clock.steady() - self._started
            error.message += f" {_GAVE_UP} {self._attempt} attempts in {seconds:.1f} s."
            error.args = (error.message,)

    def _is_away(self, error: LakehouseError | None) -> bool:
        if not isinstance(error, UnavailableError):
            return False
        if error.kind == "unreachable":
            return self._contact.has_answered
        return error.kind == "throttled" or error.context.get("status") in _AWAY_STATUSES
