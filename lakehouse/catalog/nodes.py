"""Nodes of the metadata graph: catalogs, namespaces, tables and views as frozen values.

Invariant: a node never changes. Another version of the same thing is another node of the same id; both may be
in use at once, by queries that began at different moments.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from lakehouse.catalog.ids import NodeKind, ResourceId

__all__ = [
    "NO_SUMMARY",
    "CatalogNode",
    "EngineHint",
    "EngineHintKey",
    "NamespaceNode",
    "Node",
    "Origin",
    "RelationNode",
    "RelationPath",
    "SystemViewNode",
    "TableNode",
    "TableSummary",
    "ViewNode",
]

RelationPath = tuple[str, ...]
"""Parts of a name in a catalog: namespaces from the outermost in, then the relation; parts may hold dots."""
_NOTHING: Mapping[Any, Any] = MappingProxyType({})


def _nothing() -> Mapping[Any, Any]:
    # A factory, because dataclasses of Python 3.11 refuse a default that has no hash.
    return _NOTHING


class Origin(enum.StrEnum):
    """Origin of a node."""

    USER = "user"
    SYSTEM = "system"
    """Part of the engine or of a planner's builtins: never changed by users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHintKey:
    """Key of a hint: the planner that it is for, and the sort of payload."""

    kind: str
    """Kind of the engine, such as ``postgres``."""
    version: str
    payload_type: str
    """Namespaced name of the payload's format, such as ``lakehouse.type+json``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHint:
    """Payload that an engine attaches to a node; the engine alone understands it."""

    payload_type: str
    payload: bytes
    metadata: Mapping[str, str] = field(default_factory=_nothing, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Base of all nodes."""

    kind: ClassVar[NodeKind]
    id: ResourceId
    version: str
    """Version of the content: equal versions of an id are equal nodes."""
    origin: Origin = Origin.USER
    updated_ms: int | None = None
    """Time of the last change of metadata, in milliseconds since 1970; informative only."""
    hints: Mapping[EngineHintKey, EngineHint] = field(default_factory=_nothing, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogNode(Node):
    """A catalog: our warehouse, or one that is attached."""

    kind = NodeKind.CATALOG
    name: str
    """Name it is attached under; empty for the warehouse itself."""
    display: str
    """Place or type, for people; no credentials."""
    connector: str
    """``lakehouse``, ``directory``, ``rest``, ``sql`` and so on."""
    policy: Mapping[str, str] = field(default_factory=_nothing, hash=False)
    """Restrictions of what is read through it, such as include and exclude."""
    namespaces: tuple[ResourceId, ...] | None = None
    """Outermost namespaces; None = not listed yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceNode(Node):
    """A namespace; in our warehouse a database."""

    kind = NodeKind.NAMESPACE
    catalog: ResourceId
    path: RelationPath
    display: str
    children: tuple[ResourceId, ...] | None = None
    """Namespaces inside; None = not listed yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    """Size of a table as its newest snapshot says; None = not said."""

    rows: int | None = None
    bytes: int | None = None
    files: int | None = None


NO_SUMMARY = TableSummary()


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationNode(Node):
    """Base of tables and views."""

    catalog: ResourceId
    namespace: ResourceId
    path: RelationPath
    """Namespaces and name."""
    display: str
    """Full name as users write it."""

    @property
    def name(self) -> str:
        """Last part of the name."""
        return self.path[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNode(RelationNode):
    """A table, in the state of its newest snapshot."""

    kind = NodeKind.TABLE
    format: str
    """``lakehouse`` or ``iceberg``."""
    location: str
    """URL of its directory."""
    schema_id: int
    schema_json: str
    """Columns as Iceberg's schema JSON, whatever the format."""
    field_ids: Mapping[str, int] = field(hash=False)
    """Field id of each top-level column."""
    primary_key: tuple[str, ...] = ()
    not_null: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    """Partition fields as text, such as ``day(ts)``."""
    current_snapshot: int | None = None
    """Id of the newest snapshot; 0 is an id, None = there is none."""
    previous_snapshot: int | None = None
    resolved_snapshots: tuple[int, ...] = ()
    """Snapshots that references of this version (tags, branches, pins) name."""
    summary: TableSummary = NO_SUMMARY
    dependent_views: tuple[ResourceId, ...] = ()
    """Views known to read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewNode(RelationNode):
    """A view: SQL under a name."""

    kind = NodeKind.VIEW
    sql: str
    dialect: str
    texts: Mapping[str, str] = field(default_factory=_nothing, hash=False)
    """SQL by dialect, for views that are written in several."""
    columns: tuple[str, ...] = ()
    """Output columns; empty = not known."""
    base_relations: tuple[str, ...] = ()
    """Full names of what it reads."""
    search_path: tuple[str, ...] = ()
    """Namespaces in which names without one were looked for when it was created."""
    owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemViewNode(RelationNode):
    """A relation that the engine computes, such as ``information_schema.tables``."""

    kind = NodeKind.SYSTEM_VIEW
    origin: Origin = Origin.SYSTEM
    columns: tuple[tuple[str, str], ...] = ()
    """Names and types."""
