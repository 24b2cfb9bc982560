"""Runs sides side by side: warmed up, interleaved, repeated, and counted.

Machine noise is the enemy of a ratio. So the sides of a comparison take turns within
every round (and who begins changes from round to round): what slows the machine down
slows down all of them. The garbage of one side is collected before the next one's time
starts.
"""

from __future__ import annotations

import gc
import inspect
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from benchmarks.model import Params, Result
from lakehouse.io import Cost
from lakehouse.io import measure as count_requests

__all__ = ["Case", "Plan", "Scale", "compare", "measure", "say"]

T = TypeVar("T")

Scale = Literal["quick", "default", "full"]
"""How much to do: seconds, a minute, or as long as it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much a benchmark is asked to do."""

    scale: Scale = "default"

    def pick(self, *, quick: T, default: T, full: T) -> T:
        """The value for this scale."""
        return {"quick": quick, "default": default, "full": full}[self.scale]

    @property
    def warmup(self) -> int:
        """Rounds whose time does not count."""
        return 1

    @property
    def repeats(self) -> int:
        """Rounds whose time counts."""
        return self.pick(quick=2, default=3, full=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One side of a comparison."""

    side: str
    run: Callable[[], Awaitable[Any] | Any]
    """What is timed, sync or async."""
    before: Callable[[], Awaitable[Any] | Any] | None = None
    """Runs before each round, untimed: empties a cache, makes new data."""


async def compare(
    cases: Sequence[Case],
    *,
    work: float,
    unit: str,
    params: Params | None = None,
    ideal_s: float | None = None,
    warmup: int = 1,
    repeats: int = 5,
) -> list[Result]:
    """Runs every case ``warmup + repeats`` times, taking turns; one result for each.

    Args:
        cases: the sides; they do the same work.
        work: units that one run does.
        unit: what a unit is called.
        params: what distinguishes this comparison from the others of the report.
        ideal_s: seconds that the work takes at best.
        warmup: rounds that do not count.
        repeats: rounds that count.
    """
    samples: dict[str, list[_Sample]] = {case.side: [] for case in cases}
    for turn in range(warmup + repeats):
        first = turn % len(cases)
        for case in (*cases[first:], *cases[:first]):
            sample = await _sample(case)
            if turn >= warmup:
                samples[case.side].append(sample)
    return [_result(case.side, samples[case.side], work, unit, params or {}, ideal_s) for case in cases]


async def measure(
    run: Callable[[], Awaitable[Any] | Any],
    *,
    warmup: int = 1,
    repeats: int = 5,
    work: float = 1,
    unit: str = "calls",
) -> Result:
    """Times one function alone, for when there is nothing to compare it with."""
    case = Case(side=getattr(run, "__name__", "run"), run=run)
    (result,) = await compare([case], work=work, unit=unit, warmup=warmup, repeats=repeats)
    return result


@dataclass(frozen=True, slots=True)
class _Sample:
    seconds: float
    cpu_seconds: float
    cost: Cost


async def _sample(case: Case) -> _Sample:
    if case.before is not None:
        await _done(case.before())
    gc.collect()
    with count_requests() as cost:
        cpu = time.process_time()
        started = time.perf_counter()
        await _done(case.run())
        seconds = time.perf_counter() - started
        cpu = time.process_time() - cpu
    return _Sample(seconds, cpu, cost)


async def _done(answer: Any) -> None:
    if inspect.isawaitable(answer):
        await answer


def _result(
    side: str, samples: Sequence[_Sample], work: float, unit: str, params: Params, ideal_s: float | None
) -> Result:
    last = samples[-1].cost
    return Result(
        side=side,
        params=dict(params),
        work=work,
        unit=unit,
        seconds=tuple(sample.seconds for sample in samples),
        cpu_seconds=tuple(sample.cpu_seconds for sample in samples),
        ideal_s=ideal_s,
        requests=last.by_kind(),
        bytes_read=last.bytes_read,
        bytes_written=last.bytes_written,
    )


def say(text: str) -> None:
    """Progress, for whoever waits; results go to standard output, this does not."""
    print(text, file=sys.stderr, flush=True)
