"""Acknowledged rows of the log in the memory of its writer's process, which fresh reads there take.

Between a look at the head and these rows nothing is missing. A writer has its epoch in a snapshot before it
sends its first row (``docs/spec/v1/wal.md``). So where a head that is read now has this writer's epoch, no
other writer has sent a row yet, and each row of the log above the head is one of this writer's.

Invariant: the segments held are neighbours up to the newest acknowledged one. Rows whose segment is on its
way are not among them; a reader waits for the outcome, since a reader elsewhere may have seen them already. A
segment is let go only when a snapshot that this process knows covers it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakehouse.format.metadata import SegmentHeader, SegmentRange, Snapshot, WalSegment
from lakehouse.format.schema import Field, TableSchema
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.wal.key_index import KeyIndex

__all__ = ["HeldLog", "HeldRows", "LogMemory"]

_SETTLE_S = 1.0
"""Seconds that a reader waits for a segment on its way before it reads the bucket."""
_SEGMENT_BYTES, _COLUMN_BYTES, _KEY_BYTES = 350, 1_000, 200
"""Estimated bytes beside values that a segment, each of its columns and each key in an index take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRows:
    """Acknowledged rows above a snapshot, as of one moment."""

    first: int
    """Number of the first segment that the snapshot does not cover."""
    segments: tuple[WalSegment, ...]
    """All segments that were held, ascending; the last is not covered."""
    keys: KeyColumns | None
    """Key columns; None in a table without a primary key."""
    index: KeyIndex

    def range(self, at: int) -> SegmentRange:
        """Returns the segments that are not covered, as a range that snapshot ``at`` is going to cover."""
        above = self.segments[self.first - self.segments[0].header.number :]
        size = sum(batch.rows.nbytes for segment in above for batch in segment.batches)
        return SegmentRange(first=self.first, last=self.segments[-1].header.number, size=size, at=at)

    async def newest_rows(self, key: bytes, fields: Sequence[Field]) -> list[pa.Table]:
        """Returns the rows of a row key, newest first: each a table of one row with its ``_VALUE_KIND``."""
        index = self.index
        if self.keys is None:
            return []
        if not index.fits(self.keys):
            # A key column was widened meanwhile, which is rare: this read has an index of its own.
            index = KeyIndex()
        await index.extend(self.segments, self.keys)
        return index.newest_rows(key, fields, first=self.first, last=self.segments[-1].header.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLog:
    """The log as its writer's process held it at one moment."""

    memory: LogMemory
    after: int
    """Number of the newest segment that is not held any more, or never was."""
    segments: tuple[WalSegment, ...]
    """All segments above ``after`` that were acknowledged at that moment."""
    index: KeyIndex
    """Index of these segments and of those that came later, from the same one on."""

    def serves(self, head: Snapshot) -> bool:
        """Returns whether all that is acknowledged is in these segments and a head read after this moment."""
        wal = head.wal
        if wal is not None and wal.epoch > self.memory.epoch:
            # Another writer has the log, for ever.
            self.memory.close()
        return wal is not None and wal.epoch == self.memory.epoch and wal.upto >= self.after

    def above(self, head: Snapshot, schema: TableSchema) -> HeldRows | None:
        """Returns the rows that the head does not cover; None when there are none."""
        upto = 0 if head.wal is None else head.wal.upto
        if not self.segments or self.segments[-1].header.number <= upto:
            return None
        return HeldRows(
            first=max(self.segments[0].header.number, upto + 1),
            segments=self.segments,
            keys=KeyColumns(schema.key_fields) if schema.primary_key else None,
            index=self.index,
        )


class LogMemory:
    """The segments that this process has appended and that are in no data file yet.

    Args:
        fence: the segment with which the writer took the log over; a snapshot announces its epoch and
            covers what is before it.
        max_bytes: estimated bytes that segments and the index of their keys may take; with more, all are
            let go, and fresh reads go to the bucket until these are flushed.
    """

    def __init__(self, fence: SegmentHeader, *, max_bytes: int) -> None:
        self.epoch = fence.epoch
        # Held as well: a commit that covers the first rows covers it with them.
        self.segments: dict[int, WalSegment] = {fence.number: WalSegment(header=fence)}
        """Segments that are held, by their numbers, ascending."""
        self._max_bytes, self._bytes = max_bytes, _weight(self.segments[fence.number])
        self._after = self._flushed = fence.number - 1
        """Number of the newest segment that is known to be flushed."""
        self._on_way: asyncio.Future[None] | None = None
        self._state: HeldLog | None = None
        self._index = KeyIndex()
        self.is_open = True
        """Whether rows are read from here: False once the writer has ended, or is known to be fenced off."""

    # --- for reads ----------------------------------------------------------------

    async def settled(self, *, waits: bool = True) -> HeldLog | None:
        """Returns what is acknowledged, once the outcome of a segment that is on its way is known.

        None where the bucket has to be read: the outcome stays open, not all that is unflushed is held, or
        the writer has ended. Without ``waits`` a segment on its way is left out.
        """
        on_way = self._on_way if waits else None
        if on_way is not None:
            # asyncio.wait leaves the future alone when one of those who wait for it gives up.
            await asyncio.wait([on_way], timeout=_SETTLE_S)
            if not on_way.done():
                return None
        if not self.is_open or self._flushed < self._after:
            return None
        if self._state is None:
            held = tuple(self.segments.values())
            self._state = HeldLog(memory=self, after=self._after, segments=held, index=self._index)
        return self._state

    # --- for the writer -----------------------------------------------------------

    @contextlib.contextmanager
    def sending(self) -> Generator[None, None, None]:
        """Says that a segment is on its way while the block runs."""
        self._on_way = on_way = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            self._on_way = None
            on_way.set_result(None)

    def add(self, segment: WalSegment) -> None:
        """Appends the next segment, in the same step of the event loop in which it is acknowledged."""
        if not self.is_open:
            return
        self.segments[segment.header.number] = segment
        self._bytes += _weight(segment)
        self._state = None
        if self._bytes > self._max_bytes:
            self._let_go(segment.header.number)

    def release(self, upto: int) -> None:
        """Lets segments go that a snapshot this process knows covers, as they are flushed."""
        self._flushed = max(self._flushed, upto)
        self._let_go(upto)

    def close(self) -> None:
        """Ends: nothing is read from here any more, apart from what reads under way have taken."""
        self.is_open = False
        self.segments.clear()
        self._state, self._index = None, KeyIndex()

    def _let_go(self, upto: int) -> None:
        for number in [number for number in self.segments if number <= upto]:
            self._bytes -= _weight(self.segments.pop(number))
        self._after = max(self._after, upto)
        # Reads under way keep the index that they took, which holds every segment that they took.
        self._state, self._index = None, KeyIndex()


def _weight(segment: WalSegment) -> int:
    total = _SEGMENT_BYTES
    for batch in segment.batches:
        rows = batch.rows
        total += rows.nbytes + _COLUMN_BYTES * rows.num_columns + _KEY_BYTES * rows.num_rows
    return total
