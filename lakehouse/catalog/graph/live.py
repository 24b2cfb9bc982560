"""Live looks: tables opened and listed as they are now, whatever is kept.

A handle outlives the moment at which it was opened, so its name is looked at once, live, for one request.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from lakehouse.catalog.graph.hydration import full_path
from lakehouse.catalog.graph.listings import Listings
from lakehouse.catalog.graph.meanings import relation_meaning
from lakehouse.catalog.graph.references import Reference, reference_parts, show_name
from lakehouse.catalog.ids import NodeKind, ResourceId
from lakehouse.catalog.nodes import Node, RelationPath, TableNode
from lakehouse.catalog.sources import ListedName, SourceSet, unread_pointer
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.io.work import or_none

__all__ = ["LiveGraph"]

_NO_PARTS: RelationPath = ()


class LiveGraph(abc.ABC):
    """Base of the graph with its calls that look at what is there now."""

    sources: SourceSet
    _listings: Listings

    @abc.abstractmethod
    async def resolve(self, number: ResourceId, *, max_staleness: float | None = None) -> Node:
        """Returns the node of an id."""

    async def open(self, ref: Reference) -> Any:
        """Opens the table that a name stands for now, by one live look at the name.

        Returns the open table of the warehouse, or the :class:`lakehouse.iceberg.IcebergTable` of a catalog.
        """
        parts = reference_parts(ref)
        if isinstance(parts, ResourceId):
            node = await self.resolve(parts, max_staleness=0.0)
            if not isinstance(node, TableNode):
                raise NotFoundError(f"{parts} is no table", missing="table", id=str(parts))
            catalog = next(name for name in self.sources.names if _catalog_id(node, name) == node.catalog)
            return await self.sources.get(catalog).open(unread_pointer(node.path))
        meaning = relation_meaning(parts, self.sources)
        return await self.sources.get(meaning.catalog).open(unread_pointer(meaning.path))

    async def exists(self, ref: Reference, kind: NodeKind | None = None) -> bool:
        """Returns whether a name stands for something of a kind now, by one live look at it; None = any."""
        parts = reference_parts(ref)
        if isinstance(parts, ResourceId):
            return await or_none(self.resolve(parts, max_staleness=0.0)) is not None
        meaning = relation_meaning(parts, self.sources)
        source = self.sources.get(meaning.catalog)
        try:
            found = await source.identify(meaning.path) or await source.pointer(meaning.path)
        except NotFoundError as error:
            if error.kind == "missing-bucket":
                raise
            return False
        return kind is None or found.kind is kind

    async def namespace_names(self, ref: Reference | None = None) -> list[str]:
        """Lists the full names of databases now, or of the namespaces of a catalog or inside another."""
        catalog, inside = "", _NO_PARTS
        if ref is not None:
            parts = reference_parts(ref)
            if isinstance(parts, ResourceId):
                raise InvalidInputError(f"namespaces are listed by name, not by {parts}")
            catalog, inside = parts[0], parts[1:]
        found = await self.sources.get(catalog).namespaces(inside)
        return [show_name(full_path(catalog, path)) for path in found]

    async def table_names(
        self, ref: Reference, *, begins: str = "", after: str | None = None
    ) -> AsyncGenerator[str, None]:
        """Yields the full names of the tables of a namespace now, in order; each is there when it is yielded.

        Args:
            ref: database, or ``catalog.namespace``.
            begins: only tables whose names begin so.
            after: only tables behind this full name.
        """
        parts = reference_parts(ref)
        if isinstance(parts, ResourceId):
            raise InvalidInputError(f"tables are listed by the name of their namespace, not by {parts}")
        behind = None if after is None else _last(after)
        if len(parts) == 1 and parts[0] in self.sources:
            raise InvalidInputError(
                f"{parts[0]!r} is a catalog, and tables are listed by namespace: list "
                f"'{parts[0]}.namespace', one of lake.databases({parts[0]!r})",
                catalog=parts[0],
            )
        catalog, namespace = ("", parts) if len(parts) == 1 else (parts[0], parts[1:])
        listed = self.sources.get(catalog).names(namespace, prefix=begins, after=behind)
        async with aclosing(listed) as names:
            async for path in names:
                yield show_name(full_path(catalog, path))

    async def namespace_paths(self, catalog: str, inside: RelationPath = ()) -> list[RelationPath]:
        """Lists the namespaces of a catalog directly inside another, as of the bound of listings."""
        return await self._listings.namespaces(catalog, inside)

    def listed(
        self, catalog: str, namespace: RelationPath, *, begins: str = ""
    ) -> AsyncGenerator[ListedName, None]:
        """Yields the tables and views of a namespace as listed, within the bound of listings."""
        return self._listings.names(catalog, namespace, begins=begins)


def _catalog_id(node: TableNode, name: str) -> ResourceId:
    return ResourceId.named(node.id.account, NodeKind.CATALOG, name)


def _last(name: str) -> str:
    parts = reference_parts(name)
    return parts[-1] if not isinstance(parts, ResourceId) else name
