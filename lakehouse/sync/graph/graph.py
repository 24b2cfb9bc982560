"""MetadataGraph without await: the twin of :mod:`lakehouse.catalog.graph.graph`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/catalog/graph/graph.py: edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Collection

from lakehouse.catalog.graph import Engines, Reference
from lakehouse.catalog.graph import MetadataGraph as AsyncMetadataGraph
from lakehouse.catalog.ids import NodeKind, ResourceId
from lakehouse.catalog.layers import Layers
from lakehouse.catalog.nodes import (
    CatalogNode,
    EngineHint,
    NamespaceNode,
    Node,
    RelationNode,
    TableNode,
    ViewNode,
)
from lakehouse.catalog.partitions import ChangedPartitions, PartitionInfo
from lakehouse.catalog.sources import SnapshotFacts, TableFacts
from lakehouse.catalog.system import SystemObjects
from lakehouse.sync.bridge import Bridge
from lakehouse.sync.graph import SystemScan
from lakehouse.sync.graph.bulk import BulkGraph
from lakehouse.sync.graph.live import LiveGraph

__all__ = ["MetadataGraph"]


class MetadataGraph(BulkGraph, LiveGraph):
    """Catalogs, namespaces, tables and views that one account sees; ``lake.graph``."""

    _wrapped: AsyncMetadataGraph

    def __init__(self, wrapped: AsyncMetadataGraph, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    @property
    def engines(self) -> Engines:
        """Builtins and hints, which accounts share; files, providers and decoders are added here."""
        return self._wrapped.engines

    @property
    def account(self) -> str:
        """Account that it is the graph of."""
        return self._wrapped.account

    def __repr__(self) -> str:
        return repr(self._wrapped)

    @property
    def layers(self) -> Layers:
        """Caches of the lake, which graphs of other accounts share."""
        return self._wrapped.layers

    def resolve(self, number: ResourceId, *, max_staleness: float | None = None) -> Node:
        """Returns the node of an id.

        Args:
            number: as names were resolved to, in this process or another.
            max_staleness: seconds that the pointer may be old, where that is less than its layer's bound.

        Raises:
            NotFoundError: nothing has the id any more, or this account may not see it.
        """
        return self._bridge.call(self._wrapped.resolve, number, max_staleness=max_staleness)

    def resolve_name(self, ref: Reference, kind: NodeKind | None = None) -> ResourceId:
        """Returns the id of a name.

        Args:
            ref: full name, its parts, or a :class:`NameRef`, which is not looked for when it has an id.
            kind: kind of node that is meant; None = any.

        Raises:
            NotFoundError: nothing has the name.
            InvalidInputError: of kind ``ambiguous_name`` when it fits several objects.

        Example::

            table = lake.graph.resolve(lake.graph.resolve_name("sales.orders"))
        """
        return self._bridge.call(self._wrapped.resolve_name, ref, kind)

    def catalog(self, ref: Reference | None = None) -> CatalogNode:
        """Returns the node of a catalog; None = the warehouse."""
        return self._bridge.call(self._wrapped.catalog, ref)

    def namespace(self, ref: Reference) -> NamespaceNode:
        """Returns the node of a namespace: a database, or ``catalog.namespace``."""
        return self._bridge.call(self._wrapped.namespace, ref)

    def table(self, ref: Reference, *, max_staleness: float | None = None) -> TableNode:
        """Returns the node of a table."""
        return self._bridge.call(self._wrapped.table, ref, max_staleness=max_staleness)

    def view(self, ref: Reference, *, max_staleness: float | None = None) -> ViewNode:
        """Returns the node of a view."""
        return self._bridge.call(self._wrapped.view, ref, max_staleness=max_staleness)

    def relation(self, ref: Reference, *, max_staleness: float | None = None) -> RelationNode:
        """Returns the node of a table or view."""
        return self._bridge.call(self._wrapped.relation, ref, max_staleness=max_staleness)

    def system_objects(self, engine_kind: str, engine_version: str | None = None) -> SystemObjects:
        """Returns what an engine has by itself: types, functions, operators, casts, collations, aggregates.

        The relations of ``information_schema`` are among them, as they are for every engine.

        Args:
            engine_kind: such as ``duckdb``, ``postgres`` or ``spark``, in any case.
            engine_version: as the engine writes it; None = any version.

        Example::

            objects = lake.graph.system_objects("postgres", "16.2")
            print([function.signature for function in objects.named("function", "date_trunc")])
        """
        return self._bridge.call(self._wrapped.system_objects, engine_kind, engine_version)

    def hint(
        self, ref: Reference, *, engine_kind: str, engine_version: str | None = None, payload_type: str
    ) -> EngineHint | None:
        """Returns what a provider tells an engine about a node; None where none has anything to tell.

        Args:
            ref: of a node of any kind; a builtin by its id.
            engine_kind: kind of the engine that asks.
            engine_version: its version; None = any.
            payload_type: namespaced name of the payload's format, such as ``lakehouse.type+json``.
        """
        return self._bridge.call(
            self._wrapped.hint,
            ref,
            engine_kind=engine_kind,
            engine_version=engine_version,
            payload_type=payload_type,
        )

    def system_rows(
        self,
        name: str,
        *,
        catalog: str | Collection[str] | None = None,
        schema: str | Collection[str] | None = None,
        table: str | Collection[str] | None = None,
    ) -> SystemScan:
        """Computes a relation of ``information_schema``, as an async iteration over record batches.

        What cannot be read is in ``warnings`` of the result, and costs its own rows alone.

        Args:
            name: full name, such as ``information_schema.columns``.
            catalog: only this catalog, or these; the warehouse's name is empty.
            schema: only namespaces of this name, or these, as users write it.
            table: only tables and views of this name, or these.

        Example::

            rows = lake.graph.system_rows("information_schema.columns", schema="sales")
            print(rows.to_arrow())
        """
        return SystemScan(
            self._wrapped.system_rows(name, catalog=catalog, schema=schema, table=table), self._bridge
        )

    def snapshot(
        self, node: TableNode, *, number: int | None = None, as_of_ms: int | None = None
    ) -> SnapshotFacts:
        """Returns a snapshot of a table: by its id, the last that is not after a time, or the newest."""
        return self._bridge.call(self._wrapped.snapshot, node, number=number, as_of_ms=as_of_ms)

    def snapshots(self, node: TableNode) -> tuple[SnapshotFacts, ...]:
        """Returns the snapshots of a table, oldest first."""
        return self._bridge.call(self._wrapped.snapshots, node)

    def facts_at(self, node: TableNode, snapshot: int) -> TableFacts:
        """Returns the schema of a table as it was at a snapshot, with all that depends on it."""
        return self._bridge.call(self._wrapped.facts_at, node, snapshot)

    def partitions(self, ref: Reference, snapshot: int | None = None) -> PartitionInfo:
        """Returns the partitions of a table: ranges or values, files, rows, bytes, and which cover which.

        A table that has none, or whose manifests cannot be read, has empty partition info and no error.

        Args:
            ref: the table.
            snapshot: id of a snapshot; None = the newest.
        """
        return self._bridge.call(self._wrapped.partitions, ref, snapshot)

    def changed_partitions(
        self, ref: Reference, start: int | None, end: int | None = None
    ) -> ChangedPartitions:
        """Returns the partitions whose rows may differ between two snapshots: what a refresh has to read.

        Costs what the commits in between wrote; older manifests only where they took whole files away.

        Args:
            ref: the table.
            start: snapshot that the caller has; None = nothing yet.
            end: snapshot to reach; None = the newest.

        Example::

            changed = lake.graph.changed_partitions("sales.orders", 17)
            stale = None if changed.is_all else [key.name for key in changed.partitions]
        """
        return self._bridge.call(self._wrapped.changed_partitions, ref, start, end)

    def invalidate(self, number: ResourceId) -> None:
        """Forgets an id: the next call looks anew at its name, and reads its content again."""
        return self._bridge.call(self._wrapped.invalidate, number)
