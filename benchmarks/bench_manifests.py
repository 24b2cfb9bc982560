"""Reading every manifest of many tables: one GET each, and nothing again.

Tables are Iceberg's, of a thousand manifests each, in a store in memory that waits before each request. The
ideal is ``ceil(N / c) x latency``; opening the tables (metadata file and manifest list of each) is in the
wall time and not in the ideal. The plain way reads one manifest after another in each of ``c`` tasks and
decodes it alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import AsyncIterator, Mapping
from typing import Any

from benchmarks.iceberg_manifests import ManyFiles
from benchmarks.model import Goal, Report, Result, Table, ratio
from benchmarks.peers import LAKEHOUSE, each_by_workers
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.tables import pivot
from lakehouse.cache import CacheBudget
from lakehouse.catalog.inventory import InventoryScan, InventoryShape, ListedTable
from lakehouse.config import CacheSettings, Settings
from lakehouse.iceberg import IcebergTable
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.manifests import decode_manifest
from lakehouse.iceberg.metadata import TableMetadata
from lakehouse.iceberg.opening import read_metadata
from lakehouse.io import ObjectStore, measure
from lakehouse.io.location import Location
from lakehouse.io.open import stacked
from lakehouse.testing.stores import LatencyStore, memory_store

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "Manifests of many tables"

_PLAIN = "task by task"
_GOAL = 1.15
_PER_TABLE = 1_000
_CACHE = Settings(cache=CacheSettings(max_bytes=4 << 30))


class _SlowLocations(Locations):
    """Places of a table in a store that is given."""

    def __init__(self, url: str, store: ObjectStore) -> None:
        self._given = store
        super().__init__(url)

    def _opened(self, url: str) -> ObjectStore:
        return self._given


class _Tables:
    """Tables with so many manifests in all, in one store of which each has a prefix of its own."""

    def __init__(self, manifests: int, entries: int) -> None:
        per_table = min(_PER_TABLE, manifests)
        self.manifests = manifests
        self.made = [
            ManyFiles(location=f"memory://wh/t{number:03}", manifests=per_table, entries=entries)
            for number in range(manifests // per_table)
        ]
        self.stores: dict[str, ObjectStore] = {}

    async def fill(self) -> None:
        """Writes every table into a store of its own."""
        for table in self.made:
            store = self.stores[table.location] = memory_store()
            for key, content in table.objects():
                await store.put(key, content)

    async def spoil(self) -> None:
        """Cuts one manifest short, and removes another."""
        first, last = self.made[0], self.made[-1]
        keys = [key for key, _ in itertools.islice(first.objects(), 2)]
        store = self.stores[first.location]
        data = (await store.get(keys[0])).data
        await store.put(keys[0], bytes(data[: len(data) // 2]) + bytes(len(data) - len(data) // 2))
        await self.stores[last.location].delete(keys[1])

    def listed(self, latency_s: float, caches: CacheBudget) -> list[ListedTable]:
        """The tables, opened anew each time and sharing what is cached."""
        return [_listed(made, self.stores[made.location], latency_s, caches) for made in self.made]


def _listed(made: ManyFiles, bare: ObjectStore, latency_s: float, caches: CacheBudget) -> ListedTable:
    opened: list[IcebergTable] = []
    store = stacked(LatencyStore(bare, latency_s))

    async def load() -> TableMetadata:
        return (await read_metadata(store, made.metadata_key)).metadata

    async def table() -> IcebergTable:
        if not opened:
            places = _SlowLocations(Location.parse(made.location).url, store)
            metadata = await load()
            opened.append(
                IcebergTable(made.location, places, metadata, reload=load, caches=caches, settings=_CACHE)
            )
        return opened[0]

    return ListedTable(catalog="bench", name=made.location, open=table)


async def _each(listed: list[ListedTable]) -> AsyncIterator[ListedTable]:
    for one in listed:
        yield one


async def _enumerated(listed: list[ListedTable], concurrency: int) -> InventoryScan:
    scan = InventoryScan(_each(listed), InventoryShape.MANIFESTS, concurrency=concurrency)
    async for _ in scan:
        pass
    return scan


async def _plainly(tables: _Tables, latency_s: float, concurrency: int, count: int) -> None:
    made = tables.made[0]
    store = stacked(LatencyStore(tables.stores[made.location], latency_s))
    keys = [key for key, _ in itertools.islice(made.objects(), count)]

    async def read(key: str) -> None:
        decode_manifest((await store.get(key)).data, key=key)

    await each_by_workers(read, keys, concurrency)


async def run(plan: Plan) -> Report:
    """Cold, by number of entries and concurrency; then warm, and with two broken manifests."""
    manifests = plan.pick(quick=1_000, default=10_000, full=10_000)
    results: list[Result] = []
    facts: dict[str, Any] = {}
    tables = _Tables(manifests, 1)
    await tables.fill()
    await _enumerated(tables.listed(0, CacheBudget(_CACHE.cache)), 32)  # compiled code is loaded by now
    for entries in plan.pick(quick=(1,), default=(1, 10), full=(1, 10, 50)):
        tables = _Tables(manifests, entries)
        await tables.fill()
        for concurrency in plan.pick(quick=(16, 32), default=(16, 32, 64), full=(16, 32, 64)):
            say(f"manifests: {manifests:,} of {entries} entries, concurrency {concurrency}")
            results += await _cells(plan, tables, entries, concurrency)
    say("manifests: warm, and with two that are broken")
    facts["opening"] = 2 * len(tables.made)
    facts["warm"] = await _warm(tables)
    facts["broken"] = await _broken(tables)
    return Report(
        name="manifests",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        baseline=_PLAIN,
        notes=(
            f"{manifests:,} manifests in {len(tables.made)} Iceberg tables, 20 ms before each request.",
            "Wall time has the opening of the tables in it: a metadata file and a manifest list for each.",
            f"“{_PLAIN}” reads fewer manifests, and no table's metadata.",
            "A pass without latency goes before, in which compiled code is loaded.",
        ),
        facts=facts,
    )


async def _cells(plan: Plan, tables: _Tables, entries: int, concurrency: int) -> list[Result]:
    latency_s = 0.02
    params = {"entries": entries, "concurrency": concurrency}

    async def cold() -> None:
        scan = await _enumerated(tables.listed(latency_s, CacheBudget(_CACHE.cache)), concurrency)
        assert (scan.stats.manifests, scan.problems) == (tables.manifests, [])

    repeats = plan.pick(quick=1, default=1, full=3)
    (ours,) = await compare(
        [Case(side=LAKEHOUSE, run=cold)],
        work=tables.manifests,
        unit="manifests",
        params=params,
        ideal_s=math.ceil(tables.manifests / concurrency) * latency_s,
        warmup=0,
        repeats=repeats,
    )
    few = min(_PER_TABLE, tables.manifests)
    (plain,) = await compare(
        [Case(side=_PLAIN, run=lambda: _plainly(tables, latency_s, concurrency, few))],
        work=few,
        unit="manifests",
        params=params,
        ideal_s=math.ceil(few / concurrency) * latency_s,
        warmup=0,
        repeats=repeats,
    )
    return [ours, plain]


async def _warm(tables: _Tables) -> Mapping[str, float]:
    listed = tables.listed(0, CacheBudget(_CACHE.cache))
    await _enumerated(listed, 32)
    with measure() as cost:
        scan = await _enumerated(listed, 32)
    return {"requests": cost.requests, "manifests_per_s": tables.manifests / scan.stats.seconds}


async def _broken(tables: _Tables) -> Mapping[str, int]:
    await tables.spoil()
    scan = await _enumerated(tables.listed(0, CacheBudget(_CACHE.cache)), 32)
    return {"problems": len(scan.problems), "read": scan.stats.manifests}


def goals(report: Report) -> list[Goal]:
    """One GET a manifest, wall near the ideal, nothing when warm, two records for two broken ones."""
    ours = report.where(side=LAKEHOUSE)
    gets = {(sum(one.requests.values()) - report.facts["opening"]) / one.work for one in ours}
    small = [one for one in ours if one.params["entries"] == 1 and one.params["concurrency"] != 64]
    worst = max(one.to_ideal or 0 for one in small)
    warm, broken = report.facts["warm"], report.facts["broken"]
    total = ours[0].work
    return [
        Goal(
            text="requests per manifest, without those that open tables",
            target="1",
            measured=", ".join(f"{one:.4f}" for one in sorted(gets)),
            met=gets == {1.0},
        ),
        Goal(
            text="wall ÷ ideal, one entry, concurrency 16 and 32",
            target=f"≤ {_GOAL:.2f}",
            measured=f"{worst:.3f}",
            met=worst <= _GOAL,
        ),
        Goal(
            text=f"requests of a second pass ({warm['manifests_per_s']:,.0f} manifests/s)",
            target="0",
            measured=str(warm["requests"]),
            met=warm["requests"] == 0,
        ),
        Goal(
            text="one manifest damaged, one missing: records, and manifests read",
            target=f"2, {total - 2:,.0f}",
            measured=f"{broken['problems']}, {broken['read']:,}",
            met=(broken["problems"], broken["read"]) == (2, total - 2),
        ),
    ]


def tables(report: Report) -> list[Table]:
    """Wall over the ideal, by entries and concurrency."""

    def cell(result: Result) -> str:
        peer = report.baseline_of(result)
        faster = f" ({ratio(result, peer).median:.2f} × as fast)" if peer else ""
        return f"{result.to_ideal:.2f}{faster}, CPU {result.cpu_per_unit * 1e6:.0f} µs"

    return [
        pivot(
            report.where(side=LAKEHOUSE),
            title=f"Wall ÷ ideal (and against “{_PLAIN}”), CPU a manifest",
            rows="entries",
            columns="concurrency",
            cell=cell,
            note="",
        )
    ]
