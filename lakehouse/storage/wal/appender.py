"""Appender of the write-ahead log: takes the log over, then appends one segment after the other.

Taking over is a fence: a segment without rows and with a higher epoch. The writer before loses
the create of the next number, reads the object there, and so learns of the fence.

Invariant: :meth:`WalAppender.append` returns only when the segment of the next number is ours, and was
known to be the next one not longer ago than the deadline. After that, a number may have been used, its
segment deleted, and the number be free again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from lakehouse.clock import Clock
from lakehouse.errors import CommitUnknownError, ConflictError, FencedError, InternalError
from lakehouse.format.metadata import SegmentHeader, Snapshot, WalBatch, WalSegment, encode_segment
from lakehouse.ids import new_token
from lakehouse.io.protocols import Fetched
from lakehouse.io.work import in_thread
from lakehouse.storage.wal.log import Wal
from lakehouse.storage.wal.tail import Tail

__all__ = ["WalAppender", "take_over"]

_BIG_ROWS = 4_096
"""Rows above which a segment is encoded in a thread, as it would hold up the event loop."""
_MARKS_MAX = 1_000
"""Maximum clients whose sequence a segment carries; the newest stay."""
_NAMED_MAX = 5
"""Clients named in a message at most."""


class WalAppender:
    """The end of a log that one process writes.

    Args:
        wal: the log.
        fence: the segment that took it over.
        clock: measures the deadline.
        deadline_s: seconds for which it may be relied upon that a number is the next one.
        seen_at: latest time, by the steady clock, at which the fence was created.
        before: segments before the fence that the head did not cover; None = they have to be listed.
    """

    def __init__(
        self,
        wal: Wal,
        fence: SegmentHeader,
        *,
        clock: Clock,
        deadline_s: float,
        seen_at: float,
        before: Tail | None = None,
    ) -> None:
        self._wal, self._clock, self._deadline_s = wal, clock, deadline_s
        self.fence = fence
        """The segment that took the log over."""
        self._seen_at = seen_at
        self.before = before
        """Segments before the fence that the head did not cover; None = they have to be listed."""
        self.marks: dict[str, int] = dict(fence.writers)
        """Last sequence of each client that counts its puts, the newest last."""
        self.last = fence.number
        """Number of the newest segment."""

    @property
    def epoch(self) -> int:
        """Epoch of this writer."""
        return self.fence.epoch

    def header(self, schema_id: int) -> SegmentHeader:
        """Returns the header of the next segment; its token is the same for all attempts to append it."""
        # The first in the dict is the client that has been silent longest.
        while len(self.marks) > _MARKS_MAX:
            self.marks.pop(next(iter(self.marks)))
        return dataclasses.replace(
            self.fence,
            number=self.last + 1,
            token=new_token(),
            time_ms=self._clock.now_ms(),
            schema_id=schema_id,
            writers=dict(self.marks),
        )

    async def append(self, header: SegmentHeader, batches: Sequence[WalBatch], *, codec: str) -> WalSegment:
        """Creates the next segment. After CommitUnknownError call it again with the same header.

        Raises:
            FencedError: another writer has taken the log over.
            CommitUnknownError: it is not known whether the segment exists.
        """
        if header.number != self.last + 1:
            raise InternalError(f"segment {header.number} does not follow {self.last}")
        segment = WalSegment(header=header, batches=tuple(batches))
        began = self._clock.steady()
        # Past the deadline the number may be used and free again, so the log is read before it is written.
        if began - self._seen_at > self._deadline_s and await self._is_there(header):
            self._seen_at, self.last = began, header.number
            return segment
        began = self._clock.steady()
        rows = sum(batch.rows.num_rows for batch in batches)

        def encode() -> bytes:
            return encode_segment(header, batches, codec=codec)

        data = await in_thread(encode) if rows > _BIG_ROWS else encode()
        try:
            await self._wal.log.append(header.number, data, token=header.token, note=_clients(header))
        except ConflictError as lost:
            raise await self._fenced(lost) from lost
        now = self._clock.steady()
        if now - self._seen_at > self._deadline_s:
            raise CommitUnknownError(
                f"the answer to WAL segment {self._wal.log.key(header.number)} came later than the deadline "
                f"of {self._deadline_s:g} s, so it proves nothing",
                key=self._wal.log.key(header.number),
                token=header.token,
            )
        # As of the request and not of its answer: others may have gone on in between.
        self._seen_at, self.last = began, header.number
        return segment

    async def _is_there(self, header: SegmentHeader) -> bool:
        """Returns whether an earlier attempt made the segment; FencedError if its number is not the next."""
        began = self._clock.steady()
        # From our last segment on: it is there, unless somebody has taken over and flushed it.
        newest = await self._wal.log.newest(after=self.last - 1)
        if newest == header.number and (await self._wal.read(newest)).header.token == header.token:
            return True
        if newest != self.last:
            raise FencedError(
                f"WAL segment {self.last} of this writer is not the newest any more ({newest}): another "
                "writer has taken the log over while this one was held up. Open a new writer.",
                epoch=self.epoch,
                newest=newest,
            )
        self._seen_at = began
        return False

    async def _fenced(self, lost: ConflictError) -> FencedError:
        epoch = (await _winner(self._wal, lost, self.last + 1)).epoch
        return FencedError(
            f"another writer (epoch {epoch}) has taken over the log of this one (epoch {self.epoch}) at "
            f"segment {self.last + 1}; rows acknowledged before are safe. Open a new writer to go on.",
            epoch=self.epoch,
            winner_epoch=epoch,
        )


async def take_over(wal: Wal, head: Snapshot, *, clock: Clock, deadline_s: float) -> WalAppender:
    """Fences off the current writer of a table's log and returns the only appender from then on.

    Args:
        wal: the log.
        head: the newest snapshot, read after the user's call began; the table has a log.
        clock: measures the deadline.
        deadline_s: as for :class:`WalAppender`.
    """
    assert head.wal is not None
    epoch, marks = head.wal.epoch, dict[str, int]()
    # Before the listing: numbers above it are known to be free as of then, and not of its end.
    seen_at = clock.steady()
    listed = await wal.tail(head)
    tail: Tail | None = listed
    last = listed.upto
    newest = (await wal.read(last)).header if last else None
    while True:
        if newest is not None:
            # Each segment carries the marks of all before it, so the newest one is enough.
            epoch, marks = max(epoch, newest.epoch), dict(newest.writers)
        fence = SegmentHeader(
            table=head.table,
            number=last + 1,
            epoch=epoch + 1,
            token=new_token(),
            time_ms=clock.now_ms(),
            schema_id=head.schema.id,
            writers=marks,
        )
        began = clock.steady()
        try:
            await wal.log.append(fence.number, encode_segment(fence), token=fence.token)
        except ConflictError as lost:
            # The winner may be a segment or another's fence: the next attempt goes above it.
            last, seen_at, tail = fence.number, began, None
            newest = await _winner(wal, lost, last)
            continue
        if clock.steady() - seen_at > deadline_s:
            # The number may have been free because its segment was deleted.
            seen_at, tail = clock.steady(), None
            last = await wal.log.newest() or last
            if last != fence.number:
                newest = (await wal.read(last)).header
                continue
        return WalAppender(wal, fence, clock=clock, deadline_s=deadline_s, seen_at=seen_at, before=tail)


def _clients(header: SegmentHeader) -> str | None:
    """Names the last clients' sequences up to a segment, for people; None without any."""
    last = list(header.writers.items())[-_NAMED_MAX:]
    return ", ".join(f"sequence {sequence} of writer {name!r}" for name, sequence in last) or None


async def _winner(wal: Wal, lost: ConflictError, number: int) -> SegmentHeader:
    """Returns the header of the segment that has the number another was to get."""
    winner = lost.context.get("winner")
    segment = await (wal.decoded(winner.data, number) if isinstance(winner, Fetched) else wal.read(number))
    return segment.header
