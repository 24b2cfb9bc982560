"""A star join over an Iceberg table on Spark: our planning of the fact next to Iceberg's own runtime.

Iceberg's runtime writes the fact by Spark, in 200 partitions of two specs: ten days by ten buckets of the
customer, then, after the spec has changed, twenty days by five. No partition is by a column as it is. The
small sides are local files: all customers, three of whom are gold, and all days, two of which are holidays.

`lakehouse.spark.join` gets the gold customers on holidays as one small side, and plans the fact by its keys,
through both transforms of both specs; with the filter off it reads all partitions. Iceberg gets both joins in
SQL: Spark plans them, with its runtime filters on. Each side has a session of two cores on this machine, and
all come to the same values.

Bytes are those that came from the store, headers and metadata included, counted by a relay that all go
through. Our caches are off, so that every round fetches metadata and data anew; Iceberg keeps the metadata
that its catalog caches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.model import Goal, Report, Table, ratio
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.spark_rows import stage, stage_dimensions
from benchmarks.spark_sides import ICEBERG, LAKEHOUSE, SparkSides, open_spark_sides, peers_missing
from benchmarks.tables import default_table, pivot, ratio_text, seconds_text
from lakehouse.testing.endpoint import fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "A star join over an Iceberg table on Spark"

_OFF = "lakehouse, filter off"
_TURN = "2026-01-11"
"""Day from which on the second spec holds."""
_LEAST = 5.0


async def run(plan: Plan) -> Report:
    """The join by each side, over one table."""
    rows = plan.pick(quick=500_000, default=10_000_000, full=10_000_000)
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        async with open_spark_sides(server, bucket, sides=(LAKEHOUSE, ICEBERG)) as found:
            if ICEBERG not in found.sides:
                raise SystemExit(f"nobody writes the table: {' '.join(peers_missing())}")
            say(f"iceberg_join: {rows:,} rows")
            iceberg, path = found.sides[ICEBERG], stage(found.folder, rows)
            url = await iceberg.ask("write_star", name="star", path=path, turn=_TURN)
            count, files, size = await iceberg.ask("held", name="star")
            answers: dict[str, Any] = {}
            cases = _sides(found, url, stage_dimensions(found.folder), answers)
            timed = await compare(
                [Case(side=name, run=ask) for name, ask in cases.items()],
                work=rows,
                unit="rows",
                params={"what": "star join"},
                warmup=plan.warmup,
                repeats=plan.repeats,
            )
            results = []
            for result in timed:
                before = found.wire.received
                await cases[result.side]()
                results.append(dataclasses.replace(result, bytes_read=found.wire.received - before))
    assert len({tuple(answer) for answer in answers.values()}) == 1, f"the sides differ: {answers}"
    return Report(
        name="iceberg_join",
        title=TITLE,
        scale=plan.scale,
        baseline=ICEBERG,
        results=tuple(results),
        notes=(
            f"The fact: {count:,} rows, {files} files, {size:,} bytes.",
            f"{answers[LAKEHOUSE][0]:,} rows have a partner.",
        ),
        facts={"object_store": server.note, "rows": rows},
    )


def _sides(
    found: SparkSides, url: str, dims: str, answers: dict[str, Any]
) -> dict[str, Callable[[], Awaitable[None]]]:
    def ours(name: str, *, runtime: bool) -> Callable[[], Awaitable[None]]:
        async def ask() -> None:
            answers[name] = await found.sides[LAKEHOUSE].ask(
                "star_join", url=url, folder=dims, runtime_filter=runtime
            )

        return ask

    async def theirs() -> None:
        answers[ICEBERG] = await found.sides[ICEBERG].ask("star_join", name="star", folder=dims)

    return {
        LAKEHOUSE: ours(LAKEHOUSE, runtime=True),
        _OFF: ours(_OFF, runtime=False),
        ICEBERG: theirs,
    }


def goals(report: Report) -> list[Goal]:
    """What the runtime filter saves in bytes, beside no filter and beside Iceberg's runtime."""
    on, off, theirs = (report.one(side=side) for side in (LAKEHOUSE, _OFF, ICEBERG))
    faster = ratio(theirs, on)
    return [
        Goal(
            text="bytes without ÷ with the runtime filter",
            target=f"≥ {_LEAST:g}",
            measured=f"{off.bytes_read / on.bytes_read:.1f}",
            met=off.bytes_read >= _LEAST * on.bytes_read,
        ),
        Goal(
            text="bytes: Iceberg's ÷ ours",
            target="≥ 1",
            measured=f"{theirs.bytes_read / on.bytes_read:.1f}",
            met=theirs.bytes_read >= on.bytes_read,
        ),
        Goal(
            text="time ÷ Iceberg's",
            target="≤ 1",
            measured=ratio_text(faster),
            met=faster.median <= 1,
        ),
    ]


def tables(report: Report) -> list[Table]:
    """Time and bytes by side."""
    return [
        pivot(
            report.results,
            title=f"A star join over {report.facts['rows']:,} rows: time, bytes read",
            rows="what",
            columns="side",
            cell=lambda r: f"{seconds_text(r.wall.median)}, {r.bytes_read / 1e6:,.2f} MB",
        ),
        default_table(report),
    ]
