"""A graph in memory, of tables with snapshots and of views, that notes what it is asked."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakehouse.catalog.bundles import user_objects
from lakehouse.catalog.ids import DEFAULT_ACCOUNT, NodeKind, ResourceId
from lakehouse.catalog.nodes import RelationNode, TableNode, ViewNode
from lakehouse.catalog.pins import Query
from lakehouse.catalog.sources import SnapshotFacts, TableFacts
from lakehouse.errors import LakehouseError, NotFoundError

__all__ = ["NodesInMemory"]

_CATALOG = ResourceId.named(DEFAULT_ACCOUNT, NodeKind.CATALOG, "")


def _id(kind: NodeKind) -> ResourceId:
    return ResourceId(DEFAULT_ACCOUNT, kind, uuid.uuid4())


def _schema(*columns: str) -> str:
    fields = [
        {"id": at, "name": name, "required": at == 1, "type": "long"} for at, name in enumerate(columns, 1)
    ]
    return json.dumps({"type": "struct", "schema-id": 0, "fields": fields})


def _namespace(name: str) -> ResourceId:
    return ResourceId.named(DEFAULT_ACCOUNT, NodeKind.NAMESPACE, *name.split(".")[:-1])


@dataclass(slots=True)
class NodesInMemory:
    """Tables and views by name; implements what pins need of the graph."""

    nodes: dict[str, RelationNode] = field(default_factory=dict)
    history: dict[ResourceId, list[SnapshotFacts]] = field(default_factory=dict)
    schemas: dict[tuple[ResourceId, int], str] = field(default_factory=dict)
    """Schemas that were replaced, by table and id."""
    broken: dict[str, LakehouseError] = field(default_factory=dict)
    """Errors that resolving a name raises."""
    asked: list[str] = field(default_factory=list)
    """Names that were resolved, and ``name@id`` of snapshots that were looked up."""

    def table(
        self, name: str, *snapshots: tuple[int, int], version: str = "v1", columns: Sequence[str] = ("id",)
    ) -> TableNode:
        """Makes a table, or makes it anew, with snapshots of (id, time) and columns of numbers."""
        facts = [
            SnapshotFacts(id=at, parent=None, time_ms=ms, schema_id=n, operation="append", token=f"t{at}")
            for n, (at, ms) in enumerate(snapshots)
        ]
        node = TableNode(
            id=_id(NodeKind.TABLE),
            version=version,
            catalog=_CATALOG,
            namespace=_namespace(name),
            path=tuple(name.split(".")),
            display=name,
            format="memory",
            location=f"memory://{name}",
            schema_id=facts[-1].schema_id if facts else 0,
            schema_json=_schema(*columns),
            field_ids={column: at for at, column in enumerate(columns, 1)},
            current_snapshot=facts[-1].id if facts else None,
        )
        self.nodes[name], self.history[node.id] = node, facts
        return node

    def view(self, name: str, *reads: str) -> ViewNode:
        """Makes a view that reads others."""
        node = ViewNode(
            id=_id(NodeKind.VIEW),
            version="v1",
            catalog=_CATALOG,
            namespace=_namespace(name),
            path=tuple(name.split(".")),
            display=name,
            sql="SELECT 1",
            dialect="duckdb",
            base_relations=reads,
        )
        self.nodes[name] = node
        return node

    def commit(self, name: str, snapshot: int, time_ms: int, *, version: str = "v2") -> None:
        """Gives a table its next snapshot."""
        node = self.nodes[name]
        assert isinstance(node, TableNode)
        facts = SnapshotFacts(
            id=snapshot, parent=node.current_snapshot, time_ms=time_ms, schema_id=0, operation="append"
        )
        self.history[node.id].append(facts)
        self.nodes[name] = replace(node, current_snapshot=snapshot, version=version)

    def columns(self, name: str, *columns: str) -> None:
        """Gives a table another schema, which its newest snapshot has from now on."""
        node = self.nodes[name]
        assert isinstance(node, TableNode)
        self.schemas[node.id, node.schema_id] = node.schema_json
        ids = {column: at for at, column in enumerate(columns, 1)}
        self.nodes[name] = replace(
            node, schema_id=node.schema_id + 100, schema_json=_schema(*columns), field_ids=ids
        )

    async def facts_at(self, node: TableNode, snapshot: int, /) -> TableFacts:
        """Returns the schema that a snapshot has."""
        self.asked.append(f"{node.display}:schema")
        (schema_id,) = (facts.schema_id for facts in self.history[node.id] if facts.id == snapshot)
        text = self.schemas.get((node.id, schema_id), node.schema_json)
        return TableFacts(format=node.format, schema_id=schema_id, schema_json=text, field_ids={})

    async def opened(self, node: TableNode, /) -> Any:
        """Refuses: there are no rows."""
        raise NotFoundError(f"{node.display} has no rows to read")

    def user_objects(self, request: Any, *, query: Query) -> AsyncGenerator[Any, None]:
        """Streams a bundle."""
        return user_objects(query, request)

    async def relation(self, ref: str | tuple[str, ...] | ResourceId, /) -> RelationNode:
        """Returns a node by name or id."""
        for name, node in self.nodes.items():
            if ref in (name, node.path, node.id):
                self.asked.append(name)
                if name in self.broken:
                    raise self.broken[name]
                return node
        raise NotFoundError(f"there is no {ref}")

    async def snapshot(
        self, node: TableNode, /, *, number: int | None = None, as_of_ms: int | None = None
    ) -> SnapshotFacts:
        """Returns a snapshot by its id, or the last that is not after a time."""
        self.asked.append(f"{node.display}@{as_of_ms if number is None else number}")
        for facts in reversed(self.history[node.id]):
            if facts.id == number or (as_of_ms is not None and facts.time_ms <= as_of_ms):
                return facts
        raise NotFoundError(f"{node.display} has no such snapshot")
