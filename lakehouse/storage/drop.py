"""Dropping a table: a commit after which there is none, and the end of whoever streams into it.

Invariant: once the drop is answered, no put into the table is acknowledged any more.
"""

from __future__ import annotations

from lakehouse.errors import CommitUnknownError, LakehouseError, NotFoundError
from lakehouse.format.snapshot import Snapshot
from lakehouse.storage.intents import DropTable
from lakehouse.storage.opened import OpenTable
from lakehouse.storage.wal_append import take_over

__all__ = ["drop_table"]


async def drop_table(core: OpenTable) -> None:
    """Makes the last commit of a table; NotFoundError when it has been made."""
    try:
        view = await core.newest()
    except NotFoundError:
        # Whoever made it may have ended before the writer was fenced off.
        await _fence_off(core, (await core.history.head()).snapshot)
        raise
    await _fence_off(core, view.snapshot)
    done = await core.commit(DropTable(), view=view)
    try:
        # Another writer may have been opened in between.
        await _fence_off(core, done.snapshot)
    except LakehouseError as error:
        raise CommitUnknownError(
            f"table {core.name} is dropped, but it is not known whether its streaming writer has ended: "
            f"{error} Drop it again.",
            table=str(core.name),
        ) from error


async def _fence_off(core: OpenTable, head: Snapshot) -> None:
    if head.wal is not None:
        await take_over(
            core.wal,
            head,
            clock=core.env.clock,
            deadline_s=core.history.deadline_s,
            schema_id=head.schema.id,
        )
