"""Memory that a large upsert and a large scan take at most, over inputs that grow.

Rows are made in batches and upserted in one commit, then scanned by ``batches()``, each in a process of
its own. What counts is how far the peak rises above that of the process before it began (libraries
loaded, table open). It is bounded by ``write.buffer_bytes`` for the upsert (the buffer that fills, two
that are written, and files being encoded) and by ``table.scan_memory_bytes`` for the scan; so it stops
growing where the input is larger than they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from benchmarks.model import Goal, Report, Result, Table
from benchmarks.runner import Plan, say
from benchmarks.tables import pivot
from benchmarks.worker import started
from lakehouse.testing.endpoint import fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "plot", "run", "tables"]

TITLE = "Memory of large writes and scans"

_MIB = 1024**2
_BOUNDS: Mapping[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
    "default": ({}, {}),
    "small": (
        {"write.buffer_bytes": 64 * _MIB, "file.target_bytes": 32 * _MIB},
        {"table.scan_memory_bytes": 64 * _MIB, "cache.max_bytes": 32 * _MIB},
    ),
}
"""Options of the table and settings of the process."""
_FLAT = 1.3
"""From the second largest input to the largest, the peak may grow by this factor."""


async def run(plan: Plan) -> Report:
    """Both bounds, each with growing inputs."""
    sizes = plan.pick(
        quick=(300_000, 1_000_000),
        default=(1_000_000, 3_000_000, 10_000_000),
        full=(1_000_000, 3_000_000, 10_000_000, 30_000_000),
    )
    results: list[Result] = []
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        for (bounds, (options, settings)), rows in itertools.product(_BOUNDS.items(), sizes):
            say(f"table_memory: {rows:,} rows, {bounds} bounds")
            where = {
                "url": f"s3://{bucket}/lake",
                "options": {**server.storage_options, "endpoint_url": server.endpoint_url},
                "settings": settings,
            }
            wrote = await _alone(where, "upsert", rows=rows, table=options)
            read = await _alone(where, "scan")
            assert read["rows"] == rows
            params = {"bounds": bounds, "rows": rows}
            results += [_result(what, found, params) for what, found in (("upsert", wrote), ("scan", read))]
    return Report(
        name="table_memory",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        notes=(
            "Peak resident memory as Linux counts it (VmHWM); 45 bytes a row in Arrow.",
            *(f"{name} bounds: {_text(*given)}" for name, given in _BOUNDS.items()),
        ),
        facts={"object_store": server.note},
    )


async def _alone(
    where: Mapping[str, Any], command: str, *, table: Mapping[str, object] | None = None, **arguments: int
) -> dict[str, float]:
    """What a command took in a new process; with ``table``, into a new table of such options."""
    async with started("benchmarks.memory_worker") as worker:
        await worker.ask("connect", **where)
        if table is not None:
            await worker.ask("create", options=table)
        found: dict[str, float] = await worker.ask(command, **arguments)
        await worker.ask("close")
    return found


def _result(what: str, found: Mapping[str, float], params: Mapping[str, Any]) -> Result:
    peak = {"before_mib": round(found["before"] / _MIB), "peak_mib": round(found["peak"] / _MIB)}
    return Result(
        side="lakehouse",
        params={**params, "what": what, **peak},
        work=params["rows"],
        unit="rows",
        seconds=(found["seconds"],),
        cpu_seconds=(0.0,),
    )


def _text(options: Mapping[str, object], settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in {**options, **settings}.items()) or "defaults"


def goals(report: Report) -> list[Goal]:
    """The peak of the largest input is about that of the one before it."""
    found = []
    for what, bounds in itertools.product(("upsert", "scan"), _BOUNDS):
        *_, before, last = (_grown(one) for one in report.where(what=what, bounds=bounds))
        rows = report.where(what=what, bounds=bounds)[-1].params["rows"]
        found.append(
            Goal(
                text=f"{what} of {rows:,} rows, {bounds} bounds: growth of memory ÷ that of the input before",
                target=f"≤ {_FLAT:g}",
                measured=f"{last / before:.2f} ({last} MiB)",
                met=last <= _FLAT * before,
            )
        )
    return found


def _grown(result: Result) -> int:
    return int(result.params["peak_mib"]) - int(result.params["before_mib"])


def tables(report: Report) -> list[Table]:
    """Growth of memory, and time."""
    return [
        pivot(
            report.where(what=what),
            title=f"{what.capitalize()}: MiB above the process before (peak of the process), seconds",
            rows="rows",
            columns="bounds",
            cell=lambda r: f"{_grown(r)} ({r.params['peak_mib']}), {r.wall.median:.1f} s",
        )
        for what in ("upsert", "scan")
    ]


def plot(report: Report, figure: Any) -> None:
    """Memory over rows, a line for each bound."""
    for axes, what in zip(figure.subplots(1, 2), ("upsert", "scan"), strict=True):
        for bounds in _BOUNDS:
            found = report.where(what=what, bounds=bounds)
            axes.plot([r.params["rows"] / 1e6 for r in found], [_grown(r) for r in found], "o-", label=bounds)
        axes.set_title(what)
        axes.set_xlabel("million rows")
        axes.set_ylabel("MiB")
        axes.set_ylim(bottom=0)
        axes.legend()
