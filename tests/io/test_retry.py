"""When to try again: how often, how far apart, and until when."""

from __future__ import annotations

import pickle
import random
import re
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config import IoSettings
from lakehouse.errors import UnavailableError
from lakehouse.io import RetryPolicy
from lakehouse.io.retry import Backoff, Contact
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


def _away(kind: str = "unreachable", **context: object) -> UnavailableError:
    return UnavailableError("away", kind=kind, **context)


@pytest.mark.parametrize("error", [_away(), _away("throttled"), _away("unavailable", status=503)])
async def test_a_store_that_is_away_is_waited_for_until_the_deadline(error: UnavailableError) -> None:
    """Attempts go on however many there were, and the last one is made at the deadline."""
    clock = ManualClock(skip=True)
    backoff = Backoff(RetryPolicy(attempts=2, cap_s=3, deadline_s=20, clock=clock))
    while await backoff.wait(error):
        pass
    assert clock.steady() == pytest.approx(20)
    assert len(clock.slept) > 6


@pytest.mark.parametrize(
    "error",
    [
        _away("truncated-body"),
        _away("timeout"),
        _away("unavailable", status=500),
        _away("unavailable", status=409),
    ],
)
async def test_other_failures_have_a_number_of_attempts(error: UnavailableError) -> None:
    """What a store that is there does not get right is tried ``io.retry_attempts`` times."""
    backoff = Backoff(_policy(attempts=4))
    assert [await backoff.wait(error) for _ in range(4)] == [True, True, True, False]


async def test_an_endpoint_that_never_answered_is_given_up_soon() -> None:
    """Where nothing was ever heard the attempts are counted; after the first answer they are not."""
    contact = Contact()
    contact.hear(_away())
    backoff = Backoff(_policy(attempts=3), contact)
    assert [await backoff.wait(_away()) for _ in range(3)] == [True, True, False]
    contact.hear(_away("unavailable", status=500))
    assert await backoff.wait(_away())


async def test_attempts_without_pauses_are_counted() -> None:
    """Without a wait nobody asks a store that is away until the deadline."""
    backoff = Backoff(_policy(attempts=3, base_s=0))
    assert [await backoff.wait(_away()) for _ in range(3)] == [True, True, False]


async def test_the_last_error_says_how_often_and_how_long() -> None:
    """The message of the error that is raised has attempts and seconds; of one attempt it has not."""
    error, first = _away(), _away()
    backoff = Backoff(_policy(attempts=2, deadline_s=7))
    backoff.give_up(first)
    while await backoff.wait(error):
        pass
    backoff.give_up(error)
    assert str(first) == "away"
    assert re.fullmatch(r"away Gave up after \d+ attempts in 7\.0 s\.", str(error))
    assert error.args == (error.message,)
