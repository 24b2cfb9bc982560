"""When to try again: how often, how far apart, and until when."""

from __future__ import annotations

import pickle
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config import IoSettings
from lakehouse.io import RetryPolicy
from lakehouse.io.retry import Backoff
from lakehouse.testing.manual_clock import ManualClock


async def _waits(policy: RetryPolicy) -> list[float]:
    """Every wait of one operation that never succeeds."""
    clock = policy.clock
    assert isinstance(clock, ManualClock)
    backoff = Backoff(policy)
    while await backoff.wait():
        pass
    return clock.slept


def _policy(seed: int = 0, **changes: object) -> RetryPolicy:
    return RetryPolicy(clock=ManualClock(skip=True), rng=random.Random(seed), **changes)  # type: ignore[arg-type]


def test_the_policy_is_what_the_settings_say() -> None:
    """Attempts, waits and deadline come from the settings, the clock from the caller."""
    settings = IoSettings(retry_attempts=3, retry_base_s=0.5, retry_cap_s=7, retry_deadline_s=9)
    clock = ManualClock()
    policy = RetryPolicy.of(settings, clock)
    assert (policy.attempts, policy.base_s, policy.cap_s, policy.deadline_s) == (3, 0.5, 7, 9)
    assert policy.clock is clock


@pytest.mark.parametrize("attempts", [1, 2, 6])
async def test_attempts_are_counted_with_the_first(attempts: int) -> None:
    """With n attempts there are n - 1 waits."""
    assert len(await _waits(_policy(attempts=attempts))) == attempts - 1


@given(seed=st.integers(0, 1 << 20), base=st.floats(0.001, 1), cap=st.floats(0.001, 2))
async def test_waits_stay_below_a_bound_that_doubles(seed: int, base: float, cap: float) -> None:
    """The n-th wait lies between nothing and base x 2^(n-1), and never above the cap."""
    waits = await _waits(_policy(seed, attempts=12, base_s=base, cap_s=cap, deadline_s=1e9))
    assert len(waits) == 11
    assert all(0 <= wait <= min(cap, base * 2**n) for n, wait in enumerate(waits))


async def test_jitter_uses_the_whole_width() -> None:
    """Each wait spreads evenly over what is allowed, so that clients that failed together part."""
    drawn = [await _waits(_policy(seed, attempts=4, base_s=1.0, cap_s=100.0)) for seed in range(400)]
    for n, waits in enumerate(zip(*drawn, strict=True)):
        bound = 2.0**n
        assert 0.45 < statistics.mean(waits) / bound < 0.55
        assert min(waits) < 0.05 * bound
        assert max(waits) > 0.95 * bound


async def test_no_attempt_starts_after_the_deadline() -> None:
    """A wait that would end behind the deadline is not begun."""
    clock = ManualClock(skip=True)
    policy = RetryPolicy(attempts=1_000, base_s=1, cap_s=1, deadline_s=10, clock=clock, rng=random.Random(1))
    await _waits(policy)
    assert 9 < clock.steady() <= 10
    assert len(clock.slept) > 10


async def test_the_time_an_attempt_takes_counts() -> None:
    """Time that passes between waits uses up the deadline too."""
    clock = ManualClock(skip=True)
    backoff = Backoff(RetryPolicy(attempts=9, base_s=0, deadline_s=10, clock=clock))
    assert await backoff.wait()
    await clock.advance(10.5)
    assert not await backoff.wait()


async def test_a_deadline_of_nothing_means_no_second_attempt() -> None:
    """With no time there is no waiting, unless the wait is nothing as well."""
    assert await _waits(_policy(deadline_s=0)) == []
    assert await _waits(_policy(deadline_s=0, base_s=0, attempts=3)) == [0, 0]


async def test_thousands_of_attempts_do_not_overflow() -> None:
    """However many attempts there have been, the bound is the cap."""
    waits = await _waits(_policy(attempts=1_500, base_s=0.001, cap_s=0.002, deadline_s=1e9))
    assert len(waits) == 1_499
    assert max(waits) <= 0.002


async def test_copies_of_a_policy_wait_differently() -> None:
    """Workers that got the same pickled policy do not come back in step."""
    policy = pickle.dumps(RetryPolicy(clock=ManualClock(skip=True)))
    waits = [await _waits(pickle.loads(policy)) for _ in range(2)]
    assert len(waits[0]) == len(waits[1]) == 5
    assert waits[0] != waits[1]
