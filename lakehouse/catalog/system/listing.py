"""Listing: what system relations are computed from, as one account sees it.

The graph implements it. Names come from listings alone; only ``relation`` loads anything.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakehouse.catalog.nodes import RelationNode, RelationPath
from lakehouse.catalog.sources.source import ListedName

__all__ = ["ListedNamespace", "RelationListing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedNamespace:
    """A namespace, as a listing has it."""

    catalog: str
    """Name that its catalog is attached under; empty for the warehouse."""
    path: RelationPath


class RelationListing(Protocol):
    """Names of catalogs, namespaces and relations, and the nodes of relations."""

    def shown(self, path: RelationPath) -> str:
        """Returns the parts of a name as users write it."""
        ...

    def catalogs(self) -> Sequence[str]:
        """Returns the names of catalogs: the warehouse's empty one, and those that are attached."""
        ...

    async def namespaces(self, catalog: str) -> Sequence[RelationPath]:
        """Lists the namespaces of a catalog, those inside others too."""
        ...

    def relations(self, namespace: ListedNamespace) -> AsyncGenerator[ListedName, None]:
        """Lists tables and views of a namespace; loads none of them."""
        ...

    async def relation(self, catalog: str, path: RelationPath) -> RelationNode:
        """Loads a table or view."""
        ...
