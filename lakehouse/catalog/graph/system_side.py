"""System side of the graph: what every account sees without anybody's having made it, and hints for engines.

Names of the system come first: nothing of users' is called as a relation of ``information_schema``. Ids of
users come first; a system id has an account of its own, so that the two never meet.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence

from lakehouse.catalog.engines import EngineKey
from lakehouse.catalog.graph.hydration import full_path
from lakehouse.catalog.graph.listings import Listings
from lakehouse.catalog.graph.references import parse_name, show_name
from lakehouse.catalog.hints import EngineHintManager, SystemCatalogHintProvider
from lakehouse.catalog.ids import ResourceId
from lakehouse.catalog.layers import Layers
from lakehouse.catalog.nodes import NamespaceNode, Node, RelationNode, RelationPath, SystemViewNode
from lakehouse.catalog.sources import ListedName, SourceSet
from lakehouse.catalog.system import (
    ListedNamespace,
    SystemRegistry,
    system_namespace,
    system_relations,
)
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.storage.metadata import INFORMATION_SCHEMA
from lakehouse.suggest import suggestion

__all__ = ["Engines", "GraphListing"]


_RELATION_PARTS = 2


class Engines:
    """Builtins of engines and hints for them, which all accounts of a lake share.

    Args:
        layers: caches of the lake.
    """

    def __init__(self, layers: Layers) -> None:
        self.builtins = SystemRegistry(layers.overlay)
        """Files of builtins; ``add`` lays one over the others."""
        self.hints = EngineHintManager(
            layers.hints,
            fallbacks=[SystemCatalogHintProvider(self.builtins)],
            max_bytes=layers.settings.catalog.hint_max_bytes,
        )
        """Providers of hints, and decoders of their payloads."""
        self._relations = {node.path: node for node in system_relations()}
        self._namespace = system_namespace()

    async def node(self, number: ResourceId) -> Node:
        """Returns the system object of an id, of whatever engine and version."""
        if number == self._namespace.id:
            return self._namespace
        for kind in ("", *self.builtins.kinds):
            found = (await self.builtins.overlay(EngineKey(kind))).objects.node(number)
            if found is not None:
                return found
        raise NotFoundError(f"no system object has the id {number}", id=str(number))

    def named(self, parts: RelationPath) -> NamespaceNode | SystemViewNode | None:
        """Returns the system object that a name, in any case, stands for; None for names of users."""
        if not _is_system(parts):
            return None
        return self._namespace if len(parts) == 1 else self._relations.get(_lower(parts))

    def relation(self, name: str) -> SystemViewNode:
        """Returns the relation of information_schema that a full name means."""
        parts = parse_name(name)
        found = self.named(parts)
        if isinstance(found, SystemViewNode):
            return found
        if _is_system(parts) and found is None:
            raise self._missing(parts)
        raise InvalidInputError(
            f"{name!r} is not computed: name a relation of {INFORMATION_SCHEMA}, such as "
            f"'{INFORMATION_SCHEMA}.tables'",
            name=name,
        )

    @contextlib.contextmanager
    def explaining(self, parts: RelationPath) -> Iterator[None]:
        """Says which relations there are where a name in information_schema is not found."""
        try:
            yield
        except NotFoundError as error:
            if not _is_system(parts):
                raise
            raise self._missing(parts) from error

    def _missing(self, parts: RelationPath) -> NotFoundError:
        names = [path[-1] for path in self._relations]
        return NotFoundError(
            f"there is no {show_name(parts)}; {suggestion(parts[-1], names)}",
            missing="table",
            name=show_name(parts),
        )

    def relations(self) -> tuple[SystemViewNode, ...]:
        """Returns the system's relations, in order of their names."""
        return tuple(self._relations.values())


def _is_system(parts: RelationPath) -> bool:
    return len(parts) <= _RELATION_PARTS and parts[0].lower() == INFORMATION_SCHEMA


def _lower(parts: RelationPath) -> RelationPath:
    return tuple(part.lower() for part in parts)


class GraphListing:
    """Names and nodes that ``information_schema`` is computed from, as one account sees them.

    Args:
        sources: catalogs of the account.
        listings: of the account.
        load: loads a relation by the parts of its full name.
    """

    def __init__(
        self,
        sources: SourceSet,
        listings: Listings,
        load: Callable[[RelationPath], Awaitable[RelationNode]],
    ) -> None:
        self._sources, self._listings, self._load = sources, listings, load

    def shown(self, path: RelationPath) -> str:
        """Returns the parts of a name as users write it."""
        return show_name(path)

    def catalogs(self) -> Sequence[str]:
        """Returns the names of catalogs, the warehouse's empty one first."""
        return self._sources.names

    async def namespaces(self, catalog: str) -> Sequence[RelationPath]:
        """Lists the namespaces of a catalog, those inside others behind them."""
        found, waiting = list[RelationPath](), deque[RelationPath]([()])
        while waiting:
            inside = await self._listings.namespaces(catalog, waiting.popleft())
            found += inside
            if catalog:  # databases have nothing inside
                waiting += inside
        return sorted(found)

    def relations(self, namespace: ListedNamespace) -> AsyncGenerator[ListedName, None]:
        """Lists tables and views of a namespace; loads none of them."""
        return self._listings.names(namespace.catalog, namespace.path)

    async def relation(self, catalog: str, path: RelationPath) -> RelationNode:
        """Loads a table or view."""
        return await self._load(full_path(catalog, path))
