"""Catalogs as they are attached: which namespaces of them are seen, and warehouses of ours among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.cache import CacheBudget, CacheSpec
from lakehouse.catalog.registry import OpenTables
from lakehouse.catalog.sources import Access, CatalogSource, RestrictedSource, WarehouseSource
from lakehouse.clock import Clock
from lakehouse.config import Settings
from lakehouse.errors import InvalidInputError
from lakehouse.iceberg.renewing import Credentials, RenewingStore
from lakehouse.iceberg.scopes import Scope, Scopes
from lakehouse.io import open_store
from lakehouse.io.location import Location
from lakehouse.io.open import understood_options
from lakehouse.storage.metadata import NameListing, TableCaches
from lakehouse.storage.tables import Environment, Names
from lakehouse.suggest import suggestion

__all__ = ["AttachedWarehouse", "attached_warehouse", "is_warehouse", "unrestricted", "without_access"]

_ACCESS = ("include", "exclude", "authorise")
_KNOWN = ("type", "warehouse", "storage_options")
_NAME_POINTERS = CacheSpec(name="name-pointers")


def without_access(name: str, properties: Mapping[str, Any]) -> tuple[dict[str, Any], Access]:
    """Returns the properties of a catalog itself, and which of its namespaces are seen."""
    if not isinstance(properties, Mapping):
        raise InvalidInputError(
            f"a catalog is attached with properties, such as {{'type': 'rest', 'uri': …}}, not with "
            f"{type(properties).__name__}",
            catalog=name,
        )
    given = dict(properties)
    return given, Access.parse(*[given.pop(one, None) for one in _ACCESS])


def unrestricted(source: CatalogSource) -> CatalogSource:
    """Returns the source behind what restricts it."""
    return source.inner if isinstance(source, RestrictedSource) else source


def is_warehouse(properties: Mapping[str, Any]) -> bool:
    """Returns whether properties are those of a warehouse of ours."""
    return str(properties.get("type")).lower() == "lakehouse"


class AttachedWarehouse(WarehouseSource):
    """Another warehouse of ours, with a store, open tables and caches of its own."""

    def __init__(
        self,
        name: str,
        properties: Mapping[str, Any],
        env: Environment,
        listing: NameListing,
        *,
        names: Names,
        credentials: Credentials,
        scope: Scope,
        scopes: Scopes,
    ) -> None:
        super().__init__(env, names, listing)
        self.name = name
        self._given, self._credentials, self._scope, self._scopes = properties, credentials, scope, scopes

    async def update(self, properties: Mapping[str, Any]) -> None:
        """Uses other credentials from the next request on."""
        if properties["warehouse"] != self._given["warehouse"] or not is_warehouse(properties):
            raise InvalidInputError(
                f"catalog {self.name!r}: another type or warehouse would make it another catalog: detach it "
                "and attach the other one",
                catalog=self.name,
                option="warehouse",
            )
        location = _checked(self.name, properties)
        self._given = properties
        await self._credentials.replace(understood_options(location, properties.get("storage_options")))

    def leave(self) -> None:
        """Gives up what is kept of it, when it is detached."""
        self._scopes.leave(self._scope)

    async def aclose(self) -> None:
        """Closes the store; the source may be used again."""
        await self._env.store.aclose()


def attached_warehouse(
    name: str,
    properties: Mapping[str, Any],
    *,
    settings: Settings,
    clock: Clock,
    caches: CacheBudget,
    scopes: Scopes,
) -> AttachedWarehouse:
    """Returns a warehouse as a source; nothing is contacted."""
    location = _checked(name, properties)
    # Like no other: open tables keep their caches when credentials are replaced.
    scope = scopes.enter({"warehouse": object()})
    options = understood_options(location, properties.get("storage_options"))
    credentials = Credentials(options, None)
    store = RenewingStore(
        credentials,
        lambda given: open_store(location.url, storage_options=given, settings=settings, clock=clock),
    )
    names = Names(store, settings.table)
    env = Environment(store, settings, clock, TableCaches(caches, group=scope.who), None, None, OpenTables())
    region = caches.region(_NAME_POINTERS, group=scope.who)
    listing = NameListing(store, names.pointer, region, concurrency=settings.table.read_concurrency)
    return AttachedWarehouse(
        name, properties, env, listing, names=names, credentials=credentials, scope=scope, scopes=scopes
    )


def _checked(name: str, properties: Mapping[str, Any]) -> Location:
    for one in properties:
        if one not in _KNOWN:
            raise InvalidInputError(
                f"catalog {name!r}: a warehouse has no property {one!r}, {suggestion(one, _KNOWN)}",
                catalog=name,
                option=one,
            )
    warehouse = properties.get("warehouse")
    if not isinstance(warehouse, str) or not warehouse:
        raise InvalidInputError(
            f"catalog {name!r} of type 'lakehouse' needs the property 'warehouse': the URL that "
            "lakehouse.connect takes",
            catalog=name,
            option="warehouse",
        )
    return Location.parse(warehouse)
