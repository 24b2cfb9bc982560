"""The cover rule: every commit takes in what the write-ahead log held when its call began.

Invariant: covered segments stand below the rows of the commit that covers them first, and above all
that was committed before; no later commit changes where they stand.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.format.metadata import SegmentRange, Snapshot, WalRef

__all__ = ["Tail", "covered", "wal_after"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The segments that there were above a number, at some moment."""

    after: int
    sizes: tuple[int, ...] = ()
    """Bytes of segment ``after + 1`` and those that follow it."""

    @property
    def upto(self) -> int:
        """The newest."""
        return self.after + len(self.sizes)

    def down_to(self, number: int) -> Tail:
        """Without the segments above a number."""
        return Tail(after=self.after, sizes=self.sizes[: max(0, number - self.after)])

    def above(self, number: int, at: int | None = None) -> SegmentRange | None:
        """Those of the segments above a number, which is not below ``after``; None when there are none."""
        sizes = self.sizes[max(0, number - self.after) :]
        if not sizes:
            return None
        return SegmentRange(first=self.upto - len(sizes) + 1, last=self.upto, size=sum(sizes), at=at)


def covered(head: Snapshot, tail: Tail | None, *, at: int | None) -> tuple[SegmentRange, ...]:
    """Segments that are covered and not flushed once a commit on ``head`` covers the tail.

    Args:
        head: the snapshot the commit follows.
        tail: read after the commit's call began; None in a table without a log.
        at: what the new range is to say of its snapshot.
    """
    ranges = head.carried().segments
    new = tail.above(head.wal.upto, at) if tail is not None and head.wal is not None else None
    return ranges if new is None else (*ranges, new)


def wal_after(head: Snapshot, tail: Tail | None) -> WalRef | None:
    """How far the log is covered after a commit on ``head`` that read the tail."""
    if head.wal is None or tail is None:
        return head.wal
    return WalRef(epoch=head.wal.epoch, upto=max(head.wal.upto, tail.upto))
