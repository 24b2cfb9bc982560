"""Processes that write to warehouses whose store may ignore conditions, and say what became of each call.

They are forked from a server that has loaded everything already; all begin at once, and all close at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa

import lakehouse
from lakehouse.errors import LakehouseError
from lakehouse.storage.table import Table
from tests.kit.forking import FORKING

__all__ = ["Job", "Report", "refused_everything", "reports", "rows_one_by_one"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one process does to one table."""

    who: int
    url: str
    storage_options: dict[str, Any]
    work: Callable[[lakehouse.Lake, Table, Job, Report], Awaitable[None]]
    """Begins when all processes are ready; what it raises ends the job."""
    count: int = 1
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Report:
    """What became of a job."""

    who: int
    acknowledged: list[Any] = field(default_factory=list)
    errors: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """Kind, message and facts of each."""

    def failed(self, error: LakehouseError) -> None:
        """Notes an error."""
        self.errors.append((error.kind, error.message, dict(error.context)))


async def rows_one_by_one(lake: lakehouse.Lake, table: Table, job: Job, report: Report) -> None:
    """Appends rows ``(who, number)`` one commit at a time."""
    for number in range(job.count):
        done = await table.append([{"who": job.who, "number": number}])
        report.acknowledged.append((number, done.snapshot))


async def refused_everything(lake: lakehouse.Lake, table: Table, job: Job, report: Report) -> None:
    """Tries writes of every kind; notes those that succeed."""
    row = [{"who": job.who, "number": 0}]

    async def stream() -> None:
        async with table.writer() as writer:
            await (await writer.put(row))

    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "append": lambda: table.append(row),
        "delete": lambda: table.delete("number = 0"),
        "tag": lambda: table.create_tag("mine"),
        "writer": stream,
        "create_database": lambda: lake.create_database(f"db-{job.who}"),
        "create_table": lambda: lake.create_table(f"db.t-{job.who}", pa.schema({"x": pa.int64()})),
        "rename_table": lambda: lake.rename_table("db.t", f"db.u-{job.who}"),
        "drop_table": lambda: lake.drop_table("db.t"),
    }
    for name, call in calls.items():
        try:
            await call()
            report.acknowledged.append(name)
        except LakehouseError as error:
            report.failed(error)
    report.acknowledged.extend(["reading failed"] * (await table.scan().count() != 0))


def _run(jobs: Sequence[Job], owner: Connection) -> None:
    asyncio.run(_work_all(jobs, owner))


async def _work_all(jobs: Sequence[Job], owner: Connection) -> None:
    begin, end = asyncio.Event(), asyncio.Event()
    ready, done = asyncio.Semaphore(0), asyncio.Semaphore(0)
    tasks = [asyncio.create_task(_work(job, ready, begin, done, end)) for job in jobs]
    for meeting, signal in ((ready, begin), (done, end)):
        for _ in jobs:
            await meeting.acquire()
        owner.send("here")
        await asyncio.to_thread(owner.recv)
        signal.set()
    owner.send([await task for task in tasks])


async def _work(
    job: Job, ready: asyncio.Semaphore, begin: asyncio.Event, done: asyncio.Semaphore, end: asyncio.Event
) -> Report:
    report = Report(who=job.who)
    try:
        async with lakehouse.connect(
            job.url, storage_options=job.storage_options, settings=job.settings
        ) as lake:
            table = await lake.table("db.t")
            await table.current_snapshot()
            ready.release()
            await begin.wait()
            try:
                await job.work(lake, table, job, report)
            except LakehouseError as error:
                report.failed(error)
            done.release()
            await end.wait()
    except LakehouseError as error:
        report.failed(error)
    finally:
        # One that failed early is waited for as little as one that is through.
        ready.release()
        done.release()
    return report


@contextmanager
def _processes(jobs: Sequence[Sequence[Job]]) -> Iterator[list[Connection]]:
    with ExitStack() as stack:
        owners = []
        for mine in jobs:
            owner, theirs = FORKING.Pipe()
            process = FORKING.Process(target=_run, args=(mine, theirs), daemon=True)
            process.start()
            theirs.close()
            stack.callback(owner.close)
            stack.callback(process.join)
            stack.callback(process.kill)
            owners.append(owner)
        yield owners


def reports(jobs: Sequence[Sequence[Job]]) -> list[list[Report]]:
    """Runs one process for each of the sequences; its jobs run beside each other."""
    with _processes(jobs) as owners:
        for _ in range(2):
            for owner in owners:
                assert owner.recv() == "here"
            for owner in owners:
                owner.send("go on")
        return [owner.recv() for owner in owners]
