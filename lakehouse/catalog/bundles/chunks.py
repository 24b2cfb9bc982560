"""Chunks of a bundle, as values; ``as_dict()`` of each is what a service sends as JSON.

Invariant: chunks are numbered from 0 without gaps; the first is the header, the last the end.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lakehouse.catalog.ids import NodeKind, ResourceId
from lakehouse.catalog.nodes import EngineHint, Origin
from lakehouse.catalog.pins import SnapshotPin

__all__ = [
    "BundleChunk",
    "BundleEnd",
    "BundleHeader",
    "ColumnResult",
    "FailureCode",
    "RelationInfo",
    "RelationResolution",
    "RelationStatus",
    "ResolutionFailure",
    "Resolutions",
    "ViewText",
]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _nothing() -> Mapping[str, Any]:
    return _NOTHING


class RelationStatus(enum.StrEnum):
    """Fate of a relation."""

    FOUND = "found"
    NOT_FOUND = "not_found"
    ERROR = "error"


class FailureCode(enum.StrEnum):
    """Reason why a relation or a column cannot be given."""

    SCHEMA_MISMATCH = "schema_mismatch"
    """Column of the newest schema that the pinned snapshot does not have; snapshots that conflict."""
    DECORATOR_UNAVAILABLE = "decorator_unavailable"
    """The provider of a hint that is needed does not answer."""
    PAYLOAD_REQUIRED_MISSING = "payload_required_missing"
    """No provider has a hint that is needed."""
    PERMISSION_DENIED = "permission_denied"
    TYPE_NOT_SUPPORTED = "type_not_supported"
    """Column of a type that is not read."""
    LOGICAL_TYPE_INVALID = "logical_type_invalid"
    """Column whose type is damaged."""
    NOT_FOUND = "not_found"
    INTERNAL_ERROR = "internal_error"
    ENGINE_EXTENSION = "engine_extension"
    """The provider of a hint that is needed failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionFailure:
    """Reason why something cannot be given."""

    code: FailureCode
    message: str
    attempted: tuple[str, ...] = ()
    """Candidates that were tried."""
    details: Mapping[str, str] = field(default_factory=_nothing, hash=False)

    def as_dict(self) -> dict[str, Any]:
        """Returns values of JSON."""
        return {
            "code": self.code.value,
            "message": self.message,
            "attempted": list(self.attempted),
            "details": dict(self.details),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnResult:
    """A column, or why it cannot be given."""

    name: str
    ordinal: int
    """Place in the relation, from 1; 0 = it has no such column."""
    id: int | None = None
    """Field id; None where the relation has none."""
    type: str | None = None
    """Type as in Iceberg's schema JSON: a word, or the text of an object; None = not known."""
    required: bool = False
    """Whether it is never null."""
    comment: str | None = None
    failure: ResolutionFailure | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns values of JSON."""
        return {
            "name": self.name,
            "ordinal": self.ordinal,
            "id": self.id,
            "type": self.type,
            "required": self.required,
            "comment": self.comment,
            "status": "ok" if self.failure is None else "failed",
            "failure": None if self.failure is None else self.failure.as_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewText:
    """Definition of a view."""

    sql: str
    dialect: str
    texts: Mapping[str, str] = field(default_factory=_nothing, hash=False)
    base_relations: tuple[str, ...] = ()
    search_path: tuple[str, ...] = ()
    owner: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns values of JSON."""
        return {
            "sql": self.sql,
            "dialect": self.dialect,
            "texts": dict(self.texts),
            "base_relations": list(self.base_relations),
            "search_path": list(self.search_path),
            "owner": self.owner,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationInfo:
    """A relation, as the query sees it."""

    id: ResourceId
    name: str
    """Canonical full name."""
    kind: NodeKind
    origin: Origin
    backend: str
    """``lakehouse`` or ``iceberg``; empty of views."""
    token: str = ""
    """Possession token; empty = this is not all of it, so nobody holds it."""
    is_identity_only: bool = False
    """Whether the rest is left out, as the planner holds it."""
    columns: tuple[ColumnResult, ...] = ()
    view: ViewText | None = None
    pin: SnapshotPin | None = None
    rows: int | None = None
    bytes: int | None = None
    hints: tuple[EngineHint, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Returns values of JSON."""
        return {
            "id": str(self.id),
            "name": self.name,
            "kind": self.kind.value,
            "origin": self.origin.value,
            "backend": self.backend,
            "token": self.token,
            "identity_only": self.is_identity_only,
            "columns": [column.as_dict() for column in self.columns],
            "view": None if self.view is None else self.view.as_dict(),
            "pin": None if self.pin is None else self.pin.as_dict(),
            "rows": self.rows,
            "bytes": self.bytes,
            "hints": [
                {"payload_type": one.payload_type, "payload": one.payload.hex(), "metadata": {**one.metadata}}
                for one in self.hints
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationResolution:
    """Fate of one relation that was asked for, or a table that was pushed."""

    index: int | None
    """Place in the request; None = it was pushed."""
    status: RelationStatus
    relation: RelationInfo | None = None
    failure: ResolutionFailure | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns values of JSON."""
        return {
            "index": self.index,
            "status": self.status.value,
            "relation": None if self.relation is None else self.relation.as_dict(),
            "failure": None if self.failure is None else self.failure.as_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleHeader:
    """Beginning of a bundle."""

    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Returns values of JSON."""
        return {"warnings": list(self.warnings)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolutions:
    """Some resolutions, those that were asked for in the order of the request."""

    items: tuple[RelationResolution, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns values of JSON."""
        return {"items": [item.as_dict() for item in self.items]}


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleEnd:
    """End of a bundle: how many relations were asked for, and what became of them."""

    relations: int
    found: int
    not_found: int
    errors: int
    pushed: int
    """Tables that nobody asked for."""
    identity_only: int

    def as_dict(self) -> dict[str, Any]:
        """Returns values of JSON."""
        names = ("relations", "found", "not_found", "errors", "pushed", "identity_only")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleChunk:
    """One chunk of a bundle."""

    query: str
    """Id of the query."""
    number: int
    """Place in the stream, from 0."""
    part: BundleHeader | Resolutions | BundleEnd

    def as_dict(self) -> dict[str, Any]:
        """Returns values of JSON; ``header``, ``resolutions`` or ``end`` is there."""
        names = {BundleHeader: "header", Resolutions: "resolutions", BundleEnd: "end"}
        return {"query": self.query, "number": self.number, names[type(self.part)]: self.part.as_dict()}
