"""The tables of the demo: rows written, replaced, deleted, found, and read as they were."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.cli.output import console, print_table
from lakehouse.io.cost import measure
from lakehouse.io.work import map_bounded
from lakehouse.lake import Lake
from lakehouse.storage.table import Table

__all__ = ["show_tables"]

_COMMITS = 20
_WRITERS = 4
_CITIES = np.array([f"city-{number}" for number in range(50)])


def _orders(ids: np.ndarray[Any, Any], seed: int) -> pa.Table:
    """Makes rows for these keys."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": ids,
            "city": _CITIES[random.integers(0, len(_CITIES), len(ids))],
            "amount": np.round(random.gamma(2, 50, len(ids)), 2),
        }
    )


class _Steps:
    """Steps that were taken: what was done, its seconds, its requests and its bytes."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, str]] = []

    async def take(self, what: str, work: Awaitable[Any]) -> Any:
        """Does one step, measures it, and returns its result."""
        started = time.perf_counter()
        with measure() as cost:
            result = await work
        requests = ", ".join(f"{count} {kind}" for kind, count in cost.by_kind().items())
        moved = f"{(cost.bytes_read + cost.bytes_written) / 1e6:.2f} MB"
        self.rows.append((what, f"{time.perf_counter() - started:.3f}", requests, moved))
        return result


async def show_tables(lake: Lake, rows: int) -> None:
    """Writes a table of so many rows, changes it, and reads it in every way there is."""
    await lake.create_database("demo", if_not_exists=True)
    schema = pa.schema({"id": pa.int64(), "city": pa.string(), "amount": pa.float64()})
    orders = await lake.create_table("demo.orders", schema, primary_key="id", bucket=2)
    random = np.random.default_rng(7)
    steps, tenth = _Steps(), rows // 10
    first = await steps.take(f"append {rows:,} rows", orders.append(_orders(random.permutation(rows), 1)))
    await steps.take("tag that state", orders.create_tag("yesterday", snapshot=first.snapshot))
    changed = random.integers(0, rows + tenth, tenth)
    await steps.take(f"upsert {tenth:,} rows, some new", orders.upsert(_orders(np.unique(changed), 2)))
    await steps.take("delete where city = 'city-7'", orders.delete("city = 'city-7'"))
    await steps.take("get one row by key", orders.get({"id": int(changed[0])}))
    await steps.take("get it again", orders.get({"id": int(changed[0])}))
    now = await steps.take("read all rows, merged", orders.scan().to_arrow())
    then = await steps.take("read them as they were", orders.scan(tag="yesterday").to_arrow())
    large = await steps.take("read those with amount > 400", orders.scan("amount > 400").to_arrow())
    await steps.take("count what changed", _count_changes(orders, first.snapshot))
    await steps.take("add a column with a default", orders.add_column("currency", "string", default="EUR"))
    print_table(("step", "s", "requests", "moved"), steps.rows, right=("s", "moved"))
    console().print(
        f"{then.num_rows:,} rows then, {now.num_rows:,} now, {large.num_rows:,} of them with amount > 400"
    )
    await _show_commits(lake, schema)


async def _count_changes(orders: Table, since: int) -> int:
    return sum([table.num_rows async for table in orders.changes(since)])


async def _show_commits(lake: Lake, schema: pa.Schema) -> None:
    """Lets several writers commit at once, each as if it were alone."""
    await lake.create_table("demo.counters", schema, primary_key="id")
    writers = [await lake.table("demo.counters") for _ in range(_WRITERS)]

    async def write(number: int) -> int:
        attempts = 0
        for turn in range(_COMMITS):
            row = {"id": number * _COMMITS + turn, "city": "x", "amount": 1.0}
            attempts += (await writers[number].append([row])).attempts
        return attempts

    started = time.perf_counter()
    with measure() as cost:
        attempts = sum([count async for count in map_bounded(write, range(_WRITERS), _WRITERS)])
    seconds = time.perf_counter() - started
    commits = _WRITERS * _COMMITS
    there = await (await lake.table("demo.counters")).scan().count()
    console().print(
        f"{_WRITERS} writers x {_COMMITS} commits to one table: {there} of {commits} there, "
        f"{commits / seconds:,.0f} commits/s, {cost.requests / commits:.1f} requests and "
        f"{attempts / commits:.1f} attempts per commit"
    )
