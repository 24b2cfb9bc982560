"""Name pointers: small objects, each of which says what a name stands for: a table's directory, or a view.

A pointer also names the tables and views that had its name before and were dropped, so that a process that
restores one of them and one that deletes its objects replace the same object: only one of the two succeeds.

Invariant: a pointer is made by create-if-absent and changed by compare-and-swap only; it is never
deleted while young, so a name cannot be taken twice.
"""

from __future__ import annotations

import dataclasses
import enum
import uuid
from dataclasses import dataclass
from typing import Any

from lakehouse.format.limits.json_object import JsonObject, each, items, moment, optional, text, unique_id
from lakehouse.format.metadata.sealed_json import SealedFormat
from lakehouse.format.metadata.view_version import ViewVersion, view_from_json, view_to_json

__all__ = ["DroppedTable", "NameKind", "NamePointer", "NameState", "decode_pointer", "encode_pointer"]


_FORMAT = 1
_FORMAT_PURGING = 2
"""Format of pointers with state ``purging``, so that older releases ask for an upgrade, not find damage."""
_FORMAT_KINDS = 3
"""Format of pointers that speak of anything but tables, for the same reason."""
_BEFORE_MAX = 16
"""Maximum number of dropped tables that a pointer names; older ones are forgotten, their objects stay."""


class NameKind(enum.StrEnum):
    """Kind of what has, or had, a name."""

    TABLE = "table"
    VIEW = "view"
    ICEBERG = "iceberg"
    """Reserved for tables that a catalog service keeps; this release neither makes nor changes one."""


class NameState(enum.StrEnum):
    """State of a name, and of the table that had it."""

    LIVE = "live"
    MOVED = "moved"
    """The table has another name now."""
    DROPPED = "dropped"
    PURGING = "purging"
    """The dropped table's objects are being deleted, or have been."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedTable:
    """A table or view that was dropped and whose name has another since."""

    table: uuid.UUID
    path: str
    """Key of its directory, relative to the warehouse."""
    state: NameState
    """State of the table: dropped or purging."""
    time_ms: int
    """Time of the drop, in milliseconds since 1970."""
    kind: NameKind = NameKind.TABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePointer:
    """A name, and the table with its directory, or the view, that it stands for."""

    name: str
    """Full name, ``database.table``: a pointer that was copied to another's key is noticed by it."""
    kind: NameKind = NameKind.TABLE
    table: uuid.UUID
    """Identity of the table or view."""
    path: str
    """Key of the table's directory, or of that of the view's older versions, relative to the warehouse."""
    state: NameState = NameState.LIVE
    token: str
    """Token of the write that made this version: content hashes alone cannot tell two writers apart."""
    time_ms: int
    """Time at which the name was given, moved or dropped, in milliseconds since 1970."""
    moved_to: str | None = None
    """Current full name of the table, if it was renamed."""
    cascade: str | None = None
    """Token of the database's marker, when the table was dropped with its database."""
    before: tuple[DroppedTable, ...] = ()
    """Dropped tables and views that had the name before, oldest first."""
    view: ViewVersion | None = None
    """Newest version of a view; None for others, and for a view that is purged."""
    moved_from: str | None = None
    """Former full name of a view that is being renamed, which counts until its pointer is ``moved``."""
    renaming: str | None = None
    """Token of a renaming, under both of its names: of several that began, it tells the one that happened."""

    @property
    def dropped(self) -> tuple[DroppedTable, ...]:
        """Dropped tables that the pointer names, its own table last if that is one of them."""
        if self.state not in (NameState.DROPPED, NameState.PURGING):
            return self.before
        own = DroppedTable(
            table=self.table, path=self.path, state=self.state, time_ms=self.time_ms, kind=self.kind
        )
        return (*self.before, own)

    def state_of(self, table: uuid.UUID) -> NameState | None:
        """Returns the state of a table; None when the pointer does not know it."""
        if table == self.table:
            return self.state
        return next((dropped.state for dropped in self.before if dropped.table == table), None)

    def has_left_for(self, renamed: NamePointer) -> bool:
        """Returns whether a view has given up this name for the one of the other pointer, by its renaming."""
        has_moved = self.table == renamed.table and self.state is NameState.MOVED
        return has_moved and self.renaming is not None and self.renaming == renamed.renaming

    def renamed(self, *, token: str) -> NamePointer:
        """Returns the next version, in which the renaming to this name has ended."""
        return dataclasses.replace(self, moved_from=None, renaming=None, token=token)

    def given_to(self, table: NamePointer) -> NamePointer:
        """Returns the pointer of the next table of this name, with the dropped tables of this one."""
        before = tuple(dropped for dropped in self.dropped if dropped.table != table.table)
        return dataclasses.replace(table, before=before[-_BEFORE_MAX:])

    def purging(self, table: uuid.UUID, *, token: str) -> NamePointer:
        """Returns the next version, in which the table is being purged and cannot be restored."""
        if table == self.table:
            return dataclasses.replace(self, state=NameState.PURGING, token=token, view=None)
        before = tuple(
            dataclasses.replace(dropped, state=NameState.PURGING) if dropped.table == table else dropped
            for dropped in self.before
        )
        return dataclasses.replace(self, before=before, token=token)


def encode_pointer(pointer: NamePointer) -> bytes:
    """Encodes the object."""
    return _POINTER.encode(pointer)


def decode_pointer(data: bytes, *, key: str) -> NamePointer:
    """Decodes the object; ``key`` is named in errors."""
    return _POINTER.decode(data, key=key)


def _to_members(pointer: NamePointer) -> dict[str, Any]:
    members: dict[str, Any] = {
        "format": _format_of(pointer),
        "name": pointer.name,
        "table": str(pointer.table),
        "path": pointer.path,
        "state": pointer.state.value,
        "token": pointer.token,
        "time_ms": pointer.time_ms,
        "moved_to": pointer.moved_to,
    }
    if pointer.cascade is not None:
        members["cascade"] = pointer.cascade
    if pointer.before:
        members["before"] = [_dropped_to_json(dropped) for dropped in pointer.before]
    if pointer.kind is not NameKind.TABLE:
        members["kind"] = pointer.kind.value
    if pointer.view is not None:
        members["view"] = view_to_json(pointer.view)
    if pointer.moved_from is not None:
        members["moved_from"] = pointer.moved_from
    if pointer.renaming is not None:
        members["renaming"] = pointer.renaming
    return members


def _format_of(pointer: NamePointer) -> int:
    """Returns the lowest format whose readers understand a pointer."""
    if {pointer.kind, *(dropped.kind for dropped in pointer.before)} != {NameKind.TABLE}:
        return _FORMAT_KINDS
    return _FORMAT_PURGING if pointer.state is NameState.PURGING else _FORMAT


def _dropped_to_json(dropped: DroppedTable) -> list[Any]:
    members = [str(dropped.table), dropped.path, dropped.state.value, dropped.time_ms]
    return members if dropped.kind is NameKind.TABLE else [*members, dropped.kind.value]


def _from_members(members: JsonObject) -> NamePointer:
    kind = members.word("kind", NameKind) if "kind" in members else NameKind.TABLE
    state, table = members.word("state", NameState), members.read("table", unique_id)
    is_whole_view = kind is NameKind.VIEW and state is not NameState.PURGING
    view = view_from_json(members.inner("view")) if is_whole_view else None
    if view is not None and view.view != table:
        raise members.wrong("view.view", f"{table}, the view that has the name", str(view.view))
    return NamePointer(
        name=members.read("name", text),
        kind=kind,
        table=table,
        path=members.read("path", text),
        state=state,
        token=members.read("token", text),
        time_ms=members.read("time_ms", moment),
        moved_to=members.read("moved_to", optional(text), None),
        cascade=members.read("cascade", optional(text), None),
        before=members.read("before", each(_dropped_from_json), ()),
        view=view,
        moved_from=members.read("moved_from", optional(text), None),
        renaming=members.read("renaming", optional(text), None),
    )


def _dropped_from_json(value: Any) -> DroppedTable:
    table, path, state, time_ms, *kind = items(value)
    return DroppedTable(
        table=unique_id(table),
        path=text(path),
        state=NameState(state),
        time_ms=moment(time_ms),
        kind=NameKind(*kind) if kind else NameKind.TABLE,
    )


_POINTER = SealedFormat(
    what="name pointer", newest=_FORMAT_KINDS, to_json=_to_members, from_json=_from_members
)
