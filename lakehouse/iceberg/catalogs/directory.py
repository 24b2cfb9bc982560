"""Directories as catalogs: tables in directories of a warehouse, ``warehouse/namespace/table/metadata``.

Nothing but the directory is asked: a table is a directory with metadata in it, any other is a namespace. That
is how Hadoop's catalogs are laid out; which metadata are the newest is found as in any table's directory.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncGenerator

from lakehouse.clock import Clock
from lakehouse.config import Settings
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.iceberg.catalogs.catalog import Catalog, FoundTable, Name, shown
from lakehouse.iceberg.catalogs.properties import CatalogProperties
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.opening import ReadMetadata, find_metadata, open_locations
from lakehouse.iceberg.scopes import Scope
from lakehouse.io import ObjectStore, map_bounded, open_store
from lakehouse.io.location import Location

__all__ = ["DirectoryCatalog"]

_METADATA = "metadata/"
_ENDS = (".metadata.json", ".metadata.json.gz", "version-hint.text")
_LOOKED_AT = 20
"""Objects of a metadata directory that are looked at to tell a table from a namespace of that name."""


class DirectoryCatalog(Catalog):
    """A warehouse directory.

    Args:
        properties: what it was attached with.
        settings: bounds.
        clock: for tests.
        scope: whose content its tables are given.
    """

    def __init__(
        self,
        properties: CatalogProperties,
        *,
        settings: Settings,
        clock: Clock | None = None,
        scope: Scope | None = None,
    ) -> None:
        super().__init__(properties, scope)
        self._settings, self._clock = settings, clock
        self._root = Location.parse(str(properties.given["warehouse"]))
        self._store: ObjectStore | None = None

    async def find(
        self, name: Name, locations: Locations | None = None, *, known: ReadMetadata | None = None
    ) -> FoundTable:
        """Finds a table by its directory."""
        return await self.asked(functools.partial(self._found, name, locations, known))

    async def _found(self, name: Name, locations: Locations | None, known: ReadMetadata | None) -> FoundTable:
        place = f"{self._root.path.rstrip('/')}/{_key(name)}"
        url = Location(scheme=self._root.scheme, path=place).url
        found = locations or open_locations(
            url,
            storage_options=self.properties.options_at(self._root),
            settings=self._settings,
            clock=self._clock,
            renew=functools.partial(self._renewed, self._root),
            scope=self.scope,
        )
        self._places.add(found)
        try:
            read = await find_metadata(found, url, known=known)
            return FoundTable(metadata=read.metadata, locations=found, version=read.version)
        except NotFoundError:
            if locations is None:
                await found.aclose()
            raise await self.missing_error(name) from None
        except BaseException:
            if locations is None:
                await found.aclose()
            raise

    async def tables(self, namespace: Name) -> list[str]:
        """Returns the directories of a namespace that have metadata."""
        return await self.asked(functools.partial(self._tables, namespace))

    async def _tables(self, namespace: Name) -> list[str]:
        found = [name async for name, is_table in self._directories(namespace) if is_table]
        if not found and not await self._is_there(namespace):
            raise NotFoundError(
                f"catalog {self.properties.name!r} has no namespace {shown(namespace)!r}",
                missing="namespace",
                catalog=self.properties.name,
            )
        return found

    async def namespaces(self, inside: Name = ()) -> list[Name]:
        """Returns the directories of a namespace that are no tables."""
        return await self.asked(functools.partial(self._namespaces, inside))

    async def _namespaces(self, inside: Name) -> list[Name]:
        return [(*inside, name) async for name, is_table in self._directories(inside) if not is_table]

    async def _is_there(self, namespace: Name) -> bool:
        page = await self._opened().list_page(f"{_key(namespace)}/" if namespace else "", limit=1)
        return bool(page.objects)

    async def _directories(self, namespace: Name) -> AsyncGenerator[tuple[str, bool], None]:
        """Yields the directories of a namespace, in order, with whether they are tables."""
        store = self._opened()
        prefix = f"{_key(namespace)}/" if namespace else ""

        async def look(directory: str) -> tuple[str, bool]:
            page = await store.list_page(f"{directory}{_METADATA}", limit=_LOOKED_AT)
            return directory[len(prefix) :].rstrip("/"), any(one.key.endswith(_ENDS) for one in page.objects)

        looked = map_bounded(look, store.directories(prefix), store.settings.ranges_concurrency)
        async with contextlib.aclosing(looked):
            async for found in looked:
                yield found

    def _opened(self) -> ObjectStore:
        if self._store is None:
            options = self.properties.options_at(self._root)
            self._store = open_store(
                self._root.url, storage_options=options, settings=self._settings, clock=self._clock
            )
        return self._store

    async def disconnect(self) -> None:
        """Closes the store of listings."""
        store, self._store = self._store, None
        if store is not None:
            await store.aclose()


def _key(name: Name) -> str:
    for part in name:
        if not part or "/" in part or part in (".", ".."):
            raise InvalidInputError(
                f"{shown(name)!r} names no directory: a part of a name is not empty and has no slash",
                name=shown(name),
            )
    return "/".join(name)
