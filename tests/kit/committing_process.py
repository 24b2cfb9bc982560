"""A process that commits: started by tests, told when to begin, killed when it suits them.

It is forked from a server that has loaded everything already, because loading takes longer than twenty
commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import lakehouse
from lakehouse.errors import AlreadyExistsError
from tests.kit.forking import FORKING

__all__ = ["Job", "Writer", "writers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Rows ``(who, number)`` to commit one by one, for the numbers from ``first`` to ``last``."""

    url: str
    storage_options: dict[str, Any]
    table: str
    who: int
    first: int = 0
    last: int
    how: str = "append"
    """``append``, ``insert`` (keys that must be new), or ``sequence`` (calls that can be repeated)."""


def _run(job: Job, owner: Connection) -> None:
    asyncio.run(_work(job, owner))


async def _work(job: Job, owner: Connection) -> None:
    async with lakehouse.connect(job.url, storage_options=job.storage_options) as lake:
        table = await lake.table(job.table)
        await table.current_snapshot()
        owner.send("ready")
        await asyncio.to_thread(owner.recv)
        for number in range(job.first, job.last + 1):
            more: dict[str, Any] = {"message": f"{job.who}:{number}"}
            if job.how == "insert":
                more["on_conflict"] = "error"
            if job.how == "sequence":
                more["writer"] = (f"writer-{job.who}", number)
            try:
                done = await table.append([{"who": job.who, "number": number}], **more)
            except AlreadyExistsError:
                owner.send({"number": number, "taken": True})
                continue
            owner.send({"number": number, "requests": done.cost.requests, "attempts": done.attempts})


class Writer:
    """A process that commits, and what it says."""

    def __init__(self, job: Job) -> None:
        self._owner, theirs = FORKING.Pipe()
        self.process = FORKING.Process(target=_run, args=(job, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def wait_until_ready(self) -> None:
        """Until it has opened the table."""
        assert self._owner.recv() == "ready"

    def begin(self) -> None:
        """Lets it commit."""
        self._owner.send("begin")

    def answers(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The next things it was told of its calls: so many, or all until its end."""
        found: list[dict[str, Any]] = []
        with suppress(EOFError, ConnectionResetError):  # half a message was not sent
            while limit is None or len(found) < limit:
                found.append(self._owner.recv())
        return found

    def kill(self) -> None:
        """Ends it, wherever it is."""
        self.process.kill()

    def close(self) -> None:
        """Ends it if need be, and waits until it is gone."""
        self.process.kill()
        self.process.join()
        self._owner.close()


@contextmanager
def writers(jobs: Sequence[Job]) -> Iterator[list[Writer]]:
    """Processes that are ready to commit."""
    with ExitStack() as stack:
        found = []
        for job in jobs:
            found.append(Writer(job))
            stack.callback(found[-1].close)
        for one in found:
            one.wait_until_ready()
        yield found
