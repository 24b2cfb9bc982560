"""Undrop of tables and databases: a commit after the drop, then the name.

A purge sets the table's pointer to ``purging`` before it deletes anything, and an undrop sets the same
pointer to ``live``; each replaces the version it read, so one of the two succeeds.

Invariant: a pointer becomes live only while the table's objects are all there, and an undrop that does not
get the name leaves the table dropped.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass

from lakehouse.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
)
from lakehouse.format.metadata import (
    CommitKind,
    DroppedTable,
    NameKind,
    NamePointer,
    NameState,
    Snapshot,
)
from lakehouse.ids import new_token
from lakehouse.io.work import CostReport, measured, or_none
from lakehouse.storage.commit.changes import Undrop
from lakehouse.storage.metadata.table_name import TableName
from lakehouse.storage.tables.drop import drop_table, give_back
from lakehouse.storage.tables.names import Names
from lakehouse.storage.tables.open_tables import Environment, OpenTable, is_dropped, shared_table
from lakehouse.storage.tables.views import undrop_view

__all__ = ["DatabaseUndropResult", "undrop_database", "undrop_table"]

_LOOKS = 5
"""Attempts to replace a pointer that others change meanwhile."""
_PURGED = "purged"
"""Kind of the error for a table whose objects are deleted."""
_PREFIX = 8
"""Digits of a uuid that are enough to name a table; its directory has as many."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DatabaseUndropResult(CostReport):
    """Result of bringing back a database and the tables that were dropped with it."""

    database: str
    tables: tuple[str, ...] = ()
    """Names of the tables that this call brought back."""
    views: tuple[str, ...] = ()
    """Names of the views that this call brought back."""
    lost: tuple[tuple[str, str], ...] = ()
    """Names of tables and views that cannot come back, each with the reason: purged, or the name is taken."""

    def __str__(self) -> str:
        views = f" and {len(self.views):,} views" if self.views else ""
        summary = f"{self.database} is back, with {len(self.tables):,} tables{views}"
        return "; ".join([summary, *(f"{name} is not: {reason}" for name, reason in self.lost)])


async def undrop_table(
    env: Environment, names: Names, name: TableName, *, table: uuid.UUID | str | None = None
) -> OpenTable:
    """Brings a dropped table back; see ``Lake.undrop_table``."""
    if not await names.has_database(name.database):
        raise NotFoundError(
            f"there is no database {name.database!r}: if it was dropped, bring it back first, with "
            "undrop_database",
            database=name.database,
        )
    return await _undrop(env, names, name, table)


@measured
async def undrop_database(env: Environment, names: Names, name: str) -> DatabaseUndropResult:
    """Brings a database back and the tables that were dropped with it; see ``Lake.undrop_database``.

    The marker becomes live last, so that the next call completes one that ended anywhere.
    """
    token, lost = await names.cascade_token(name), list[tuple[str, str]]()
    back: dict[NameKind, list[str]] = {NameKind.TABLE: [], NameKind.VIEW: []}
    dropped = [
        pointer
        async for pointer in names.pointers(name)
        if pointer.cascade == token and pointer.state in (NameState.DROPPED, NameState.PURGING)
    ]
    for pointer in dropped:
        relation = TableName.parse(pointer.name)
        try:
            if pointer.kind is NameKind.VIEW:
                await undrop_view(env, names, relation)
            else:
                await _undrop(env, names, relation, None)
            back[pointer.kind].append(pointer.name)
        except (AlreadyExistsError, NotFoundError) as error:
            if error.kind == "missing-bucket":
                raise
            lost.append((pointer.name, error.message))
    # A live database is no error while tables of its drop are left: this completes a call that failed.
    if not await names.restore_database(name) and not dropped:
        raise AlreadyExistsError(f"there is a database {name!r}: it is not dropped", database=name)
    tables, views = tuple(back[NameKind.TABLE]), tuple(back[NameKind.VIEW])
    return DatabaseUndropResult(database=name, tables=tables, views=views, lost=tuple(lost))


async def _undrop(env: Environment, names: Names, name: TableName, rows: uuid.UUID | str | None) -> OpenTable:
    attempt = _Attempt(env, names, name, rows)
    try:
        for _ in range(_LOOKS):
            table = await attempt.once()
            if table is not None:
                return table
    except (AlreadyExistsError, NotFoundError, ConflictError, CommitUnknownError):
        raise
    except LakehouseError as error:
        if not attempt.has_begun:
            raise
        raise CommitUnknownError(
            f"table {str(name)!r} may be back, and it is not known whether it has its name: {error} "
            "Undrop it again.",
            table=str(name),
        ) from error
    raise ConflictError(f"the pointer of {name} is replaced by others again and again", table=str(name))


class _Attempt:
    """One undrop, which stays with the same table however often others replace the pointer."""

    def __init__(
        self, env: Environment, names: Names, name: TableName, table: uuid.UUID | str | None
    ) -> None:
        self._env, self._names, self._name = env, names, name
        self._wanted: uuid.UUID | str | None = table
        self._table: OpenTable | None = None
        self._drop: Snapshot | None = None
        """The drop that this call undoes; None = not found yet, so a live table was live before the call."""

    @property
    def has_begun(self) -> bool:
        """Whether this call may have made a commit."""
        return self._drop is not None

    async def once(self) -> OpenTable | None:
        """Returns the table when it has its name back; None when the pointer was replaced meanwhile."""
        # The pointer first, the log second: any change of either in between changes this version.
        pointer, version = await self._look()
        try:
            chosen = _chosen(pointer, self._name, self._wanted)
        except NotFoundError as error:
            if error.kind == _PURGED:
                await self._end_again()
            raise
        self._wanted = chosen.table
        own = NamePointer(
            name=str(self._name),
            table=chosen.table,
            path=chosen.path,
            token=new_token(),
            time_ms=self._env.clock.now_ms(),
        )
        live = pointer.given_to(own)
        table = self._table = shared_table(self._env, self._name, live)
        await self._commit(table)
        if pointer.state is NameState.LIVE and not self.has_begun:
            raise _name_taken_error(pointer, self._name)
        try:
            await self._names.end_renaming(pointer)
            await self._names.replace(live, version=version)
        except ConflictError:
            return None
        if await is_dropped(table):
            await give_back(table, self._names)
            raise _dropped_again_error(self._name)
        return table

    async def _look(self) -> tuple[NamePointer, str]:
        known = await or_none(self._names.look(self._name))
        if known is None:
            never = f"there never was a table {str(self._name)!r}"
            raise NotFoundError(never, table=str(self._name))
        return known

    async def _commit(self, table: OpenTable) -> None:
        """Makes the commit after the drop, if the drop is the newest snapshot."""
        known = await or_none(table.snapshots.head())
        if known is None:
            raise _purged_error(self._name)
        head = known.snapshot
        if head.kind is not CommitKind.DROP:
            return
        self._drop = self._drop or head
        if head.token != self._drop.token:
            raise _dropped_again_error(self._name)
        # Does nothing unless the head is this very drop.
        await table.commit(Undrop(drop=head), view=await table.view_of(head), undrops=True)

    async def _end_again(self) -> None:
        """Drops the table again for those who opened it, when a purge won after this call's commit."""
        if self.has_begun and self._table is not None:
            with contextlib.suppress(LakehouseError):
                await drop_table(self._table)


def _chosen(pointer: NamePointer, name: TableName, wanted: uuid.UUID | str | None) -> DroppedTable:
    """Chooses the table to bring back: the one that is asked for, or that had the name last."""
    known = [table for table in pointer.before if table.kind is NameKind.TABLE]
    if pointer.state is not NameState.MOVED and pointer.kind is NameKind.TABLE:
        known.append(
            DroppedTable(table=pointer.table, path=pointer.path, state=pointer.state, time_ms=pointer.time_ms)
        )
    if wanted is None:
        left = [table for table in known if table.state is not NameState.PURGING]
        if not left and pointer.moved_to is not None:
            raise NotFoundError(
                f"there is no dropped table {str(name)!r}: it is called {pointer.moved_to!r} now",
                table=str(name),
            )
    else:
        digits = wanted.hex if isinstance(wanted, uuid.UUID) else _digits(wanted)
        left = [table for table in known if table.table.hex.startswith(digits)]
        if len(left) != 1:
            uuids = ", ".join(str(table.table) for table in known) or "none"
            raise NotFoundError(
                f"no dropped table {str(name)!r} has the uuid {wanted}; there are: {uuids}", table=str(name)
            )
    if not left or left[-1].state is NameState.PURGING:
        raise _purged_error(name)
    if pointer.state is NameState.LIVE and left[-1].table != pointer.table:
        raise _name_taken_error(pointer, name)
    return left[-1]


def _digits(text: str) -> str:
    digits = text.replace("-", "").lower()
    if len(digits) < _PREFIX or not set(digits) <= set("0123456789abcdef"):
        raise InvalidInputError(
            f"{text!r} is not the uuid of a table: write it, or at least its first {_PREFIX} digits"
        )
    return digits


def _name_taken_error(pointer: NamePointer, name: TableName) -> AlreadyExistsError:
    left = [
        str(table.table)
        for table in pointer.before
        if table.state is NameState.DROPPED and table.kind is NameKind.TABLE
    ]
    if not left:
        return AlreadyExistsError(f"table {str(name)!r} is there: it is not dropped", table=str(name))
    return AlreadyExistsError(
        f"there is a {pointer.kind.value} {str(name)!r}, made since: rename it, then undrop; or drop it, "
        f"then undrop by uuid (dropped before: {', '.join(left)})",
        table=str(name),
    )


def _dropped_again_error(name: TableName) -> ConflictError:
    return ConflictError(f"table {str(name)!r} was dropped again by others meanwhile", table=str(name))


def _purged_error(name: TableName) -> NotFoundError:
    return NotFoundError(
        f"table {str(name)!r} cannot come back: its objects are deleted, or are being",
        kind=_PURGED,
        table=str(name),
    )
