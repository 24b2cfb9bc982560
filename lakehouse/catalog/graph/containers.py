"""Containers: nodes of catalogs and namespaces, made of listings."""

from __future__ import annotations

import hashlib
from collections import deque

from lakehouse.catalog.graph.hydration import full_path
from lakehouse.catalog.graph.listings import Listings
from lakehouse.catalog.graph.meanings import missing_error
from lakehouse.catalog.graph.references import show_name
from lakehouse.catalog.ids import NodeKind, ResourceId
from lakehouse.catalog.nodes import CatalogNode, NamespaceNode, RelationPath
from lakehouse.catalog.sources import SourceSet
from lakehouse.errors import NotFoundError

__all__ = ["Containers"]

_SEARCHED_MAX = 10_000
"""Namespaces of one catalog that are looked through for an id that was never met."""


class Containers:
    """Catalogs and namespaces of one account.

    Args:
        account: its name.
        listings: of the account.
        sources: catalogs of the account.
    """

    def __init__(self, account: str, listings: Listings, sources: SourceSet) -> None:
        self._account, self._listings, self._sources = account, listings, sources

    def catalog_id(self, name: str) -> ResourceId:
        """Returns the id of a catalog."""
        return ResourceId.named(self._account, NodeKind.CATALOG, name)

    def namespace_id(self, catalog: str, path: RelationPath) -> ResourceId:
        """Returns the id of a namespace."""
        return ResourceId.named(self._account, NodeKind.NAMESPACE, catalog, *path)

    async def catalog(self, name: str) -> CatalogNode:
        """Returns the node of a catalog, with its outermost namespaces."""
        source = self._sources.get(name)
        paths = await self._listings.namespaces(name)
        return CatalogNode(
            id=self.catalog_id(name),
            version=_version(source.connector, source.display, *map(show_name, paths)),
            name=name,
            display=source.display,
            connector=source.connector,
            namespaces=tuple([self.namespace_id(name, path) for path in paths]),
        )

    async def namespace(self, catalog: str, path: RelationPath) -> NamespaceNode:
        """Returns the node of a namespace, with the namespaces inside it."""
        if not await self.has_namespace(catalog, path):
            raise missing_error(full_path(catalog, path), "namespace" if catalog else "database")
        inside = await self._listings.namespaces(catalog, path)
        return NamespaceNode(
            id=self.namespace_id(catalog, path),
            version=_version(*map(show_name, inside)),
            catalog=self.catalog_id(catalog),
            path=path,
            display=show_name(full_path(catalog, path)),
            children=tuple([self.namespace_id(catalog, child) for child in inside]),
        )

    async def has_namespace(self, catalog: str, path: RelationPath) -> bool:
        """Returns whether there is a namespace; one that a kept listing lacks is looked for again."""
        parent = path[:-1]
        try:
            if path in await self._listings.namespaces(catalog, parent):
                return True
            return path in await self._listings.namespaces_now(catalog, parent)
        except NotFoundError:
            return False

    async def find(self, number: ResourceId) -> CatalogNode | NamespaceNode:
        """Returns the node of a catalog or namespace by its id: made of its name, which is looked for."""
        for name in self._sources.names:
            if number.kind is NodeKind.CATALOG and self.catalog_id(name) == number:
                return await self.catalog(name)
        if number.kind is NodeKind.NAMESPACE:
            for name in self._sources.names:
                path = await self._search(name, number)
                if path is not None:
                    return await self.namespace(name, path)
        raise NotFoundError(f"there is no {number.kind.value} of the id {number}", id=str(number))

    async def _search(self, catalog: str, number: ResourceId) -> RelationPath | None:
        """Looks for a namespace, outermost ones first."""
        waiting: deque[RelationPath] = deque([()])
        for _ in range(_SEARCHED_MAX):
            if not waiting:
                return None
            for path in await self._listings.namespaces(catalog, waiting.popleft()):
                if self.namespace_id(catalog, path) == number:
                    return path
                if catalog:  # databases have nothing inside
                    waiting.append(path)
        return None


def _version(*parts: str) -> str:
    """Returns a version of what is made of texts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()[:16]
