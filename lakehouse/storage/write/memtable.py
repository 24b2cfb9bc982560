"""Rows of a streaming writer that are durable in the log and in no data file yet.

A memtable collects whole segments, so that it can be put into files without another look at the log.
Rows are sorted when they are flushed, by vectors of keys; a structure that kept them sorted would cost
more on every put than that sort costs once. Buckets are separated at the flush as well: a segment
leaves the log with the rows of all its buckets.

::

    add()        full, old, or asked for        oldest()           flushed()
    ───► ACTIVE ───────── close() ─────► IMMUTABLE ────────► FLUSHING ────────► FLUSHED
          │  ▲                                                │    ▲
          └──┘ add(), also while max_waiting are closed       └────┘ oldest(): the flush failed

Invariant: memtables are flushed in the order they were filled, and every row held is counted. No more
than ``max_waiting`` wait: while so many do, the active one stays open, whatever its size.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lakehouse.format.metadata import WalSegment

__all__ = ["Memtable", "MemtableState", "Memtables"]

_FULL = 0.8
"""Share of its maximum at which a memtable is closed: the segment under way still fits."""
_SEGMENT_BYTES, _COLUMN_BYTES = 350, 1_000
"""Rough bytes that a segment, and each of its columns, take beside values: objects, buffers, rounding.
For small segments that is most of their memory."""


class MemtableState(enum.StrEnum):
    """Stage in the life of a memtable, in this order."""

    ACTIVE = "active"
    IMMUTABLE = "immutable"
    FLUSHING = "flushing"
    FLUSHED = "flushed"


@dataclass(slots=True, kw_only=True)
class Memtable:
    """Consecutive segments of the log, held in memory until they are flushed together."""

    began: float
    """Time of the first segment, by the steady clock."""
    state: MemtableState = MemtableState.ACTIVE
    segments: list[WalSegment] = field(default_factory=list)
    bytes: int = 0
    """Bytes of keys, values and the objects that hold them."""
    rows: int = 0

    @property
    def first(self) -> int:
        """Number of the first segment."""
        return self.segments[0].header.number

    @property
    def last(self) -> int:
        """Number of the last segment."""
        return self.segments[-1].header.number

    def add(self, segment: WalSegment) -> None:
        """Appends the next segment."""
        self.segments.append(segment)
        self.bytes += _SEGMENT_BYTES
        for batch in segment.batches:
            self.bytes += batch.rows.nbytes + _COLUMN_BYTES * batch.rows.num_columns
            self.rows += batch.rows.num_rows


class Memtables:
    """The memtables of one writer, oldest first.

    Args:
        max_bytes: size of a memtable at most.
        max_segments: segments of a memtable at most.
        max_waiting: memtables that may be closed and not flushed.
    """

    def __init__(self, *, max_bytes: int, max_segments: int, max_waiting: int) -> None:
        self._max_bytes, self._max_segments = max_bytes, max_segments
        self.max_waiting = max_waiting
        self._active: Memtable | None = None
        self._closed: deque[Memtable] = deque()

    @property
    def bytes(self) -> int:
        """Bytes of all rows held."""
        return sum(memtable.bytes for memtable in self.all())

    @property
    def waiting(self) -> int:
        """Number of memtables that are closed and not flushed."""
        return len(self._closed)

    @property
    def has_room(self) -> bool:
        """Whether another memtable may be closed."""
        return len(self._closed) < self.max_waiting

    def all(self) -> Sequence[Memtable]:
        """Returns all memtables, oldest first."""
        return (*self._closed, *([self._active] if self._active else ()))

    def segments(self) -> Iterator[WalSegment]:
        """Yields all segments held, oldest first."""
        for memtable in self.all():
            yield from memtable.segments

    def add(self, segment: WalSegment, now: float) -> bool:
        """Appends a segment; returns whether that closed a memtable."""
        # A fence holds no rows, so there is nothing to flush.
        if segment.is_fence:
            return False
        if self._active is None:
            self._active = Memtable(began=now)
        self._active.add(segment)
        return self._is_full(self._active) and self.close()

    def _is_full(self, memtable: Memtable) -> bool:
        return memtable.bytes >= _FULL * self._max_bytes or len(memtable.segments) >= self._max_segments

    def close(self, *, began_before: float | None = None, upto: int | None = None) -> bool:
        """Closes the active memtable if there is one and room for it; returns whether it did.

        Args:
            began_before: only if it began before that time.
            upto: only if it holds this segment or older ones.
        """
        active = self._active
        if active is None or not self.has_room:
            return False
        if (began_before is not None and active.began > began_before) or (
            upto is not None and active.first > upto
        ):
            return False
        active.state = MemtableState.IMMUTABLE
        self._closed.append(active)
        self._active = None
        return True

    def oldest(self) -> Memtable | None:
        """Returns the next memtable to flush, marked as being flushed; None when none is closed."""
        if not self._closed:
            return None
        self._closed[0].state = MemtableState.FLUSHING
        return self._closed[0]

    def flushed(self, memtable: Memtable) -> None:
        """Removes the oldest memtable, which may make room to close one that is full."""
        memtable.state = MemtableState.FLUSHED
        removed = self._closed.popleft()
        assert removed is memtable
        # It may have been full for some time, open for want of room.
        if self._active is not None and self._is_full(self._active):
            self.close()
