"""Appending to the write-ahead log: taking it over, and one segment after the other.

Taking over is a fence: a segment without rows and with a higher epoch. Whoever had the log before loses
the create of the next number, reads what stands there, and knows.

Invariant: :meth:`WalAppender.append` returns only when the segment of the next number is ours, and was
known to be the next one not longer ago than the deadline; else a number may have been used, deleted and
be free again.
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

__all__ = ["WalAppender", "take_over"]

_BIG_ROWS = 4_096
"""Encoding more rows would hold up the loop."""
_MARKS_MAX = 1_000
_NAMED_MAX = 5


class WalAppender:
    """The end of a log that one process writes.

    Args:
        wal: the log.
        fence: the segment that took it over.
        clock: measures the deadline.
        deadline_s: how long it may be relied upon that a number is the next one.
        seen_at: when the fence was created, at the latest.
    """

    def __init__(
        self, wal: Wal, fence: SegmentHeader, *, clock: Clock, deadline_s: float, seen_at: float
    ) -> None:
        self._wal, self._fence, self._clock, self._deadline_s = wal, fence, clock, deadline_s
        self._seen_at = seen_at
        self.marks: dict[str, int] = dict(fence.writers)
        """Last sequence of each client that counts its puts."""
        self.last = fence.number
        """Number of the newest segment."""

    @property
    def epoch(self) -> int:
        """Of this writer."""
        return self._fence.epoch

    def header(self, schema_id: int) -> SegmentHeader:
        """Of the next segment; the same token for all its attempts."""
        while len(self.marks) > _MARKS_MAX:
            self.marks.pop(next(iter(self.marks)))
        return dataclasses.replace(
            self._fence,
            number=self.last + 1,
            token=new_token(),
            time_ms=self._clock.now_ms(),
            schema_id=schema_id,
            writers=dict(self.marks),
        )

    async def append(self, header: SegmentHeader, batches: Sequence[WalBatch], *, codec: str) -> WalSegment:
        """Creates the next segment. After CommitUnknownError it may be called again with the same header.

        Raises:
            FencedError: another writer has taken the log over.
            CommitUnknownError: it is not known whether the segment is there.
        """
        if header.number != self.last + 1:
            raise InternalError(f"segment {header.number} does not follow {self.last}")
        segment = WalSegment(header=header, batches=tuple(batches))
        began = self._clock.steady()
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
        self._seen_at, self.last = began, header.number
        return segment

    async def _is_there(self, header: SegmentHeader) -> bool:
        """Whether the segment has been created by an earlier attempt; if not, whether it is the next."""
        began = self._clock.steady()
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


async def take_over(
    wal: Wal, head: Snapshot, *, clock: Clock, deadline_s: float, schema_id: int
) -> WalAppender:
    """Fences off whoever had the log of a table, and is the one to append to it from then on.

    Args:
        wal: the log.
        head: the newest snapshot, read after the call of the user began; it has a log.
        clock: measures the deadline.
        deadline_s: see :class:`WalAppender`.
        schema_id: of the head.
    """
    assert head.wal is not None
    epoch, marks = head.wal.epoch, dict[str, int]()
    seen_at = clock.steady()
    last = (await wal.tail(head)).upto
    newest = (await wal.read(last)).header if last else None
    while True:
        if newest is not None:
            epoch, marks = max(epoch, newest.epoch), dict(newest.writers)
        fence = SegmentHeader(
            table=head.table,
            number=last + 1,
            epoch=epoch + 1,
            token=new_token(),
            time_ms=clock.now_ms(),
            schema_id=schema_id,
            writers=marks,
        )
        began = clock.steady()
        try:
            await wal.log.append(fence.number, encode_segment(fence), token=fence.token)
        except ConflictError as lost:
            last, seen_at = fence.number, began
            newest = await _winner(wal, lost, last)
            continue
        if clock.steady() - seen_at > deadline_s:
            # The number may have been free because its segment was deleted.
            seen_at = clock.steady()
            last = await wal.log.newest() or last
            if last != fence.number:
                newest = (await wal.read(last)).header
                continue
        return WalAppender(wal, fence, clock=clock, deadline_s=deadline_s, seen_at=seen_at)


def _clients(header: SegmentHeader) -> str | None:
    """The clients' sequences up to a segment, for people."""
    last = list(header.writers.items())[-_NAMED_MAX:]
    return ", ".join(f"sequence {sequence} of writer {name!r}" for name, sequence in last) or None


async def _winner(wal: Wal, lost: ConflictError, number: int) -> SegmentHeader:
    """The header of the segment that stands where another was to be created."""
    winner = lost.context.get("winner")
    found = await (wal.decoded(winner.data, number) if isinstance(winner, Fetched) else wal.read(number))
    return found.header
