"""Rows as they come: durable puts by a streaming writer, alone and by tasks, beside commits, and for long.

A put is durable when its acknowledgement was awaited. SlateDB's binding acknowledges with its own
defaults, which collect puts for 100 ms; DuckLake commits each batch. The floor of a single put is one
PUT of as many bytes by bare s3fs; a segment of the log must be created, which takes the store longer than
a PUT that may replace, so such a PUT is timed too. Write amplification is what the client sent to the
store for the rows, log, files and compaction together, over the bytes of the table after a full
compaction; space amplification is what its live files take before that.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import s3fs
from slatedb import uniffi as slatedb

from benchmarks.model import Goal, Report, Result, Table
from benchmarks.peer_env import python_of
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.slate import object_store
from benchmarks.tables import pivot, seconds_text
from benchmarks.worker import started
from lakehouse.io import measure as count_requests
from lakehouse.lake import Lake, connect
from lakehouse.storage.table import Table as LakeTable
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "Streaming writes"

_OURS, _SLATEDB, _DUCKLAKE = "lakehouse", "SlateDB", "DuckLake"
_BARE, _CREATE = "s3fs PUT", "s3fs create"
_SINGLE, _BATCHES, _COMMITS, _INGEST = "single put", "batches of 10", "commits", "ingest"
_TASKS, _BATCH = 16, 10
_INGEST_BATCH = 10_000
_SCHEMA = pa.schema({"id": pa.int64(), "a": pa.string(), "b": pa.float64()})


def _rows(first: int, count: int) -> pa.Table:
    ids = np.arange(first, first + count)
    names = np.char.add("name-", (ids % 1_000).astype(str))
    return pa.table([ids, names, ids / 2], schema=_SCHEMA)


async def run(plan: Plan) -> Report:
    """The four questions, one after the other."""
    results: list[Result] = []
    facts: dict[str, Any] = {}
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        facts["object_store"] = server.note
        async with _lake(server, bucket) as lake:
            say("streaming: single puts")
            results += await _single_puts(plan, lake, server, bucket)
            say("streaming: batches of ten by sixteen tasks")
            results += await _small_batches(plan, lake, server, bucket)
            say("streaming: commits beside a busy writer")
            results += await _commits_beside(plan, lake)
            rows = plan.pick(quick=200_000, default=2_000_000, full=10_000_000)
            say(f"streaming: {rows:,} rows with compaction beside")
            found, facts["ingest"] = await _ingest(lake, rows)
            results.append(found)
    missing = () if python_of("ducklake") else ("DuckLake's environment is not made: make peers.",)
    return Report(
        name="streaming",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        baseline=_BARE,
        notes=(
            "Three columns: an int64 key, a text, a double. Client and store share the machine.",
            f"{_TASKS} tasks put batches of {_BATCH} rows and await each.",
            "DuckLake inserts one batch after the other, and fewer rows.",
            *missing,
        ),
        facts=facts,
    )


@contextlib.asynccontextmanager
async def _lake(server: ServerInfo, bucket: str) -> AsyncIterator[Lake]:
    options = {**server.storage_options, "endpoint_url": server.endpoint_url}
    async with connect(f"s3://{bucket}/lake", storage_options=options) as lake:
        await lake.create_database("bench")
        yield lake


async def _table(lake: Lake, name: str) -> LakeTable:
    return await lake.create_table(f"bench.{name}", _SCHEMA, primary_key=["id"])


# --- one put ----------------------------------------------------------------------------


async def _single_puts(plan: Plan, lake: Lake, server: ServerInfo, bucket: str) -> list[Result]:
    """Puts one after the other, sides in turns; every one a sample."""
    count = plan.pick(quick=20, default=100, full=400)
    files = s3fs.S3FileSystem(
        asynchronous=True,
        skip_instance_cache=True,
        **{**server.storage_options, "endpoint_url": server.endpoint_url},
    )
    session = await files.set_session()
    database = await slatedb.DbBuilder("slate-puts", object_store(server, bucket)).build()
    table = await _table(lake, "puts")
    async with table.writer() as writer:

        async def ours(number: int) -> None:
            await (await writer.put(_rows(number, 1)))

        async def bare(number: int) -> None:
            await files._pipe_file(f"{bucket}/bare/{number}", bytes(900))

        async def create(number: int) -> None:
            await files._pipe_file(f"{bucket}/created/{number}", bytes(900), IfNoneMatch="*")

        async def slate(number: int) -> None:
            await (await database.put(number.to_bytes(8), bytes(45))).await_durable()

        sides = {_OURS: ours, _BARE: bare, _CREATE: create, _SLATEDB: slate}
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(-5, count):
            for name, put in sides.items():
                began = time.perf_counter()
                await put(number + 5)
                if number >= 0:
                    seconds[name].append(time.perf_counter() - began)
    await database.shutdown()
    await session.close()
    return [
        Result(
            side=name,
            params={"what": _SINGLE},
            work=1,
            unit="puts",
            seconds=tuple(samples),
            cpu_seconds=(0.0,) * len(samples),
        )
        for name, samples in seconds.items()
    ]


# --- many small ones ----------------------------------------------------------------------


async def _small_batches(plan: Plan, lake: Lake, server: ServerInfo, bucket: str) -> list[Result]:
    """Durable batches of ten rows."""
    rows = plan.pick(quick=5_000, default=100_000, full=300_000)
    params = {"what": _BATCHES}
    table = await _table(lake, "batches")
    async with table.writer() as writer:
        firsts = iter(range(0, 1 << 60, _BATCH))

        async def work() -> None:
            for _ in range(rows // _BATCH // _TASKS):
                await (await writer.put(_rows(next(firsts), _BATCH)))

        async def ours() -> None:
            await asyncio.gather(*(work() for _ in range(_TASKS)))

        results = await compare(
            [Case(side=_OURS, run=ours)],
            work=rows // _BATCH // _TASKS * _TASKS * _BATCH,
            unit="rows",
            params=params,
            repeats=plan.pick(quick=1, default=3, full=3),
        )
    python = python_of("ducklake")
    if python is not None:
        few = rows // 30 // _BATCH * _BATCH
        async with started("benchmarks.ducklake_worker", python=python) as worker:
            options = {**server.storage_options, "endpoint_url": server.endpoint_url}
            await worker.ask("connect", bucket=bucket, options=options)
            await worker.ask("insert", first=0, count=100, batch=_BATCH)
            seconds = await worker.ask("insert", first=100, count=few, batch=_BATCH)
            assert await worker.ask("count") == 100 + few
            await worker.ask("close")
        results.append(
            Result(
                side=_DUCKLAKE,
                params=params,
                work=few,
                unit="rows",
                seconds=(seconds,),
                cpu_seconds=(0.0,),
            )
        )
    return results


# --- commits beside ---------------------------------------------------------------------


async def _commits_beside(plan: Plan, lake: Lake) -> list[Result]:
    """Upserts of one row, with nothing else going on and beside a busy streaming writer."""
    count = plan.pick(quick=10, default=60, full=200)
    found = []
    for name in ("alone", "beside"):
        table = await _table(lake, f"commits_{name}")

        async def commits(table: LakeTable = table) -> list[float]:
            seconds = []
            for number in range(-3, count):
                began = time.perf_counter()
                await table.upsert(_rows(1_000_000 + number, 1))
                if number >= 0:
                    seconds.append(time.perf_counter() - began)
            return seconds

        samples = await commits() if name == "alone" else await _beside(table, commits)
        found.append(
            Result(
                side=_OURS,
                params={"what": _COMMITS, "writer": name},
                work=1,
                unit="commits",
                seconds=tuple(samples),
                cpu_seconds=(0.0,) * len(samples),
            )
        )
    return found


async def _beside(table: LakeTable, work: Callable[[], Awaitable[list[float]]]) -> list[float]:
    """The work's samples while sixteen tasks put."""
    async with table.writer() as writer:
        ends = asyncio.Event()

        async def put(first: int) -> None:
            while not ends.is_set():
                await (await writer.put(_rows(first, _BATCH)))

        tasks = [asyncio.create_task(put(first)) for first in range(0, _TASKS * _BATCH, _BATCH)]
        try:
            return await work()
        finally:
            ends.set()
            await asyncio.gather(*tasks)


# --- for long -----------------------------------------------------------------------------


async def _ingest(lake: Lake, rows: int) -> tuple[Result, dict[str, float]]:
    """Rows of new and of known keys put as fast as they are taken, compaction beside."""
    table = await _table(lake, "ingest")
    random = np.random.default_rng(0)
    with count_requests() as cost:
        cpu, began = time.process_time(), time.perf_counter()
        async with table.writer() as writer:
            acks = []
            highest = 0
            for first in range(0, rows, _INGEST_BATCH):
                batch = _rows(first, _INGEST_BATCH)
                ids = random.integers(0, rows, _INGEST_BATCH)
                acks.append(await writer.put(batch.set_column(0, _SCHEMA.field(0), pa.array(ids))))
                highest = max(highest, writer.report().memory_bytes)
            for ack in acks:
                await ack
        seconds, used = time.perf_counter() - began, time.process_time() - cpu
    before = await _bytes_of(table)
    await table.compact(full=True)
    after = await _bytes_of(table)
    facts = {
        "write_amplification": cost.bytes_written / after,
        "space_amplification": before / after,
        "requests": cost.requests,
        "memory_mib": highest / 2**20,
    }
    found = Result(
        side=_OURS,
        params={"what": _INGEST},
        work=rows,
        unit="rows",
        seconds=(seconds,),
        cpu_seconds=(used,),
        requests={kind: float(number) for kind, number in cost.by_kind().items()},
        bytes_written=cost.bytes_written,
    )
    return found, facts


async def _bytes_of(table: LakeTable) -> int:
    return int(sum((await table.files())["bytes"].to_pylist()))


# --- what it says -------------------------------------------------------------------------


def goals(report: Report) -> list[Goal]:
    """The figures of the design."""
    ours = report.one(side=_OURS, what=_SINGLE).wall.median
    found = [
        _at_most("durable single put, p50 ÷ SlateDB's", ours / _p50(report, _SLATEDB), 0.2),
        _at_most("durable single put, p50 ÷ one bare PUT", ours / _p50(report, _BARE), 1.3),
        _at_most("durable single put, p50 ÷ one PUT that must create", ours / _p50(report, _CREATE), 1.3),
    ]
    batches = report.one(side=_OURS, what=_BATCHES)
    found.append(_at_least(f"durable batches of {_BATCH} by {_TASKS} tasks, rows/s", batches.rate, 10_000))
    found += [
        _at_least("durable batches, rate ÷ DuckLake's", batches.rate / peer.rate, 10)
        for peer in report.where(side=_DUCKLAKE)
    ]
    alone, beside = (report.one(what=_COMMITS, writer=name).wall.median for name in ("alone", "beside"))
    found.append(_at_most("commit beside a busy writer, p50 ÷ alone", beside / alone, 3))
    ingest = report.one(what=_INGEST)
    found.append(_at_least(f"{ingest.work:,.0f} rows with compaction beside, rows/s", ingest.rate, 300_000))
    return found


def _p50(report: Report, side: str) -> float:
    return report.one(side=side, what=_SINGLE).wall.median


def _at_most(text: str, value: float, limit: float) -> Goal:
    return Goal(text=text, target=f"≤ {limit:g}", measured=f"{value:.2f}", met=value <= limit)


def _at_least(text: str, value: float, limit: float) -> Goal:
    return Goal(text=text, target=f"≥ {limit:,.0f}", measured=f"{value:,.0f}", met=value >= limit)


def _percentiles(result: Result) -> list[str]:
    return [seconds_text(result.percentile(share)) for share in (0.5, 0.9, 0.99)]


def tables(report: Report) -> list[Table]:
    """Latencies, rates, and what ingestion cost."""
    puts = [
        (result.side, *(seconds_text(result.percentile(share)) for share in (0.5, 0.9, 0.99)))
        for result in report.where(what=_SINGLE)
    ]
    commits = [
        (
            str(result.params["writer"]),
            *(seconds_text(result.percentile(share)) for share in (0.5, 0.9, 0.99)),
        )
        for result in report.where(what=_COMMITS)
    ]
    facts = report.facts["ingest"]
    rows: Sequence[tuple[str, str]] = (
        ("rows per second", f"{report.one(what=_INGEST).rate:,.0f}"),
        ("bytes sent ÷ bytes of the table, compacted", f"{facts['write_amplification']:.2f}"),
        ("bytes of live files at the end ÷ the same", f"{facts['space_amplification']:.2f}"),
        ("requests", f"{facts['requests']:,.0f}"),
        ("most bytes in memtables", f"{facts['memory_mib']:.0f} MiB"),
    )
    return [
        Table(title="One durable put", header=("side", "p50", "p90", "p99"), rows=tuple(puts)),
        pivot(
            report.where(what=_BATCHES),
            title="Durable batches of ten rows: rows per second",
            rows="what",
            columns="side",
            cell=lambda r: f"{r.rate:,.0f}",
        ),
        Table(title="One-row commits", header=("writer", "p50", "p90", "p99"), rows=tuple(commits)),
        Table(title="Ingestion", header=("what", "measured"), rows=tuple(rows)),
    ]
