"""Memory of a process that streams, flushes, builds indexes and compacts, over time.

Rows of known and of new keys are put as fast as they are taken, into a table with two indexes. Compaction
runs by itself; halfway all that is there is compacted beside it, and at the end once more. Each line is a
process of its own, whose resident memory is looked at twenty times a second. The bound is the sum of what
settings and options say: the queue of the writer (``wal.segment_bytes``, five times), its memtables (one
that fills, ``write.memtables`` that wait and one that is flushed, and three copies of that one),
``table.compaction_memory_bytes`` for each of two compactions, and ``cache.max_bytes``. It says what rows
and files under way take; what an allocator keeps of memory that was given back to it comes on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.model import Goal, Report, Result, Table
from benchmarks.runner import Plan, say
from benchmarks.worker import started
from lakehouse.config import Settings
from lakehouse.format.schema.table_options import TableOptions
from lakehouse.testing.endpoint import fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "plot", "run", "tables"]

TITLE = "Memory of streaming with compaction beside"

_MIB = 1024**2
_EVERY_S = 0.05
_INDEXES = {"host": "inverted", "trace_id": "bloom"}
_KEPT_MIB = 512
"""What an allocator may keep on top: of Arrow's default one, each thread keeps up to a segment of 32 MiB."""

_SHOWN = 400
"""Points of a line: every one is the most of its stretch of time."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    options: Mapping[str, object] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    pool: str | None = None

    @property
    def bytes(self) -> int:
        """What they add up to."""
        options = TableOptions.parse(self.options)
        settings = Settings.resolve(self.settings)
        memtables = options.write_memtables + 2 + 3
        return (
            5 * options.wal_segment_bytes
            + memtables * options.write_memtable_bytes
            + 2 * settings.table.compaction_memory_bytes
            + settings.cache.max_bytes
        )


def _small(scale: int) -> tuple[Mapping[str, object], Mapping[str, object]]:
    return (
        {"write.memtable_bytes": 4 * scale * _MIB, "wal.segment_bytes": scale * _MIB},
        {"table.compaction_memory_bytes": 64 * scale * _MIB, "cache.max_bytes": 16 * scale * _MIB},
    )


_BOUNDS: Mapping[str, _Bounds] = {
    "default": _Bounds(),
    "medium": _Bounds(*_small(4)),
    "small": _Bounds(*_small(2)),
    "small, jemalloc": _Bounds(*_small(2), pool="jemalloc"),
}


async def run(plan: Plan) -> Report:
    """The same rows under each of the bounds."""
    rows = plan.pick(quick=200_000, default=1_500_000, full=4_000_000)
    results: list[Result] = []
    samples: dict[str, Sequence[Sequence[float]]] = {}
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        for name, bounds in _BOUNDS.items():
            say(f"streaming_memory: {rows:,} rows, {name} bounds")
            async with started("benchmarks.memory_worker") as worker:
                await worker.ask(
                    "connect",
                    url=f"s3://{bucket}/{name.replace(', ', '-')}",
                    options={**server.storage_options, "endpoint_url": server.endpoint_url},
                    settings=bounds.settings,
                )
                found = await worker.ask(
                    "stream",
                    rows=rows,
                    every_s=_EVERY_S,
                    options=bounds.options,
                    indexes=_INDEXES,
                    pool=bounds.pool,
                )
                await worker.ask("close")
            results.append(_result(name, rows, found))
            samples[name] = _thinned(found["samples"])
    return Report(
        name="streaming_memory",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        notes=(
            "Resident memory above that of the process when its table was open and all libraries loaded.",
            "Columns: an int64 key, a host, a trace id, a message, a double; about 110 bytes a row.",
            "Indexes: inverted of the host, bloom of the trace id.",
            *(f"{name}: {_text(bounds)}" for name, bounds in _BOUNDS.items()),
        ),
        facts={"object_store": server.note, "samples": samples},
    )


def _result(name: str, rows: int, found: Mapping[str, Any]) -> Result:
    samples = found["samples"]
    before = samples[0][1]
    streamed = found["streamed_s"]
    quarters = [
        max(
            resident - before
            for at, resident, _ in samples
            if low * streamed <= at <= (low + 0.25) * streamed
        )
        for low in (0.0, 0.25, 0.5, 0.75)
    ]
    return Result(
        side="lakehouse",
        params={
            "bounds": name,
            "bound_mib": _BOUNDS[name].bytes // _MIB,
            "before_mib": round(before / _MIB),
            "peak_mib": round((max(resident for _, resident, _ in samples) - before) / _MIB),
            "arrow_mib": round(max(held for _, _, held in samples) / _MIB),
            "quarters_mib": " → ".join(str(round(one / _MIB)) for one in quarters),
            "seconds": round(found["seconds"], 1),
        },
        work=rows,
        unit="rows",
        seconds=(streamed,),
        cpu_seconds=(0.0,),
    )


def _thinned(samples: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """Seconds, MiB above the first sample, and MiB of Arrow: the most of every stretch."""
    before, step = samples[0][1], -(-len(samples) // _SHOWN)
    return [
        (
            part[0][0],
            round((max(resident for _, resident, _ in part) - before) / _MIB, 1),
            round(max(held for _, _, held in part) / _MIB, 1),
        )
        for part in (samples[at : at + step] for at in range(0, len(samples), step))
    ]


def _text(bounds: _Bounds) -> str:
    said = [
        f"{name} = {int(str(value)) // _MIB} MiB"
        for name, value in {**bounds.options, **bounds.settings}.items()
    ]
    if bounds.pool is not None:
        said.append(f"Arrow's memory from {bounds.pool}")
    return ", ".join(said) or "defaults"


def goals(report: Report) -> list[Goal]:
    """Memory keeps to the bounds, and to a level."""
    found = []
    for result in report.results:
        given, peak = result.params, int(result.params["peak_mib"])
        limit = int(given["bound_mib"]) + _KEPT_MIB
        found.append(
            Goal(
                text=f"{given['bounds']}: growth of the process, MiB",
                target=f"≤ bound + {_KEPT_MIB} = {limit:,}",
                measured=f"{peak:,}",
                met=peak <= limit,
            )
        )
        arrow, bound = int(given["arrow_mib"]), int(given["bound_mib"])
        found.append(
            Goal(
                text=f"{given['bounds']}: memory that Arrow holds, MiB",
                target=f"≤ bound = {bound:,}",
                measured=f"{arrow:,}",
                met=arrow <= bound,
            )
        )
    return found


def tables(report: Report) -> list[Table]:
    """Peaks beside bounds, and how it went on."""
    rows = []
    for result in report.results:
        given = result.params
        rows.append(
            (
                str(given["bounds"]),
                f"{given['bound_mib']:,}",
                f"{given['peak_mib']:,}",
                f"{given['arrow_mib']:,}",
                str(given["quarters_mib"]),
                f"{result.rate:,.0f}",
            )
        )
    header = (
        "bounds",
        "bound",
        "growth of the process",
        "held by Arrow",
        "by quarter of the streaming",
        "rows/s",
    )
    return [Table(title=f"{report.results[0].work:,.0f} rows: MiB at most", header=header, rows=tuple(rows))]


def plot(report: Report, figure: Any) -> None:
    """Growth over time, with the bound it keeps to."""
    for axes, result in zip(figure.subplots(1, len(report.results)), report.results, strict=True):
        name, bound = str(result.params["bounds"]), int(result.params["bound_mib"])
        samples = report.facts["samples"][name]
        at = [one[0] for one in samples]
        axes.plot(at, [one[1] for one in samples], label="process")
        axes.plot(at, [one[2] for one in samples], label="Arrow")
        axes.axhline(bound, linestyle="--", color="grey", label="bound")
        axes.axvline(result.seconds[0], linestyle=":", color="grey")
        axes.set_title(f"{name}: {bound:,} MiB")
        axes.set_xlabel("seconds")
        axes.set_ylabel("MiB")
        axes.set_ylim(bottom=0)
        axes.legend()
