"""Upserts into a table that has rows, the scan that merges them, and a scan that wants one file of many.

A batch replaces nine rows for every one that it adds, anywhere in the table. lakehouse and pypaimon
add a sorted run and leave the older rows where they are; delta-rs and pyiceberg rewrite the files that
hold them. So the scan afterwards is timed as well: of a table and five runs that overlap it, beside the
tables that were rewritten. The last part reads one file of a hundred, found by key or by another column.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.model import Goal, Params, Report, Result, Table, ratio
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.table_peers import (
    DELTA,
    LAKEHOUSE,
    PYICEBERG,
    PYPAIMON,
    Key,
    TableSide,
    open_table_sides,
    orders,
    peers_missing,
)
from benchmarks.tables import pivot, ratio_text, seconds_text
from lakehouse.lake import connect
from lakehouse.storage.scan.table_scan import TableScan
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "batch", "goals", "run", "tables"]

TITLE = "Upserts and merged scans"

_KEYS: tuple[Key, ...] = ("int64", "string")
_MILLION, _TEN_MILLION = 1_000_000, 10_000_000
_RUNS = 5
_EVERYBODY = (LAKEHOUSE, DELTA, PYICEBERG, PYPAIMON)
_OF_MANY = (LAKEHOUSE, DELTA)
"""Who takes part with ten million rows: the others take minutes for each batch."""
_FILES, _WANTED = 100, 57
_FASTER = {
    (DELTA, _MILLION): 3,
    (DELTA, _TEN_MILLION): 10,
    (PYICEBERG, _MILLION): 50,
    (PYPAIMON, _MILLION): 20,
}
_SCAN_MOST, _BYTES_MOST = 1.5, 1.5


async def run(plan: Plan) -> Report:
    """Upserts and scans by size and key, then the filtered scans."""
    sizes = plan.pick(quick=(100_000,), default=(_MILLION,), full=(_MILLION, _TEN_MILLION))
    results: list[Result] = []
    held: list[str] = []
    with best_server() as server:
        for rows, key in itertools.product(sizes, _KEYS):
            if rows == _TEN_MILLION and key == "string":
                continue
            names = _EVERYBODY if rows <= _MILLION else _OF_MANY
            with fresh_bucket(server, "bench") as bucket:
                async with open_table_sides(server, bucket, names) as sides:
                    results += await _upserts(plan, list(sides.values()), rows, key, held)
        say("table_upsert: one file of many")
        with fresh_bucket(server, "bench") as bucket:
            filtered, facts = await _filtered(plan, server, bucket)
    return Report(
        name="table_upsert",
        title=TITLE,
        scale=plan.scale,
        results=(*results, *filtered),
        baseline=DELTA,
        notes=(
            "Five columns: the key, an int64, a text of 9 characters, a double, a timestamp.",
            "delta-rs: merge; pyiceberg: Table.upsert; pypaimon: a table with a primary key, one bucket.",
            f"Every side takes the same {_RUNS} batches, one after the other, the first of them untimed.",
            "Client and store share the machine, so the store's CPU time limits the client's.",
            *held,
            *peers_missing(),
        ),
        facts={"object_store": server.note, **facts},
    )


def batch(base: pa.Table, rows: int, key: Key, number: int) -> pa.Table:
    """Rows of which nine in ten replace some of ``base``, and the others are new."""
    old = rows * 9 // 10
    random = np.random.default_rng(1_000 + number)
    places = random.choice(base.num_rows, old, replace=False)
    new = orders(rows - old, key, first=base.num_rows + number * rows)["id"].combine_chunks()
    ids = pa.concat_arrays([base["id"].combine_chunks().take(pa.array(places)), new])
    order = pa.array(random.permutation(rows))
    return orders(rows, "int64", seed=2_000 + number).set_column(0, "id", ids.take(order))


async def _upserts(
    plan: Plan, sides: Sequence[TableSide], rows: int, key: Key, held: list[str]
) -> list[Result]:
    """Batches into a table of so many rows, then scans of what came out."""
    base = orders(rows, key)
    size = plan.pick(quick=10_000, default=100_000, full=100_000)
    for side in sides:
        say(f"table_upsert: {side.name} writes {rows:,} rows, {key} key")
        await side.create(base.schema)
        await side.write(base)
    batches = [batch(base, size, key, number) for number in range(_RUNS)]
    say(f"table_upsert: {_RUNS} batches of {size:,}")
    results = await compare(
        [_upsert_case(side, batches) for side in sides],
        work=size,
        unit="rows",
        params={"what": "upsert", "rows": rows, "key": key},
        warmup=1,
        repeats=_RUNS - 1,
    )
    total = rows + _RUNS * (size - size * 9 // 10)
    for side in sides:
        assert await side.scan() == total, f"{side.name} lost rows"
        _, files, nbytes = await side.held()
        held.append(f"{side.name}, {rows:,} rows, {key}, upserted: {files} files, {nbytes:,} bytes")
    say("table_upsert: scans")
    results += await compare(
        [Case(side=side.name, run=side.scan) for side in sides],
        work=total,
        unit="rows",
        params={"what": "scan", "rows": rows, "key": key},
        warmup=plan.warmup,
        repeats=plan.pick(quick=2, default=5, full=7),
    )
    return results


def _upsert_case(side: TableSide, batches: Sequence[pa.Table]) -> Case:
    left = iter(batches)

    async def upsert() -> None:
        await side.upsert(next(left))

    return Case(side=side.name, run=upsert)


# --- one file of many -------------------------------------------------------------------


async def _filtered(plan: Plan, server: ServerInfo, bucket: str) -> tuple[list[Result], dict[str, Any]]:
    """Scans that want one file of a hundred, and what they read to get it."""
    each = plan.pick(quick=2_000, default=10_000, full=20_000)
    low, high = _WANTED * each * 7, ((_WANTED + 1) * each - 1) * 7
    conditions = {
        "key": f"id >= {low} AND id <= {high}",
        "other column": f"customer >= {_WANTED * 1000} AND customer < {(_WANTED + 1) * 1000}",
    }
    options = {**server.storage_options, "endpoint_url": server.endpoint_url}
    results: list[Result] = []
    async with connect(f"s3://{bucket}/filtered", storage_options=options) as lake:
        await lake.create_database("bench")
        table = await lake.create_table("bench.parts", _part(0, each).schema, primary_key=["id"])
        for number in range(_FILES):
            await table.upsert(_part(number, each))
        files = (await table.files()).to_pylist()
        (wanted,) = (one["bytes"] for one in files if one["min_key"] == {"id": low})
        for what, condition in conditions.items():
            results += await compare(
                [
                    _filter_case(f"s3://{bucket}/filtered", options, condition, each, known)
                    for known in (False, True)
                ],
                work=1,
                unit="scans",
                params={"what": "filter", "by": what},
                warmup=plan.warmup,
                repeats=plan.repeats,
            )
    return results, {"wanted_bytes": wanted, "files": len(files)}


def _filter_case(url: str, options: dict[str, Any], condition: str, rows: int, known: bool) -> Case:
    """A scan over a connection of its own, which knows the table's snapshot or nothing of it."""
    stack = contextlib.AsyncExitStack()
    scan: TableScan

    async def open_scan() -> None:
        nonlocal scan
        lake = await stack.enter_async_context(connect(url, storage_options=options))
        scan = (await lake.table("bench.parts")).scan(condition)

    async def before() -> None:
        await stack.aclose()
        if known:
            await open_scan()
            await scan.explain()

    async def read() -> None:
        if not known:
            await open_scan()
        assert (await scan.to_arrow()).num_rows == rows

    return Case(side="snapshot known" if known else "nothing known", run=read, before=before)


def _part(number: int, rows: int) -> pa.Table:
    """The rows of one file: a range of keys, and of another column, of its own."""
    table = orders(rows, "int64", seed=number, first=number * rows)
    customers = pa.array(np.random.default_rng(number).integers(0, 1_000, rows) + number * 1_000)
    return table.set_column(1, "customer", customers)


# --- what it says -----------------------------------------------------------------------


def goals(report: Report) -> list[Goal]:
    """How much faster than peers upserts are, how long merged scans take, what filtered scans read."""
    found = []
    for (peer, rows), least in _FASTER.items():
        params = {"what": "upsert", "rows": rows, "key": "int64"}
        for ours, theirs in _pairs(report, peer, params):
            faster = ratio(ours, theirs)
            found.append(
                Goal(
                    text=f"upsert into {rows:,} rows: times faster than {peer}",
                    target=f"≥ {least}",
                    measured=ratio_text(faster),
                    met=faster.median >= least,
                )
            )
    for ours, theirs in _pairs(report, DELTA, {"what": "scan", "rows": _MILLION, "key": "int64"}):
        slower = ratio(theirs, ours)
        found.append(
            Goal(
                text=f"scan of {_MILLION:,} rows under {_RUNS} runs ÷ delta-rs's of its merged table",
                target=f"≤ {_SCAN_MOST:g}",
                measured=ratio_text(slower),
                met=slower.median <= _SCAN_MOST,
            )
        )
    for result in report.where(what="filter"):
        share = result.bytes_read / report.facts["wanted_bytes"]
        found.append(
            Goal(
                text=f"1 of {report.facts['files']} files by {result.params['by']}, {result.side}: "
                "bytes read ÷ bytes of the file",
                target=f"≤ {_BYTES_MOST:g}",
                measured=f"{share:.2f}",
                met=share <= _BYTES_MOST,
            )
        )
    return found


def _pairs(report: Report, peer: str, params: Params) -> list[tuple[Result, Result]]:
    """Our result and the peer's, as far as this run has them."""
    both = report.where(side=LAKEHOUSE, **params), report.where(side=peer, **params)
    return list(zip(*both, strict=False))


def tables(report: Report) -> list[Table]:
    """Times of upserts and scans by side, and what filtered scans took."""
    grids = [
        pivot(
            [_labelled(result) for result in report.where(what=what)],
            title=title,
            rows="table",
            columns="side",
            cell=_time_and_ratio(report),
        )
        for what, title in (("upsert", "Upsert of one batch"), ("scan", f"Scan after {_RUNS} upserts"))
    ]
    filtered = pivot(
        report.where(what="filter"),
        title="One file of many: time, requests and bytes",
        rows="by",
        columns="side",
        cell=lambda r: f"{seconds_text(r.wall.median)}, {sum(r.requests.values()):g}, {r.bytes_read:,.0f}",
        note=f"The file has {report.facts['wanted_bytes']:,} bytes.",
    )
    return [*grids, filtered]


def _labelled(result: Result) -> Result:
    label = f"{result.params['rows']:,} rows, {result.params['key']} key"
    return dataclasses.replace(result, params={**result.params, "table": label})


def _time_and_ratio(report: Report) -> Callable[[Result], str]:
    def cell(result: Result) -> str:
        params = {name: value for name, value in result.params.items() if name != "table"}
        (ours,) = report.where(side=LAKEHOUSE, **params)
        times = "" if result.side == LAKEHOUSE else f" ({ratio(ours, result).median:.2f} ×)"
        return f"{seconds_text(result.wall.median)}{times}"

    return cell
