"""Catalogs through pyiceberg: REST, SQL, Hive and Glue.

pyiceberg speaks with the catalog, in threads; metadata are read by our own stores, and decoded by us. So a
table costs one GET of its metadata file whichever catalog it is of, and columns of types that pyiceberg does
not know do no harm where the file can be read. Credentials that a REST catalog hands out with a table live in
the places of that table alone, and are asked for again when the store refuses them.

Glue is tested against moto. Hive is not run in tests: what is tested is that a missing library is said.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from lakehouse.clock import Clock
from lakehouse.config import Settings
from lakehouse.errors import CorruptionError, InvalidInputError, LakehouseError, NotFoundError
from lakehouse.iceberg.catalogs.catalog import Catalog, FoundTable, FoundView, Name, shown
from lakehouse.iceberg.catalogs.errors import missing_extra, translated
from lakehouse.iceberg.catalogs.file_io import FILE_IO, reading
from lakehouse.iceberg.catalogs.properties import CatalogProperties
from lakehouse.iceberg.locations import Locations, path_location
from lakehouse.iceberg.metadata_json import decode_metadata
from lakehouse.iceberg.opening import ReadMetadata, open_locations
from lakehouse.iceberg.scopes import Scope
from lakehouse.io.options import StorageOptions
from lakehouse.io.work import in_thread

__all__ = ["PyicebergCatalog"]

R = TypeVar("R")
_DEFAULTS: Mapping[str, Mapping[str, str]] = {"sql": {"init_catalog_tables": "false"}}
"""Properties by type where the caller gives none: a catalog that is read makes no tables of its own."""


class PyicebergCatalog(Catalog):
    """A catalog that pyiceberg speaks with.

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
        if importlib.util.find_spec("pyiceberg") is None:
            raise missing_extra(f"catalog {properties.name!r} of type {properties.type!r}")
        self._settings, self._clock = settings, clock
        self._connecting = anyio.Lock()
        self._catalog: Any = None

    # --- calls of the catalog -------------------------------------------------------

    async def tables(self, namespace: Name) -> list[str]:
        """Returns the tables that the catalog lists."""
        return await self.asked(functools.partial(self._tables, namespace))

    async def _tables(self, namespace: Name) -> list[str]:
        catalog = await self._connected()
        names = await self._call(f"listing tables of {shown(namespace)}", catalog.list_tables, namespace)
        return sorted(name[-1] for name in names)

    async def views(self, namespace: Name) -> list[str]:
        """Returns the views that a REST catalog lists; asks nothing of a server that has no views."""
        if self.properties.type != "rest":
            return []
        return await self.asked(functools.partial(self._views, namespace))

    async def _views(self, namespace: Name) -> list[str]:
        catalog = await self._connected()
        names = await self._call(f"listing views of {shown(namespace)}", catalog.list_views, namespace)
        return sorted(name[-1] for name in names)

    async def view(self, name: Name) -> FoundView | None:
        """Loads a view of a REST catalog, whose server keeps the definition."""
        if self.properties.type != "rest":
            return None
        return await self.asked(functools.partial(self._view, name))

    async def _view(self, name: Name) -> FoundView | None:
        catalog = await self._connected()
        return await self._call(f"loading view {shown(name)}", _loaded_view, catalog, name)

    async def namespaces(self, inside: Name = ()) -> list[Name]:
        """Returns the namespaces that the catalog lists."""
        return await self.asked(functools.partial(self._namespaces, inside))

    async def _namespaces(self, inside: Name) -> list[Name]:
        catalog = await self._connected()
        names = await self._call("listing namespaces", catalog.list_namespaces, inside)
        return sorted(tuple(name) for name in names)

    async def disconnect(self) -> None:
        """Closes connections to the catalog."""
        catalog, self._catalog = self._catalog, None
        if catalog is not None:
            await self._call("closing", _close, catalog)

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._catalog is None:
                self._catalog = await self._call("connecting", _connect, self.properties)
            return self._catalog

    async def _call(self, doing: str, work: Callable[..., R], *args: object) -> R:
        """Runs blocking work in a thread of its own, and no longer than a request may take."""
        # Not a thread of those for computation: reads of metadata need these while this one waits for them.
        with translated(self.properties, doing):
            with anyio.fail_after(self._settings.io.request_timeout_s):
                return await anyio.to_thread.run_sync(
                    work, *args, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
                )

    # --- tables -----------------------------------------------------------------------

    async def find(
        self, name: Name, locations: Locations | None = None, *, known: ReadMetadata | None = None
    ) -> FoundTable:
        """Finds a table, and reads its metadata by the location that the catalog names."""
        loading = _Loading(self, name, locations, known)
        try:
            return await loading.found()
        except NotFoundError as error:
            await loading.abandon()
            if error.context.get("missing") is None:
                raise
            raise await self.missing_error(name) from None
        except BaseException:
            await loading.abandon()
            raise

    async def load(self, name: Name, read: Callable[[str], Coroutine[Any, Any, bytes]]) -> Any:
        """Returns pyiceberg's table; files that pyiceberg reads meanwhile are read by ``read``."""
        return await self.asked(functools.partial(self._load, name, read))

    async def _load(self, name: Name, read: Callable[[str], Coroutine[Any, Any, bytes]]) -> Any:
        catalog = await self._connected()
        with reading(read):
            return await self._call(f"loading table {shown(name)}", catalog.load_table, name)

    def places(self, location: str, name: Name, handed_out: Mapping[str, Any]) -> Locations:
        """Returns the places of the table whose metadata file is at a location."""
        at = path_location(location)
        is_rest = self.properties.type == "rest"
        places = open_locations(
            at.url,
            storage_options=self.properties.options_at(at, handed_out),
            settings=self._settings,
            clock=self._clock,
            renew=functools.partial(self._fresh, name) if is_rest else functools.partial(self._renewed, at),
            scope=self.scope,
        )
        self._places.add(places)
        return places

    async def _fresh(self, name: Name) -> StorageOptions:
        """Asks the catalog for the credentials of a table again."""
        if self.properties.ask is not None:
            await self._freshened(self.properties)

        async def none(location: str) -> bytes:
            raise InvalidInputError(f"{location}: the catalog hands out no credentials with its tables")

        table = await self.load(name, none)
        return self.properties.options_at(path_location(table.metadata.location), _handed_out(table))


class _Loading:
    """One loading of a table: what the catalog says, and the metadata file that was read for it.

    Args:
        catalog: that is asked.
        name: of the table.
        locations: places from an earlier loading; None = they are made.
        known: metadata from an earlier loading.
    """

    def __init__(
        self,
        catalog: PyicebergCatalog,
        name: Name,
        locations: Locations | None,
        known: ReadMetadata | None = None,
    ) -> None:
        self._catalog, self._name, self._known = catalog, name, known
        self._locations, self._is_new = locations, locations is None
        self._read_already: FoundTable | None = None

    async def found(self) -> FoundTable:
        """Loads the table."""
        try:
            table = await self._catalog.load(self._name, self._read)
        except LakehouseError:
            # pyiceberg reads less of the format than we do; what it read before it gave up is all we need.
            if self._read_already is None:
                raise
            found = self._read_already
        else:
            found = self._read_already or await self._described(table)
        found.locations.admit(found.metadata)
        return found

    async def abandon(self) -> None:
        """Closes the places that were made in vain."""
        if self._is_new and self._locations is not None:
            await self._locations.aclose()

    def _places(self, location: str, handed_out: Mapping[str, Any]) -> Locations:
        if self._locations is None:
            self._locations = self._catalog.places(location, self._name, handed_out)
        return self._locations

    async def _read(self, location: str) -> bytes:
        """Reads a metadata file for pyiceberg."""
        known = self._unchanged(location, {})
        if known is not None:
            self._read_already = known
            raise _UnchangedError("the metadata are known already")
        data, self._read_already = await self._file(location, {})
        return data

    def _unchanged(self, location: str, handed_out: Mapping[str, Any]) -> FoundTable | None:
        """Returns the known metadata when they are those at a location, which no catalog uses twice."""
        if self._known is None or self._known.metadata.path != location:
            return None
        return FoundTable(metadata=self._known.metadata, locations=self._places(location, handed_out))

    async def _file(self, location: str, handed_out: Mapping[str, Any]) -> tuple[bytes, FoundTable]:
        places = self._places(location, handed_out)
        place = places.find(location)
        data = (await place.store.get(place.key)).data
        metadata = await in_thread(decode_metadata, data, location)
        return data, FoundTable(metadata=metadata, locations=places)

    async def _described(self, table: Any) -> FoundTable:
        """Reads the metadata file of a table that was described; without one, believes the catalog."""
        location, handed_out = table.metadata_location, _handed_out(table)
        known = self._unchanged(location, handed_out) if location else None
        if known is not None:
            return known
        if location:
            with contextlib.suppress(NotFoundError):  # some catalogs keep metadata elsewhere
                return (await self._file(location, handed_out))[1]
        path = location or f"{table.metadata.location}/metadata/v0.metadata.json"
        data = table.metadata.model_dump_json(by_alias=True, exclude_none=True).encode()
        metadata = await in_thread(decode_metadata, data, path)
        return FoundTable(metadata=metadata, locations=self._places(path, handed_out))


def _loaded_view(catalog: Any, name: Name) -> FoundView | None:
    from pyiceberg.exceptions import NoSuchViewError

    try:
        view = catalog.load_view(name)
    except (NoSuchViewError, NotImplementedError):  # or the server has no views
        return None
    current = view.metadata.current_version_id
    now = next((version for version in view.versions if version.version_id == current), None)
    if now is None:
        raise CorruptionError(
            f"view {shown(name)} has no version {current}, which its metadata say is the current one"
        )
    log, schema = view.history(), view.schemas().get(now.schema_id)
    texts = [representation.root for representation in now.representations]
    # A version may become the current one again: then the log has another entry.
    changed_ms = max([entry.timestamp_ms for entry in log], default=now.timestamp_ms)
    return FoundView(
        identity=view.uuid(),
        version=f"{now.version_id}@{changed_ms}",
        location=view.location(),
        texts={text.dialect: text.sql for text in texts},
        columns=() if schema is None else tuple(column.name for column in schema.fields),
        default_namespace=tuple(now.default_namespace),
        owner=view.properties.get("owner"),
        updated_ms=changed_ms,
    )


class _UnchangedError(LakehouseError):
    """Ends a loading whose answer is known."""


def _connect(properties: CatalogProperties) -> Any:
    """Makes pyiceberg's catalog, which may ask its server at once."""
    from pyiceberg.catalog import load_catalog

    given = {**_DEFAULTS.get(properties.type, {}), **properties.for_pyiceberg()}
    return load_catalog(properties.name, **{**given, "type": properties.type, "py-io-impl": FILE_IO})


def _close(catalog: Any) -> None:
    catalog.close()
    # The REST catalog of pyiceberg leaves its session open.
    session = getattr(catalog, "_session", None)
    if session is not None:
        session.close()


def _handed_out(table: Any) -> dict[str, Any]:
    """Returns the properties that a catalog gave with a table, those of the table itself left out.

    Everybody who may write the table may set properties of it, an endpoint too.
    """
    written = table.metadata.properties
    given = {name: value for name, value in table.io.properties.items() if written.get(name) != value}
    return {**table.catalog.properties, **table.config, **given}
