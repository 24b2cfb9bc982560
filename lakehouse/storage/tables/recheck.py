"""Rechecks of acknowledged writes: finds out that one is gone, reports it, and stops commits.

Lost objects are noticed in whatever is read anyway, and by a listing of each log beside the commits of a
process, at most once in ``io.recheck_interval_s``, and when a writer or the connection is closed. Only
stores that may ignore conditions are checked.

Invariant: once an acknowledged object was found lost, every write of this process to the table is refused
with the list of what may be lost, and the proof of the store is withdrawn, so that later processes do not
commit either.
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
"""Lost objects that a message names."""


class Recheck:
    """Checks that the objects this process wrote to one table, and had acknowledged, still exist.

    Args:
        store: the store that holds the table.
        root: the table's directory.
        history: the table's snapshots.
        wal: the table's write-ahead log.
        clock: measures the time since the last check.
        spawn: starts background work; None = the check waits until the connection is closed.
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
        """Each log with our objects in it, and a test of numbers whose object may rightly be gone."""
        both = ((self._history.log, _is_expired), (self._wal.log, _is_flushed))
        return [(log, log.ours, is_past) for log, is_past in both if log.ours]

    def refuse(self) -> None:
        """Raises the loss that was found, if any."""
        if self._error is not None:
            raise self._error

    async def before_write(self) -> None:
        """Refuses to write when an acknowledged object was found lost."""
        if self._error is None and any(
            # A suspicion has to be settled first, and a full record must not forget what it has not checked.
            ours.lost or ours.doubtful or ours.is_full
            for _, ours, _ in self._logs
        ):
            await self.look()
        self.refuse()

    def beside_write(self) -> None:
        """Begins a check in the background when it is time to."""
        interval = self._store.settings.recheck_interval_s
        if self._spawn is not None and self._logs and self._clock.steady() - self._looked_s >= interval:
            self._looked_s = self._clock.steady()
            self._spawn(self._look_quietly, optional=True)

    async def at_end(self, *, grace_s: float | None = None) -> None:
        """Checks once more, for so many seconds at most; raises the loss that was found, if any.

        Args:
            grace_s: what is left of ``io.recheck_grace_s``, in seconds; None = all of it.
        """
        # Also where a loss is known: others may have overwritten more since it was found.
        if self._logs:
            try:
                async with asyncio.timeout(
                    self._store.settings.recheck_grace_s if grace_s is None else grace_s
                ):
                    await self.look()
            except (LakehouseError, TimeoutError) as error:
                # A store that is away must not keep a program from ending.
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
        """Compares the logs with the objects that were acknowledged."""
        self._looked_s = self._clock.steady()
        logs = self._logs
        for log, ours, _ in logs:
            for replaced in await _look_at(log, ours):
                if log is self._history.log:
                    self._history.decoded(replaced)  # notes the snapshot that it builds on
        await self._look_at_children()
        # Only now the head is read: without a loss, this costs no request.
        if any(ours.lost for _, ours, _ in logs):
            await self._pardon_past()
        if any(ours.lost for _, ours, _ in logs):
            await self._give_up()
            return
        for _, ours, _ in logs:
            ours.looked_at()

    async def _look_at_children(self) -> None:
        """Reads the snapshots after ours that were not read yet: each names the one it builds upon."""
        ours = self._history.log.ours
        for number in [] if ours is None else ours.unfollowed:
            child = await self._history.log.find(number + 1)
            if child is not None:
                self._history.decoded(child)

    async def _pardon_past(self) -> None:
        """Forgets objects that were rightly deleted: of expired snapshots, and of dropped tables."""
        self._history.forget()
        try:
            head = (await self._history.head()).snapshot
        except NotFoundError:
            # Without a head the table was dropped and purged.
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
            snapshots=[written.number for written in of_snapshots],
            segments=[written.number for written in of_segments],
            tokens=[written.token for written in (*of_snapshots, *of_segments)],
            notes=[written.note for written in (*of_snapshots, *of_segments) if written.note],
        )
        self._error = lost
        _log.error("acknowledged rows were lost", table=self._root, what=what)
        reason = f"{what} of {self._root}, which a writer had acknowledged, was overwritten or is gone"
        await self._store.withdraw(reason)


async def _look_at(log: DenseLog, ours: Acknowledged) -> list[Fetched]:
    """Lists a log; reads and returns the objects that the listing does not confirm."""
    mine, read = list(ours.numbers), list[Fetched]()
    there = {number async for number, _ in log.sizes(after=mine[0] - 1)}
    for number in mine:
        if number in there and number not in ours.doubtful:
            continue
        fetched = await log.find(number)
        if fetched is None:
            ours.saw_nothing(number)
        else:
            read.append(fetched)
    return read


def _named(what: str, lost: list[Written]) -> list[str]:
    """Names each lost object, up to a limit."""
    texts = [
        f"{what} {written.number} (token {written.token}{', ' + written.note if written.note else ''})"
        for written in lost[:_NAMED_MAX]
    ]
    more = len(lost) - _NAMED_MAX
    return [*texts, f"{more} more"] if more > 0 else texts


def _is_expired(head: Snapshot, number: int) -> bool:
    return number < head.earliest


def _is_flushed(head: Snapshot, number: int) -> bool:
    """Returns whether the rows of a segment are in data files, so that it may be deleted."""
    if head.wal is None or number > head.wal.upto:
        return False
    return not any(segments.first <= number <= segments.last for segments in head.with_positions().segments)
