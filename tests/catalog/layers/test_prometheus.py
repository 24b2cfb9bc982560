"""Metrics of caches: a page that Prometheus reads, and labels that go with their accounts."""

from __future__ import annotations

import re

from lakehouse.cache import CacheBudget, CacheSpec
from lakehouse.catalog.layers import Layers, cache_metrics
from lakehouse.config import Settings
from lakehouse.testing import ManualClock


def layers() -> Layers:
    """Layers with default settings."""
    settings = Settings()
    return Layers(CacheBudget.of(settings), settings, ManualClock())


def test_every_line_is_a_sample_or_a_comment() -> None:
    """Each sample has a name that was introduced with help and type, and each series is there once."""
    made = layers()
    made.account('quo"ted\\name')
    for scope in ("a", "b"):
        made.budget.region(CacheSpec(name="iceberg-manifests"), group=scope)
    page = cache_metrics(made)
    introduced = set(re.findall(r"^# TYPE (\S+) (?:counter|gauge)$", page, re.MULTILINE))
    series = []
    for line in page.splitlines():
        if not line.startswith("#"):
            found = re.fullmatch(
                r'(\w+)((?:\{\w+="(?:[^"\\]|\\.)*"(?:,\w+="(?:[^"\\]|\\.)*")*\})?) \S+', line
            )
            assert found is not None, line
            assert found[1] in introduced
            series.append((found[1], found[2]))
    assert len(series) == len(set(series))
    assert page.endswith("\n")


async def test_counts_arrive() -> None:
    """Hits and misses of an account's cache are under its label."""
    made = layers()
    pointers = made.account("me").pointers
    assert pointers.get_if_present(("me", "ice", "t")) is None
    assert 'lakehouse_cache_misses_total{entry="pointer",account="me"} 1\n' in cache_metrics(made)


def test_an_account_that_is_forgotten_leaves_no_label() -> None:
    """Ten thousand accounts that pass through leave the page as long as it was."""
    made = layers()
    before = len(cache_metrics(made))
    for number in range(10_000):
        made.account(f"a{number}")
        made.forget(f"a{number}")
    assert len(cache_metrics(made)) == before


async def test_waiting_loads_are_shown() -> None:
    """Each limiter says how many loads it runs."""
    made = layers()
    async with made.limits.listings.slot():
        assert 'lakehouse_catalog_loads_under_way{sort="listings"} 1\n' in cache_metrics(made)
