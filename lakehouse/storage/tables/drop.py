"""Dropping a table: a commit after which there is none, and the end of whoever streams into it.

Invariant: once the drop is answered, no put into the table is acknowledged any more, unless it is brought
back. The name is given back after that commit, and only by whoever saw that the drop still stands.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import uuid
from dataclasses import dataclass, field

from lakehouse.errors import CommitUnknownError, ConflictError, LakehouseError, NotFoundError
from lakehouse.format.metadata import CommitKind, NameState, Snapshot
from lakehouse.io.cost import Cost, measure
from lakehouse.storage.commit.changes import DropTable
from lakehouse.storage.metadata.table_name import TableName
from lakehouse.storage.tables.create import open_table
from lakehouse.storage.tables.names import Names
from lakehouse.storage.tables.open_tables import Environment, OpenTable, is_dropped

__all__ = [
    "DatabaseDropResult",
    "DropResult",
    "drop_database",
    "drop_named",
    "drop_table",
    "give_back",
]

_LOOKS = 5
"""How often a pointer is looked at that others change meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropResult:
    """A table that was dropped, and how long it can be brought back."""

    table: str
    """``database.table``, the name that is free now."""
    uuid: uuid.UUID
    """Tells it from tables of the same name."""
    snapshot: int | None
    """The drop; None when there was nothing left of the table but its name."""
    until: dt.datetime | None
    """No purge with the table's own grace deletes its objects before; None likewise."""
    cost: Cost = field(default_factory=Cost, compare=False)
    """Requests and bytes of the whole call."""

    def __str__(self) -> str:
        if self.until is None:
            return f"{self.table} is dropped"
        return (
            f"{self.table} is dropped; undrop brings it back until it is purged, which is not before "
            f"{self.until:%Y-%m-%d %H:%M:%S} UTC"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseDropResult:
    """A database that was dropped, and its tables."""

    database: str
    tables: tuple[DropResult, ...] = ()
    """Those that were dropped with it."""
    cost: Cost = field(default_factory=Cost, compare=False)
    """Requests and bytes of the whole call."""

    @property
    def until(self) -> dt.datetime | None:
        """All its tables can be brought back until then; None when it had none."""
        return min((one.until for one in self.tables if one.until is not None), default=None)

    def __str__(self) -> str:
        said = f"{self.database} is dropped, with {len(self.tables):,} tables"
        if self.until is None:
            return said
        return (
            f"{said}; undrop brings them back until they are purged, which is not before "
            f"{self.until:%Y-%m-%d %H:%M:%S} UTC"
        )


async def drop_named(
    env: Environment, names: Names, name: TableName, *, cascade: str | None = None
) -> DropResult:
    """Drops the table of a name; see ``Lake.drop_table``. ``cascade``: see ``NamePointer``."""
    with measure() as cost:
        core = await open_table(env, names, name)
        try:
            drop = await drop_table(core)
        except NotFoundError as missing:
            if missing.kind == "missing-bucket":
                raise
            drop = None
        try:
            await give_back(core, names, cascade=cascade)
        except LakehouseError as error:
            raise CommitUnknownError(
                f"table {str(name)!r} is dropped, but it is not known whether its name is free: {error} "
                "Drop it again.",
                table=str(name),
            ) from error
        until = None if drop is None else await _until(core, drop)
    return DropResult(
        table=str(name),
        uuid=core.uuid,
        snapshot=None if drop is None else drop.id,
        until=until,
        cost=cost,
    )


async def drop_database(env: Environment, names: Names, name: str, *, cascade: bool) -> DatabaseDropResult:
    """Drops a database; see ``Lake.drop_database``."""
    with measure() as cost:
        dropped: list[DropResult] = []
        if cascade:
            token = await names.cascade_token(name)
            for table in [one async for one in names.tables(name)]:
                with contextlib.suppress(NotFoundError):
                    dropped.append(await drop_named(env, names, table, cascade=token))
        await names.drop_database(name)
    return DatabaseDropResult(database=name, tables=tuple(dropped), cost=cost)


async def drop_table(core: OpenTable) -> Snapshot:
    """Makes the last commit of a table, unless it is made; returns it. NotFoundError when nothing is left."""
    head = (await core.history.head()).snapshot
    if head.kind is not CommitKind.DROP:
        await _fence_off(core, head)
        try:
            head = (await core.commit(DropTable(), view=await core.view_of(head))).snapshot
        except NotFoundError:
            head = (await core.history.head()).snapshot
            if head.kind is not CommitKind.DROP:
                raise
    try:
        # Another writer may have been opened in between; or whoever made the drop ended before this.
        await _fence_off(core, head)
    except LakehouseError as error:
        raise CommitUnknownError(
            f"table {core.name} is dropped, but it is not known whether its streaming writer has ended: "
            f"{error} Drop it again.",
            table=str(core.name),
        ) from error
    return head


async def _fence_off(core: OpenTable, head: Snapshot) -> None:
    if head.wal is not None:
        await core.take_log_over(head, deadline_s=core.history.deadline_s)


async def give_back(core: OpenTable, names: Names, *, cascade: str | None = None) -> None:
    """Takes its name from a dropped table, unless others did, or brought the table back."""
    seen = core.pointer
    for _ in range(_LOOKS):
        left = await names.release(
            core.name,
            seen,
            state=NameState.DROPPED,
            time_ms=core.history.time.now_ms(),
            token=seen.token,
            cascade=cascade,
        )
        if left.table != core.uuid or left.state is not NameState.LIVE:
            return
        # Somebody has replaced the pointer since: as it is, it has to be seen before the drop.
        if not await is_dropped(core):
            return
        seen = left
    raise ConflictError(
        f"the pointer of {core.name} is replaced by others again and again", table=str(core.name)
    )


async def _until(core: OpenTable, drop: Snapshot) -> dt.datetime:
    """When the grace of a drop ends."""
    grace_s = (await core.view_of(drop)).options.delete_grace_s
    return dt.datetime.fromtimestamp(drop.time_ms / 1000 + grace_s, dt.UTC)
