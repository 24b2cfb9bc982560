"""The cache core: warm gets per second next to peers, and hit ratios next to other policies.

A warm get is what every layer pays for a value it has already; a load through the cache
is what it adds to an object store request of a millisecond or more. Hit ratios are over
traces of skewed, scanning, looping and shifting use.

``python -m benchmarks.bench_cache`` prints the tables without writing anything.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import importlib.util
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import cachetools

from benchmarks.cache_policies import POLICIES, Policy
from benchmarks.cache_traces import Trace, mixed_traces, uniform_traces
from benchmarks.model import Goal, Report, Table, ratio
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.tables import default_table, markdown
from lakehouse.cache import CacheBudget, CacheRegion, CacheSpec
from lakehouse.config import CacheSettings

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "Cache core"

LAKEHOUSE = "lakehouse"
_PEEK, _GET = "lakehouse get_if_present", "lakehouse await get"
_PEEK_TIMED, _GET_TIMED = "lakehouse get_if_present, timed", "lakehouse await get, timed"
_BARE, _LRU_CACHE = "bare coroutine", "functools.lru_cache"
_CT_LRU, _CT_TTL = "cachetools.LRUCache", "cachetools.TTLCache"

_KEYS = tuple(("warehouse", "db", f"table-{number}") for number in range(1_000))
_REQUEST_BYTES = 256 * 1024
_WARM, _LOADS, _TASK = "warm gets", "loads, evicting", "bare task"
_THEINE = "theine (W-TinyLFU)"
_HAS_THEINE = importlib.util.find_spec("theine") is not None


async def run(plan: Plan) -> Report:
    """Warm gets, loads and hit ratios."""
    rounds = plan.pick(quick=20, default=200, full=500)
    say("cache: warm gets")
    results = await compare(
        _warm_cases(rounds),
        work=rounds * len(_KEYS),
        unit="gets",
        params={"what": _WARM},
        repeats=plan.pick(quick=3, default=9, full=25),
    )
    say("cache: loads")
    loads = plan.pick(quick=2_000, default=20_000, full=50_000)
    results += await compare(
        _load_cases(loads),
        work=loads,
        unit="loads",
        params={"what": _LOADS},
        repeats=plan.pick(quick=2, default=5, full=9),
    )
    accesses, held = plan.pick(quick=(20_000, 200), default=(200_000, 1_000), full=(400_000, 2_000))
    traces = uniform_traces(accesses, held) + mixed_traces(
        plan.pick(quick=40_000, default=200_000, full=300_000)
    )
    return Report(
        name="cache",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        baseline=_CT_TTL,
        notes=(
            f"Warm gets: {len(_KEYS):,} keys, tuples of three texts; timed caches expire after write.",
            "Loads: every get misses, awaits a loader that returns at once, and evicts an entry.",
            f"Hit ratios: {accesses:,} accesses, {held:,} values fit.",
            "Mixed weights: 64 MiB of values of 0.4 KB to 4 MB; theine, which counts entries, has none.",
            "Cost saved counts each hit as a request of 256 KiB and its own bytes.",
        ),
        facts={"hit_ratios": {trace.name: _hit_ratios(trace) for trace in traces}},
    )


def goals(report: Report) -> list[Goal]:
    """What the cache promises every layer."""
    get, bare = report.one(side=_GET), report.one(side=_BARE)
    over_us = (get.wall.median - bare.wall.median) / get.work * 1e6
    ttl = ratio(report.one(side=_PEEK_TIMED), report.one(side=_CT_TTL)).median
    ratios = report.facts["hit_ratios"]
    behind = max(max(found.values()) - found[LAKEHOUSE] for found in map(_objects, ratios.values()))
    return [
        Goal(
            text="an awaited hit, above the bare coroutine",
            target="≤ 1 µs",
            measured=f"{over_us:.2f} µs",
            met=over_us <= 1,
        ),
        Goal(
            text="warm gets/s with expiry ÷ cachetools.TTLCache",
            target="≥ 1",
            measured=f"{ttl:.2f}",
            met=ttl >= 1,
        ),
        Goal(
            text="hit ratio behind the best policy of each trace, at worst",
            target="≤ 0.10",
            measured=f"{behind:.3f}",
            met=behind <= 0.1,
        ),
    ]


def tables(report: Report) -> list[Table]:
    """Times, hit ratios, and what hits saved where weights differ."""
    ratios = report.facts["hit_ratios"]
    sides = list(next(iter(ratios.values())))

    def grid(title: str, traces: list[str], which: str) -> Table:
        rows = [
            (side, *(f"{ratios[t][side][which]:.3f}" if side in ratios[t] else "—" for t in traces))
            for side in sides
        ]
        return Table(title=title, header=("policy", *traces), rows=tuple(rows))

    mixed = [trace for trace, found in ratios.items() if "cost" in found[LAKEHOUSE]]
    warm, loads = report.where(what=_WARM), report.where(what=_LOADS)
    return [
        replace(default_table(replace(report, results=tuple(warm))), title="Warm gets"),
        replace(default_table(replace(report, results=tuple(loads), baseline=_TASK)), title="Loads"),
        grid("Hit ratio", list(ratios), "objects"),
        grid("Cost saved", mixed, "cost"),
    ]


# --- warm gets and loads ------------------------------------------------------------


def _warm_cases(rounds: int) -> list[Case]:
    budget = _budget(64 << 20)
    plain = budget.region(CacheSpec(name="plain"))
    timed = budget.region(CacheSpec(name="timed", expire_after_write_s=3_600))
    lru: Any = cachetools.LRUCache(2 * len(_KEYS))
    ttl: Any = cachetools.TTLCache(2 * len(_KEYS), 3_600)
    cached = functools.lru_cache(maxsize=2 * len(_KEYS))(lambda key: key)
    for key in _KEYS:
        plain.put(key, key)
        timed.put(key, key)
        lru[key] = ttl[key] = cached(key)
    sides: dict[str, Callable[[], Awaitable[None] | None]] = {
        _BARE: _awaited(_nothing, rounds),
        _PEEK: _called(plain.get_if_present, rounds),
        _PEEK_TIMED: _called(timed.get_if_present, rounds),
        _GET: _awaited(plain.get, rounds),
        _GET_TIMED: _awaited(timed.get, rounds),
        _LRU_CACHE: _called(cached, rounds),
        _CT_LRU: _called(lru.__getitem__, rounds),
        _CT_TTL: _called(ttl.__getitem__, rounds),
    }
    if _HAS_THEINE:
        peer = importlib.import_module("theine").Cache(2 * len(_KEYS), nolock=True)
        for key in _KEYS:
            peer.set(key, key)
        sides[_THEINE] = _called(peer.get, rounds)
    return [Case(side=side, run=work) for side, work in sides.items()]


async def _nothing(key: Any, load: Any) -> Any:
    return key


async def _same(key: Any) -> Any:
    return key


def _called(get: Callable[[Any], Any], rounds: int) -> Callable[[], None]:
    def work() -> None:
        for _ in range(rounds):
            for key in _KEYS:
                get(key)

    return work


def _awaited(get: Callable[[Any, Any], Awaitable[Any]], rounds: int) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        for _ in range(rounds):
            for key in _KEYS:
                await get(key, _same)

    return work


def _load_cases(loads: int) -> list[Case]:
    async def block(key: Any) -> bytes:
        return b"x" * 1_000

    async def blocks(keys: Any) -> dict[Any, bytes]:
        return dict.fromkeys(keys, b"x" * 1_000)

    region: CacheRegion[Any, Any] = _budget(2 << 20).region(CacheSpec(name="loads", weigh=len))
    keys = iter(range(sys.maxsize))

    async def single() -> None:
        for _ in range(loads):
            await region.get(("key", next(keys)), block)

    async def bulk() -> None:
        for _ in range(loads // 500):
            await region.get_many([("key", next(keys)) for _ in range(500)], blocks)

    def put() -> None:
        for _ in range(loads):
            region.put(("key", next(keys)), b"x" * 1_000)

    async def bare() -> None:
        for number in range(loads):
            await asyncio.create_task(block(number))

    return [
        Case(side=_TASK, run=bare),
        Case(side="lakehouse get", run=single),
        Case(side="lakehouse get_many of 500", run=bulk),
        Case(side="lakehouse put", run=put),
    ]


def _budget(max_bytes: int) -> CacheBudget:
    return CacheBudget(CacheSettings(max_bytes=max_bytes))


# --- hit ratios ---------------------------------------------------------------------


class _Ours:
    """The engine's cache in the shape of a simulator."""

    def __init__(self, capacity: int) -> None:
        self._region = _budget(capacity).region(CacheSpec(name="trace", weigh=lambda value: value))

    def access(self, key: int, weight: int) -> bool:
        """See :class:`benchmarks.cache_policies.Policy`."""
        if self._region.get_if_present(key) is not None:
            return True
        self._region.put(key, weight)
        return False

    @classmethod
    def entry_bytes(cls) -> int:
        """What an entry with an integer key weighs besides its value."""
        ours = cls(1 << 20)
        ours.access(1 << 20, 1)
        return ours._region.weight - 1


class _Theine:
    """theine in the shape of a simulator; it counts entries."""

    def __init__(self, capacity: int) -> None:
        self._cache = importlib.import_module("theine").Cache(capacity, nolock=True)

    def access(self, key: int, weight: int) -> bool:
        """See :class:`benchmarks.cache_policies.Policy`."""
        if self._cache.get(key)[1]:
            return True
        self._cache.set(key, weight)
        return False


def _hit_ratios(trace: Trace) -> dict[str, dict[str, float]]:
    """By policy: hits per access and, where weights differ, the share of the cost they save."""
    say(f"cache: {trace.name}")
    # All are charged for what the engine's entries really take, so all hold the same values.
    extra = _Ours.entry_bytes()
    weigh = trace.weights.__getitem__ if trace.weights is not None else lambda _: 10_000 - extra
    capacity = trace.capacity * (1 if trace.weights is not None else 10_000)
    found = {LAKEHOUSE: _replay(_Ours(capacity), trace, weigh, 0)}
    for name, policy in POLICIES.items():
        found[name] = _replay(policy(capacity), trace, weigh, extra)
    if _HAS_THEINE and trace.weights is None:
        found[_THEINE] = _replay(_Theine(trace.capacity), trace, weigh, extra)
    return found


def _replay(policy: Policy, trace: Trace, weigh: Callable[[int], int], extra: int) -> dict[str, float]:
    hits = saved = cost = 0
    started = time.perf_counter()
    for key in trace.keys:
        weight = weigh(key)
        hit = policy.access(key, weight + extra)
        hits += hit
        cost += weight + _REQUEST_BYTES
        saved += hit * (weight + _REQUEST_BYTES)
    seconds = time.perf_counter() - started
    found = {"objects": hits / len(trace.keys), "us_per_access": seconds / len(trace.keys) * 1e6}
    return found | ({"cost": saved / cost} if trace.weights is not None else {})


def _objects(found: dict[str, dict[str, float]]) -> dict[str, float]:
    return {side: figures["objects"] for side, figures in found.items()}


def main() -> None:
    """Runs at the default scale, or ``--quick``, and prints the tables."""
    report = asyncio.run(run(Plan(scale="quick" if "--quick" in sys.argv else "default")))
    for table in tables(report):
        print(markdown(table))
    for goal in goals(report):
        print(f"{goal.text}: {goal.measured} ({goal.target})")


if __name__ == "__main__":
    main()
