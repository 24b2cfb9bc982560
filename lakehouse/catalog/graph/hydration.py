"""Hydration: pointers become nodes, through content that is kept for all accounts.

Invariant: a node is made of one pointer and of the content of its version; nothing newer or older is mixed
in.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from typing import Any

from lakehouse.cache import identity_tags
from lakehouse.catalog.graph.partition_reads import partitions_in
from lakehouse.catalog.graph.pointers import Known, Pointers
from lakehouse.catalog.graph.references import show_name
from lakehouse.catalog.ids import NodeKind, ResourceId
from lakehouse.catalog.layers import Layers
from lakehouse.catalog.nodes import RelationNode, TableNode, ViewNode
from lakehouse.catalog.partitions import PartitionInfo
from lakehouse.catalog.sources import (
    CatalogSource,
    Pointer,
    SnapshotFacts,
    TableFacts,
    ViewFacts,
    catalog_tag,
)

__all__ = ["Hydration", "full_path"]


class Hydration:
    """Nodes and snapshots of one account's relations.

    Args:
        layers: caches of the lake.
        pointers: of the account.
    """

    def __init__(self, layers: Layers, pointers: Pointers) -> None:
        self._layers, self._pointers = layers, pointers

    async def node(self, known: Known, pointer: Pointer) -> RelationNode:
        """Returns the node of a fresh pointer; one of the same version is made once."""
        node = _made_before(known, pointer)
        if node is not None:
            return node
        drops = known.drops
        made = await self._made(known, pointer)
        node = _made_before(known, pointer)
        if node is not None:  # by somebody who waited for the same content
            return node
        is_newest = known.pointer is None or known.pointer.version == pointer.version
        if is_newest and known.drops == drops:
            known.node = made
            self._pointers.kept(known)
        return made

    async def _made(self, known: Known, pointer: Pointer) -> RelationNode:
        source = self._pointers.sources.get(known.catalog)
        if pointer.kind is NodeKind.VIEW:
            view: ViewFacts = await self._content(self._layers.view, source, pointer, source.view)
            return _view_node(known, pointer, view)
        return _table_node(known, pointer, await self.facts(source, pointer))

    async def facts(self, source: CatalogSource, pointer: Pointer) -> TableFacts:
        """Returns what a version of a table says of it."""
        facts: TableFacts = await self._content(self._layers.table, source, pointer, source.table)
        return facts

    async def schema(self, source: CatalogSource, pointer: Pointer, snapshot: int) -> TableFacts:
        """Returns what a snapshot's schema says, kept for as long as the table is the same one."""
        key = (*_incarnation(pointer), "schema", snapshot)

        async def load(_: object) -> TableFacts:
            facts = await source.schema(pointer, snapshot=snapshot)
            # References move from version to version; what is kept here is the same in all of them.
            return replace(facts, references={})

        facts: Any = await self._layers.schema.get(key, load, tags=_tags(source, pointer))
        found: TableFacts = facts
        return found

    async def snapshot(
        self, source: CatalogSource, pointer: Pointer, number: int | None, as_of_ms: int | None
    ) -> SnapshotFacts:
        """Returns a snapshot; one that is named by its id is kept, whatever the version."""

        async def load(_: object) -> SnapshotFacts:
            return await source.snapshot(pointer, number=number, as_of_ms=as_of_ms)

        # Which snapshot was newest at a moment depends on those there are; an id means the same for ever.
        base = _incarnation(pointer) if number is not None else pointer.content_key
        key = (*base, "snapshot", number, as_of_ms)
        facts: Any = await self._layers.snapshots.get(key, load, tags=_tags(source, pointer))
        found: SnapshotFacts = facts
        return found

    async def snapshots(self, source: CatalogSource, pointer: Pointer) -> tuple[SnapshotFacts, ...]:
        """Returns all snapshots of a version, oldest first."""
        found: tuple[SnapshotFacts, ...] = await self._content(
            self._layers.snapshots, source, pointer, source.snapshots
        )
        return found

    async def partitions(
        self, source: CatalogSource, pointer: Pointer, node: TableNode, number: int | None
    ) -> PartitionInfo:
        """Returns the partitions of a snapshot of a table; None = the node's newest."""
        wanted = node.current_snapshot if number is None else number
        key = (*_incarnation(pointer), "partitions", wanted, node.schema_id)
        tags = _tags(source, pointer)
        info = await partitions_in(self._layers, source, pointer, wanted, key=key, tags=tags)
        # The newest spec may be another one without a new snapshot.
        return replace(info, fields=node.partition_keys)

    async def _content(self, region: Any, source: CatalogSource, pointer: Pointer, read: Any) -> Any:
        load = partial(_read, read, pointer)
        return await region.get(pointer.content_key, load, tags=_tags(source, pointer))


def _tags(source: CatalogSource, pointer: Pointer) -> tuple[Hashable, ...]:
    return (*identity_tags(pointer.identity), catalog_tag(source.name))


def _made_before(known: Known, pointer: Pointer) -> RelationNode | None:
    """Returns the node that is known, if it is of a pointer's version."""
    node, of = known.node, known.pointer
    is_same = of is not None and of.version == pointer.version
    return node if is_same and isinstance(node, RelationNode) else None


async def _read(read: Any, pointer: Pointer, _: object) -> Any:
    return await read(pointer)


def _incarnation(pointer: Pointer) -> tuple[Hashable, ...]:
    """Returns the key of what is the same in all versions of a relation, for whoever reaches it alike."""
    identity, _, *reach = pointer.content_key
    return (identity, *reach)


def full_path(catalog: str, path: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the parts of a full name."""
    return (catalog, *path) if catalog else path


def _shared(known: Known, pointer: Pointer) -> dict[str, Any]:
    account, catalog, path = known.id.account, known.catalog, pointer.path
    return {
        "id": known.id,
        "version": pointer.version,
        "catalog": ResourceId.named(account, NodeKind.CATALOG, catalog),
        "namespace": ResourceId.named(account, NodeKind.NAMESPACE, catalog, *path[:-1]),
        "path": path,
        "display": show_name(full_path(catalog, path)),
    }


def _table_node(known: Known, pointer: Pointer, facts: TableFacts) -> TableNode:
    """Returns the node of a table."""
    return TableNode(
        **_shared(known, pointer),
        format=facts.format,
        location=pointer.location,
        schema_id=facts.schema_id,
        schema_json=facts.schema_json,
        field_ids=facts.field_ids,
        primary_key=facts.primary_key,
        not_null=facts.not_null,
        partition_keys=facts.partition_keys,
        current_snapshot=facts.current_snapshot,
        previous_snapshot=facts.previous_snapshot,
        resolved_snapshots=tuple(sorted(set(facts.references.values()))),
        summary=facts.summary,
        updated_ms=facts.updated_ms,
    )


def _view_node(known: Known, pointer: Pointer, facts: ViewFacts) -> ViewNode:
    """Returns the node of a view."""
    return ViewNode(
        **_shared(known, pointer),
        sql=facts.sql,
        dialect=facts.dialect,
        texts=facts.texts,
        columns=facts.columns,
        base_relations=facts.base_relations,
        search_path=facts.search_path,
        owner=facts.owner,
        updated_ms=facts.updated_ms,
    )
