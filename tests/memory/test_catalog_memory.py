"""The layers of the catalog hold no more of the process than their budget says, whatever they hold."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.cache import CacheBudget
from lakehouse.catalog.layers import Layers
from lakehouse.config import Settings
from lakehouse.testing import ManualClock

ROOT = Path(__file__).resolve().parents[2]
BUDGET = 10 << 20
KINDS = ("snapshot", "manifest", "schema object", "table", "snapshots", "pointer", "names")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_process_grows_by_little_more_than_the_budget() -> None:
    """Three budgets of snapshots, manifests, schemas, nodes, pointers and listings go through at random; the
    resident set grows by 1.3 budgets at most. ``benchmarks catalog_memory`` does so with ten large ones."""
    command = [sys.executable, "-m", "benchmarks.catalog_memory_load", str(BUDGET), "--times", "3"]
    command += ["--warm-up", "5", "--kinds", *KINDS]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, cwd=ROOT)
    found = json.loads(ran.stdout)
    assert found["growth"] <= 1.3
    assert found["filled"] > 0.9
    assert found["evictions"] > 200


async def test_few_giant_tables_do_not_push_out_the_pointers_of_others() -> None:
    """Content of giants fills the budget; the pointers that an account has within its floor stay."""
    settings = Settings.resolve({"cache.max_bytes": 4 << 20, "cache.account_floor_bytes": 64 << 10})
    layers = Layers(CacheBudget.of(settings), settings, ManualClock())
    small = layers.account("small")
    keys = [small.pointer_key("ice", ("db", f"t{number}")) for number in range(50)]
    for key in keys:
        small.pointers.put(key, "a pointer")
    for number in range(200):
        layers.table.put(("giant", number), bytes(500_000))
        layers.table.get_if_present(("giant", number))
    assert layers.budget.stats()
    assert all(key in small.pointers for key in keys)
    assert layers.budget.weight <= 4 << 20


async def test_one_account_with_very_many_tables_leaves_the_others_theirs() -> None:
    """An account that lists hundred thousand names takes what is free, and nothing of others' floors."""
    settings = Settings.resolve({"cache.max_bytes": 2 << 20, "cache.account_floor_bytes": 64 << 10})
    layers = Layers(CacheBudget.of(settings), settings, ManualClock())
    small, large = layers.account("small"), layers.account("large")
    keys = [small.pointer_key("ice", ("db", f"t{number}")) for number in range(50)]
    for key in keys:
        small.pointers.put(key, "a pointer")
    for number in range(20_000):
        large.pointers.put(large.pointer_key("ice", ("db", f"t{number}")), "a pointer")
    assert all(key in small.pointers for key in keys)
    assert len(large.pointers) > 1_000
