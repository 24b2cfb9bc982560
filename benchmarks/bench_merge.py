"""Scans that merge: a table under five upserts, the same table in one run, and delta-rs's scan of it.

Delta-rs scans a table that holds what the merge comes to, so it has less to read and nothing to
merge; that is what a merge on reading is measured against. All sides hand the whole table over as
Arrow; all have read the table's metadata before, and ask whether there is a newer version first.

Besides: the merge alone, on one core, by kind of key; the fold of two columns by merge engine; rows by
key; and how many bytes a scan reads when a condition leaves one of a hundred files.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks.model import Goal, Report, Result, Table, ratio
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.table_peers import DELTA, LAKEHOUSE, Key, orders
from benchmarks.tables import pivot, seconds_text
from lakehouse.format.schema.table_schema import schema_from_arrow
from lakehouse.format.schema.types import Field, Primitive, StringType
from lakehouse.lake import Lake, connect
from lakehouse.storage.merge.engines import fold, merge_engine
from lakehouse.storage.merge.ordering import merge_order, survivors
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.table import Table as LakeTable
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "Merged scans"

_MERGED, _ONE_RUN = f"{LAKEHOUSE}, 6 runs", f"{LAKEHOUSE}, 1 run"
_UPSERTS = 5
_FILES = 100
_SCAN_TARGET, _ONE_RUN_TARGET, _BYTES_TARGET = 1.5, 1.1, 1.5
_SEED = 41
_ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "deduplicate by sequence": {"sequence.field": "a"},
    "partial-update": {"merge_engine": "partial-update"},
    "sums": {"merge_engine": "aggregation", "fields.a.aggregate": "sum", "fields.b.aggregate": "sum"},
}


async def run(plan: Plan) -> Report:
    """Scans of each size and kind of key, lookups, one file of many, and the kernel."""
    sizes = plan.pick(quick=(100_000,), default=(1_000_000,), full=(1_000_000, 10_000_000))
    keys: tuple[Key, ...] = ("int64", "string")
    results: list[Result] = []
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        options: dict[str, Any] = {**server.storage_options, "endpoint_url": server.endpoint_url}
        async with connect(f"s3://{bucket}/lake", storage_options=options) as lake:
            await lake.create_database("bench")
            for rows in sizes:
                for key in keys:
                    results += await _scans(plan, lake, _delta_of(server, bucket), rows, key)
            file_bytes, filtered = await _one_of_many(plan, lake)
        results.append(filtered)
    for name in ("int64", "string", "uuid", "int64, int32", "string, int32"):
        results += await _kernel(plan, name)
    for name in _ENGINES:
        results += await _fold(plan, name)
    return Report(
        name="merge",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        baseline=DELTA,
        notes=(
            f"{_UPSERTS} upserts, each of a tenth of the rows, on top of the table; all overlap.",
            "Five columns: the key, an int64, a text of 9 characters, a double, a timestamp.",
            "Client and store share the machine, so the store's CPU time limits the client's.",
        ),
        facts={"object_store": server.note, "file_bytes": file_bytes},
    )


def _delta_of(server: ServerInfo, bucket: str) -> tuple[str, dict[str, str]]:
    return f"s3://{bucket}/delta", {
        "AWS_ENDPOINT_URL": server.endpoint_url,
        "AWS_ACCESS_KEY_ID": server.key,
        "AWS_SECRET_ACCESS_KEY": server.secret,
        "AWS_REGION": server.region or "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


async def _scans(
    plan: Plan, lake: Lake, delta: tuple[str, dict[str, str]], rows: int, key: Key
) -> list[Result]:
    say(f"merge: {rows:,} rows, {key} key")
    random = np.random.default_rng(_SEED)
    table = orders(rows, key)
    name = f"{key}_{rows}"
    merged = await lake.create_table(f"bench.merged_{name}", table.schema, primary_key=["id"])
    single = await lake.create_table(f"bench.single_{name}", table.schema, primary_key=["id"])
    await merged.append(table)
    for _ in range(_UPSERTS):
        await merged.upsert(table.take(pa.array(random.choice(rows, rows // 10, replace=False))))
    final = await merged.scan().to_arrow()
    await single.append(final)
    url, options = f"{delta[0]}/{name}", delta[1]
    await asyncio.to_thread(write_deltalake, url, final, storage_options=options)
    peer = await asyncio.to_thread(DeltaTable, url, storage_options=options)
    del final

    async def ours(scanned: LakeTable) -> None:
        assert (await scanned.scan().to_arrow()).num_rows == rows

    def scan_theirs() -> None:
        peer.update_incremental()
        assert peer.to_pyarrow_table().num_rows == rows

    async def theirs() -> None:
        await asyncio.to_thread(scan_theirs)

    found = await compare(
        [
            Case(side=_MERGED, run=lambda: ours(merged)),
            Case(side=_ONE_RUN, run=lambda: ours(single)),
            Case(side=DELTA, run=theirs),
        ],
        work=rows,
        unit="rows",
        params={"what": "scan", "rows": rows, "key": key},
        warmup=2,
        repeats=plan.pick(quick=3, default=9, full=15),
    )
    wanted = table.select(["id"]).take(pa.array(random.choice(rows, 10_000, replace=False)))

    async def look_up() -> None:
        assert (await merged.get_many(wanted)).num_rows == wanted.num_rows

    found += await compare(
        [Case(side=_MERGED, run=look_up)],
        work=wanted.num_rows,
        unit="keys",
        params={"what": "get_many", "rows": rows, "key": key},
        warmup=plan.warmup,
        repeats=plan.repeats,
    )
    return found


async def _one_of_many(plan: Plan, lake: Lake) -> tuple[int, Result]:
    """A scan whose condition one of a hundred files can match, nothing cached, and the size of that file."""
    say(f"merge: one of {_FILES} files")
    rows = plan.pick(quick=2_000, default=20_000, full=50_000)
    table = orders(rows * _FILES, "int64 sorted")
    split = await lake.create_table("bench.split", table.schema, primary_key=["id"])
    for at in range(_FILES):
        part = table.slice(at * rows, rows)
        part = part.set_column(1, "customer", pa.array(np.full(rows, at)))
        await split.append(part)
    wanted = _FILES // 2
    where = f"customer = {wanted}"

    async def scan() -> None:
        assert (await split.scan(where).to_arrow()).num_rows == rows

    (result,) = await compare(
        [Case(side=LAKEHOUSE, run=scan, before=lake.caches.invalidate_all)],
        work=1,
        unit="scans",
        params={"what": "filter", "rows": rows * _FILES, "key": "int64"},
        warmup=plan.warmup,
        repeats=plan.repeats,
    )
    files = await split.files()
    return sorted(files["bytes"].to_pylist())[_FILES // 2], result


async def _kernel(plan: Plan, name: str) -> list[Result]:
    """The merge of six runs, without reading or fetching a column."""
    say(f"merge: kernel, {name}")
    rows = plan.pick(quick=100_000, default=1_000_000, full=1_000_000)
    random = np.random.default_rng(_SEED)
    fields, base = _keys(name, rows, random)
    keys = KeyColumns(fields)
    runs = [base]
    for _ in range(_UPSERTS):
        runs.append(base.take(pa.array(np.sort(random.choice(rows, rows // 10, replace=False)))))  # noqa: PERF401

    def merge() -> None:
        assert len(survivors(merge_order(keys.arrays(runs)), None)) == rows

    return await compare(
        [Case(side=LAKEHOUSE, run=merge)],
        work=sum(run.num_rows for run in runs),
        unit="rows",
        params={"what": "kernel", "rows": rows, "key": name},
        warmup=plan.warmup,
        repeats=plan.pick(quick=2, default=5, full=9),
    )


async def _fold(plan: Plan, name: str) -> list[Result]:
    """The fold of six runs by a merge engine, their key and two columns, rows as readers see them."""
    say(f"merge: fold, {name}")
    rows = plan.pick(quick=100_000, default=1_000_000, full=1_000_000)
    random = np.random.default_rng(_SEED)
    columns = pa.schema({"id": pa.int64(), "a": pa.int64(), "b": pa.int64()})
    schema = schema_from_arrow(columns, primary_key="id", options=_ENGINES[name])
    engine, keys = merge_engine(schema), KeyColumns(schema.key_fields)
    base = np.arange(rows) * 7
    runs = []
    for ids in (base, *(np.sort(random.choice(base, rows // 10, replace=False)) for _ in range(_UPSERTS))):
        nulls = random.random(len(ids)) < 0.5 if "partial-update" in name else None
        values = [pa.array(random.integers(0, 1_000, len(ids)), mask=nulls) for _ in range(2)]
        rows_of_run = pa.table([pa.array(ids), *values], schema=schema.arrow())
        runs.append(engine.operands(rows_of_run) if runs else rows_of_run)

    def merge() -> None:
        assert fold(merge_order(keys.arrays(runs)), runs, engine, finish=True).num_rows == rows

    return await compare(
        [Case(side=LAKEHOUSE, run=merge)],
        work=sum(run.num_rows for run in runs),
        unit="rows",
        params={"what": "fold", "rows": rows, "key": name},
        warmup=plan.warmup,
        repeats=plan.pick(quick=2, default=5, full=9),
    )


def _keys(name: str, rows: int, random: np.random.Generator) -> tuple[Sequence[Field], pa.Table]:
    """Key columns and sorted keys."""
    numbers = np.arange(rows)
    columns: dict[str, pa.Array] = {
        "int64": pa.array(numbers * 7),
        "string": pa.array([f"order-{number:010}" for number in numbers]),
        "uuid": pa.array(sorted(str(uuid.UUID(bytes=random.bytes(16))) for _ in range(rows))),
        "int32": pa.array((numbers % 100).astype(np.int32)),
    }
    types = {"int64": Primitive("int64"), "int32": Primitive("int32")}
    names = name.split(", ")
    fields = [
        Field(id=at, name=f"k{at}", type=types.get(one, StringType()), required=True)
        for at, one in enumerate(names, 1)
    ]
    if len(names) == 1:
        return fields, pa.table([columns[name]], names=["k1"])
    first = columns[names[0]].take(pa.array(numbers // 100))
    return fields, pa.table([first, columns[names[1]]], names=["k1", "k2"])


def goals(report: Report) -> list[Goal]:
    """Merged and plain scans next to delta-rs by an int64 key, and the bytes of a selective scan."""
    found = []
    for side, target in ((_MERGED, _SCAN_TARGET), (_ONE_RUN, _ONE_RUN_TARGET)):
        for result in report.where(side=side, what="scan", key="int64"):
            slower = 1 / ratio(result, report.one(**{**result.params, "side": DELTA})).median
            rows = int(result.params["rows"])
            found.append(
                Goal(
                    text=f"scan of {rows:,} rows, {side} ÷ delta-rs",
                    target=f"≤ {target:g}",
                    measured=f"{slower:.2f}",
                    met=None if rows < 1_000_000 else slower <= target,
                )
            )
    filtered, size = report.one(what="filter"), int(report.facts["file_bytes"])
    found.append(
        Goal(
            text=f"bytes read when 1 of {_FILES} files matches ÷ bytes of the file",
            target=f"≤ {_BYTES_TARGET:g}",
            measured=f"{filtered.bytes_read / size:.2f}",
            met=filtered.bytes_read <= _BYTES_TARGET * size,
        )
    )
    return found


def tables(report: Report) -> list[Table]:
    """Scans, what they cost this process, and the kernel by kind of key."""
    scans = report.where(what="scan")
    return [
        pivot(
            scans,
            title="Scan of the whole table: wall time",
            rows="key",
            columns="side",
            cell=lambda r: seconds_text(r.wall.median),
        ),
        pivot(
            scans,
            title="Scan of the whole table: CPU of the client",
            rows="key",
            columns="side",
            cell=lambda r: seconds_text(r.cpu.median),
        ),
        pivot(
            [*report.where(what="get_many"), *report.where(what="filter")],
            title="10,000 rows by key under 6 runs, and a scan that one file can match",
            rows="key",
            columns="what",
            cell=lambda r: f"{seconds_text(r.wall.median)}, {sum(r.requests.values()):.0f} requests",
        ),
        pivot(
            report.where(what="kernel"),
            title="Merge of six runs on one core: million rows a second",
            rows="key",
            columns="side",
            cell=lambda r: f"{1e-6 / r.cpu_per_unit:.1f}",
        ),
        pivot(
            report.where(what="fold"),
            title="Fold of two columns of six runs: million rows a second of CPU",
            rows="key",
            columns="side",
            cell=lambda r: f"{1e-6 / r.cpu_per_unit:.1f}",
        ),
    ]
