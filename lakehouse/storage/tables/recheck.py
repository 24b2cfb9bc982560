"""Finding out that something acknowledged is gone, saying what, and committing no more.

It is looked for in whatever is read anyway, by one listing of each log beside the commits of a process, at
most once in ``io.recheck_interval_s``, and when a writer or the connection is closed. Only stores that may
ignore conditions are looked at.

Invariant: once something acknowledged was found lost, every write of this process to the table is refused
with what is at stake, and the proof of the store is withdrawn, so that no process that begins later commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lakehouse.clock import Clock
from lakehouse.errors import CorruptionError, LakehouseError, NotFoundError
from lakehouse.format.metadata import Snapshot
from lakehouse.io.protocols import Fetched
from lakehouse.io.store import ObjectStore
from lakehouse.log import get_logger
from lakehouse.storage.metadata.acknowledged import Acknowledged, Written
from lakehouse.storage.metadata.dense_log import DenseLog
from lakehouse.storage.metadata.snapshots import History, Spawn
from lakehouse.storage.wal.log import Wal

__all__ = ["Recheck"]

_log = get_logger(__name__)
_NAMED_MAX = 10


class Recheck:
    """Looks after what this process had acknowledged of one table.

    Args:
        store: where the table is.
        root: its directory.
        history: its snapshots.
        wal: its write-ahead log.
        clock: measures how long ago it was looked.
        spawn: starts work that nobody waits for; None = it is looked only when the connection is closed.
    """

    def __init__(
        self, store: ObjectStore, root: str, history: History, wal: Wal, clock: Clock, spawn: Spawn | None
    ) -> None:
        self._store, self._root, self._history, self._wal = store, root, history, wal
        self._clock, self._spawn = clock, spawn
        self._looked_s = clock.steady()
        self._error: CorruptionError | None = None
        if not store.capabilities.commit_proven:
            history.log.ours, wal.log.ours = Acknowledged(), Acknowledged()

    @property
    def _logs(self) -> list[tuple[DenseLog, Acknowledged, Callable[[Snapshot, int], bool]]]:
        """Each log with what is ours of it, and whether a number is needed by nobody any more."""
        both = ((self._history.log, _is_expired), (self._wal.log, _is_flushed))
        return [(log, log.ours, is_past) for log, is_past in both if log.ours]

    def refuse(self) -> None:
        """Raises what was found lost."""
        if self._error is not None:
            raise self._error

    async def before_write(self) -> None:
        """Refuses to write when something acknowledged was found lost."""
        if self._error is None and any(
            ours.lost or ours.doubtful or ours.is_full for _, ours, _ in self._logs
        ):
            await self.look()
        self.refuse()

    def beside_write(self) -> None:
        """Looks beside other work when it is time to."""
        interval = self._store.settings.recheck_interval_s
        if self._spawn is not None and self._logs and self._clock.steady() - self._looked_s >= interval:
            self._looked_s = self._clock.steady()
            self._spawn(self._look_quietly, optional=True)

    async def at_end(self, *, grace_s: float | None = None) -> None:
        """Looks once more, for so many seconds at most; raises what was found lost.

        Args:
            grace_s: what is left of ``io.recheck_grace_s``; None = all of it.
        """
        if self._logs and self._error is None:
            try:
                async with asyncio.timeout(
                    self._store.settings.recheck_grace_s if grace_s is None else grace_s
                ):
                    await self.look()
            except (LakehouseError, TimeoutError) as error:
                _log.warning(
                    "it could not be looked whether what was acknowledged is still there",
                    table=self._root,
                    error=repr(error),
                )
        self.refuse()

    async def _look_quietly(self) -> None:
        try:
            await self.look()
        except LakehouseError as error:
            _log.info("not looked after what was acknowledged", table=self._root, kind=error.kind)

    async def look(self) -> None:
        """Compares what is there with what was acknowledged."""
        self._looked_s = self._clock.steady()
        logs = self._logs
        for log, ours, _ in logs:
            for other in await _look_at(log, ours):
                if log is self._history.log:
                    self._history.decoded(other)  # says what it builds upon
        await self._look_at_children()
        if any(ours.lost for _, ours, _ in logs):
            await self._pardon_past()
        if any(ours.lost for _, ours, _ in logs):
            await self._give_up()
            return
        for _, ours, _ in logs:
            ours.looked_at()

    async def _look_at_children(self) -> None:
        """Reads snapshots that came after ours and were not read yet: each says what it builds upon."""
        ours = self._history.log.ours
        for number in [] if ours is None else ours.unfollowed:
            child = await self._history.log.find(number + 1)
            if child is not None:
                self._history.decoded(child)

    async def _pardon_past(self) -> None:
        """Forgets what was rightly deleted since: of snapshots that expired, and dropped tables."""
        self._history.forget()
        try:
            head = (await self._history.head()).snapshot
        except NotFoundError:
            head = None
        for _, ours, is_past in self._logs:
            for number in list(ours.lost):
                if head is None or is_past(head, number):
                    ours.pardon(number)

    async def _give_up(self) -> None:
        snapshots, segments = self._history.log.ours, self._wal.log.ours
        of_snapshots = [] if snapshots is None else snapshots.at_stake(builds=True)
        of_segments = [] if segments is None else segments.at_stake(builds=False)
        what = "; ".join([*_named("snapshot", of_snapshots), *_named("WAL segment", of_segments)])
        lost = CorruptionError(
            f"what this process wrote to {self._root} and had acknowledged was overwritten or is gone: "
            f"{what}. The store at {self._store.url} ignored a condition, so nothing more is written to it. "
            "Look for these rows, mend the store, and write again what is missing.",
            kind="acknowledged-lost",
            key=self._root,
            snapshots=[one.number for one in of_snapshots],
            segments=[one.number for one in of_segments],
            tokens=[one.token for one in (*of_snapshots, *of_segments)],
            notes=[one.note for one in (*of_snapshots, *of_segments) if one.note],
        )
        self._error = lost
        _log.error("acknowledged rows were lost", table=self._root, what=what)
        reason = f"{what} of {self._root}, which a writer had acknowledged, was overwritten or is gone"
        await self._store.withdraw(reason)


async def _look_at(log: DenseLog, ours: Acknowledged) -> list[Fetched]:
    """One listing; whatever it shows otherwise is read and returned."""
    mine, read = list(ours.numbers), list[Fetched]()
    there = {number async for number, _ in log.sizes(after=mine[0] - 1)}
    for number in mine:
        if number in there and number not in ours.doubtful:
            continue
        found = await log.find(number)
        if found is None:
            ours.saw_nothing(number)
        else:
            read.append(found)
    return read


def _named(what: str, found: list[Written]) -> list[str]:
    """Each of them in words, as far as a message has room."""
    texts = [
        f"{what} {one.number} (token {one.token}{', ' + one.note if one.note else ''})"
        for one in found[:_NAMED_MAX]
    ]
    more = len(found) - _NAMED_MAX
    return [*texts, f"{more} more"] if more > 0 else texts


def _is_expired(head: Snapshot, number: int) -> bool:
    return number < head.earliest


def _is_flushed(head: Snapshot, number: int) -> bool:
    """Whether the rows of a segment are in data files, so that it may be deleted."""
    if head.wal is None or number > head.wal.upto:
        return False
    return not any(one.first <= number <= one.last for one in head.carried().segments)
