"""Inverted indexes: rows and values built into blobs, values looked up and listed, per second of CPU.

Everything here is computation on one core, so rates are taken over CPU time. The map of the
values is built and read by loops that run compiled (with the ``fast`` extra's numba) or
interpreted; the bytes are the same. The peer of the bitmaps is pyroaring, one object a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyroaring

from benchmarks.model import Goal, Params, Report, Result, Table
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.tables import pivot
from lakehouse.format.fst.fst import Fst, build_fst
from lakehouse.format.index.greptime_value import encode_array
from lakehouse.format.index.inverted import InvertedMetas
from lakehouse.format.index.inverted_build import build_inverted
from lakehouse.format.index.inverted_search import (
    Condition,
    IsNotNull,
    MatchesRegex,
    OneOf,
    plan_bitmaps,
    segments_of,
)
from lakehouse.format.index.roaring import encode_many
from lakehouse.kernels.arrays import I64, U32

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "Inverted indexes: build, look up, search"

_COMPILED, _INTERPRETED = "compiled", "interpreted"
_OURS, _PEER = "lakehouse", "pyroaring"
_ROWS_GOAL = 1e6
_KEYS_GOAL = 200e3
_LOOKUPS_GOAL = 1e6
_INTERPRETED_KEYS = 20_000
_SEED = 23


async def run(plan: Plan) -> Report:
    """Builds, looks up, lists and searches."""
    rows = plan.pick(quick=1 << 17, default=1 << 20, full=1 << 22)
    results: list[Result] = []
    for name, column in _columns(rows).items():
        say(f"index_inverted: build {name}")
        results += await _timed(
            plan,
            {_OURS: lambda column=column: build_inverted({"1": encode_array(column)})},
            work=rows,
            unit="rows",
            params={"what": "build", "column": name},
        )
    results += await _maps(plan, rows)
    results += await _bitmaps(plan, rows // 4)
    results += await _searches(plan, rows)
    return Report(
        name="index_inverted",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        notes=(
            f"{rows:,} rows a column, 1,024 rows a segment; building includes encoding, sorting and the map.",
            f"Interpreted loops are given {_INTERPRETED_KEYS:,} keys, compiled ones {rows:,}.",
            "The first use of compiled loops takes some seconds, once a machine; it is not counted.",
            "A search is planned, its bitmaps decoded and united; nothing is fetched.",
        ),
    )


def _columns(rows: int) -> Mapping[str, pa.Array]:
    random = np.random.default_rng(_SEED)
    hosts = pa.array([f"host-{number:04}" for number in range(10_000)])
    return {
        "100 hosts": hosts.take(pa.array(random.integers(0, 100, rows))),
        "10,000 hosts": hosts.take(pa.array(random.integers(0, 10_000, rows))),
        "distinct int64": pa.array(random.integers(0, 1 << 62, rows)),
        "distinct strings": pa.array([f"{number:016x}" for number in random.integers(0, 1 << 62, rows)]),
    }


async def _timed(
    plan: Plan, sides: Mapping[str, Callable[[], Any]], *, work: float, unit: str, params: Params
) -> list[Result]:
    cases = [Case(side=side, run=call) for side, call in sides.items()]
    return await compare(cases, work=work, unit=unit, params=params, warmup=plan.warmup, repeats=plan.repeats)


async def _maps(plan: Plan, count: int) -> list[Result]:
    """The map alone: built, asked and listed, with compiled and with interpreted loops."""
    results: list[Result] = []
    numbers = np.sort(np.random.default_rng(_SEED).choice(1 << 40, count, replace=False))
    for side, some in ((_COMPILED, numbers), (_INTERPRETED, numbers[:_INTERPRETED_KEYS])):
        say(f"index_inverted: map, {side}")
        compiled = side == _COMPILED
        keys = encode_array(pa.array(some))
        places = 18 << 32 | 8 + 18 * np.arange(len(some))
        fst = Fst.parse(build_fst(keys, places, compiled=compiled))
        shuffled = keys.take(pa.array(np.random.default_rng(_SEED).permutation(len(some))))
        work: dict[str, Callable[[], Any]] = {
            "build": lambda keys=keys, places=places, on=compiled: build_fst(keys, places, compiled=on),
            "look up": lambda fst=fst, keys=shuffled, on=compiled: fst.get_many(keys, compiled=on),
            "list": lambda fst=fst, on=compiled: sum(len(b.values) for b in fst.batches(compiled=on)),
        }
        for name, call in work.items():
            results += await _timed(
                plan, {side: call}, work=len(some), unit="keys", params={"what": "map", "work": name}
            )
    return results


async def _bitmaps(plan: Plan, count: int) -> list[Result]:
    """Bitmaps of a few numbers each, which columns of many values have."""
    say("index_inverted: bitmaps")
    random = np.random.default_rng(_SEED)
    values: U32 = np.sort(random.integers(0, 1000, (count, 4)) * 4 + np.arange(4), axis=1).astype(np.uint32)
    ends: I64 = np.arange(1, count + 1) * 4

    def theirs() -> bytes:
        return b"".join(pyroaring.BitMap(row).serialize() for row in values)

    sides: dict[str, Callable[[], Any]] = {
        _OURS: lambda: encode_many(values.ravel(), ends),
        _PEER: theirs,
    }
    return await _timed(plan, sides, work=count, unit="bitmaps", params={"what": "bitmaps"})


async def _searches(plan: Plan, rows: int) -> list[Result]:
    """Whole searches of a column of distinct strings, but for the reads."""
    results: list[Result] = []
    column = _columns(rows)["distinct strings"]
    blob = build_inverted({"1": column})
    metas = InvertedMetas.from_tail(blob, len(blob))
    assert isinstance(metas, InvertedMetas)
    meta = metas.columns["1"]
    start, end = meta.fst_range
    fst = Fst.parse(blob[start:end])
    values = tuple(value.encode() for value in column[:100].to_pylist())
    conditions: dict[str, Condition] = {
        "100 values": OneOf(values=values),
        "prefix pattern": MatchesRegex(pattern="^00[0-7].*f$"),
        "pattern": MatchesRegex(pattern="beef"),
        "all values": IsNotNull(),
    }

    def search(condition: Condition) -> None:
        bitmaps = plan_bitmaps(meta, fst, condition)
        reads = [(first, blob[first:last]) for first, last in bitmaps.reads(gap=4096)]
        segments_of(bitmaps, reads, metas)

    for name, condition in conditions.items():
        say(f"index_inverted: search {name}")
        results += await _timed(
            plan,
            {_OURS: lambda condition=condition: search(condition)},
            work=1,
            unit="searches",
            params={"what": "search", "condition": name},
        )
    return results


def goals(report: Report) -> list[Goal]:
    """A million rows a second of few values, 200,000 distinct values a second, a million lookups a second."""
    few = report.where(what="build", column="100 hosts")
    distinct = [r for r in report.where(what="build") if str(r.params["column"]).startswith("distinct")]
    lookups = report.where(what="map", work="look up", side=_COMPILED)
    return [
        _rate_goal(few, "rows/s of 100 values", _ROWS_GOAL),
        _rate_goal(distinct, "distinct values/s (worst of numbers and strings)", _KEYS_GOAL),
        _rate_goal(lookups, "lookups/s, compiled", _LOOKUPS_GOAL),
    ]


def _rate_goal(results: list[Result], text: str, target: float) -> Goal:
    measured = min(1 / r.cpu_per_unit for r in results)
    return Goal(text=text, target=f"≥ {target:,.0f}", measured=f"{measured:,.0f}", met=measured >= target)


def tables(report: Report) -> list[Table]:
    """Building, the map's loops, bitmaps next to their peer, and searches."""
    return [
        pivot(
            report.where(what="build"),
            title="Build: million rows per second of CPU",
            rows="column",
            columns="side",
            cell=lambda r: f"{1e-6 / r.cpu_per_unit:.2f}",
        ),
        pivot(
            report.where(what="map"),
            title="The map: thousand keys per second of CPU",
            rows="work",
            columns="side",
            cell=lambda r: f"{1e-3 / r.cpu_per_unit:,.0f}",
        ),
        pivot(
            report.where(what="bitmaps"),
            title="Bitmaps of four numbers: thousand per second of CPU",
            rows="what",
            columns="side",
            cell=lambda r: f"{1e-3 / r.cpu_per_unit:,.0f}",
        ),
        pivot(
            report.where(what="search"),
            title="Search of a column of distinct strings: milliseconds of CPU",
            rows="condition",
            columns="side",
            cell=lambda r: f"{1e3 * r.cpu_per_unit:.1f}",
        ),
    ]
