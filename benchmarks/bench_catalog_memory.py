"""Memory of the catalog's layers under a random load of what they hold, beside their budget.

Manifests, snapshots, schemas, tables, pointers and listings, as decoders make them, are asked for at random
until ten budgets have gone through; each run is a process of its own, warmed up first. What counts is how far
the resident set rises above that of the warm process: weights err upwards, so that it stays near the budget.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import anyio.to_thread

from benchmarks.model import Goal, Report, Result, Table
from benchmarks.runner import Plan, say
from benchmarks.tables import pivot

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "Memory of the catalog's layers"

_MIB = 1024**2
_GROWTH_MAX = 1.3
_TIMES = 10


async def run(plan: Plan) -> Report:
    """One load for each budget."""
    budgets = plan.pick(quick=(64,), default=(256, 1024), full=(256, 1024))
    results: list[Result] = []
    for budget in budgets:
        say(f"catalog_memory: {budget} MiB")
        began = time.perf_counter()
        found = await anyio.to_thread.run_sync(_loaded, budget * _MIB)
        results.append(
            Result(
                side="lakehouse",
                params={"budget_mib": budget, **found},
                work=found["loads"],
                unit="requests",
                seconds=(time.perf_counter() - began,),
                cpu_seconds=(0.0,),
            )
        )
    return Report(
        name="catalog_memory",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        notes=(f"Content of {_TIMES} budgets goes through; growth is that of the resident set, in budgets.",),
    )


def _loaded(budget: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.catalog_memory_load", str(budget), "--times", str(_TIMES)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def goals(report: Report) -> list[Goal]:
    """The process grows by no more than 1.3 budgets."""
    return [
        Goal(
            text=f"growth of the process with a budget of {one.params['budget_mib']} MiB, in budgets",
            target=f"≤ {_GROWTH_MAX:g}",
            measured=f"{one.params['growth']:.2f}",
            met=one.params["growth"] <= _GROWTH_MAX,
        )
        for one in report.results
    ]


def tables(report: Report) -> list[Table]:
    """What each budget held and took."""
    return [
        pivot(
            report.results,
            title="Growth of the resident set, in budgets",
            rows="budget_mib",
            columns="side",
            cell=lambda one: f"{one.params['growth']:.2f}, {one.params['filled']:.0%} full",
        )
    ]
