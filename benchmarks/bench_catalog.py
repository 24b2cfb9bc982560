"""The metadata graph: warm resolves per second, cold descriptions of many tables, and listings of very many.

Warm: one task awaits ``lake.graph.resolve(id)`` of a thousand tables, account check on. Described: a lake
that has seen nothing resolves a thousand names to nodes, over a store in memory that takes 20 ms for each
request. Listed: the names of a database are read in pages of 1,000 from an object store, by a lake that has
seen nothing and by one that keeps them; the tables are pointers alone, since a listing reads nothing else.

What others publish stands in the notes; it was measured elsewhere, on other machines.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

import pyarrow as pa

from benchmarks.model import Goal, Report, Result, Table
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.tables import seconds_text
from lakehouse.config import Settings
from lakehouse.format.metadata import NamePointer, encode_pointer
from lakehouse.ids import new_token, new_uuid
from lakehouse.io import map_bounded, open_store
from lakehouse.io.decorators import LimitedStore
from lakehouse.lake import Lake
from lakehouse.testing import LatencyStore
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "The metadata graph"

_OURS = "lakehouse"
_WARM, _DESCRIBED, _COLD, _KEPT, _IDS, _IDS_KEPT = (
    "resolve, warm",
    "describe, cold",
    "list names, cold",
    "list names, warm",
    "page of 1,000 with ids, cold",
    "page of 1,000 with ids, warm",
)
_RESOLVES_S, _DESCRIBED_TIMES = 200_000, 1.2
_LATENCY_S = 0.02
_CONCURRENCY = (8, 16, 64)
_SCHEMA = pa.schema({"id": pa.int64(), "amount": pa.float64()})
_PAGE = 1_000
_URL = "memory://bench-catalog"


async def run(plan: Plan) -> Report:
    """Resolves, descriptions, listings."""
    described = plan.pick(quick=100, default=1_000, full=1_000)
    listed = plan.pick(quick=3_000, default=100_000, full=100_000)
    results: list[Result] = []
    say(f"catalog: {described} tables described and resolved")
    results += await _described(plan, described)
    say(f"catalog: {listed} tables listed")
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        results += await _listed(plan, server, bucket, listed)
        note = server.note
    return Report(
        name="catalog",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        notes=(
            (
                f"Described: {described:,} names at once, {_LATENCY_S * 1e3:.0f} ms for each request; at "
                "best every slot is busy all the time: requests ÷ slots × latency."
            ),
            "Slots are requests under way in the store; of one table: name, hint, list, snapshot, schema.",
            f"Listed: {listed:,} names in pages of {_PAGE:,}; client and store share the machine.",
            (
                "Floecat's javadoc of its topology cache: 200,000 tables in 10 namespaces, cold about 50 ms "
                "(a query of its key-value store), warm below 1 ms."
            ),
            "Doris#65988: information_schema.tables loads every table, 3,882 in 2 min 52 s.",
        ),
        facts={"object_store": note, "described": described, "listed": listed},
    )


# --- resolving and describing -----------------------------------------------------------


async def _described(plan: Plan, count: int) -> list[Result]:
    results: list[Result] = []
    async with open_store(_URL) as memory:
        names = await _made(Lake(memory), count)
        for slots in _CONCURRENCY:
            results += await _cold(plan, names, slots)
        async with Lake(memory, settings=Settings.resolve({"meta.cache.pointer.ttl": 3_600})) as lake:
            ids = [await lake.graph.resolve_name(name) for name in names]
            for number in ids:
                await lake.graph.resolve(number)
            rounds = max(1, plan.pick(quick=100_000, default=1_000_000, full=2_000_000) // count)

            async def resolves() -> None:
                resolve = lake.graph.resolve
                for _ in range(rounds):
                    for number in ids:
                        await resolve(number)

            results += await compare(
                [Case(side=_OURS, run=resolves)],
                work=rounds * count,
                unit="resolves",
                params={"what": _WARM},
                repeats=plan.repeats,
            )
    return results


async def _made(lake: Lake, count: int) -> list[str]:
    async with lake:
        await lake.create_database("db")
        names = [f"db.t{number:06}" for number in range(count)]

        async def make(name: str) -> None:
            await lake.create_table(name, _SCHEMA, primary_key=["id"])

        async for _ in map_bounded(make, names, 16):
            pass
    return names


async def _cold(plan: Plan, names: list[str], slots: int) -> list[Result]:
    """Describes all tables at once by a lake that has seen nothing; no more requests wait than slots."""
    settings = Settings.resolve({"io.max_concurrency": slots, "cache.max_bytes": 1 << 30})
    store = LimitedStore(LatencyStore(open_store(_URL, settings=settings), _LATENCY_S))
    async with Lake(store, settings=settings) as lake:

        async def describe() -> None:
            found = await asyncio.gather(*[lake.graph.table(name) for name in names])
            assert len({node.id for node in found}) == len(names)

        async def forget() -> None:
            lake.caches.invalidate_all()

        (result,) = await compare(
            [Case(side=_OURS, run=describe, before=forget)],
            work=len(names),
            unit="tables",
            params={"what": _DESCRIBED, "slots": slots},
            warmup=1,
            repeats=plan.repeats,
        )
    return [result]


# --- listing ----------------------------------------------------------------------------


async def _listed(plan: Plan, server: ServerInfo, bucket: str, count: int) -> list[Result]:
    url = f"s3://{bucket}/wh"
    results: list[Result] = []
    async with open_store(url, storage_options=server.storage_options) as store:
        async with Lake(store) as lake:
            await lake.create_database("db")
        await _fill(count, lambda key, data: store.put(key, data))
    async with open_store(url, storage_options=server.storage_options) as store:
        settings = Settings.resolve({"cache.max_bytes": 1 << 30, "meta.cache.pointer.ttl": 600})
        async with Lake(store, settings=settings) as lake:

            async def names() -> None:
                listed = [entry.path[-1] async for entry in lake.graph.listed("", ("db",))]
                assert len(listed) == count
                assert listed == sorted(listed)

            async def page() -> None:
                found = await lake.graph.resolve_tables(prefix="db", limit=_PAGE)
                assert len(found.items) == min(count, _PAGE)

            async def forget() -> None:
                lake.caches.invalidate_all()

            for what, run, before, work in (
                (_COLD, names, forget, count),
                (_KEPT, names, None, count),
                (_IDS, page, forget, min(count, _PAGE)),
                (_IDS_KEPT, page, None, min(count, _PAGE)),
            ):
                results += await compare(
                    [Case(side=_OURS, run=run, before=before)],
                    work=work,
                    unit="names",
                    params={"what": what},
                    repeats=plan.repeats,
                )
    return results


async def _fill(count: int, put: Callable[[str, bytes], Awaitable[object]]) -> None:
    """Puts the pointers of as many tables as asked for."""

    async def one(number: int) -> None:
        table = new_uuid()
        pointer = NamePointer(
            name=f"db.t{number:06}",
            table=table,
            path=f"db/t{number:06}-{table.hex[:8]}",
            token=new_token(),
            time_ms=1_790_000_000_000,
        )
        await put(f"db/_tables/t{number:06}", encode_pointer(pointer))

    async for _ in map_bounded(one, range(count), 32, ordered=False):
        pass


# --- what was found ---------------------------------------------------------------------


def goals(report: Report) -> list[Goal]:
    """Resolves per second, and how near the best a thousand descriptions come."""
    warm = report.one(what=_WARM)
    described = report.where(what=_DESCRIBED)
    best = min(described, key=_times)
    cold, kept = report.one(what=_COLD), report.one(what=_KEPT)
    lists, least = cold.requests.get("list", 0), math.ceil(cold.work / _PAGE)
    return [
        Goal(
            text="warm resolves per second, one task awaiting each",
            target=f"≥ {_RESOLVES_S:,}",
            measured=f"{warm.rate:,.0f} ({1 / warm.cpu_per_unit:,.0f} per second of CPU)",
            met=warm.rate >= _RESOLVES_S,
        ),
        Goal(
            text="tables described cold: time ÷ (requests ÷ slots × latency)",
            target=f"≤ {_DESCRIBED_TIMES}",
            measured=", ".join(f"{_times(one):.2f} at {one.params['slots']} slots" for one in described),
            met=_times(best) <= _DESCRIBED_TIMES,
        ),
        Goal(
            text=f"requests to list {cold.work:,.0f} names, cold and warm",
            target=f"{least:,} LIST and the look at the database; 0",
            measured=f"{lists:g} list, {cold.requests.get('get', 0):g} get; {sum(kept.requests.values()):g}",
            met=lists == least and not sum(kept.requests.values()),
        ),
    ]


def _times(result: Result) -> float:
    """Time of a description as a multiple of the best."""
    slots = int(result.params["slots"])
    return result.wall.median / (math.ceil(sum(result.requests.values()) / slots) * _LATENCY_S)


def tables(report: Report) -> list[Table]:
    """Time, rate, CPU and requests of each."""
    rows = [
        (
            str(one.params["what"]) + (f", {one.params['slots']} slots" if "slots" in one.params else ""),
            f"{one.work:,.0f}",
            seconds_text(one.wall.median),
            f"{one.rate:,.0f}",
            seconds_text(one.cpu_per_unit),
            ", ".join(f"{count:g} {kind}" for kind, count in sorted(one.requests.items())) or "none",
        )
        for one in report.results
    ]
    header = ("what", "names", "time", "per second", "CPU each", "requests")
    return [Table(title="Names", header=header, rows=tuple(rows))]
