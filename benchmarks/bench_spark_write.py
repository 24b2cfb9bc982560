"""Writes on Spark: a bulk write, upserts into a large table, and compaction, next to Iceberg and Delta.

Each side has a session of two cores on this machine and its files in the same object store, and gets the
same ten columns from the same local files, in random order of keys. Our table has a primary key and four
buckets: its bulk write brings rows together by key and sorts them, as Iceberg's does in "by key", a table by
four buckets of the key and sorted by it; "no key" is a table that keeps rows as they come, which is what the
others' are. The others' upsert is `MERGE`: Iceberg's into a table that writes changed files anew
(copy-on-write, its default) and one that writes deletes (merge-on-read), Delta's as it is by default.
Compaction is `lakehouse.spark.compact(full=True)`, Iceberg's `rewrite_data_files` with `rewrite-all`, of the
merge-on-read table, and Delta's `OPTIMIZE`, after the same upserts.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from benchmarks.model import Goal, Report, Result, Table, ratio
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.spark_rows import stage, stage_changes
from benchmarks.spark_sides import (
    DELTA,
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

TITLE = "Writes on Spark"

_NO_KEY = "lakehouse, no key"
_BY_KEY = "Iceberg, by key"
_ON_READ = "Iceberg, merge-on-read"
_ON_READ_OPTIONS = {"format-version": "2", "write.merge.mode": "merge-on-read"}
_WRITE_MOST = 1.5
_UPSERT_LEAST = 10.0


async def run(plan: Plan) -> Report:
    """Everything on tables of one size."""
    rows = plan.pick(quick=1_000_000, default=10_000_000, full=50_000_000)
    changed = plan.pick(quick=10_000, default=100_000, full=100_000)
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        async with open_spark_sides(server, bucket) as found:
            say(f"spark_write: {rows:,} rows")
            results = await _bulk(plan, found, rows)
            batches = _batches(found, changed, rows)
            results += await _upserts(plan, found, changed, batches)
            results += await _compactions(plan, found, rows, batches)
            held = []
            for side, table in _tables_of(found).values():
                count, files, size = await side.ask("held", name=table)
                held.append(f"{side.name}, {table}: {count:,} rows, {files} files, {size:,} bytes")
    return Report(
        name="spark_write",
        title=TITLE,
        scale=plan.scale,
        baseline=LAKEHOUSE,
        results=tuple(results),
        notes=("At the end:", *held, *peers_missing()),
        facts={"object_store": server.note, "rows": rows, "changed": changed},
    )


async def _bulk(plan: Plan, found: SparkSides, rows: int) -> list[Result]:
    say("spark_write: bulk")
    path = stage(found.folder, rows)
    cases = [Case(side=side.name, run=_asking(side.write, "orders", path)) for side in found.sides.values()]
    ours = found.sides[LAKEHOUSE]
    cases.append(Case(side=_NO_KEY, run=_asking(ours.write, "rows", path, primary_key=[], bucket=1)))
    if ICEBERG in found.sides:
        by_key = _asking(found.sides[ICEBERG].ask, "write_by_key", name="by_key", path=path, buckets=4)
        cases.append(Case(side=_BY_KEY, run=by_key))
    results = await compare(
        cases,
        work=rows,
        unit="rows",
        params={"what": "bulk write"},
        repeats=plan.pick(quick=2, default=3, full=2),
    )
    if ICEBERG in found.sides:
        await found.sides[ICEBERG].write("on_read", path, **_ON_READ_OPTIONS)
    return results


def _tables_of(found: SparkSides) -> dict[str, tuple[SparkSide, str]]:
    """The tables that are upserted into."""
    tables = {LAKEHOUSE: (found.sides[LAKEHOUSE], "orders")}
    if ICEBERG in found.sides:
        tables |= {ICEBERG: (found.sides[ICEBERG], "orders"), _ON_READ: (found.sides[ICEBERG], "on_read")}
    if DELTA in found.sides:
        tables[DELTA] = (found.sides[DELTA], "orders")
    return tables


def _batches(found: SparkSides, changed: int, rows: int) -> Iterator[str]:
    """Files of changes, never the same keys again."""
    return (stage_changes(found.folder, number, changed, rows) for number in itertools.count())


async def _upserts(plan: Plan, found: SparkSides, changed: int, batches: Iterator[str]) -> list[Result]:
    say("spark_write: upserts")
    rounds = 1 + plan.pick(quick=3, default=3, full=2)
    paths = list(itertools.islice(batches, rounds))
    cases = []
    for name, (side, table) in _tables_of(found).items():
        left = iter(paths)
        cases.append(Case(side=name, run=_each(side, "upsert", table, left)))
    return await compare(
        cases, work=changed, unit="rows", params={"what": "upsert"}, warmup=1, repeats=rounds - 1
    )


async def _compactions(plan: Plan, found: SparkSides, rows: int, batches: Iterator[str]) -> list[Result]:
    """Each after an upsert, so that there is something to do."""
    say("spark_write: compaction")
    rounds = 1 + plan.pick(quick=1, default=3, full=1)
    paths = list(itertools.islice(batches, rounds))
    cases = []
    for name, (side, table) in _tables_of(found).items():
        if name != ICEBERG:
            before = _each(side, "upsert", table, iter(paths))
            cases.append(Case(side=name, run=_asking(side.ask, "compact", name=table), before=before))
    return await compare(
        cases, work=rows, unit="rows", params={"what": "compaction"}, warmup=1, repeats=rounds - 1
    )


def _asking(do: Callable[..., Awaitable[Any]], *args: Any, **named: Any) -> Callable[[], Awaitable[Any]]:
    return lambda: do(*args, **named)


def _each(side: SparkSide, command: str, table: str, paths: Iterator[str]) -> Callable[[], Awaitable[Any]]:
    return lambda: side.ask(command, name=table, path=next(paths))


def goals(report: Report) -> list[Goal]:
    """Next to the others: time of bulk writes, how much faster upserts are, rate of compaction."""
    found = []
    for side, peer in ((LAKEHOUSE, ICEBERG), (LAKEHOUSE, _BY_KEY), (_NO_KEY, ICEBERG)):
        for theirs in report.where(what="bulk write", side=peer):
            slower = ratio(theirs, report.one(what="bulk write", side=side))
            found.append(
                Goal(
                    text=f"bulk write: time ({side}) ÷ time ({peer})",
                    target=f"≤ {_WRITE_MOST:g}",
                    measured=ratio_text(slower),
                    met=slower.median <= _WRITE_MOST,
                )
            )
    for side in (ICEBERG, _ON_READ, DELTA):
        for theirs in report.where(what="upsert", side=side):
            faster = ratio(report.one(what="upsert", side=LAKEHOUSE), theirs)
            found.append(
                Goal(
                    text=f"upsert: times faster than {side}",
                    target=f"≥ {_UPSERT_LEAST:g}",
                    measured=ratio_text(faster),
                    met=faster.median >= _UPSERT_LEAST,
                )
            )
    for side, name in ((_ON_READ, "rewrite_data_files"), (DELTA, "OPTIMIZE")):
        for theirs in report.where(what="compaction", side=side):
            faster = ratio(report.one(what="compaction", side=LAKEHOUSE), theirs)
            found.append(
                Goal(
                    text=f"compaction: rows/s ÷ those of {name}",
                    target="≥ 1",
                    measured=ratio_text(faster),
                    met=faster.median >= 1,
                )
            )
    return found


def tables(report: Report) -> list[Table]:
    """Time by work and side."""
    grid = pivot(
        report.results,
        title=f"{report.facts['rows']:,} rows, {report.facts['changed']:,} upserted",
        rows="what",
        columns="side",
        cell=lambda r: f"{seconds_text(r.wall.median)} ({r.rate:,.0f} rows/s)",
    )
    return [grid, default_table(report)]
