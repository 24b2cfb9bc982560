"""Bulk writes: a table of rows into a new table, in one commit, beside delta-rs.

Both sides write Parquet with their defaults to the same store. They do not do the same work: a table
with a primary key sorts the rows by key and drops all but the last of each, so that later upserts and
lookups find them; delta-rs writes them as they come. Creating the empty table is not timed.
"""

from __future__ import annotations

import pyarrow as pa

from benchmarks.model import Goal, Report, Result, ratio
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.table_peers import DELTA, LAKEHOUSE, Key, TableSide, open_table_sides, orders
from lakehouse.testing.endpoint import fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "run"]

TITLE = "Bulk writes"

_KEYS: tuple[Key, ...] = ("int64", "int64 sorted", "string")
_TARGET = 1.3


async def run(plan: Plan) -> Report:
    """Writes of each size and kind of key."""
    sizes = plan.pick(quick=(100_000,), default=(100_000, 1_000_000), full=(100_000, 1_000_000, 10_000_000))
    results: list[Result] = []
    files: dict[str, str] = {}
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        async with open_table_sides(server, bucket) as sides:
            for rows in sizes:
                for key in _KEYS:
                    say(f"bulk_write: {rows:,} rows, {key} key")
                    table = orders(rows, key)
                    results += await compare(
                        [_case(side, table) for side in sides.values()],
                        work=rows,
                        unit="rows",
                        params={"rows": rows, "key": key},
                        warmup=plan.warmup,
                        repeats=plan.pick(quick=2, default=5, full=5 if rows > 1_000_000 else 15),
                    )
                    for side in sides.values():
                        held, count, size = await side.held()
                        assert held == rows, f"{side.name} holds {held:,} of {rows:,} rows"
                        files[f"{side.name}, {rows:,} rows, {key}"] = f"{count} files, {size:,} bytes"
    return Report(
        name="bulk_write",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        baseline=DELTA,
        notes=(
            "Five columns: the key, an int64, a text of 9 characters, a double, a timestamp.",
            "Client and store share the machine, so the store's CPU time limits the client's.",
            *(f"{what}: {held}" for what, held in files.items()),
        ),
        facts={"object_store": server.note},
    )


def goals(report: Report) -> list[Goal]:
    """What writes promise next to delta-rs, of rows in random order by an int64 key."""
    found = []
    for result in report.where(side=LAKEHOUSE, key="int64"):
        rows = int(result.params["rows"])
        if rows < 1_000_000:
            continue
        slower = 1 / ratio(result, report.one(side=DELTA, **result.params)).median
        found.append(
            Goal(
                text=f"time of {rows:,} rows, lakehouse ÷ delta-rs",
                target=f"≤ {_TARGET:g}",
                measured=f"{slower:.2f}",
                met=slower <= _TARGET,
            )
        )
    return found


def _case(side: TableSide, rows: pa.Table) -> Case:
    async def create() -> None:
        await side.create(rows.schema)

    async def write() -> None:
        await side.write(rows)

    return Case(side=side.name, run=write, before=create)
