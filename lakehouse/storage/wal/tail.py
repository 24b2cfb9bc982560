"""Cover rule of the write-ahead log: every commit covers the segments that existed when its call began.

Invariant: the position of covered segments is below the rows of the commit that covers them first, and above
everything committed before; no later commit changes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.format.metadata import SegmentRange, Snapshot, WalRef

__all__ = ["Tail", "covered", "wal_after"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """End of the write-ahead log at some moment: the segments above a number."""

    after: int
    """Number of the last segment before the tail, exclusive."""
    sizes: tuple[int, ...] = ()
    """Bytes of each segment from ``after + 1`` on."""

    @property
    def upto(self) -> int:
        """Number of the newest segment, inclusive; ``after`` when the tail is empty."""
        return self.after + len(self.sizes)

    def down_to(self, number: int) -> Tail:
        """Returns the tail without the segments above a number."""
        return Tail(after=self.after, sizes=self.sizes[: max(0, number - self.after)])

    def above(self, number: int, at: int | None = None) -> SegmentRange | None:
        """Returns the range of segments above a number; None when there are none.

        Args:
            number: exclusive; a number below ``after`` counts as ``after``.
            at: snapshot that covers them; None = the one that will list the range.
        """
        sizes = self.sizes[max(0, number - self.after) :]
        if not sizes:
            return None
        return SegmentRange(first=self.upto - len(sizes) + 1, last=self.upto, size=sum(sizes), at=at)


def covered(head: Snapshot, tail: Tail | None, *, at: int | None) -> tuple[SegmentRange, ...]:
    """Returns the segments that are covered and not flushed once a commit on ``head`` covers the tail.

    Args:
        head: the snapshot that the commit follows.
        tail: end of the log, read after the commit's call began; None in a table without a log.
        at: snapshot that the new range names as covering it; None = the one that will list the range.
    """
    ranges = head.with_positions().segments
    # Segments of the tail that the head covers already keep the snapshot that covered them first.
    new = tail.above(head.wal.upto, at) if tail is not None and head.wal is not None else None
    return ranges if new is None else (*ranges, new)


def wal_after(head: Snapshot, tail: Tail | None) -> WalRef | None:
    """Returns the covered part of the log after a commit on ``head`` that read the tail."""
    if head.wal is None or tail is None:
        return head.wal
    # After a lost race the head may cover more than the tail, which is not read again.
    return WalRef(epoch=head.wal.epoch, upto=max(head.wal.upto, tail.upto))
