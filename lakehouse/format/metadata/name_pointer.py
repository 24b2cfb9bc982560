"""Name pointers: the small object that says which directory a table's name stands for.

A pointer also names the tables that had its name before and were dropped, so that whoever brings one of
them back and whoever deletes its objects replace the same object, and only one of the two succeeds.

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

__all__ = ["DroppedTable", "NamePointer", "NameState", "decode_pointer", "encode_pointer"]


_FORMAT = 1
_FORMAT_PURGING = 2
"""Of pointers whose state releases before it do not know: they say so instead of finding damage."""
_BEFORE_MAX = 16
"""Dropped tables that a pointer names; of older ones only the objects are left."""


class NameState(enum.StrEnum):
    """What became of a name."""

    LIVE = "live"
    MOVED = "moved"
    """The table has another name now."""
    DROPPED = "dropped"
    PURGING = "purging"
    """The dropped table's objects are being deleted, or have been."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedTable:
    """A table that was dropped and whose name another one got since."""

    table: uuid.UUID
    path: str
    """Key of its directory, relative to the warehouse."""
    state: NameState
    """Dropped or purging."""
    time_ms: int
    """When it was dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePointer:
    """What a name stands for."""

    name: str
    """The name itself, ``database.table``: a pointer in another's place is noticed."""
    table: uuid.UUID
    path: str
    """Key of the table's directory, relative to the warehouse."""
    state: NameState = NameState.LIVE
    token: str
    """Of the write that made this version: content hashes alone cannot tell two writers apart."""
    time_ms: int
    moved_to: str | None = None
    """Full name of the table now, when it has moved."""
    cascade: str | None = None
    """Token of the database's marker, when the table was dropped with its database."""
    before: tuple[DroppedTable, ...] = ()
    """Dropped tables that had the name before, oldest first."""

    @property
    def dropped(self) -> tuple[DroppedTable, ...]:
        """The dropped tables that the pointer knows, its own last when it is one."""
        if self.state not in (NameState.DROPPED, NameState.PURGING):
            return self.before
        own = DroppedTable(table=self.table, path=self.path, state=self.state, time_ms=self.time_ms)
        return (*self.before, own)

    def state_of(self, table: uuid.UUID) -> NameState | None:
        """The state of a table; None when the pointer does not know it."""
        if table == self.table:
            return self.state
        return next((one.state for one in self.before if one.table == table), None)

    def given_to(self, table: NamePointer) -> NamePointer:
        """The pointer of the table that gets the name after this one's: it remembers those dropped."""
        others = tuple(one for one in self.dropped if one.table != table.table)
        return dataclasses.replace(table, before=others[-_BEFORE_MAX:])

    def purging(self, table: uuid.UUID, *, token: str) -> NamePointer:
        """The next version, after which the table cannot be brought back."""
        if table == self.table:
            return dataclasses.replace(self, state=NameState.PURGING, token=token)
        before = tuple(
            dataclasses.replace(one, state=NameState.PURGING) if one.table == table else one
            for one in self.before
        )
        return dataclasses.replace(self, before=before, token=token)


def encode_pointer(pointer: NamePointer) -> bytes:
    """The bytes of the object."""
    return _POINTER.encode(pointer)


def decode_pointer(data: bytes, *, key: str) -> NamePointer:
    """The pointer in an object; ``key`` is named in errors."""
    return _POINTER.decode(data, key=key)


def _to_members(pointer: NamePointer) -> dict[str, Any]:
    members: dict[str, Any] = {
        "format": _FORMAT_PURGING if pointer.state is NameState.PURGING else _FORMAT,
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
        members["before"] = [
            [str(one.table), one.path, one.state.value, one.time_ms] for one in pointer.before
        ]
    return members


def _from_members(found: JsonObject) -> NamePointer:
    return NamePointer(
        name=found.read("name", text),
        table=found.read("table", unique_id),
        path=found.read("path", text),
        state=found.word("state", NameState),
        token=found.read("token", text),
        time_ms=found.read("time_ms", moment),
        moved_to=found.read("moved_to", optional(text), None),
        cascade=found.read("cascade", optional(text), None),
        before=found.read("before", each(_dropped_from_json), ()),
    )


def _dropped_from_json(value: Any) -> DroppedTable:
    table, path, state, time_ms = items(value)
    return DroppedTable(
        table=unique_id(table), path=text(path), state=NameState(state), time_ms=moment(time_ms)
    )


_POINTER = SealedFormat(
    what="name pointer", newest=_FORMAT_PURGING, to_json=_to_members, from_json=_from_members
)
