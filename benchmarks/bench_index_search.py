"""Searching index files: requests, bytes and CPU of a search; building the files; matching words.

A file has indexes of four columns. A search is cold (nothing is known of the file but its size) or
warm (the searcher was asked before and has metadata and term lists). The peer fetches the whole
index file in one request and searches it then. The store answers at once, so seconds are those
of this process.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.model import Goal, Report, Result, Table
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.tables import pivot, seconds_text
from lakehouse.expr import Expr, parse_where
from lakehouse.format.schema.target_key import ColumnTarget
from lakehouse.format.text.match import matches
from lakehouse.index import IndexType, PuffinReader
from lakehouse.index.building.builder import IndexSpec, PuffinIndexBuilder
from lakehouse.index.search.searcher import IndexSearcher
from lakehouse.io import ObjectStore
from lakehouse.io.open import stacked
from lakehouse.testing import memory_store

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "Indexes: build and search"

_COLD, _WARM, _PEER = "cold", "warm", "whole file"
_KEY = "index.puffin"
_COLUMNS = {
    "id": (1, pa.int64()),
    "host": (2, pa.string()),
    "status": (3, pa.int16()),
    "message": (4, pa.string()),
}
_SPECS = {
    "bloom of ids": IndexSpec(kind=IndexType.BLOOM_SKIPPING, target=ColumnTarget(column_id=1)),
    "inverted of hosts": IndexSpec(kind=IndexType.INVERTED, target=ColumnTarget(column_id=2)),
    "inverted of statuses": IndexSpec(kind=IndexType.INVERTED, target=ColumnTarget(column_id=3)),
    "fulltext bloom of messages": IndexSpec(kind=IndexType.FULLTEXT_BLOOM, target=ColumnTarget(column_id=4)),
}
_BATCH_ROWS = 1 << 16
_CPU_GOAL_S = 5e-3
_SEED = 29


async def run(plan: Plan) -> Report:
    """Builds, searches, matches."""
    rows = plan.pick(quick=1 << 17, default=1 << 20, full=1 << 22)
    batches = _events(rows).to_batches(max_chunksize=_BATCH_ROWS)
    results: list[Result] = []
    for name, specs in (
        {name: [spec] for name, spec in _SPECS.items()} | {"all four": [*_SPECS.values()]}
    ).items():
        say(f"index_search: build {name}")
        results += await _timed(plan, lambda specs=specs: _built(specs, batches), rows, "rows", "build", name)
    data = _built([*_SPECS.values()], batches)
    store = stacked(memory_store())
    await store.put(_KEY, data)
    for where in _questions(rows):
        say(f"index_search: {where}")
        results += await _searches(plan, store, len(data), where)
    texts = pa.chunked_array([batch.column("message") for batch in batches])
    say("index_search: matches")
    results += await _timed(
        plan, lambda: matches(texts, "request timeout"), texts.nbytes / 1e6, "MB", "matches", "two words"
    )
    return Report(
        name="index_search",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        notes=(
            f"{rows:,} rows in batches of {_BATCH_ROWS:,}; the index file has {len(data):,} B.",
            "Rows are in the order of hosts and times, as a data file sorted by its key has them.",
        ),
        facts={"selected": {where: await _selected(store, len(data), where) for where in _questions(rows)}},
    )


def _events(rows: int) -> pa.Table:
    random = np.random.default_rng(_SEED)
    hosts = np.sort(random.integers(0, 10_000, rows))
    words = np.array(["request", "timeout", "disk", "full", "retry", "user", "session", "cache"])
    picked = words[random.integers(0, len(words), (rows, 6))]
    return pa.table(
        {
            "id": random.permutation(rows) * 7,
            "host": pa.array(np.char.add("host-", hosts.astype(str))),
            "status": pa.array(random.choice([200, 404, 500], rows, p=[0.9989, 0.001, 0.0001]), pa.int16()),
            "message": pa.array(
                [f"{' '.join(six)} trace{at // 4096}" for at, six in enumerate(picked.tolist())]
            ),
        }
    )


def _questions(rows: int) -> tuple[str, ...]:
    return (
        f"id = {7 * (rows // 3)}",
        "host = 'host-4711'",
        "host > 'host-42' and host < 'host-421'",
        "status <> 200 and starts_with(host, 'host-999')",
        f"matches(message, 'timeout trace{rows // 8192}')",
        f"id = {7 * (rows // 3)} and host = 'host-4711' and matches(message, 'disk')",
    )


def _built(specs: list[IndexSpec], batches: list[pa.RecordBatch]) -> bytes:
    builder = PuffinIndexBuilder(specs, {column_id: name for name, (column_id, _) in _COLUMNS.items()})
    for batch in batches:
        builder.push(batch)
    return builder.finish_bytes()


async def _timed(plan: Plan, work: Any, amount: float, unit: str, what: str, name: str) -> list[Result]:
    return await compare(
        [Case(side="lakehouse", run=work)],
        work=amount,
        unit=unit,
        params={"what": what, "of": name},
        warmup=plan.warmup,
        repeats=plan.repeats,
    )


async def _searches(plan: Plan, store: ObjectStore, size: int, where: str) -> list[Result]:
    times = plan.pick(quick=5, default=50, full=200)
    expr = parse_where(where)
    warm = _searcher(store, size)
    await warm.may_match(expr)

    async def ask_warm() -> None:
        for _ in range(times):
            await warm.may_match(expr)

    async def ask_cold(prefetch_bytes: int | None) -> None:
        for _ in range(times):
            await _searcher(store, size, prefetch_bytes).may_match(expr)

    return await compare(
        [
            Case(side=_WARM, run=ask_warm),
            Case(side=_COLD, run=lambda: ask_cold(None)),
            Case(side=_PEER, run=lambda: ask_cold(size)),
        ],
        work=times,
        unit="searches",
        params={"what": "search", "where": where},
        warmup=plan.warmup,
        repeats=plan.repeats,
    )


def _searcher(store: ObjectStore, size: int, prefetch_bytes: int | None = None) -> IndexSearcher:
    return IndexSearcher(PuffinReader(store, _KEY, size=size, prefetch_bytes=prefetch_bytes), _COLUMNS)


async def _selected(store: ObjectStore, size: int, where: str) -> str:
    expr: Expr = parse_where(where)
    found = await _searcher(store, size).may_match(expr)
    return f"{found.row_count / found.total_rows:.2%}"


def goals(report: Report) -> list[Goal]:
    """One read and little computation where metadata is known, few reads where it is not."""
    warm, cold = (report.where(what="search", side=side) for side in (_WARM, _COLD))
    slowest = max(warm, key=lambda one: one.cpu_per_unit)
    return [
        _at_most("requests of a warm search, one kind of index", 1, map(_requests, warm[:-1])),
        _at_most("requests of a warm search, three kinds of index", 3, map(_requests, warm[-1:])),
        _at_most("requests of a cold search", 4, map(_requests, cold)),
        Goal(
            text=f"CPU of a warm search (slowest: {slowest.params['where']})",
            target=f"≤ {seconds_text(_CPU_GOAL_S)}",
            measured=seconds_text(slowest.cpu_per_unit),
            met=slowest.cpu_per_unit <= _CPU_GOAL_S,
        ),
    ]


def _at_most(text: str, target: int, measured: Iterable[float]) -> Goal:
    most = max(measured)
    return Goal(text=text, target=f"≤ {target}", measured=f"{most:.0f}", met=most <= target)


def _requests(result: Result) -> float:
    return sum(result.requests.values()) / result.work


def tables(report: Report) -> list[Table]:
    """Searches by question, what they leave, building, matching."""
    searches = report.where(what="search")
    selected = report.facts["selected"]
    return [
        pivot(searches, title="Search: CPU", rows="where", columns="side", cell=_cpu),
        pivot(searches, title="Search: requests and bytes", rows="where", columns="side", cell=_cost),
        Table(
            title="Rows that are left",
            header=("where", "share of all rows"),
            rows=tuple((where, share) for where, share in selected.items()),
        ),
        pivot(
            report.where(what="build"),
            title="Build: million rows per second of CPU",
            rows="of",
            columns="side",
            cell=lambda one: f"{1e-6 / one.cpu_per_unit:.2f}",
        ),
        pivot(
            report.where(what="matches"),
            title="Matching words without an index: MB of text per second of CPU",
            rows="of",
            columns="side",
            cell=lambda one: f"{1 / one.cpu_per_unit:.0f}",
        ),
    ]


def _cpu(result: Result) -> str:
    return seconds_text(result.cpu_per_unit)


def _cost(result: Result) -> str:
    return f"{_requests(result):.0f} requests, {result.bytes_read / result.work:,.0f} B"
