"""Reads of a snapshot that may expire meanwhile: separates expiry from damage.

A reader that is held up for longer than the grace of deletions finds objects missing. That is no damage.
A read of the newest snapshot continues with the next one then; a reader of a chosen snapshot gets an error.

Invariant: a missing object is called damage only when the snapshot that was read is still there, and the
segments of the write-ahead log that were read above it are in no snapshot yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from lakehouse.errors import FormatError, NotFoundError
from lakehouse.format.metadata import Snapshot
from lakehouse.storage.metadata.snapshots import Snapshots

__all__ = ["explain_expiry", "from_head"]

R = TypeVar("R")

_HEADS = 3
"""Newer heads that are tried before a missing object is called damage."""


async def from_head(snapshots: Snapshots, head: Snapshot, read: Callable[[Snapshot], Awaitable[R]]) -> R:
    """Reads what a head refers to; if some of it is missing and there is a newer head, reads from that.

    Args:
        snapshots: those of the table.
        head: a snapshot that was the newest one not long ago.
        read: the read to be done; it is called again with a newer head.
    """
    for _ in range(_HEADS):
        try:
            return await read(head)
        # An object that is missing looks like damage, and is none if a newer head has let it expire.
        except FormatError:
            newer = await snapshots.newer_than(head.id)
            if newer is None:
                raise
            head = newer.snapshot
    # The last try: what it raises is the answer.
    return await read(head)


class explain_expiry:  # noqa: N801  a block, as those of contextlib
    """Re-raises a missing object as "snapshot N expired" where that is the cause.

    A class, since a generator would take a tenth of the time of a lookup in memory.

    Args:
        snapshots: those of the table.
        ids: the snapshots that the block reads.
        segment: the first segment of the write-ahead log that is read above the snapshots.
    """

    __slots__ = ("_ids", "_segment", "_snapshots")

    def __init__(self, snapshots: Snapshots, *ids: int, segment: int | None = None) -> None:
        self._snapshots, self._ids, self._segment = snapshots, ids, segment

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, FormatError | NotFoundError):
            await self._explain(error)

    async def _explain(self, error: BaseException) -> None:
        snapshots = self._snapshots
        for snapshot in self._ids:
            head = await snapshots.outlives(snapshot, segment=self._segment)
            if head is None:
                continue
            earliest = snapshots.check_live(head.snapshot).earliest
            what = f"snapshot {snapshot} of {snapshots.root} expired"
            if snapshot >= earliest:
                what = f"the write-ahead log above snapshot {snapshot} of {snapshots.root} was flushed"
            raise NotFoundError(
                f"{what} while it was read, and some of it is "
                f"deleted; there are snapshots from {earliest} on. Read again. What is read for long stays "
                "if it has a tag or a pin (create_tag, pin), or with a longer delete_grace_s.",
                snapshot=snapshot,
                earliest=earliest,
            ) from error
