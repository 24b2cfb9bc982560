"""Name pointers: the small object that says which directory a table's name stands for.

Invariant: a pointer is made by create-if-absent and changed by compare-and-swap only; it is never
deleted while young, so a name cannot be taken twice.
"""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass

from lakehouse.errors import CorruptionError
from lakehouse.format.sealed_json import seal, unseal

__all__ = ["NamePointer", "NameState", "decode_pointer", "encode_pointer"]

_FORMAT = 1


class NameState(enum.StrEnum):
    """What became of a name."""

    LIVE = "live"
    MOVED = "moved"
    """The table has another name now."""
    DROPPED = "dropped"


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


def encode_pointer(pointer: NamePointer) -> bytes:
    """The bytes of the object."""
    return seal(
        {
            "format": _FORMAT,
            "name": pointer.name,
            "table": str(pointer.table),
            "path": pointer.path,
            "state": pointer.state.value,
            "token": pointer.token,
            "time_ms": pointer.time_ms,
            "moved_to": pointer.moved_to,
        }
    )


def decode_pointer(data: bytes, *, key: str) -> NamePointer:
    """The pointer in an object; ``key`` is named in errors."""
    found = unseal(data, key=key, what="name pointer", newest=_FORMAT)
    try:
        return NamePointer(
            name=str(found["name"]),
            table=uuid.UUID(found["table"]),
            path=str(found["path"]),
            state=NameState(found["state"]),
            token=str(found["token"]),
            time_ms=int(found["time_ms"]),
            moved_to=found.get("moved_to"),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CorruptionError(f"{key} is not a name pointer: {error}", key=key) from error
