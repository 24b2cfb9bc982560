"""Shared query: an object that lets other processes read what one of them has pinned.

The specification is ``docs/spec/v1/query.md``.

Invariant: the object names its own id, so that a copy under another key is no other query.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from lakehouse.format.limits.json_object import (
    INT64_MAX,
    JsonObject,
    moment,
    number,
    optional,
    text,
    unique_id,
    whole,
)
from lakehouse.format.metadata.sealed_json import SealedFormat

__all__ = ["SharedPin", "SharedQuery", "decode_query", "encode_query"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPin:
    """Snapshot of one table that a query reads."""

    table: uuid.UUID
    name: str
    """Full name by which the query met the table."""
    kind: str
    """``current``, ``as_of`` or ``snapshot_id``: by what it was chosen."""
    snapshot: int | None
    """Id of the snapshot; None = the table had none."""
    version: str
    """Version of the table in which the snapshot was looked up."""
    schema_id: int
    token: str | None = None
    """Token of the commit that made the snapshot."""
    as_of_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedQuery:
    """A query as other processes join it."""

    id: uuid.UUID
    account: str
    """Account that may join."""
    as_of_ms: int | None
    """Moment that tables without a pin are read as of; None = what is newest."""
    expires_ms: int
    """End of its lifetime, by the store's clock."""
    pins: tuple[SharedPin, ...]


def encode_query(query: SharedQuery) -> bytes:
    """Encodes the object."""
    return _QUERY.encode(query)


def decode_query(data: bytes, *, key: str) -> SharedQuery:
    """Decodes the object; ``key`` is named in errors."""
    return _QUERY.decode(data, key=key)


def _to_members(query: SharedQuery) -> dict[str, Any]:
    return {
        "id": str(query.id),
        "account": query.account,
        "as_of_ms": query.as_of_ms,
        "expires_ms": query.expires_ms,
        "pins": [
            {
                "table": str(pin.table),
                "name": pin.name,
                "kind": pin.kind,
                "snapshot": pin.snapshot,
                "version": pin.version,
                "schema": pin.schema_id,
                "token": pin.token,
                "as_of_ms": pin.as_of_ms,
            }
            for pin in query.pins
        ],
    }


def _from_members(members: JsonObject) -> SharedQuery:
    return SharedQuery(
        id=members.read("id", unique_id),
        account=members.read("account", text),
        as_of_ms=members.read("as_of_ms", optional(_signed)),
        expires_ms=members.read("expires_ms", moment),
        pins=tuple(_pin(pin) for pin in members.objects("pins")),
    )


def _pin(members: JsonObject) -> SharedPin:
    return SharedPin(
        table=members.read("table", unique_id),
        name=members.read("name", text),
        kind=members.read("kind", text),
        snapshot=members.read("snapshot", optional(_signed)),
        version=members.read("version", text),
        schema_id=members.read("schema", number),
        token=members.read("token", optional(text)),
        as_of_ms=members.read("as_of_ms", optional(_signed)),
    )


def _signed(value: Any) -> int:
    """Reads a whole number of 64 bits: ids of Iceberg's snapshots and moments may be of any sign."""
    return whole(value, -INT64_MAX)


_QUERY = SealedFormat(what="shared query", to_json=_to_members, from_json=_from_members)
