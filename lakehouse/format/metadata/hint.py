"""The hint: one small object of a table that names a snapshot, so that readers need not list all of them.

It is written after a commit was acknowledged, and replaced at any time by any process. So one whose seal is
whole names a snapshot that there was. One that is damaged, of another table, or only digits, as it once was,
says where to begin and proves nothing.

Invariant: decoding never fails. Whatever the object holds, it is a hint.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import FormatError
from lakehouse.format.limits.json_object import COUNT_MAX, JsonObject, text, unique_id, whole
from lakehouse.format.metadata.sealed_json import SealedFormat

__all__ = ["NO_HINT", "Hint", "decode_hint", "encode_hint"]

_DIGITS_MAX = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """Where to begin to look for the newest snapshot."""

    snapshot: int
    """An id; 0 = from the beginning."""
    token: str | None = None
    """Token of that snapshot, which was acknowledged; None = nothing says that it was."""


NO_HINT = Hint(snapshot=0)


@dataclass(frozen=True, slots=True)
class _Sealed:
    """Content of the object."""

    table: uuid.UUID
    snapshot: int
    token: str


def encode_hint(snapshot: int, token: str, table: uuid.UUID) -> bytes:
    """The bytes of the object, once the snapshot was acknowledged."""
    return _HINT.encode(_Sealed(table, snapshot, token))


def decode_hint(data: bytes, table: uuid.UUID | None) -> Hint:
    """What the object says of a table; None = the table is not known, so that nothing is proven."""
    if data.isdigit():
        return Hint(snapshot=int(data)) if len(data) <= _DIGITS_MAX else NO_HINT
    try:
        found = _HINT.decode(data, key="LATEST")
    except FormatError:
        return NO_HINT
    return Hint(snapshot=found.snapshot, token=found.token if found.table == table else None)


def _to_members(hint: _Sealed) -> dict[str, Any]:
    return {"table": str(hint.table), "snapshot": hint.snapshot, "token": hint.token}


def _from_members(found: JsonObject) -> _Sealed:
    return _Sealed(
        table=found.read("table", unique_id),
        snapshot=found.read("snapshot", lambda value: whole(value, 1, COUNT_MAX)),
        token=found.read("token", text),
    )


_HINT = SealedFormat(what="hint", to_json=_to_members, from_json=_from_members)
