"""Scans of one table of ten columns on Spark: our source in Python next to Iceberg's and Delta's own.

Each side has a session of two cores on this machine and its files in the same object store, written by
itself from the same rows in random order: ours into a table with a primary key and four buckets (so its
files are sorted by key), the others' into a table without partitions. Every query is an aggregation, and all
sides have to come to the same values. Ours is told which columns a query needs, as a source in Python has to
be, and `pushdown=False` where no condition follows; the others find out by themselves. Rows of ours travel
from Python workers to the JVM as Arrow; what a filter excludes does not travel. The join is of the table with
1,000 of a million shops, with and without the filter that `lakehouse.spark.join` makes of the small side.

Bytes are those that came from the store, headers included, counted by a relay that all sides go through.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.model import Goal, Report, Result, Table, ratio
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.spark_rows import stage, stage_shops
from benchmarks.spark_sides import (
    ICEBERG,
    LAKEHOUSE,
    SparkSide,
    SparkSides,
    open_spark_sides,
    peers_missing,
)
from benchmarks.tables import default_table, pivot, ratio_text, seconds_text
from lakehouse.testing.endpoint import fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "Scans on Spark"

_MOST = {"all columns": 1.5, "two columns": 1.5, "range of keys": 1.0, "one customer": 1.0}
"""Our time as a multiple of Iceberg's, at most."""
_JOIN_LEAST = 5.0
_JOINS = {"runtime filter": True, "no runtime filter": False}
_REGION = "region = 'region-7'"


async def run(plan: Plan) -> Report:
    """All queries on tables of one size."""
    rows = plan.pick(quick=1_000_000, default=10_000_000, full=50_000_000)
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        async with open_spark_sides(server, bucket) as found:
            say(f"spark_scan: {rows:,} rows")
            path = stage(found.folder, rows)
            held = []
            for side in found.sides.values():
                await side.write("orders", path)
                count, files, size = await side.ask("held", name="orders")
                held.append(f"{side.name}: {count:,} rows, {files} files, {size:,} bytes")
            results = [
                result
                for what in _MOST
                for result in await _query(plan, found, what, _where(what, rows), rows)
            ]
            results += await _joins(plan, found, rows)
    return Report(
        name="spark_scan",
        title=TITLE,
        scale=plan.scale,
        baseline=ICEBERG,
        results=tuple(results),
        notes=(*held, *peers_missing()),
        facts={"object_store": server.note, "rows": rows},
    )


def _where(what: str, rows: int) -> str | None:
    begin = rows // 3
    return {
        "range of keys": f"id >= {begin} AND id < {begin + rows // 1_000}",
        "one customer": "customer = 4242",
    }.get(what)


async def _query(plan: Plan, found: SparkSides, what: str, where: str | None, rows: int) -> list[Result]:
    say(f"spark_scan: {what}")
    answers: dict[str, Any] = {}

    def query(side: SparkSide) -> Callable[[], Awaitable[None]]:
        async def ask() -> None:
            answers[side.name] = await side.ask("query", name="orders", what=what, where=where)

        return ask

    results = await _counted(
        plan, found, {name: query(side) for name, side in found.sides.items()}, what, rows
    )
    assert len({tuple(answer) for answer in answers.values()}) == 1, f"the sides differ: {answers}"
    return results


async def _joins(plan: Plan, found: SparkSides, rows: int) -> list[Result]:
    say("spark_scan: joins")
    ours, shops, answers = found.sides[LAKEHOUSE], stage_shops(found.folder), set()

    def join(runtime: bool) -> Callable[[], Awaitable[None]]:
        async def ask() -> None:
            answer = await ours.ask("join", fact="orders", dim=shops, where=_REGION, runtime_filter=runtime)
            answers.add(tuple(answer))

        return ask

    results = await _counted(plan, found, {name: join(on) for name, on in _JOINS.items()}, "join", rows)
    assert len(answers) == 1, f"the joins differ: {answers}"
    return results


async def _counted(
    plan: Plan, found: SparkSides, sides: dict[str, Callable[[], Awaitable[None]]], what: str, rows: int
) -> list[Result]:
    """Times, and the bytes of one more round."""
    results = await compare(
        [Case(side=name, run=run) for name, run in sides.items()],
        work=rows,
        unit="rows",
        params={"what": what},
        warmup=plan.warmup,
        repeats=plan.repeats,
    )
    counted = []
    for result in results:
        before = found.wire.received
        await sides[result.side]()
        counted.append(dataclasses.replace(result, bytes_read=found.wire.received - before))
    return counted


def goals(report: Report) -> list[Goal]:
    """How much longer than Iceberg we take, and what the runtime filter saves."""
    found = []
    for what, most in _MOST.items():
        ours, theirs = report.where(side=LAKEHOUSE, what=what), report.where(side=ICEBERG, what=what)
        if ours and theirs:
            slower = ratio(theirs[0], ours[0])
            found.append(
                Goal(
                    text=f"{what}: time ÷ Iceberg's",
                    target=f"≤ {most:g}",
                    measured=ratio_text(slower),
                    met=slower.median <= most,
                )
            )
    on, off = (report.one(what="join", side=side).bytes_read for side in _JOINS)
    found.append(
        Goal(
            text="join: bytes without ÷ with the runtime filter",
            target=f"≥ {_JOIN_LEAST:g}",
            measured=f"{off / on:.1f}",
            met=off >= _JOIN_LEAST * on,
        )
    )
    return found


def tables(report: Report) -> list[Table]:
    """Time and bytes by query and side."""
    scans = [result for result in report.results if result.params["what"] != "join"]
    grid = {
        "rows": "what",
        "columns": "side",
        "cell": lambda r: f"{seconds_text(r.wall.median)}, {r.bytes_read / 1e6:,.1f} MB",
    }
    return [
        pivot(scans, title=f"Scans of {report.facts['rows']:,} rows: time, bytes read", **grid),
        pivot(report.where(what="join"), title="A join with 1,000 of a million shops", **grid),
        default_table(report),
    ]
