"""Listings in memory for tests of system relations: names, nodes, failures, and a log of what was asked."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from lakehouse.catalog.ids import NodeKind, ResourceId
from lakehouse.catalog.nodes import RelationNode, RelationPath, TableNode, ViewNode
from lakehouse.catalog.sources import ListedName
from lakehouse.catalog.system import ListedNamespace
from lakehouse.errors import LakehouseError

__all__ = ["MemoryListing", "table_node", "view_node"]

Named = tuple[str, RelationPath]
"""Catalog and path."""


def _ids(path: RelationPath) -> dict[str, Any]:
    return {
        "version": "1",
        "catalog": ResourceId.named("default", NodeKind.CATALOG, ""),
        "namespace": ResourceId.named("default", NodeKind.NAMESPACE, *path[:-1]),
        "path": path,
        "display": ".".join(path),
    }


def table_node(
    path: RelationPath, fields: Sequence[tuple[str, Any]] = (("id", "long"),), **given: Any
) -> TableNode:
    """A table with columns of Iceberg's types; a name that ends in ``!`` is required."""
    columns = [
        {"id": number, "name": name.rstrip("!"), "required": name.endswith("!"), "type": kind}
        for number, (name, kind) in enumerate(fields, 1)
    ]
    facts: dict[str, Any] = {
        "id": ResourceId.named("default", NodeKind.TABLE, *path),
        "format": "lakehouse",
        "location": "",
        "schema_id": 0,
        "schema_json": json.dumps({"type": "struct", "fields": columns}),
        "field_ids": {each["name"]: each["id"] for each in columns},
        **_ids(path),
    }
    return TableNode(**{**facts, **given})


def view_node(path: RelationPath, **given: Any) -> ViewNode:
    """A view."""
    facts: dict[str, Any] = {"sql": "SELECT 1", "dialect": "duckdb", **_ids(path)}
    return ViewNode(**{"id": ResourceId.named("default", NodeKind.VIEW, *path), **facts, **given})


class MemoryListing:
    """Catalogs in memory.

    Args:
        nodes: relations by catalog and path.
        failures: errors that loading or listing a path raises; the empty path stands for a whole catalog.
        empty: namespaces without relations.
    """

    def __init__(
        self,
        nodes: Mapping[Named, RelationNode],
        *,
        failures: Mapping[Named, LakehouseError] | None = None,
        empty: Sequence[Named] = (),
    ) -> None:
        self._nodes = dict(nodes)
        self._failures = dict(failures or {})
        self._spaces = sorted({(catalog, path[:-1]) for catalog, path in self._nodes} | {*empty})
        self.loaded: list[Named] = []
        self.listed: list[Named] = []

    def shown(self, path: RelationPath) -> str:
        """Returns parts with dots between them."""
        return ".".join(path)

    def catalogs(self) -> Sequence[str]:
        """Returns the names of catalogs."""
        return sorted({catalog for catalog, _ in self._spaces} | {catalog for catalog, _ in self._failures})

    async def namespaces(self, catalog: str) -> Sequence[RelationPath]:
        """Lists the namespaces of a catalog."""
        self._check(catalog, ())
        return [path for each, path in self._spaces if each == catalog]

    async def relations(self, namespace: ListedNamespace) -> AsyncGenerator[ListedName, None]:
        """Lists a namespace; a failure comes behind its first name."""
        self.listed.append((namespace.catalog, namespace.path))
        for (catalog, path), node in sorted(self._nodes.items()):
            if (catalog, path[:-1]) == (namespace.catalog, namespace.path):
                yield ListedName(path=path, kind=node.kind)
                self._check(*self.listed[-1])

    async def relation(self, catalog: str, path: RelationPath) -> RelationNode:
        """Loads a relation."""
        self.loaded.append((catalog, path))
        self._check(catalog, path)
        return self._nodes[catalog, path]

    def _check(self, catalog: str, path: RelationPath) -> None:
        error = self._failures.get((catalog, path))
        if error is not None:
            raise error
