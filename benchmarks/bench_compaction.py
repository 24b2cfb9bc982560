"""Full compaction of ten runs that overlap everywhere, the scan after it, and the memory it takes.

Every run spans the whole range of keys, and a tenth of its rows replace rows of the run before: the most
work there is to merge. Before each round the table is rolled back to the snapshot with the runs. The scan of
the compacted table is timed beside pyarrow's of a plain Parquet dataset of the same rows in the same bucket.
Memory is that of a process of its own, which has compacted a small table before, so that everything is
loaded: what it grows by, and what Arrow holds of it, looked at every five milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet as pq

from benchmarks.model import Goal, Report, Result, Table, ratio
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.table_peers import LAKEHOUSE, orders
from benchmarks.tables import pivot, ratio_text, seconds_text
from benchmarks.worker import started
from lakehouse.lake import Lake, connect
from lakehouse.storage.table import Table as LakeTable
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "run", "run_of", "tables"]

TITLE = "Compaction, and scans after it"

_MIB = 1024**2
_RUNS = 10
_PYARROW = "pyarrow"
_MILLION, _TEN_MILLION = 1_000_000, 10_000_000
_RATE_LEAST, _SCAN_MOST = 1_000_000, 1.1
_MEMORY = {"table.compaction_memory_bytes": 512 * _MIB, "cache.max_bytes": 32 * _MIB}
_MEMORY_MOST = {"grown": 1.5, "held": 1.0}
"""Of the setting: rows keep to it, allocators keep some of what they had."""
_WHAT = {"grown": "growth of the process", "held": "memory that Arrow holds"}
_NAME, _SMALL = "bench.runs", "bench.small"
_SMALL_ROWS = 200_000


async def run(plan: Plan) -> Report:
    """Compaction and scans by size, then memory."""
    sizes = plan.pick(quick=(200_000,), default=(_MILLION,), full=(_MILLION, _TEN_MILLION))
    results: list[Result] = []
    with best_server() as server:
        for rows in sizes:
            with fresh_bucket(server, "bench") as bucket:
                options = {**server.storage_options, "endpoint_url": server.endpoint_url}
                async with connect(f"s3://{bucket}/lake", storage_options=options) as lake:
                    results += await _timed(plan, lake, server, bucket, rows)
                results += await _memory(f"s3://{bucket}/lake", options, rows)
    return Report(
        name="compaction",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        baseline=_PYARROW,
        notes=(
            f"{_RUNS} runs of a tenth of the rows each, keys of every run all over the range; one bucket.",
            "Five columns: an int64 key, an int64, a text of 9 characters, a double, a timestamp.",
            "Rows per second are rows read.",
            "pyarrow: dataset(…).to_table() through pyarrow.fs; files as pyarrow.parquet writes them.",
            "Memory: most resident bytes of a process above those before, with "
            + ", ".join(f"{name} = {value // _MIB} MiB" for name, value in _MEMORY.items())
            + ".",
            "Client and store share the machine, so the store's CPU time limits the client's.",
        ),
        facts={"object_store": server.note},
    )


def run_of(rows: int, number: int) -> pa.Table:
    """One of the runs of a table of so many rows: keys all over, a tenth of them those of the run before."""
    each = rows // _RUNS
    ids = np.arange(number, rows, _RUNS)[:each]
    if number:
        ids[::10] -= 1
    np.random.default_rng(number).shuffle(ids)
    return orders(each, "int64", seed=number).set_column(0, "id", pa.array(ids * 7))


async def _timed(plan: Plan, lake: Lake, server: ServerInfo, bucket: str, rows: int) -> list[Result]:
    """Compactions of the same runs, then scans beside pyarrow's."""
    say(f"compaction: {rows:,} rows in {_RUNS} runs")
    await lake.create_database("bench")
    table = await _with_runs(lake, _NAME, rows)
    await _with_runs(lake, _SMALL, _SMALL_ROWS)
    before = await table.current_snapshot()

    async def roll_back() -> None:
        await table.rollback(snapshot=before)

    async def compact() -> None:
        done = await table.compact(full=True)
        assert (done.units, done.rows_in) == (1, rows // _RUNS * _RUNS)

    results = await compare(
        [Case(side=LAKEHOUSE, run=compact, before=roll_back)],
        work=rows,
        unit="rows",
        params={"what": "compact", "rows": rows},
        warmup=plan.warmup,
        repeats=plan.repeats,
    )
    say("compaction: scans")
    left = await _write_plain(table, server, f"{bucket}/plain")
    results += await compare(
        [
            Case(side=LAKEHOUSE, run=lambda: _scanned(table, left)),
            Case(side=_PYARROW, run=lambda: _scanned_plain(server, f"{bucket}/plain", left)),
        ],
        work=left,
        unit="rows",
        params={"what": "scan", "rows": rows},
        warmup=plan.warmup,
        repeats=plan.pick(quick=2, default=7, full=9),
    )
    await roll_back()
    return results


async def _with_runs(lake: Lake, name: str, rows: int) -> LakeTable:
    table = await lake.create_table(name, orders(1, "int64").schema, primary_key=["id"])
    for number in range(_RUNS):
        await table.upsert(run_of(rows, number))
    return table


async def _scanned(table: LakeTable, rows: int) -> None:
    assert (await table.scan().to_arrow()).num_rows == rows


async def _scanned_plain(server: ServerInfo, path: str, rows: int) -> None:
    def read() -> pa.Table:
        files = _file_system(server)
        return pyarrow.dataset.dataset(path, filesystem=files, format="parquet").to_table()

    assert (await asyncio.to_thread(read)).num_rows == rows


async def _write_plain(table: LakeTable, server: ServerInfo, path: str) -> int:
    """The rows of the table as plain Parquet, in as many files as the table has."""
    rows = await table.scan().to_arrow()
    files = (await table.files()).num_rows
    each = -(-rows.num_rows // files)
    for number in range(files):
        part = rows.slice(number * each, each)
        pq.write_table(part, f"{path}/{number}.parquet", filesystem=_file_system(server))
    return int(rows.num_rows)


def _file_system(server: ServerInfo) -> pyarrow.fs.FileSystem:
    return pyarrow.fs.S3FileSystem(
        access_key=server.storage_options["key"],
        secret_key=server.storage_options["secret"],
        endpoint_override=server.endpoint_url,
        region="us-east-1",
    )


async def _memory(url: str, options: Mapping[str, Any], rows: int) -> list[Result]:
    """The same compaction in a process of its own."""
    say("compaction: memory")
    async with started("benchmarks.memory_worker") as worker:
        await worker.ask("connect", url=url, options=options, settings=_MEMORY)
        found = await worker.ask("compact", name=_NAME, first=_SMALL)
        await worker.ask("close")
    grown, held = (round(size / _MIB) for size in (found["peak"] - found["before"], found["held"]))
    return [
        Result(
            side=LAKEHOUSE,
            params={"what": "memory", "rows": rows, "grown": grown, "held": held},
            work=rows,
            unit="rows",
            seconds=(found["seconds"],),
            cpu_seconds=(0.0,),
        )
    ]


def goals(report: Report) -> list[Goal]:
    """Rows per second, the scan beside pyarrow's, and memory."""
    found = [
        Goal(
            text=f"full compaction of {result.params['rows']:,} rows: rows/s",
            target=f"≥ {_RATE_LEAST:,}",
            measured=f"{result.rate:,.0f}",
            met=result.rate >= _RATE_LEAST,
        )
        for result in report.where(what="compact")
    ]
    for ours in report.where(what="scan", side=LAKEHOUSE):
        plain = report.one(what="scan", side=_PYARROW, rows=ours.params["rows"])
        slower = ratio(plain, ours)
        found.append(
            Goal(
                text=f"scan of {ours.work:,.0f} compacted rows ÷ pyarrow's of a plain dataset",
                target=f"≤ {_SCAN_MOST:g}",
                measured=ratio_text(slower),
                met=slower.median <= _SCAN_MOST,
            )
        )
    given = _MEMORY["table.compaction_memory_bytes"] // _MIB
    found += [
        Goal(
            text=f"compaction of {result.params['rows']:,} rows: {_WHAT[what]} ÷ its memory setting",
            target=f"≤ {most:g}",
            measured=f"{int(result.params[what]) / given:.2f} ({result.params[what]} MiB)",
            met=int(result.params[what]) <= most * given,
        )
        for result in report.where(what="memory")
        for what, most in _MEMORY_MOST.items()
    ]
    return found


def tables(report: Report) -> list[Table]:
    """Times and rates of compactions, times of scans, memory."""
    return [
        pivot(
            report.where(what="compact"),
            title="Full compaction: time, rows/s, requests",
            rows="rows",
            columns="side",
            cell=lambda r: f"{seconds_text(r.wall.median)}, {r.rate:,.0f}, {sum(r.requests.values()):g}",
        ),
        pivot(
            report.where(what="scan"),
            title="Scan of all rows afterwards",
            rows="rows",
            columns="side",
            cell=lambda r: seconds_text(r.wall.median),
        ),
        pivot(
            report.where(what="memory"),
            title="Memory of a compaction: MiB above the process before, MiB that Arrow holds",
            rows="rows",
            columns="side",
            cell=lambda r: f"{r.params['grown']}, {r.params['held']} ({seconds_text(r.wall.median)})",
        ),
    ]
