"""Database markers: small objects, each of which records that a database exists.

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
    """A database: its name and state."""

    name: str
    """Name of the database: a marker that was copied to another's key is noticed by it."""
    state: NameState = NameState.LIVE
    token: str
    """Token of the write that made this version."""
    comment: str | None = None
    cascade: str | None = None
    """Mark of the drop of the database, by which the tables dropped with it are recognised."""


def encode_database(marker: DatabaseMarker) -> bytes:
    """Encodes the object."""
    return _MARKER.encode(marker)


def decode_database(data: bytes, *, key: str) -> DatabaseMarker:
    """Decodes the object; ``key`` is named in errors."""
    return _MARKER.decode(data, key=key)


def _to_members(marker: DatabaseMarker) -> dict[str, Any]:
    members = {
        "name": marker.name,
        "state": marker.state.value,
        "token": marker.token,
        "comment": marker.comment,
    }
    return members if marker.cascade is None else {**members, "cascade": marker.cascade}


def _from_members(members: JsonObject) -> DatabaseMarker:
    return DatabaseMarker(
        name=members.read("name", text),
        state=members.word("state", NameState),
        token=members.read("token", text, ""),
        comment=members.read("comment", optional(text), None),
        cascade=members.read("cascade", optional(text), None),
    )


_MARKER = SealedFormat(what="database marker", to_json=_to_members, from_json=_from_members)
