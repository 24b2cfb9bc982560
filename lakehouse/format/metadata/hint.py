"""The hint: a small object of a table that names a recent snapshot, so that readers need not list all.

It is written after a commit was acknowledged, and replaced at any time by any process. So a hint whose seal
is intact names a snapshot that was committed. A hint of another table, or of digits alone as older releases
wrote it, is a place to begin and proves nothing; one that is damaged means to begin with the first snapshot.

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
    """The snapshot at which to begin looking for the newest one."""

    snapshot: int
    """Id of the snapshot; 0 = begin with the first one."""
    token: str | None = None
    """Token of that snapshot, which was acknowledged; None = nothing proves that it was."""


NO_HINT = Hint(snapshot=0)


@dataclass(frozen=True, slots=True)
class _Sealed:
    """Content of the object."""

    table: uuid.UUID
    snapshot: int
    token: str


def encode_hint(snapshot: int, token: str, table: uuid.UUID) -> bytes:
    """Encodes the object for a snapshot that was acknowledged."""
    return _HINT.encode(_Sealed(table, snapshot, token))


def decode_hint(data: bytes, table: uuid.UUID | None) -> Hint:
    """Decodes the object for a table; without a table (None) the hint proves nothing."""
    if data.isdigit():
        return Hint(snapshot=int(data)) if len(data) <= _DIGITS_MAX else NO_HINT
    try:
        sealed = _HINT.decode(data, key="LATEST")
    except FormatError:
        return NO_HINT
    return Hint(snapshot=sealed.snapshot, token=sealed.token if sealed.table == table else None)


def _to_members(hint: _Sealed) -> dict[str, Any]:
    return {"table": str(hint.table), "snapshot": hint.snapshot, "token": hint.token}


def _from_members(members: JsonObject) -> _Sealed:
    return _Sealed(
        table=members.read("table", unique_id),
        snapshot=members.read("snapshot", lambda value: whole(value, 1, COUNT_MAX)),
        token=members.read("token", text),
    )


_HINT = SealedFormat(what="hint", to_json=_to_members, from_json=_from_members)
