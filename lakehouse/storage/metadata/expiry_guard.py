"""Reading a snapshot that may expire meanwhile.

Whoever is held up for longer than the grace of deletions finds that something is gone. That is no damage.
What is read of the newest snapshot is read of the next one then; a reader of a snapshot of its own is told.

Invariant: what is missing is called damage only when the snapshot that was read is still there, and the
segments of the write-ahead log that were read above it are in no snapshot yet.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from lakehouse.errors import FormatError, NotFoundError
from lakehouse.format.metadata import Snapshot
from lakehouse.storage.metadata.snapshots import History

__all__ = ["from_head", "while_reading"]

R = TypeVar("R")

_HEADS = 3
"""Newer heads that are tried before what is missing is called damage."""


async def from_head(history: History, head: Snapshot, read: Callable[[Snapshot], Awaitable[R]]) -> R:
    """Reads what a head refers to; when some is missing and there is a newer head, what that refers to.

    Args:
        history: the snapshots of the table.
        head: was the newest one not long ago.
        read: reads from a head; is called again with a newer one.
    """
    for _ in range(_HEADS):
        try:
            return await read(head)
        except FormatError:
            newer = await history.newer_than(head.id)
            if newer is None:
                raise
            head = newer.snapshot
    return await read(head)


@contextlib.asynccontextmanager
async def while_reading(
    history: History, *snapshots: int, segment: int | None = None
) -> AsyncGenerator[None, None]:
    """Tells whoever reads the snapshots of these ids that one has expired, and not what that led to.

    Args:
        history: the snapshots of the table.
        snapshots: ids.
        segment: the first segment of the write-ahead log that is read above the snapshots.
    """
    try:
        yield
    except (FormatError, NotFoundError) as error:
        for snapshot in snapshots:
            head = await history.outlives(snapshot, segment=segment)
            if head is None:
                continue
            earliest = history.check_live(head.snapshot).earliest
            what = f"snapshot {snapshot} of {history.root} expired"
            if snapshot >= earliest:
                what = f"the write-ahead log above snapshot {snapshot} of {history.root} was flushed"
            raise NotFoundError(
                f"{what} while it was read, and some of it is "
                f"deleted; there are snapshots from {earliest} on. Read again. What is read for long stays "
                "if it has a tag or a pin (create_tag, pin), or with a longer delete_grace_s.",
                snapshot=snapshot,
                earliest=earliest,
            ) from error
        raise
