"""Ages: when a value is served, refreshed and dropped."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lakehouse.cache import CacheSpec
from lakehouse.errors import NotFoundError, UnavailableError
from lakehouse.testing import ManualClock
from tests.kit.loaders import Loader, budget_of, settled, until

KEY = ("k",)
SWR = CacheSpec(name="test", refresh_after_write_s=10, expire_after_write_s=100)


@pytest.fixture
def clock() -> ManualClock:
    """Time that a test moves."""
    return ManualClock()


async def test_a_value_expires_after_write(clock: ManualClock) -> None:
    """It is served until its time is over, however often it is asked for, and no longer."""
    region = budget_of(clock=clock).region(CacheSpec(name="test", expire_after_write_s=10))
    region.put(KEY, "v")
    for _ in range(9):
        await clock.advance(1)
        assert region.get_if_present(KEY) == "v"
    await clock.advance(1)
    assert region.get_if_present(KEY) is None
    assert (len(region), region.weight, region.stats().counters.expirations) == (0, 0, 1)


async def test_the_time_counts_from_the_beginning_of_the_load(clock: ManualClock) -> None:
    """A value is never older than the bound says: a slow load uses some of it up."""
    region = budget_of(clock=clock).region(CacheSpec(name="test", expire_after_write_s=10))
    loader = Loader({KEY: "v"}, is_open=False)
    waiting = asyncio.create_task(region.get(KEY, loader.one))
    await until(1, loader.asked)
    await clock.advance(7)
    loader.gate.set()
    await waiting
    await clock.advance(2)
    assert region.get_if_present(KEY) == "v"
    await clock.advance(1)
    assert region.get_if_present(KEY) is None


async def test_a_value_expires_after_access(clock: ManualClock) -> None:
    """Each access gives it another term; without one it goes."""
    region = budget_of(clock=clock).region(CacheSpec(name="test", expire_after_access_s=10))
    region.put(KEY, "v")
    for _ in range(10):
        await clock.advance(9)
        assert region.get_if_present(KEY) == "v"
    await clock.advance(10)
    assert region.get_if_present(KEY) is None


async def test_access_does_not_outlast_write(clock: ManualClock) -> None:
    """With both bounds, the earlier end counts."""
    spec = CacheSpec(name="test", expire_after_access_s=10, expire_after_write_s=15)
    region = budget_of(clock=clock).region(spec)
    region.put(KEY, "v")
    await clock.advance(9)
    assert region.get_if_present(KEY) == "v"
    await clock.advance(6)
    assert region.get_if_present(KEY) is None


async def test_frequent_access_keeps_a_value(clock: ManualClock) -> None:
    """Accesses close together are noted often enough to keep the value for good."""
    region = budget_of(clock=clock).region(CacheSpec(name="test", expire_after_access_s=64))
    region.put(KEY, "v")
    for _ in range(1_000):
        await clock.advance(0.5)
        assert region.get_if_present(KEY) == "v"
    await clock.advance(62)
    assert region.get_if_present(KEY) == "v"


async def test_an_expired_value_is_loaded_again(clock: ManualClock) -> None:
    """A get behind the end of the term waits for a load."""
    region = budget_of(clock=clock).region(CacheSpec(name="test", expire_after_write_s=10))
    loader = Loader({KEY: 1})
    await region.get(KEY, loader.one)
    loader.values[KEY] = 2
    assert await region.get(KEY, loader.one) == 1
    await clock.advance(10)
    assert await region.get(KEY, loader.one) == 2
    assert await region.get_many([KEY], loader.many) == {KEY: 2}


async def test_a_value_due_is_served_stale_while_one_refresh_runs(clock: ManualClock) -> None:
    """Nobody waits for a refresh, one runs at a time, and its value is served afterwards."""
    region, loader = budget_of(clock=clock).region(SWR), Loader({KEY: 1})
    await region.get(KEY, loader.one)
    loader.values[KEY] = 2
    loader.gate.clear()
    await clock.advance(10)
    assert [await region.get(KEY, loader.one) for _ in range(5)] == [1] * 5
    await settled()
    assert len(loader.asked) == 2
    loader.gate.set()
    await settled()
    assert await region.get(KEY, loader.one) == 2
    counted = region.stats().counters
    assert (counted.refreshes, counted.stale_serves, counted.loads, counted.misses) == (1, 5, 2, 1)


async def test_a_refresh_begins_a_new_term(clock: ManualClock) -> None:
    """A refreshed value is neither due nor expired before its own time, and then it is due."""
    region, loader = budget_of(clock=clock, refresh_retry_s=1_000).region(SWR), Loader({KEY: 1})
    for _ in range(20):
        await region.get(KEY, loader.one)
        await settled()
        await clock.advance(9)
    assert region.get_if_present(KEY) == 1
    assert region.stats().counters.expirations == 0
    assert len(loader.asked) == 10


async def test_a_failed_refresh_keeps_the_old_value_until_it_expires(clock: ManualClock) -> None:
    """A failure behind the scenes is counted, reaches nobody, and is retried after a while that doubles."""
    region, loader = budget_of(clock=clock, refresh_retry_s=5).region(SWR), Loader({KEY: 1})
    await region.get(KEY, loader.one)
    loader.error = UnavailableError("away")
    for asked, wait in ((2, 10), (2, 1), (2, 3), (3, 1), (3, 5), (3, 4), (4, 1)):
        await clock.advance(wait)
        assert await region.get(KEY, loader.one) == 1
        await settled()
        assert len(loader.asked) == asked
    counted = region.stats().counters
    assert (counted.refresh_failures, counted.load_failures, counted.refreshes) == (3, 3, 0)
    await clock.advance(80)
    with pytest.raises(UnavailableError):
        await region.get(KEY, loader.one)


@pytest.mark.parametrize("gone", [None, NotFoundError("gone")], ids=["none", "not-found"])
async def test_a_refresh_that_finds_nothing_drops_the_value(clock: ManualClock, gone: Any) -> None:
    """Caches serve content, never existence: what is gone is not served on."""
    region, loader = budget_of(clock=clock).region(SWR), Loader({KEY: 1})
    await region.get(KEY, loader.one)
    del loader.values[KEY]
    loader.error = gone
    await clock.advance(10)
    assert await region.get(KEY, loader.one) == 1
    await settled()
    assert region.get_if_present(KEY) is None
    assert region.stats().counters.invalidations == 1


async def test_a_refresh_begun_before_a_write_never_lands(clock: ManualClock) -> None:
    """The written value stays, whatever the refresh brings."""
    region, loader = budget_of(clock=clock).region(SWR), Loader({KEY: "old"})
    await region.get(KEY, loader.one)
    loader.gate.clear()
    await clock.advance(10)
    await region.get(KEY, loader.one)
    await settled()
    region.put(KEY, "written")
    loader.gate.set()
    await settled()
    assert region.get_if_present(KEY) == "written"


async def test_an_older_version_from_a_refresh_is_refused(clock: ManualClock) -> None:
    """A lagging source does not turn the cache back, nor give the value a new term."""
    spec = CacheSpec(
        name="test", refresh_after_write_s=10, expire_after_write_s=30, version=lambda value: value
    )
    region, loader = budget_of(clock=clock, refresh_retry_s=5).region(spec), Loader({KEY: 7})
    await region.get(KEY, loader.one)
    loader.values[KEY] = 6
    await clock.advance(10)
    await region.get(KEY, loader.one)
    await settled()
    assert await region.get(KEY, loader.one) == 7
    assert len(loader.asked) == 2
    await clock.advance(20)
    assert await region.get(KEY, loader.one) == 6


async def test_a_miss_joins_the_refresh(clock: ManualClock) -> None:
    """A value that expires while it is refreshed is not loaded a second time."""
    spec = CacheSpec(name="test", refresh_after_write_s=10, expire_after_write_s=12)
    region, loader = budget_of(clock=clock).region(spec), Loader({KEY: 1})
    await region.get(KEY, loader.one)
    loader.values[KEY] = 2
    loader.gate.clear()
    await clock.advance(10)
    await region.get(KEY, loader.one)
    await settled()
    await clock.advance(2)
    waiting = asyncio.create_task(region.get(KEY, loader.one))
    await settled()
    loader.gate.set()
    assert await waiting == 2
    assert len(loader.asked) == 2


async def test_get_many_refreshes_what_is_due_with_one_load(clock: ManualClock) -> None:
    """Due values are served at once and loaded anew together."""
    region, loader = budget_of(clock=clock).region(SWR), Loader({(n,): n for n in range(1, 4)})
    await region.get_many([(1,), (2,)], loader.many)
    await clock.advance(10)
    await region.get_many([(3,)], loader.many)
    loader.values = {(n,): n * 10 for n in range(1, 4)}
    assert await region.get_many([(1,), (2,), (3,)], loader.many) == {(1,): 1, (2,): 2, (3,): 3}
    await settled()
    assert loader.asked[-1] == ((1,), (2,))
    assert await region.get_many([(1,), (2,), (3,)], loader.many) == {(1,): 10, (2,): 20, (3,): 3}


async def test_refreshes_are_bounded(clock: ManualClock) -> None:
    """No more than cache.refresh_concurrency run at once; the others are served stale."""
    region = budget_of(clock=clock, refresh_concurrency=2).region(SWR)
    loader = Loader({(n,): n for n in range(5)})
    for n in range(5):
        await region.get((n,), loader.one)
    loader.gate.clear()
    await clock.advance(10)
    for n in range(5):
        assert await region.get((n,), loader.one) == n
    await settled()
    assert len(loader.asked) == 5 + 2
    loader.gate.set()
    await settled()
    assert await region.get((4,), loader.one) == 4
    await settled()
    assert len(loader.asked) == 5 + 3


async def test_closing_the_budget_ends_refreshes_and_keeps_values(clock: ManualClock) -> None:
    """aclose leaves no task behind; the cache can be used on."""
    budget = budget_of(clock=clock)
    region, loader = budget.region(SWR), Loader({KEY: 1})
    await region.get(KEY, loader.one)
    loader.gate.clear()
    await clock.advance(10)
    await region.get(KEY, loader.one)
    await settled()
    await budget.aclose()
    assert loader.cancelled == 1
    loader.gate.set()
    assert await region.get(KEY, loader.one) == 1


async def test_purge_drops_what_nobody_asks_for(clock: ManualClock) -> None:
    """Expired values give their bytes back without being asked for, all at once."""
    budget = budget_of(clock=clock)
    timed, plain = (
        budget.region(CacheSpec(name="timed", expire_after_access_s=10)),
        budget.region(CacheSpec(name="plain")),
    )
    for n in range(5):
        timed.put((n,), n)
    plain.put((0,), 0)
    await clock.advance(9)
    timed.get_if_present((3,))
    await clock.advance(1)
    assert budget.purge_expired() == 4
    assert (len(timed), len(plain)) == (1, 1)
    assert timed.stats().counters.expirations == 4
