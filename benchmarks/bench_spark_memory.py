"""Memory of the Python workers while Spark upserts and compacts a large table.

A session of two cores on this machine; `spark.executor.pyspark.memory` limits the address space of every
worker. Rows of ten columns are written in one job into a table with a primary key and one bucket, written a
second time (an upsert of everything), and compacted. Resident memory of the JVM and of the largest Python
process below it is looked at five times a second. It has to stay below the limit, and must not grow with the
rows: the smaller input, a tenth, is there to compare with.
"""

from __future__ import annotations

from typing import Any

from benchmarks.model import Goal, Report, Result, Table
from benchmarks.runner import Plan, say
from benchmarks.spark_rows import stage
from benchmarks.spark_sides import LAKEHOUSE, open_spark_sides
from benchmarks.tables import pivot
from lakehouse.testing.endpoint import fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "Memory of Spark's Python workers"

_MIB = 1024**2
_LIMIT_MIB = 2048
_STEPS = ("write", "upsert", "compact")
_FLAT = 1.5
"""Ten times the rows may take so many times the memory."""


async def run(plan: Plan) -> Report:
    """A small and a large table, one after the other."""
    most = plan.pick(quick=5_000_000, default=20_000_000, full=50_000_000)
    results: list[Result] = []
    with best_server() as server:
        for rows in (most // 10, most):
            with fresh_bucket(server, "bench") as bucket:
                async with open_spark_sides(
                    server, bucket, sides=(LAKEHOUSE,), worker_memory=f"{_LIMIT_MIB}m"
                ) as found:
                    side, path = found.sides[LAKEHOUSE], stage(found.folder, rows)
                    table: dict[str, Any] = {"name": "orders"}
                    first = {"path": path, "options": {"primary_key": ["id"], "bucket": 1}}
                    for step, more in zip(_STEPS, (first, {"path": path}, {}), strict=True):
                        say(f"spark_memory: {step}, {rows:,} rows")
                        told = await side.ask("watched", command=step, arguments={**table, **more})
                        results.append(_result(step, rows, told))
                    held = await side.ask("held", name="orders")
                    assert held[0] == rows, f"{held[0]:,} of {rows:,} rows"
    return Report(
        name="spark_memory",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        notes=(f"spark.executor.pyspark.memory = {_LIMIT_MIB} MiB, spark.driver.memory = 3 GiB.",),
        facts={"object_store": server.note, "rows": most},
    )


def _result(step: str, rows: int, told: dict[str, Any]) -> Result:
    jvm, worker = (max(sample[at] for sample in told["samples"]) for at in (1, 2))
    return Result(
        side=LAKEHOUSE,
        params={"what": step, "rows": rows, "worker_mib": round(worker / _MIB), "jvm_mib": round(jvm / _MIB)},
        work=rows,
        unit="rows",
        seconds=(told["seconds"],),
        cpu_seconds=(0.0,),
    )


def goals(report: Report) -> list[Goal]:
    """Below the limit, and flat."""
    found = []
    for step in _STEPS:
        small, large = (int(result.params["worker_mib"]) for result in report.where(what=step))
        rows = report.facts["rows"]
        found.append(
            Goal(
                text=f"{step} of {rows:,} rows: MiB of the largest worker",
                target=f"< {_LIMIT_MIB:,}",
                measured=f"{large:,}",
                met=large < _LIMIT_MIB,
            )
        )
        found.append(
            Goal(
                text=f"{step}: memory of {rows:,} rows ÷ that of a tenth",
                target=f"≤ {_FLAT:g}",
                measured=f"{large / small:.2f}",
                met=large <= _FLAT * small,
            )
        )
    return found


def tables(report: Report) -> list[Table]:
    """Workers, JVM, and time."""
    return [
        pivot(
            report.results,
            title="Peak MiB of the largest worker (of the JVM), seconds",
            rows="rows",
            columns="what",
            cell=lambda r: f"{r.params['worker_mib']:,} ({r.params['jvm_mib']:,}), {r.wall.median:.0f} s",
        )
    ]
