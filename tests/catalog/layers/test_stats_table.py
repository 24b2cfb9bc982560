"""Statistics of caches as rows: what is in them, and who may see what."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pytest

from lakehouse.cache import CacheBudget, CacheSpec
from lakehouse.catalog.layers import STATISTICS_SCHEMA, Layers, cache_statistics
from lakehouse.config import Settings
from lakehouse.errors import UnavailableError
from lakehouse.testing import ManualClock


def layers(clock: ManualClock | None = None) -> Layers:
    """Layers with default settings."""
    clock, settings = clock or ManualClock(), Settings()
    return Layers(CacheBudget.of(settings, clock=clock), settings, clock)


def row(made: Layers, entry: str, account: str | None = None, seen_by: str | None = None) -> dict[str, Any]:
    """The row of one cache."""
    rows = cache_statistics(made, seen_by).to_pylist()
    (found,) = [one for one in rows if (one["entry"], one["account"]) == (entry, account)]
    return found


async def value(key: Any) -> str:
    """A loader."""
    return "value"


async def failing(key: Any) -> str:
    """A loader of a catalog that is away."""
    raise UnavailableError(f"no answer for {key}")


async def test_a_row_says_all_that_happened() -> None:
    """Hits, misses, loads, failures, ages, bytes and settings of one cache are in its row."""
    clock = ManualClock(1_700_000_000_000)
    made = layers(clock)
    pointers = made.account("me").pointers
    await pointers.get(("me", "ice", "t"), value)
    await clock.advance(1.5)
    await pointers.get(("me", "ice", "t"), value)
    with pytest.raises(UnavailableError):
        await pointers.get(("me", "ice", "u"), failing)
    found = row(made, "pointer", "me")
    counted = ("requests", "hits", "misses", "loads", "load_failures", "entries", "invalidations")
    assert [found[name] for name in counted] == [3, 1, 2, 1, 1, 1, 0]
    assert found["hit_ratio"] == pytest.approx(1 / 3)
    assert (found["ttl_s"], found["refresh_s"], found["configured"], found["enabled"]) == (
        2.0,
        None,
        True,
        True,
    )
    assert found["oldest_s"] == 1.5
    assert found["bytes"] == pointers.weight > 0
    assert found["last_load"].timestamp() == 1_700_000_000
    assert "no answer for" in found["last_error"]
    assert found["accounts"] == 1


def test_every_cache_has_a_row_from_the_beginning() -> None:
    """Layers that nobody has asked yet are in the statistics, with zeros, under the declared schema."""
    found = cache_statistics(layers())
    assert found.schema == STATISTICS_SCHEMA
    assert {"table", "snapshots", "partitions", "schema", "view", "statistics", "hints", "overlay"} <= set(
        found["entry"].to_pylist()
    )
    assert pc.sum(found["requests"]).as_py() == 0


async def test_an_account_sees_its_own_rows_and_no_errors_of_others() -> None:
    """Rows of other accounts are not shown, and neither is what went wrong for them in a shared cache."""
    made = layers()
    made.account("me"), made.account("them")
    with pytest.raises(UnavailableError):
        await made.table.get(("their secret table",), failing)
    mine = cache_statistics(made, "me")
    assert set(mine["account"].to_pylist()) == {None, "me"}
    assert row(made, "table", seen_by="me")["last_error"] is None
    assert "their secret table" in row(made, "table")["last_error"]
    assert {"me", "them"} <= set(cache_statistics(made)["account"].to_pylist())


async def test_caches_of_several_scopes_are_one_row() -> None:
    """Content that is kept apart for several credentials counts as one cache, whose row names no scope."""
    made, spec = layers(), CacheSpec(name="iceberg-manifests")
    for scope in ("scope a", "scope b"):
        await made.budget.region(spec, group=scope).get(("path",), value)
    found = row(made, "iceberg-manifests")
    assert (found["entries"], found["loads"], found["misses"]) == (2, 2, 2)


async def test_evictions_and_rejects_are_counted() -> None:
    """What has to go for want of bytes, and what never fitted, is told apart."""
    settings = Settings.resolve({"cache.max_bytes": 40_000})
    made = Layers(CacheBudget.of(settings), settings, ManualClock())
    made.table.put(("giant",), bytes(20_000))
    for number in range(20):
        made.table.put((number,), bytes(4_000))
    found = row(made, "table")
    assert found["rejects"] == 1
    assert found["evictions"] > 5
    assert found["bytes"] <= 40_000
