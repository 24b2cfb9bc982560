"""Reads of a snapshot that may expire meanwhile: separates expiry from damage.

A reader that is held up for longer than the grace of deletions finds objects missing. That is no damage.
A read of the newest snapshot continues with the next one then; a reader of a chosen snapshot gets an error.

Invariant: a missing object is called damage only when the snapshot that was read is still there, and the
segments of the write-ahead log that were read above it are in no snapshot yet.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from lakehouse.errors import FormatError, NotFoundError
from lakehouse.format.metadata import Snapshot
from lakehouse.storage.metadata.snapshots import Snapshots

__all__ = ["expiry_of", "explain_expiry", "from_head"]

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


@contextlib.asynccontextmanager
async def explain_expiry(
    snapshots: Snapshots, *ids: int, segment: int | None = None
) -> AsyncGenerator[None, None]:
    """Re-raises a missing object as "snapshot N expired" where that is the cause.

    Args:
        snapshots: those of the table.
        ids: the snapshots that the block reads.
        segment: the first segment of the write-ahead log that is read above the snapshots.
    """
    try:
        yield
    except (FormatError, NotFoundError) as error:
        expired = await expiry_of(snapshots, *ids, segment=segment)
        if expired is None:
            raise
        raise expired from error


async def expiry_of(snapshots: Snapshots, *ids: int, segment: int | None = None) -> NotFoundError | None:
    """Returns the error "snapshot N expired" where that is why a read misses an object; else None."""
    for snapshot in ids:
        head = await snapshots.outlives(snapshot, segment=segment)
        if head is None:
            continue
        earliest = snapshots.check_live(head.snapshot).earliest
        what = f"snapshot {snapshot} of {snapshots.root} expired"
        if snapshot >= earliest:
            what = f"the write-ahead log above snapshot {snapshot} of {snapshots.root} was flushed"
        return NotFoundError(
            f"{what} while it was read, and some of it is "
            f"deleted; there are snapshots from {earliest} on. Read again. What is read for long stays "
            "if it has a tag or a pin (create_tag, pin), or with a longer delete_grace_s.",
            snapshot=snapshot,
            earliest=earliest,
        )
    return None
