"""Reading a snapshot that may expire meanwhile.

Whoever is held up for longer than the grace of deletions finds that something is gone. That is no damage.

Invariant: what is missing is called damage only when the snapshot that was read is still there.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from lakehouse.errors import FormatError, NotFoundError
from lakehouse.storage.history import History

__all__ = ["while_reading"]


@contextlib.asynccontextmanager
async def while_reading(history: History, *snapshots: int) -> AsyncGenerator[None, None]:
    """Tells whoever reads the snapshots of these ids that one has expired, and not what that led to."""
    try:
        yield
    except (FormatError, NotFoundError) as error:
        for snapshot in snapshots:
            head = await history.outlives(snapshot)
            if head is None:
                continue
            earliest = history.check_live(head.snapshot).earliest
            raise NotFoundError(
                f"snapshot {snapshot} of {history.root} expired while it was read, and some of it is "
                f"deleted; there are snapshots from {earliest} on. Read again. What is read for long stays "
                "if it has a tag or a pin (create_tag, pin), or with a longer delete_grace_s.",
                snapshot=snapshot,
                earliest=earliest,
            ) from error
        raise
