"""The process grows by little more than the cache says it holds."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

_LOAD = """
    import asyncio, random, sys
    from dataclasses import dataclass
    import numpy as np
    import pyarrow as pa
    from lakehouse.cache import CacheBudget, CacheSpec, weigh
    from lakehouse.config import CacheSettings

    MIX, BUDGET = sys.argv[1].split(","), 64 << 20
    chance = random.Random(7)

    @dataclass(frozen=True, slots=True)
    class Meta:
        path: str
        size: int
        blobs: tuple
        properties: dict

    def metadata(n):
        blobs = tuple((f"kind-{i}-{n}", 1_000 * i + n, 400 + n) for i in range(3))
        return Meta(f"data/bucket-{n % 16}/{n:032x}.puffin", 10_000 + n, blobs, {"a": f"v{n}", "b": f"w{n}"})

    def block(n):
        return chance.randbytes(chance.randrange(4_096, 65_536))

    def manifest(n):
        rows = chance.randrange(2_000, 40_000)
        return pa.table({name: np.arange(rows) + n for name in "abcd"})

    def large(n):
        return chance.randbytes(chance.randrange(200_000, 2_000_000))

    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4_096

    async def main():
        budget = CacheBudget(CacheSettings(max_bytes=BUDGET))
        timed = {"expire_after_write_s": 600, "refresh_after_write_s": 300, "prefix_length": 1}
        make = {"metadata": metadata, "block": block, "manifest": manifest, "large": large}
        share = {"metadata": 1_000, "block": 90, "manifest": 3, "large": 3}
        regions = {k: budget.region(CacheSpec(name=k, **(timed if k == "metadata" else {}))) for k in make}
        kinds = random.Random(8).choices(MIX, [share[kind] for kind in MIX], k=1 << 16)
        small = min(weigh(make[kind](0)) for kind in make)
        before, loaded, most, n = resident(), 0, 0, 0

        async def load(key):
            nonlocal loaded
            value = make[kind](key[1])
            # Weighing every small value twice would take longer than all the rest.
            loaded += small if kind == "metadata" else weigh(value)
            return value

        while loaded < 10 * BUDGET:
            kind = kinds[n % len(kinds)]
            number = n if chance.random() < 0.8 else chance.randrange(n + 1)
            await regions[kind].get((f"table-{number % 50}", number), load, tags=("tag",))
            n += 1
            if n % 256 == 0:
                most = max(most, resident())
        assert budget.weight > 0.9 * BUDGET, budget.weight
        evictions = sum(stats.counters.evictions for stats in budget.stats())
        print((max(most, resident()) - before) / BUDGET, evictions)

    asyncio.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("mix", ["metadata,block,manifest,large", "block,large", "manifest,block"])
def test_random_load_of_ten_budgets_grows_the_process_by_less_than_1_3(mix: str) -> None:
    """Loading ten times a 64 MiB budget of values of all sizes never takes 1.3 times the budget."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_LOAD), mix],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    growth, evictions = map(float, done.stdout.split())
    assert 0.5 < growth <= 1.3
    assert evictions > 500
