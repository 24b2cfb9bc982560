"""Processes that write, compact and expire until they are killed, and what they said.

Each writes lines into a file of its own as it goes, before what it sends and after what is acknowledged:
the file outlives the process. They are forked from a server that has loaded everything already.

What tables are told in minutes is told in seconds here, so that graces end within a run: the slack of the
orphan horizon and the age of metadata are set for these processes.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakehouse
from lakehouse.errors import CommitUnknownError, ConflictError, FencedError, LakehouseError, UnavailableError
from lakehouse.expr import parse_where
from lakehouse.lake import Lake
from lakehouse.storage.commit import committer as commit
from lakehouse.storage.maintenance import orphans
from lakehouse.storage.table import Table
from tests.chaos.histories import LAYOUTS, How, Operation, operation

__all__ = ["GRACE_S", "OPTIONS", "Job", "Place", "Process", "hasten", "warm_up"]

_forking = multiprocessing.get_context("forkserver")
_forking.set_forkserver_preload([__name__, "lakehouse.lake", "lakehouse.io.backends.s3", "numba"])
parse_where(
    "who = 1 AND note = 'n1'"
)  # so that the server has loaded what takes long for its first condition

DEADLINE_S = 10.0
GRACE_S = 20.0
"""Longer than the deadline of commits and than any read takes."""
ORPHAN_S = 30.0
SLACK_S = 8.0
OPTIONS = {
    "snapshot_interval_s": "0.5",
    "wal.segments_max": "64",
    "commit.deadline_s": str(DEADLINE_S),
    "compaction.trigger": "4",
}
_WINDOW = 8
"""Puts of a streaming writer that are on their way at once, at most."""

Say = Callable[[str, object], None]


def hasten() -> None:
    """Lets uploads become orphans within seconds, in this process."""
    commit._HORIZON_SLACK_MS = int(SLACK_S * 1000)
    orphans._METADATA_AGE_MS = int(ORPHAN_S * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the warehouse is."""

    url: str
    storage_options: dict[str, Any]

    def connect(self) -> Lake:
        """The warehouse, for this process."""
        return lakehouse.connect(self.url, storage_options=self.storage_options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one process is to do until it is killed."""

    place: Place
    ledger: Path
    """Where it says what it does."""
    what: str
    table: str = ""
    who: int = 0
    first: int = 0
    """Number of its first operation."""
    seed: int = 0


# --- what they do -----------------------------------------------------------------------


async def _committed(table: Table, job: Job, done: Operation, number: int, say: Say) -> None:
    """Commits an operation; repeats it, under its sequence, until it is there."""
    mark = f"b{job.who}", number
    while True:
        try:
            if done.how is How.PUT:
                await table.upsert(done.rows(job.who, number), writer=mark)
            elif done.how is How.DELETE:
                await table.delete(keys=done.keys(job.who, LAYOUTS[job.table]), writer=mark)
            else:
                await table.delete(done.where(job.who), writer=mark)
        except FencedError:
            raise
        except (ConflictError, CommitUnknownError, UnavailableError) as error:
            say("repeated", f"{type(error).__name__}: {error.kind}")
            continue
        return


async def _stream(job: Job, lake: Lake, say: Say) -> None:
    table, layout, chance = await lake.table(job.table), LAYOUTS[job.table], random.Random(job.seed)
    waiting: deque[tuple[int, Any]] = deque()
    window, number = chance.randrange(1, _WINDOW + 1), job.first
    async with table.writer() as writer:
        say("epoch", writer.report().epoch)
        while True:
            done = operation(layout, job.who, number, streams=True)
            while waiting and (len(waiting) >= window or not done.streams):
                acknowledged, ack = waiting.popleft()
                await ack
                say("acked", acknowledged)
            say("sent", number)
            if done.streams:
                mark = f"s{job.who}", number
                if done.how is How.PUT:
                    ack = await writer.put(done.rows(job.who, number), writer=mark)
                else:
                    ack = await writer.delete(done.keys(job.who, LAYOUTS[job.table]), writer=mark)
                waiting.append((number, ack))
            else:
                await _committed(table, job, done, number, say)
                say("acked", number)
            number += 1
            if chance.random() < 0.3:
                await asyncio.sleep(chance.uniform(0, 0.05))


async def _batch(job: Job, lake: Lake, say: Say) -> None:
    table, layout, chance = await lake.table(job.table), LAYOUTS[job.table], random.Random(job.seed)
    number = job.first
    while True:
        say("sent", number)
        await _committed(table, job, operation(layout, job.who, number, streams=False), number, say)
        say("acked", number)
        number += 1
        if chance.random() < 0.3:
            await asyncio.sleep(chance.uniform(0, 0.1))


async def _compact(job: Job, lake: Lake, say: Say) -> None:
    chance = random.Random(job.seed)
    while True:
        table, draw = await lake.table(chance.choice(list(LAYOUTS))), chance.random()
        try:
            if draw < 0.25:
                await table.flush()
                say("flushed", 1)
            elif draw < 0.3:
                await table.rescale(chance.randrange(1, 4))
                say("rescaled", 1)
            elif draw < 0.35:
                await table.rebuild_indexes()
                say("rebuilt", 1)
            else:
                found = await table.compact(full=draw > 0.8)
                say("compacted", found.units)
                say("gave way", found.gave_way)
        except (ConflictError, CommitUnknownError, UnavailableError) as error:
            say("repeated", f"{type(error).__name__}: {error.kind}")
        await asyncio.sleep(chance.uniform(0, 0.3))


async def _expire(job: Job, lake: Lake, say: Say) -> None:
    chance = random.Random(job.seed)
    while True:
        table = await lake.table(chance.choice(list(LAYOUTS)))
        try:
            if chance.random() < 0.7:
                gone = await table.expire_snapshots(retain=chance.randrange(1, 40), grace_s=GRACE_S)
                say("expired", gone.expired)
                say("deleted", gone.snapshots + gone.files + gone.metadata + gone.segments)
            else:
                swept = await table.remove_orphans(older_than=int((time.time() - ORPHAN_S) * 1000))
                say("swept", swept.objects)
        except (ConflictError, CommitUnknownError, UnavailableError) as error:
            say("repeated", f"{type(error).__name__}: {error.kind}")
        await asyncio.sleep(chance.uniform(0, 0.5))


async def _all(job: Job, lake: Lake, say: Say) -> None:
    """A writer's first steps in each table, and maintenance."""
    for number, (name, layout) in enumerate(LAYOUTS.items()):
        table = await lake.table(name)
        async with table.writer() as writer:
            for at in range(6):
                await writer.put(operation(layout, number, 0, streams=True).rows(number, at))
                await (await writer.delete(Operation(how=How.DELETE, slots=(1,)).keys(number, layout)))
                if at % 2:
                    await table.upsert(Operation(how=How.PUT, slots=(1, 2)).rows(number, at))
                    await writer.flush()
        await table.delete(f"who = {number} AND note = 'n1'")
        for _ in range(2):
            await table.scan("note = 'n2'", freshness="wal").to_arrow()
            await table.get_many(Operation(how=How.PUT, slots=(1, 2)).keys(number, layout))
            await table.compact(full=True)
            await table.rescale(3)
        await table.delete(f"who = {number}")
        await table.compact(full=True)


_WORK: dict[str, Callable[[Job, Lake, Say], Coroutine[Any, Any, None]]] = {
    "stream": _stream,
    "batch": _batch,
    "compact": _compact,
    "expire": _expire,
    "all": _all,
}


def _run(job: Job) -> None:
    hasten()
    ledger = os.open(job.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(word: str, what: object) -> None:
        text = str(what).replace("\n", " ")
        os.write(ledger, f"{word}\t{text}\n".encode())

    async def work() -> None:
        async with job.place.connect() as lake:
            await _WORK[job.what](job, lake, say)

    try:
        asyncio.run(work())
    except FencedError:
        say("fenced", 1)
    except (CommitUnknownError, UnavailableError) as error:
        say("gave up", f"{type(error).__name__}: {error}")
    except LakehouseError as error:
        say("error", f"{type(error).__name__}: {error}")
    except Exception as error:  # the end of a process: its owner judges
        say("bug", f"{type(error).__name__}: {error}")


def warm_up(place: Place, ledger: Path) -> None:
    """Does everything once in a process that is left alone.

    What is compiled at its first use is there then for those that do not live long enough for it.
    """
    first = _forking.Process(target=_run, args=(Job(place=place, ledger=ledger, what="all"),))
    first.start()
    first.join()


class Process:
    """A process that works, and what it said."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.was_stalled = False
        self.has_done_something = False
        """Whether more was heard of it than what it was about to do."""
        self._read = 0
        self._process = _forking.Process(target=_run, args=(job,), daemon=True)
        self._process.start()

    @property
    def is_alive(self) -> bool:
        """Whether it is still there."""
        return self._process.is_alive()

    def stall(self) -> None:
        """Stops it where it is."""
        self._signal(signal.SIGSTOP)
        self.was_stalled = True

    def wake(self) -> None:
        """Lets it go on."""
        self._signal(signal.SIGCONT)

    def heard(self) -> list[tuple[str, str]]:
        """What it said since the last call."""
        if not self.job.ledger.exists():
            return []
        with self.job.ledger.open("rb") as file:
            file.seek(self._read)
            *lines, rest = file.read().split(b"\n")
            self._read = file.tell() - len(rest)
        pairs = (line.decode().split("\t", 1) for line in lines)
        found = [(word, what) for word, what in pairs]
        self.has_done_something |= any(word not in ("sent", "epoch") for word, _ in found)
        return found

    def end(self) -> None:
        """Kills it, and waits until it is gone."""
        self._process.kill()
        self._process.join()

    def _signal(self, which: signal.Signals) -> None:
        if self._process.pid is not None and self.is_alive:
            os.kill(self._process.pid, which)
