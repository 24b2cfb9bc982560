"""Conditional puts, the root of every commit: latency of a create, and commits per second.

A commit here is the smallest one there is: the next object of a dense log, created if
absent. Writers that lose go on to the next number. Every side is refused by the same
412; lakehouse alone then reads the winner back, because a refusal may be the echo of its
own write (a lost answer), so it pays one GET for every lost race, and none otherwise.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.model import Report, Result, Table
from benchmarks.peers import LAKEHOUSE, OBSTORE, S3FS, Side, count_on_the_wire, open_sides
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.tables import pivot, seconds_text
from lakehouse.testing.endpoint import fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "plot", "run", "tables", "write_log"]

TITLE = "Conditional puts"

_SIDES = (S3FS, OBSTORE, LAKEHOUSE)
"""Writes never go through obstore, so lakehouse[fast] would be lakehouse again."""
_SIZES = {"1 kB": 1_000, "64 kB": 64_000, "1 MB": 1_000_000}
_COMMIT_BYTES = 1_000
_WRITERS = (1, 4)

_numbers = itertools.count()


async def run(plan: Plan) -> Report:
    """Creates of three sizes, one at a time; then logs written by one and by four writers."""
    results: list[Result] = []
    commits = plan.pick(quick=10, default=20, full=60)
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        async with open_sides(server, bucket) as opened:
            sides = [opened[name] for name in _SIDES]
            for label, size in _SIZES.items():
                say(f"conditional: create {label}")
                results += await compare(
                    [_create_case(side, bytes(size)) for side in sides],
                    work=1,
                    unit="puts",
                    params={"what": "create", "size": label},
                    warmup=3,
                    repeats=plan.pick(quick=20, default=60, full=300),
                )
            for writers in _WRITERS:
                say(f"conditional: {writers} writers")
                results += await compare(
                    [_commit_case(side, writers, commits) for side in sides],
                    work=commits,
                    unit="commits",
                    params={"what": "commit", "writers": writers},
                    warmup=plan.warmup,
                    repeats=plan.pick(quick=3, default=5, full=25),
                )
        for writers in _WRITERS:
            counts = await count_on_the_wire(
                server,
                bucket,
                functools.partial(write_log, writers=writers, commits=commits),
                units=commits,
                names=_SIDES,
            )
            results = [_counted(r, counts, writers) for r in results]
    return Report(
        name="conditional",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        baseline=S3FS,
        notes=(
            f"Commits are objects of {_COMMIT_BYTES:,} bytes; the writers are tasks on one event loop.",
            "Requests per commit are counted on the wire in a separate, untimed run.",
        ),
        facts={"object_store": server.note},
    )


def _create_case(side: Side, data: bytes) -> Case:
    async def create() -> None:
        assert await side.create(f"create/{next(_numbers):020}", data)

    return Case(side=side.name, run=create)


def _commit_case(side: Side, writers: int, commits: int) -> Case:
    return Case(side=side.name, run=lambda: write_log(side, writers, commits))


async def write_log(side: Side, writers: int, commits: int) -> None:
    """A new log of ``commits`` objects with dense numbers, by writers that race for each of them."""
    name = f"log-{next(_numbers)}"
    data = bytes(_COMMIT_BYTES)
    won = 0

    async def write() -> None:
        nonlocal won
        for number in range(commits):
            created = await side.create(f"{name}/{number:020}", data)
            won += created  # on its own line: other writers count while this one waits

    async with asyncio.TaskGroup() as group:
        for _ in range(writers):
            group.create_task(write())
    assert won == commits, f"{commits} commits, {won} acknowledged"


def _counted(result: Result, per_commit: Mapping[str, Mapping[str, float]], writers: int) -> Result:
    if result.params.get("writers") != writers:
        return result
    requests = {method: count * result.work for method, count in per_commit[result.side].items()}
    return dataclasses.replace(result, requests=requests)


def tables(report: Report) -> list[Table]:
    """Latency of a create, commits per second, and what a commit costs."""
    creates, commits = report.where(what="create"), report.where(what="commit")
    return [
        pivot(
            creates,
            title="Create of an object: p50 / p90",
            rows="size",
            columns="side",
            cell=lambda r: f"{seconds_text(r.percentile(0.5))} / {seconds_text(r.percentile(0.9))}",
        ),
        pivot(
            commits,
            title="Commits per second to one log, all writers together",
            rows="writers",
            columns="side",
            cell=lambda r: f"{r.rate:,.0f}",
        ),
        pivot(
            commits,
            title="Requests per commit, lost races included",
            rows="writers",
            columns="side",
            cell=lambda r: ", ".join(f"{n / r.work:.2f} {kind}" for kind, n in sorted(r.requests.items())),
        ),
    ]


def plot(report: Report, figure: Any) -> None:
    """Creates by size and commits by writers, bars for each side."""
    left, right = figure.subplots(1, 2)
    _bars(left, report.where(what="create"), "size", lambda r: r.percentile(0.5) * 1e3)
    _bars(right, report.where(what="commit"), "writers", lambda r: r.rate)
    left.set_ylabel("create, p50 (ms)")
    right.set_ylabel("commits per second")
    left.legend()


def _bars(axes: Any, results: list[Result], name: str, height: Callable[[Result], float]) -> None:
    values = list(dict.fromkeys(r.params[name] for r in results))
    for at, side in enumerate(_SIDES):
        mine = [r for r in results if r.side == side]
        places = [values.index(r.params[name]) + at / 4 for r in mine]
        axes.bar(places, [height(r) for r in mine], 0.25, label=side)
    axes.set_xticks([place + 0.25 for place in range(len(values))], [str(value) for value in values])
    axes.set_xlabel(name)
