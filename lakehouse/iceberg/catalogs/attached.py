"""Catalogs of a lake, by the names they were attached under.

A table of a catalog has three parts or more, ``catalog.namespace.table``, where tables of the lake have two.
So no name can mean both; a catalog and a database of one name are refused all the same, since people would
take one for the other.

Invariant: attaching contacts nothing. What a catalog opened is closed when it is detached, or with the lake.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.cache import CacheBudget
from lakehouse.clock import Clock
from lakehouse.config import Settings
from lakehouse.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lakehouse.iceberg.catalogs.catalog import Catalog, Name, shown
from lakehouse.iceberg.catalogs.directory import DirectoryCatalog
from lakehouse.iceberg.catalogs.properties import CatalogProperties
from lakehouse.iceberg.catalogs.through_pyiceberg import PyicebergCatalog
from lakehouse.iceberg.metadata import TableMetadata
from lakehouse.iceberg.scopes import Scopes
from lakehouse.iceberg.table import IcebergTable
from lakehouse.io.work import or_none
from lakehouse.suggest import suggestion

__all__ = ["Catalogs"]


class Catalogs:
    """Catalogs of one lake.

    Args:
        caches: budget of what is kept of manifests and data files.
        settings: bounds.
        clock: for tests.
        scopes: those of all accounts of the lake; None = the catalogs have their own.
    """

    def __init__(
        self,
        caches: CacheBudget,
        *,
        settings: Settings,
        clock: Clock | None = None,
        scopes: Scopes | None = None,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._caches = caches
        self._scopes = Scopes(caches) if scopes is None else scopes
        self._properties: dict[str, Mapping[str, Any]] = {}
        self._attached: dict[str, Catalog] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._attached

    @property
    def names(self) -> list[str]:
        """Names of the catalogs, in order."""
        return sorted(self._attached)

    @property
    def properties(self) -> dict[str, Mapping[str, Any]]:
        """Properties that each catalog was attached with, by name; secrets too."""
        return dict(self._properties)

    def attach(self, name: str, properties: Mapping[str, Any]) -> None:
        """Attaches a catalog; nothing is contacted.

        Raises:
            AlreadyExistsError: a catalog of that name is attached.
            InvalidInputError: its type is unknown, or a property is missing or has no effect.
        """
        if name in self._attached:
            raise AlreadyExistsError(
                f"a catalog {name!r} is attached already: detach it first, or take another name", catalog=name
            )
        parsed = CatalogProperties.parse(name, properties)
        kind = DirectoryCatalog if parsed.type == "directory" else PyicebergCatalog
        scope = self._scopes.enter(properties)
        self._attached[name] = kind(parsed, settings=self._settings, clock=self._clock, scope=scope)
        self._properties[name] = dict(properties)

    async def detach(self, name: str) -> None:
        """Detaches a catalog, and closes its connections and those of its tables."""
        catalog = self._find(name)
        del self._attached[name], self._properties[name]
        await self._closed(catalog)
        self._scopes.leave(catalog.scope)

    async def update(self, name: str, changes: Mapping[str, Any]) -> None:
        """Gives a catalog other credentials: the next request uses them, and open tables stay open.

        Args:
            name: of the catalog.
            changes: properties in place of those of the same names; None takes one away.

        Raises:
            InvalidInputError: they would make it another catalog.
        """
        catalog = self._find(name)
        merged = {
            one: value for one, value in {**self._properties[name], **changes}.items() if value is not None
        }
        parsed = CatalogProperties.parse(name, merged)
        catalog.properties.check_same_catalog(parsed)
        self._scopes.move(catalog.scope, merged)
        self._properties[name] = merged
        await catalog.rotate(parsed)

    def catalog(self, name: str) -> Catalog:
        """Returns the catalog of that name."""
        return self._find(name)

    async def table(self, name: Name) -> IcebergTable:
        """Opens a table.

        Args:
            name: catalog, namespaces, table.
        """
        catalog, inner = self._find(name[0]), _inner(name)
        found = await catalog.find(inner)

        async def reload() -> TableMetadata:
            return (await catalog.find(inner, found.locations)).metadata

        return IcebergTable(
            shown(name),
            found.locations,
            found.metadata,
            reload=reload,
            caches=self._caches,
            settings=self._settings,
        )

    async def has(self, name: Name) -> bool:
        """Returns whether there is a table of that name; it is loaded to find out."""
        found = await or_none(self._find(name[0]).find(_inner(name)))
        if found is not None:
            await found.locations.aclose()
        return found is not None

    async def tables(self, namespace: Name) -> list[str]:
        """Returns the full names of the tables of a namespace, in order."""
        catalog = self._find(namespace[0])
        if len(namespace) == 1:
            raise InvalidInputError(
                f"{namespace[0]!r} is a catalog, and tables are listed by namespace: list "
                f"'{namespace[0]}.namespace', one of lake.databases({namespace[0]!r})",
                catalog=namespace[0],
            )
        names = await catalog.tables(_inner(namespace))
        return [shown((*namespace, name)) for name in names]

    async def namespaces(self, inside: Name) -> list[str]:
        """Returns the full names of the namespaces of a catalog, or of those inside one of them, in order."""
        names = await self._find(inside[0]).namespaces(_inner(inside))
        return [shown((inside[0], *name)) for name in names]

    async def aclose(self) -> None:
        """Closes all connections; the catalogs stay attached, and connect again when they are used."""
        for catalog in list(self._attached.values()):
            await self._closed(catalog)

    async def disconnect(self) -> None:
        """Gives connections to catalogs back; places of tables stay open."""
        for catalog in list(self._attached.values()):
            await catalog.disconnect()

    async def _closed(self, catalog: Catalog) -> None:
        await catalog.close_places()
        await catalog.aclose()

    def _find(self, name: str) -> Catalog:
        if name not in self._attached:
            raise NotFoundError(
                f"no catalog {name!r} is attached; {suggestion(name, self.names)} (lake.attach_catalog)",
                catalog=name,
            )
        return self._attached[name]


def _inner(name: Name) -> Name:
    """Returns the parts of a name behind the catalog's."""
    if not all(name):
        raise InvalidInputError(
            f"{shown(name)!r} has an empty part: write catalog.namespace.table", name=shown(name)
        )
    return name[1:]
