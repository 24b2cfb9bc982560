"""Drop of a table: a last commit, a fence against its streaming writer, and the release of its name.

Invariant: once the drop is acknowledged, no put into the table is acknowledged any more, unless an undrop
brings it back. The name is released after that commit, and only by a process that saw the drop still in
force.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import uuid
from dataclasses import dataclass

from lakehouse.errors import CommitUnknownError, ConflictError, LakehouseError, NotFoundError
from lakehouse.format.metadata import CommitKind, NameState, Snapshot
from lakehouse.io.work import CostReport, measured, or_none
from lakehouse.storage.commit.changes import DropTable
from lakehouse.storage.metadata.table_name import TableName
from lakehouse.storage.tables.create import open_table
from lakehouse.storage.tables.names import Names
from lakehouse.storage.tables.open_tables import Environment, OpenTable, is_dropped
from lakehouse.storage.tables.views import drop_view

__all__ = [
    "DatabaseDropResult",
    "DropResult",
    "drop_database",
    "drop_named",
    "drop_table",
    "give_back",
]

_LOOKS = 5
"""Maximum number of attempts to release a name whose pointer others change meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DropResult(CostReport):
    """Report of a dropped table, with the time until which it can be brought back."""

    table: str
    """``database.table``, the name that is free now."""
    uuid: uuid.UUID
    """Identity of the table, which distinguishes it from tables of the same name."""
    snapshot: int | None
    """Id of the drop's snapshot; None when nothing was left of the table but its name."""
    until: dt.datetime | None
    """Time before which no purge with the table's own grace deletes its objects; None likewise."""

    def __str__(self) -> str:
        if self.until is None:
            return f"{self.table} is dropped"
        return (
            f"{self.table} is dropped; undrop brings it back until it is purged, which is not before "
            f"{self.until:%Y-%m-%d %H:%M:%S} UTC"
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DatabaseDropResult(CostReport):
    """Report of a dropped database and of the tables dropped with it."""

    database: str
    tables: tuple[DropResult, ...] = ()
    """Reports of the tables that were dropped with it."""
    views: tuple[str, ...] = ()
    """Names of the views that were dropped with it."""

    @property
    def until(self) -> dt.datetime | None:
        """Time until which all its tables can be brought back; None when it had none."""
        return min((table.until for table in self.tables if table.until is not None), default=None)

    def __str__(self) -> str:
        views = f" and {len(self.views):,} views" if self.views else ""
        text = f"{self.database} is dropped, with {len(self.tables):,} tables{views}"
        if self.until is None:
            return text
        return (
            f"{text}; undrop brings them back until they are purged, which is not before "
            f"{self.until:%Y-%m-%d %H:%M:%S} UTC"
        )


@measured
async def drop_named(
    env: Environment, names: Names, name: TableName, *, cascade: str | None = None
) -> DropResult:
    """Drops the table of a name; see ``Lake.drop_table``.

    Args:
        env: environment of the connection.
        names: names of the warehouse.
        name: name of the table.
        cascade: token of the drop of its database that this belongs to; see ``NamePointer``.
    """
    table = await open_table(env, names, name)
    drop = await or_none(drop_table(table))  # None: no snapshot is left, only the name has to be released
    try:
        await give_back(table, names, cascade=cascade)
    except LakehouseError as error:
        raise CommitUnknownError(
            f"table {str(name)!r} is dropped, but it is not known whether its name is free: {error} "
            "Drop it again.",
            table=str(name),
        ) from error
    until = None if drop is None else await _until(table, drop)
    env.caches.forget(table.uuid)
    return DropResult(
        table=str(name),
        uuid=table.uuid,
        snapshot=None if drop is None else drop.id,
        until=until,
    )


@measured
async def drop_database(env: Environment, names: Names, name: str, *, cascade: bool) -> DatabaseDropResult:
    """Drops a database; see ``Lake.drop_database``."""
    dropped, views = list[DropResult](), list[str]()
    if cascade:
        token = await names.cascade_token(name)
        for table in [table async for table in names.tables(name)]:
            # Others may drop tables of the database at the same time.
            with contextlib.suppress(NotFoundError):
                dropped.append(await drop_named(env, names, table, cascade=token))
        for view in [view async for view in names.views(name)]:
            with contextlib.suppress(NotFoundError):
                views.append((await drop_view(env, names, view, cascade=token)).name)
    await names.drop_database(name)
    return DatabaseDropResult(database=name, tables=tuple(dropped), views=tuple(views))


async def drop_table(table: OpenTable) -> Snapshot:
    """Makes the last commit of a table, unless it is made already, and returns its snapshot.

    Raises:
        NotFoundError: nothing is left of the table.
        CommitUnknownError: the table is dropped, but its streaming writer may not have ended.
    """
    head = (await table.snapshots.head()).snapshot
    if head.kind is not CommitKind.DROP:
        # Before the commit, so that it covers everything that the streaming writer had acknowledged.
        await _fence_off(table, head)
        try:
            head = (await table.commit(DropTable(), view=await table.view_of(head))).snapshot
        except NotFoundError:
            head = (await table.snapshots.head()).snapshot
            if head.kind is not CommitKind.DROP:
                raise
    try:
        # Another writer may have been opened in between; or whoever made the drop ended before this.
        await _fence_off(table, head)
    except LakehouseError as error:
        raise CommitUnknownError(
            f"table {table.name} is dropped, but it is not known whether its streaming writer has ended: "
            f"{error} Drop it again.",
            table=str(table.name),
        ) from error
    return head


async def _fence_off(table: OpenTable, head: Snapshot) -> None:
    if head.wal is not None:
        await table.take_log_over(head, deadline_s=table.snapshots.deadline_s)


async def give_back(table: OpenTable, names: Names, *, cascade: str | None = None) -> None:
    """Releases the name of a dropped table, unless others did so, or brought the table back."""
    seen = table.pointer
    for _ in range(_LOOKS):
        left = await names.release(
            table.name,
            seen,
            state=NameState.DROPPED,
            time_ms=table.snapshots.time.now_ms(),
            token=seen.token,
            cascade=cascade,
        )
        if left.table != table.uuid or left.state is not NameState.LIVE:
            return
        # Somebody has replaced the pointer since: it may go only if the drop is still in force after this
        # version of it was read.
        if not await is_dropped(table):
            return
        seen = left
    raise ConflictError(
        f"the pointer of {table.name} is replaced by others again and again", table=str(table.name)
    )


async def _until(table: OpenTable, drop: Snapshot) -> dt.datetime:
    """Returns the time at which the grace of a drop ends."""
    grace_s = (await table.view_of(drop)).options.delete_grace_s
    return dt.datetime.fromtimestamp(drop.time_ms / 1000 + grace_s, dt.UTC)
