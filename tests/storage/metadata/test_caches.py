"""Caches of data files: two, apart, under one budget."""

from __future__ import annotations

from lakehouse.cache import CacheBudget
from lakehouse.config import CacheSettings
from lakehouse.storage.metadata.caches import RunCaches


class Weighed:
    """A value that says what it weighs, as values with C++ objects inside do."""

    weight = 5_000_000


def test_values_may_say_what_they_weigh() -> None:
    """A value with a ``weight`` counts with it, any other with what is measured."""
    budget = CacheBudget()
    caches = RunCaches(budget)
    caches.metadata.put(("t", "a"), Weighed())
    assert 5_000_000 <= caches.metadata.weight < 5_010_000
    caches.blocks.put(("t", "a", 0), bytes(100_000))
    assert 100_000 <= caches.blocks.weight < 120_000


def test_both_share_the_budget() -> None:
    """Metadata and rows are told apart in statistics and bounded together."""
    budget = CacheBudget(CacheSettings(max_bytes=16_000_000))
    caches = RunCaches(budget)
    for number in range(8):
        caches.metadata.put(("t", f"{number}"), Weighed())
        caches.blocks.put(("t", f"{number}", 0), bytes(1_000_000))
    assert budget.weight <= 16_000_000
    assert [stats.name for stats in budget.stats()] == ["run-data", "run-metadata"]


def test_every_engine_part_finds_the_same_caches() -> None:
    """Two pairs made of one budget are one pair."""
    budget = CacheBudget()
    RunCaches(budget).blocks.put(("t", "a"), b"x")
    assert RunCaches(budget).blocks.get_if_present(("t", "a")) == b"x"
