"""Small commits to one table: by one process, by four at once, and by sixteen tasks of one process.

A commit writes one row. Every commit that was acknowledged must be visible afterwards, and exactly
once: all rows are read back and counted. A commit that raises an error is counted apart: its
writer was told. pypaimon commits by renaming, which object stores do not have; delta-rs and
lakehouse by creating an object that must not exist. Each side commits as its documentation
shows, with its defaults.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.model import Goal, Report, Result, Spread, Table, ratio
from benchmarks.peer_env import python_of
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.tables import pivot, ratio_text, seconds_text
from benchmarks.worker import Worker, started
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.proxy import ProxyProcess, proxy_process
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "Tally", "goals", "run", "tables", "tally"]

TITLE = "Small commits"

_OURS, _DELTA, _PAIMON = "lakehouse", "delta-rs", "pypaimon"
_APPEND, _KEYED = "append-only", "primary key"
_ALONE, _PROCESSES, _TASKS = "1 process", "4 processes", "16 tasks"
_WRITERS = {_ALONE: (1, 1), _PROCESSES: (4, 1), _TASKS: (1, 16)}
"""Processes, and tasks in each."""
_FASTER = 10
_REQUESTS_ALONE, _REQUESTS_CONTENDED = 2, 5

_names = itertools.count()


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of commits."""

    asked: int = 0
    acknowledged: int = 0
    lost: int = 0
    """Acknowledged and not there."""
    doubled: int = 0
    """There more than once."""

    def __add__(self, other: Tally) -> Tally:
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return Tally(*(a + b for a, b in pairs))


def tally(done: Sequence[Mapping[str, Any]], found: Sequence[int]) -> Tally:
    """Compares what writers were told with the rows that there are."""
    there = Counter(found)
    acknowledged = [one["id"] for one in done if one["error"] is None]
    return Tally(
        asked=len(done),
        acknowledged=len(acknowledged),
        lost=sum(number not in there for number in acknowledged),
        doubled=sum(count > 1 for count in there.values()),
    )


@dataclass(slots=True)
class _Side:
    """Workers of one engine."""

    name: str
    workers: list[Worker]
    latencies: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    _rounds: list[tuple[str, list[dict[str, Any]]]] = field(default_factory=list)
    _table: str = ""

    async def new_table(self, keyed: bool, processes: int) -> None:
        """A new table, opened by every process that will write to it."""
        self._table = f"t{next(_names)}"
        await self.workers[0].ask("create", name=self._table, keyed=keyed)
        await asyncio.gather(*(one.ask("open", name=self._table) for one in self.workers[:processes]))

    async def commit(self, processes: int, tasks: int, count: int) -> None:
        """Commits by all writers, each ``count`` rows of its own."""
        asked = [
            worker.ask("commit", first=at * tasks * count, count=count, tasks=tasks)
            for at, worker in enumerate(self.workers[:processes])
        ]
        done = [one for answer in await asyncio.gather(*asked) for one in answer]
        self.latencies += [one["seconds"] for one in done if one["error"] is None]
        self.errors.update(one["error"].partition(":")[0] for one in done if one["error"])
        self._rounds.append((self._table, done))

    async def tally(self) -> Tally:
        """What became of the commits of all rounds since the last call."""
        whole = Tally()
        for table, done in self._rounds:
            await self.workers[0].ask("open", name=table)
            whole += tally(done, await self.workers[0].ask("ids"))
        self._rounds.clear()
        return whole

    def can(self, kind: str, writers: str) -> bool:
        """Whether the engine has such tables, and writers."""
        if self.name == _DELTA and kind == _KEYED:
            return False
        return self.name == _OURS or writers != _TASKS


@contextlib.asynccontextmanager
async def _sides(server: ServerInfo, bucket: str, *, endpoint_url: str = "") -> AsyncIterator[list[_Side]]:
    """All engines that can be had; ``endpoint_url`` leads them through a proxy."""
    options = server.storage_options
    if endpoint_url:
        options = {**options, "endpoint_url": endpoint_url}
    async with contextlib.AsyncExitStack() as stack:
        sides = []
        for name in (_OURS, _DELTA, _PAIMON):
            if name != _PAIMON:
                making = [started("benchmarks.table_worker", name) for _ in range(4)]
            elif (python := python_of(_PAIMON)) is not None:
                making = [started("benchmarks.pypaimon_worker", python=python) for _ in range(4)]
            else:
                continue
            workers = [await stack.enter_async_context(one) for one in making]
            for worker in workers:
                await worker.ask("connect", bucket=bucket, options=options)
                stack.push_async_callback(worker.ask, "close")
            sides.append(_Side(name, workers))
        yield sides


async def run(plan: Plan) -> Report:
    """Both kinds of table, by each kind of writers."""
    count = plan.pick(quick=5, default=20, full=20)
    results: list[Result] = []
    outcomes: list[dict[str, Any]] = []
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        async with _sides(server, bucket) as sides:
            for kind, writers in itertools.product((_APPEND, _KEYED), _WRITERS):
                say(f"table_commits: {kind} table, {writers}")
                able = [side for side in sides if side.can(kind, writers)]
                processes, tasks = _WRITERS[writers]
                results += await compare(
                    [_case(side, kind, writers, count) for side in able],
                    work=processes * tasks * count,
                    unit="commits",
                    params={"table": kind, "writers": writers},
                    warmup=plan.warmup,
                    repeats=plan.pick(quick=1, default=2, full=5),
                )
                outcomes += [await _outcome(side, kind, writers) for side in able]
        with proxy_process(server.endpoint_url) as proxy:
            async with _sides(server, bucket, endpoint_url=proxy.url) as sides:
                results = [await _counted(result, sides, proxy, count) for result in results]
    missing = () if python_of(_PAIMON) else ("pypaimon's environment is not made: make peers.",)
    return Report(
        name="table_commits",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        baseline=_PAIMON,
        notes=(
            f"Each writer makes {count} commits; the rate is that of all of them together.",
            "The tables are new and open in every process when the clock starts.",
            "Requests are counted on the wire, by a proxy, in a separate round that is not timed.",
            "The sixteen tasks are lakehouse's alone: the others are not async.",
            *missing,
        ),
        facts={"object_store": server.note, "outcomes": outcomes},
    )


def _case(side: _Side, kind: str, writers: str, count: int) -> Case:
    processes, tasks = _WRITERS[writers]

    async def create() -> None:
        await side.new_table(kind == _KEYED, processes)

    async def commit() -> None:
        await side.commit(processes, tasks, count)

    return Case(side=side.name, run=commit, before=create)


async def _outcome(side: _Side, kind: str, writers: str) -> dict[str, Any]:
    """What became of the commits, and how long each took."""
    ordered = sorted(side.latencies)
    found = {
        "side": side.name,
        "table": kind,
        "writers": writers,
        **dataclasses.asdict(await side.tally()),
        "errors": dict(side.errors),
        "p50_s": round(Spread.of(ordered).median, 6),
        "p99_s": round(ordered[int(0.99 * len(ordered))], 6),
    }
    side.latencies.clear()
    side.errors.clear()
    return found


async def _counted(result: Result, sides: list[_Side], proxy: ProxyProcess, count: int) -> Result:
    """The result with the requests that a round of it makes."""
    (side,) = (one for one in sides if one.name == result.side)
    processes, tasks = _WRITERS[str(result.params["writers"])]
    await side.new_table(result.params["table"] == _KEYED, processes)
    before = proxy.counts()
    await side.commit(processes, tasks, count)
    after = proxy.counts()
    made = {method.lower(): float(number - before.get(method, 0)) for method, number in after.items()}
    return dataclasses.replace(result, requests={method: number for method, number in made.items() if number})


def goals(report: Report) -> list[Goal]:
    """Nothing lost, ten times pypaimon's rate, and few requests."""
    found = []
    ours = [one for one in report.facts["outcomes"] if one["side"] == _OURS]
    for one in ours:
        if one["writers"] == _ALONE:
            continue
        exact = one["asked"] - one["lost"] - (one["asked"] - one["acknowledged"])
        found.append(
            Goal(
                text=f"{one['table']}, {one['writers']}: acknowledged, visible and there once",
                target="all",
                measured=f"{exact} of {one['asked']}, {one['doubled']} doubled",
                met=exact == one["asked"] and not one["doubled"],
            )
        )
    for result in report.where(side=_OURS, writers=_PROCESSES):
        for peer in report.where(side=_PAIMON, **result.params):
            faster = ratio(result, peer)
            found.append(
                Goal(
                    text=f"{result.params['table']}, {_PROCESSES}: rate ÷ pypaimon's",
                    target=f"≥ {_FASTER}",
                    measured=ratio_text(faster),
                    met=faster.median >= _FASTER,
                )
            )
    for writers, most in ((_ALONE, _REQUESTS_ALONE), (_PROCESSES, _REQUESTS_CONTENDED)):
        for result in report.where(side=_OURS, writers=writers):
            each = sum(result.requests.values()) / result.work
            found.append(
                Goal(
                    text=f"{result.params['table']}, {writers}: requests per commit",
                    target=f"≤ {most}",
                    measured=f"{each:.2f}",
                    met=each <= most,
                )
            )
    return found


def tables(report: Report) -> list[Table]:
    """Rates, latencies, requests and outcomes."""
    grids = [
        pivot(
            report.where(table=kind),
            title=f"{kind.capitalize()} table: commits per second of all writers",
            rows="writers",
            columns="side",
            cell=lambda r: f"{r.rate:,.1f}",
        )
        for kind in (_APPEND, _KEYED)
    ]
    requests = [
        pivot(
            report.where(table=kind),
            title=f"{kind.capitalize()} table: requests per commit",
            rows="writers",
            columns="side",
            cell=lambda r: ", ".join(f"{n / r.work:.2f} {name}" for name, n in sorted(r.requests.items())),
        )
        for kind in (_APPEND, _KEYED)
    ]
    rows = [
        (
            *(one[name] for name in ("table", "writers", "side")),
            *(str(one[name]) for name in ("asked", "acknowledged", "lost", "doubled")),
            ", ".join(f"{number} {error}" for error, number in one["errors"].items()),
            seconds_text(one["p50_s"]),
            seconds_text(one["p99_s"]),
        )
        for one in report.facts["outcomes"]
    ]
    header = ("table", "writers", "side", "asked", "acknowledged", "lost", "doubled", "errors", "p50", "p99")
    outcomes = Table(
        title="What became of the commits of all rounds",
        header=header,
        rows=tuple(rows),
        note="Lost: acknowledged and not there. Doubled: there more than once.",
    )
    return [*grids, outcomes, *requests]
