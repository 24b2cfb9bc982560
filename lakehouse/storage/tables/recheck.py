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
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from lakehouse.clock import Clock
from lakehouse.errors import CorruptionError, FormatError, LakehouseError, NotFoundError
from lakehouse.format.metadata import Snapshot
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import map_bounded
from lakehouse.log import get_logger
from lakehouse.storage.metadata.acknowledged import Acknowledged, Written
from lakehouse.storage.metadata.dense_log import DenseLog
from lakehouse.storage.metadata.snapshots import Snapshots, Spawn
from lakehouse.storage.wal.log import Wal

__all__ = ["Recheck"]

_log = get_logger(__name__)
_NAMED_MAX = 10
"""Lost objects that a message names."""


@dataclass(slots=True, kw_only=True)
class _Checked:
    """One log, and what this process knows of its own objects in it."""

    name: str
    """Name of its objects in messages."""
    log: DenseLog
    ours: Acknowledged
    is_past: Callable[[Snapshot, int], bool]
    """Returns whether the object of a number may rightly be gone, by the table's head."""
    lost: list[Written] = field(default_factory=list)
    """Our objects that were reported as lost."""

    def report(self) -> list[Written]:
        """Adds what is lost now to the report; returns what was not in there yet."""
        known = {written.token for written in self.lost}
        new = [written for written in self.ours.at_stake() if written.token not in known]
        self.lost = sorted([*self.lost, *new], key=lambda written: written.number)
        return new


class Recheck:
    """Checks that the objects this process wrote to one table, and had acknowledged, still exist.

    Args:
        store: the store that holds the table.
        root: the table's directory.
        snapshots: those of the table.
        wal: the table's write-ahead log.
        clock: measures the time since the last check.
        spawn: starts background work; None = the check waits until the connection is closed.
        concurrency: maximum number of objects that are read at the same time.
    """

    def __init__(
        self,
        store: ObjectStore,
        root: str,
        snapshots: Snapshots,
        wal: Wal,
        clock: Clock,
        spawn: Spawn | None,
        *,
        concurrency: int,
    ) -> None:
        self._store, self._root, self._snapshots = store, root, snapshots
        self._clock, self._spawn, self._concurrency = clock, spawn, concurrency
        self._looked_s = clock.steady()
        self._error: CorruptionError | None = None
        self._logs: list[_Checked] = []
        if not store.capabilities.commit_proven:
            wal.log.ours = Acknowledged()
            self._logs = [
                _Checked(name="snapshot", log=snapshots.log, ours=snapshots.remember(), is_past=_is_expired),
                _Checked(name="WAL segment", log=wal.log, ours=wal.log.ours, is_past=_is_flushed),
            ]

    @property
    def _written(self) -> list[_Checked]:
        """Logs that hold objects of ours."""
        return [checked for checked in self._logs if checked.ours]

    @property
    def _is_lost(self) -> bool:
        return any(checked.ours.at_stake() for checked in self._written)

    def refuse(self) -> None:
        """Raises the loss that was found, if any."""
        if self._error is not None:
            raise self._error

    async def before_write(self) -> None:
        """Refuses to write when an acknowledged object was found lost."""
        # A suspicion has to be settled first, and a full record must not forget what it has not checked.
        if self._error is None and any(
            checked.ours.is_suspect or checked.ours.is_full for checked in self._logs
        ):
            await self.look()
        self.refuse()

    def beside_write(self) -> None:
        """Begins a check in the background when it is time to."""
        interval = self._store.settings.recheck_interval_s
        if self._spawn is not None and self._written and self._clock.steady() - self._looked_s >= interval:
            self._looked_s = self._clock.steady()
            self._spawn(self._look_quietly, optional=True)

    async def at_end(self, *, grace_s: float | None = None) -> None:
        """Checks once more, for so many seconds at most; raises the loss that was found, if any.

        Args:
            grace_s: what is left of ``io.recheck_grace_s``, in seconds; None = all of it.
        """
        # Also where a loss is known: others may have overwritten more since it was found.
        if self._written:
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
        for checked in self._written:
            await self._look_at(checked)
        # Only now the head is read: without a loss, this costs no request.
        if self._is_lost:
            await self._pardon_past()
        if self._is_lost:
            await self._give_up()
            return
        for checked in self._written:
            checked.ours.looked_at()

    async def _look_at(self, checked: _Checked) -> None:
        """Lists a log from the first of our objects on; reads what has to be read to judge them."""
        log, ours = checked.log, checked.ours
        listed = [number async for number, _ in log.sizes(after=min(ours.numbers) - 1)]
        numbers = ours.to_read(listed)
        reads = map_bounded(log.find, numbers, self._concurrency)
        for number, fetched in zip(numbers, [fetched async for fetched in reads], strict=True):
            if fetched is None:
                ours.saw_nothing(number)
            elif log is self._snapshots.log:
                # A damaged snapshot tells nothing of the one before it, and hides no loss of another.
                with contextlib.suppress(FormatError):
                    self._snapshots.decoded(fetched)  # notes the snapshot that it builds on

    async def _pardon_past(self) -> None:
        """Forgets objects that were rightly deleted: of expired snapshots, and of dropped tables."""
        self._snapshots.forget()
        try:
            head = (await self._snapshots.head()).snapshot
        except NotFoundError:
            # Without a head the table was dropped and purged.
            head = None
        for checked in self._written:
            for written in checked.ours.at_stake():
                if head is None or checked.is_past(head, written.number):
                    checked.ours.pardon(written.number)

    async def _give_up(self) -> None:
        new = [written for checked in self._logs for written in checked.report()]
        if not new:
            return
        what = "; ".join(text for checked in self._logs for text in _named(checked.name, checked.lost))
        of_snapshots, of_segments = (checked.lost for checked in self._logs)
        lost = [*of_snapshots, *of_segments]
        self._error = CorruptionError(
            f"what this process wrote to {self._root} and had acknowledged was overwritten or is gone: "
            f"{what}. The store at {self._store.url} ignored a condition, so nothing more is written to it. "
            "Look for these rows, mend the store, and write again what is missing.",
            kind="acknowledged-lost",
            key=self._root,
            snapshots=[written.number for written in of_snapshots],
            segments=[written.number for written in of_segments],
            tokens=[written.token for written in lost],
            notes=[written.note for written in lost if written.note],
        )
        _log.error("acknowledged rows were lost", table=self._root, what=what)
        reason = f"{what} of {self._root}, which a writer had acknowledged, was overwritten or is gone"
        await self._store.withdraw(reason)


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
