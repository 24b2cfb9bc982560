"""Database markers: the small object that says that a database exists.

Invariant: a marker is made by create-if-absent and changed by compare-and-swap only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakehouse.format.limits.json_object import JsonObject, optional, text
from lakehouse.format.metadata.name_pointer import NameState
from lakehouse.format.metadata.sealed_json import SealedFormat

__all__ = ["DatabaseMarker", "decode_database", "encode_database"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseMarker:
    """A database."""

    name: str
    """The name itself: a marker in another's place is noticed."""
    state: NameState = NameState.LIVE
    token: str
    """Token of the write that made this version."""
    comment: str | None = None
    cascade: str | None = None
    """By which tables are known that were dropped with the database."""


def encode_database(marker: DatabaseMarker) -> bytes:
    """The bytes of the object."""
    return _MARKER.encode(marker)


def decode_database(data: bytes, *, key: str) -> DatabaseMarker:
    """The marker in an object; ``key`` is named in errors."""
    return _MARKER.decode(data, key=key)


def _to_members(marker: DatabaseMarker) -> dict[str, Any]:
    found = {
        "name": marker.name,
        "state": marker.state.value,
        "token": marker.token,
        "comment": marker.comment,
    }
    return found if marker.cascade is None else {**found, "cascade": marker.cascade}


def _from_members(found: JsonObject) -> DatabaseMarker:
    return DatabaseMarker(
        name=found.read("name", text),
        state=found.word("state", NameState),
        token=found.read("token", text, ""),
        comment=found.read("comment", optional(text), None),
        cascade=found.read("cascade", optional(text), None),
    )


_MARKER = SealedFormat(what="database marker", to_json=_to_members, from_json=_from_members)
