"""Which entries stay: hit ratios on traces, and what choosing costs."""

from __future__ import annotations

import tracemalloc
from collections import OrderedDict
from collections.abc import Iterable

import numpy as np
import pytest

from lakehouse.cache import CacheBudget, CacheRegion, CacheSpec
from tests.kit.loaders import budget_of

HELD = 500
"""Entries that fit."""


def _region(held: int = HELD) -> CacheRegion[int, int]:
    """A cache of so many entries, all of the same weight."""
    probe = budget_of().region(CacheSpec(name="probe", weigh=lambda _: 1_000))
    probe.put(1_000, 1)
    budget = budget_of(held * probe.weight)
    return budget.region(CacheSpec(name="test", weigh=lambda _: 1_000))


def _hit_ratio(region: CacheRegion[int, int], trace: Iterable[int]) -> float:
    """Share of a trace that the cache holds; what it misses is put in. Keys weigh the same."""
    hits = asked = 0
    for number in trace:
        key = 1_000 + int(number)
        asked += 1
        if region.get_if_present(key) is not None:
            hits += 1
        else:
            region.put(key, key)
    return hits / asked


def _lru_hit_ratio(trace: Iterable[int]) -> float:
    """What least-recently-used would have held."""
    held: OrderedDict[int, None] = OrderedDict()
    hits = asked = 0
    for key in trace:
        asked += 1
        if key in held:
            hits += 1
            held.move_to_end(key)
        else:
            held[key] = None
            if len(held) > HELD:
                held.popitem(last=False)
    return hits / asked


def _zipf(count: int, keys: int, skew: float, seed: int = 3) -> np.ndarray:
    """A skewed random trace."""
    chance = np.random.default_rng(seed)
    shares = 1 / np.arange(1, keys + 1) ** skew
    return chance.permutation(keys)[chance.choice(keys, count, p=shares / shares.sum())]


@pytest.mark.parametrize("skew", [0.8, 1.1])
def test_skewed_access_is_held_better_than_by_lru(skew: float) -> None:
    """Keys that are asked for often are held, those that are not pass through."""
    trace = _zipf(60_000, 5_000, skew).tolist()
    assert _hit_ratio(_region(), trace) > _lru_hit_ratio(trace) + 0.03


def test_a_scan_does_not_push_out_what_is_in_use() -> None:
    """While a scan over many keys passes, the hot keys stay."""
    hot = _zipf(40_000, 5_000, 1.0)
    scan = np.arange(10_000, 10_000 + 20_000)
    parts = [part for n in range(20) for part in (hot[n * 2_000 :][:2_000], scan[n * 1_000 :][:1_000])]
    trace = np.concatenate(parts).tolist()
    alone = _hit_ratio(_region(), hot.tolist()) * len(hot) / len(trace)
    mixed = _hit_ratio(_region(), trace)
    assert mixed > 0.93 * alone
    assert _lru_hit_ratio(trace) < 0.85 * alone


@pytest.mark.parametrize(("times", "at_least"), [(1.2, 0.6), (2, 0.3)])
def test_a_loop_longer_than_the_cache_is_held_in_part(times: float, at_least: float) -> None:
    """Of a table scanned again and again a part stays, where LRU holds nothing."""
    trace = list(range(int(HELD * times))) * 40
    assert _lru_hit_ratio(trace) == 0
    assert _hit_ratio(_region(), trace) > at_least


def test_a_new_hot_set_replaces_the_old_one() -> None:
    """What used to be hot does not stay for good: after a change the new keys are held."""
    region = _region()
    before = _hit_ratio(region, _zipf(60_000, 5_000, 1.0, seed=1).tolist())
    after = _hit_ratio(region, (_zipf(60_000, 5_000, 1.0, seed=2) + 10_000).tolist())
    assert after > 0.95 * before


def test_a_loop_over_other_keys_is_held_in_part_again() -> None:
    """Counts of long ago fade: each new loop finds as much room as the first."""
    region = _region()
    for start in range(5):
        trace = np.tile(np.arange(800) + 1_000 * start, 20)
        assert _hit_ratio(region, trace.tolist()) > 0.3


def test_what_is_asked_for_again_soon_is_kept_whatever_its_weight() -> None:
    """A hit while it is new takes an entry past the comparison with small ones."""
    for hits, kept in ((0, False), (1, True)):
        region = _full_of_small(budget_of(1_000_000))
        region.put(-1, 30_000)
        for _ in range(hits):
            region.get_if_present(-1)
        for n in range(10_000, 10_100):
            region.put(n, 1_000)
        assert (region.get_if_present(-1) is not None) == kept


def test_small_values_are_preferred_where_a_miss_costs_a_request() -> None:
    """A large value that is asked for as rarely as small ones goes before them."""
    region = budget_of(1_000_000).region(CacheSpec(name="test", weigh=lambda value: value))
    for _ in range(6):
        for n in range(400):
            # Keys are numbers: text hashes differently in each process, and with it which keys share a count.
            for key, weight in ((n, 1_000), (10_000 + n, 40_000)):
                if region.get_if_present(key) is None:
                    region.put(key, weight)
    smalls = sum(region.get_if_present(n) is not None for n in range(400))
    assert smalls > 300


def _full_of_small(budget: CacheBudget) -> CacheRegion[int, int]:
    """A cache whose entries were all asked for a few times."""
    region = budget.region(CacheSpec(name="small", weigh=lambda value: value))
    for _ in range(4):
        for n in range(900):
            if region.get_if_present(n) is None:
                region.put(n, 1_000)
    return region


def test_a_heavy_value_does_not_displace_many_small_ones() -> None:
    """A value worth a hundred others is refused at once when it is asked for no more than they are."""
    region = _full_of_small(budget_of(1_000_000))
    held = len(region)
    assert not region.put(-1, 200_000)
    assert (len(region), region.stats().counters.rejects) == (held, 1)


def test_a_heavy_value_is_taken_while_there_is_room_or_a_floor() -> None:
    """Nothing is refused before bytes are short, and nothing within a group's own floor."""
    budget = budget_of(1_000_000)
    assert budget.region(CacheSpec(name="free", weigh=lambda value: value)).put(-1, 300_000)
    budget = budget_of(1_000_000)
    small = _full_of_small(budget)
    for n in range(450):
        small.invalidate(n)
    assert budget.region(CacheSpec(name="free", weigh=lambda value: value)).put(-1, 200_000)
    budget = budget_of(1_000_000)
    _full_of_small(budget)
    budget.guarantee("heavy", 500_000)
    heavy = budget.region(CacheSpec(name="heavy", weigh=lambda value: value))
    assert heavy.put(-1, 200_000)
    assert heavy.put(-2, 200_000)
    assert not heavy.put(-3, 200_000)
    assert len(heavy) == 2


def test_what_came_in_last_stays_for_a_round() -> None:
    """Even in a full cache of few entries, a put is served until the next one."""
    region = _region(held=3)
    for key in range(1_000, 1_200):
        assert region.put(key, key)
        assert region.get_if_present(key) == key


class _CountingKey:
    """A key that counts how often it is hashed: the eviction does so at each look."""

    hashed = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        _CountingKey.hashed += 1
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _CountingKey) and other.number == self.number


@pytest.mark.parametrize(("budget_bytes", "own_bytes"), [(40_000_000, None), (800_000_000, 40_000_000)])
def test_choosing_takes_bounded_work(budget_bytes: int, own_bytes: int | None) -> None:
    """No put walks through all entries: not the first one too many, nor when all were just hit."""
    spec = CacheSpec(name="test", weigh=lambda _: 1_000, max_bytes=own_bytes)
    region = budget_of(budget_bytes).region(spec)

    def most_looks(numbers: Iterable[int]) -> int:
        most = 0
        for number in numbers:
            before = _CountingKey.hashed
            region.put(_CountingKey(number), 1)
            most = max(most, _CountingKey.hashed - before)
        return most

    assert most_looks(range(29_000)) < 30
    assert region.stats().counters.evictions == 0
    for start in (29_000, 32_000):
        for _ in range(3):
            for number in range(start):
                region.get_if_present(_CountingKey(number))
        assert 100 < most_looks(range(start, start + 3_000)) < 900
    assert region.stats().counters.evictions > 0


def test_removed_entries_do_not_pile_up() -> None:
    """Putting and invalidating for ever takes no more memory, though nothing is ever evicted."""
    region = budget_of(1 << 30).region(CacheSpec(name="test"))

    def churn(times: int) -> int:
        tracemalloc.start()
        try:
            for n in range(times):
                region.put((n % 10,), n)
                region.invalidate((n % 10,))
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    assert churn(5_000) < 60_000
