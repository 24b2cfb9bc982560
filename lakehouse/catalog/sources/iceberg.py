"""Catalogs of Iceberg tables as sources: whichever type, a version is a metadata file.

What a catalog says is asked anew for each pointer; the metadata file that it names is read once, and kept by
the layer of tables under identity, file and whose credentials reached it. A directory uses the name of a file
twice when a table is dropped and made again, so its versions carry the ETag.

Invariant: a pointer and what is kept of a table hold no credentials; those are in this source alone.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Hashable
from typing import Any

from lakehouse.cache import CacheRegion, identity_tags
from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.nodes import RelationPath
from lakehouse.catalog.sources.iceberg_facts import snapshot_facts, table_facts
from lakehouse.catalog.sources.places import PlaceShelf
from lakehouse.catalog.sources.source import (
    ListedName,
    Page,
    Pointer,
    SnapshotFacts,
    TableFacts,
    ViewFacts,
    catalog_tag,
)
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.iceberg import TableMetadata
from lakehouse.iceberg.catalogs import (
    Catalog,
    Catalogs,
    FoundTable,
    FoundView,
    ReadMetadata,
    read_metadata,
)

__all__ = ["IcebergSource"]

_METADATA = "metadata"
_DIALECT = "duckdb"
"""Dialect that is shown of a view that has it; of others the first by name."""


class IcebergSource:
    """One attached catalog.

    Args:
        name: it is attached under.
        catalogs: the catalogs of the lake, or of an account.
        content: layer of tables.
    """

    def __init__(
        self, name: str, catalogs: Catalogs, content: CacheRegion[tuple[Hashable, ...], Any]
    ) -> None:
        self.name = name
        self._catalogs, self._content = catalogs, content
        self._places = PlaceShelf()
        self.connector = self._catalog.properties.type

    @property
    def display(self) -> str:
        """Address or directory of the catalog."""
        properties = self._catalog.properties
        given = properties.given
        return properties.secrets.masked(str(given.get("uri") or given.get("warehouse") or self.connector))

    @property
    def _reach(self) -> str:
        """Names the credentials that content is read with, and tells nobody anything of them."""
        return self._catalog.scope.who or ""

    @property
    def _catalog(self) -> Catalog:
        return self._catalogs.catalog(self.name)

    # --- names --------------------------------------------------------------------

    async def namespaces(self, inside: RelationPath = ()) -> list[RelationPath]:
        """Lists the namespaces that the catalog lists."""
        return await self._catalog.namespaces(inside)

    async def page(
        self, namespace: RelationPath, *, prefix: str = "", after: str | None = None, limit: int
    ) -> Page:
        """Lists the tables and views of a namespace, all at once: catalogs have no pages to choose."""
        tables = await self._catalog.tables(namespace) if namespace else []
        views = await self._catalog.views(namespace) if namespace else []
        kinds = {**dict.fromkeys(views, NodeKind.VIEW), **dict.fromkeys(tables, NodeKind.TABLE)}
        return Page(
            entries=tuple(
                ListedName(path=(*namespace, name), kind=kinds[name])
                for name in sorted(kinds)
                if name.startswith(prefix) and (after is None or name > after)
            )
        )

    async def names(
        self, namespace: RelationPath, *, prefix: str = "", after: str | None = None
    ) -> AsyncGenerator[RelationPath, None]:
        """Yields the tables of a namespace that the catalog lists."""
        for name in await self._catalog.tables(namespace) if namespace else []:
            if name.startswith(prefix) and (after is None or name > after):
                yield (*namespace, name)

    async def locate(self, identity: uuid.UUID) -> RelationPath | None:
        """Returns None: a catalog does not find tables by their uuid."""

    # --- pointers -----------------------------------------------------------------

    async def identify(self, path: RelationPath) -> Pointer | None:
        """Returns None: whoever asks for a name is told the version too."""

    async def pointer(self, path: RelationPath) -> Pointer:
        """Asks the catalog for a table, and reads its metadata unless they are known; else for a view."""
        try:
            return await self._pointer(path, None)
        except NotFoundError as error:
            view = await self._catalog.view(path) if error.context.get("missing") == "table" else None
            if view is None:
                raise
            return self._view_pointer(path, view)

    async def renew(self, pointer: Pointer) -> Pointer:
        """Asks the catalog for a table; its metadata are read when they are others than before."""
        if pointer.kind is NodeKind.VIEW:
            view = await self._catalog.view(pointer.path)
            return (
                await self.pointer(pointer.path) if view is None else self._view_pointer(pointer.path, view)
            )
        known = self._content.get_if_present(_metadata_key(pointer))
        return await self._pointer(pointer.path, known)

    async def _pointer(self, path: RelationPath, known: ReadMetadata | None) -> Pointer:
        found = await self._found(path, known)
        pointer = self._pointer_of(path, found)
        if known is None or found.metadata is not known.metadata:
            self._keep(pointer, found.read)
        return pointer

    async def _found(self, path: RelationPath, known: ReadMetadata | None) -> FoundTable:
        if len(path) < 2:
            raise InvalidInputError(
                f"{self.name}.{'.'.join(path)} names no table: tables of a catalog have three parts or more, "
                f"{self.name}.namespace.table",
                name=".".join(path),
            )
        try:
            return await self._asked(path, known)
        except InvalidInputError:
            # The table may be elsewhere by now, where the places of before do not reach.
            await self._places.drop(path)
            return await self._asked(path, None)

    async def _asked(self, path: RelationPath, known: ReadMetadata | None) -> FoundTable:
        async with self._places.using(path) as place:
            found = await self._catalog.find(path, place.locations, known=known)
            if place.locations is not None and place.locations is not found.locations:
                await found.locations.aclose()  # somebody else was first
            place.locations = place.locations or found.locations
            return found

    def _pointer_of(self, path: RelationPath, found: FoundTable) -> Pointer:
        metadata = found.metadata
        version = metadata.path if found.version is None else f"{metadata.path}#{found.version}"
        identity = metadata.identity
        return Pointer(
            path=path,
            kind=NodeKind.TABLE,
            identity=identity,
            version=version,
            content_key=(identity.hex, version, self._reach),
            location=metadata.location,
        )

    def _view_pointer(self, path: RelationPath, view: FoundView) -> Pointer:
        return Pointer(
            path=path,
            kind=NodeKind.VIEW,
            identity=view.identity,
            version=view.version,
            content_key=(view.identity.hex, view.version, self._reach),
            location=view.location,
            handle=view,
        )

    # --- content ------------------------------------------------------------------

    async def table(self, pointer: Pointer) -> TableFacts:
        """Returns what the metadata say of the table as it is now."""
        metadata = await self._metadata(pointer)
        return table_facts(metadata, metadata.current_schema, metadata.current_snapshot)

    async def view(self, pointer: Pointer) -> ViewFacts:
        """Returns the view that the pointer holds."""
        view = pointer.handle
        if not isinstance(view, FoundView):
            raise InvalidInputError(
                f"{'.'.join(pointer.path)} is a table, not a view", name=".".join(pointer.path)
            )
        dialect = _DIALECT if _DIALECT in view.texts else min(view.texts, default="")
        return ViewFacts(
            sql=view.texts.get(dialect, ""),
            dialect=dialect,
            texts=view.texts,
            columns=view.columns,
            search_path=(".".join((self.name, *view.default_namespace)),) if view.default_namespace else (),
            owner=view.owner,
            updated_ms=view.updated_ms,
        )

    async def snapshots(self, pointer: Pointer) -> tuple[SnapshotFacts, ...]:
        """Returns the snapshots of the metadata, in order of their times."""
        metadata = await self._metadata(pointer)
        ordered = sorted(metadata.snapshots.values(), key=lambda one: (one.timestamp_ms, one.sequence))
        return tuple([snapshot_facts(metadata, one) for one in ordered])

    async def snapshot(
        self, pointer: Pointer, *, number: int | None = None, as_of_ms: int | None = None
    ) -> SnapshotFacts:
        """Returns one snapshot: by its id, the one that was current at a time, or the newest."""
        metadata = await self._metadata(pointer)
        if number is not None:
            return snapshot_facts(metadata, metadata.snapshot_by_id(number))
        if as_of_ms is not None:
            return snapshot_facts(metadata, metadata.snapshot_at(as_of_ms))
        if metadata.current_snapshot is None:
            raise NotFoundError(f"{'.'.join(pointer.path)} has no snapshot yet", table=".".join(pointer.path))
        return snapshot_facts(metadata, metadata.current_snapshot)

    async def schema(self, pointer: Pointer, *, snapshot: int) -> TableFacts:
        """Returns what the metadata say of the table as it was at a snapshot."""
        metadata = await self._metadata(pointer)
        found = metadata.snapshot_by_id(snapshot)
        return table_facts(metadata, metadata.schema_of(found), found)

    async def open(self, pointer: Pointer) -> Any:
        """Opens the table as it is now, for planning and reading."""
        return await self._catalogs.table((self.name, *pointer.path))

    async def aclose(self) -> None:
        """Closes the places of tables; the catalog itself is the lake's."""
        await self._places.aclose()

    async def _metadata(self, pointer: Pointer) -> TableMetadata:
        # Not by a load of the layer: callers are loads of it themselves, and one does not wait for another.
        read = self._content.get_if_present(_metadata_key(pointer))
        if read is None:
            read = await self._read_again(pointer)
            self._keep(pointer, read)
        metadata: TableMetadata = read.metadata
        return metadata

    async def _read_again(self, pointer: Pointer) -> ReadMetadata:
        """Reads the metadata of a version that is kept no more, which need not be the newest."""
        found = await self._found(pointer.path, None)
        if self._pointer_of(pointer.path, found).version == pointer.version:
            return found.read
        path = pointer.version.rpartition("#")[0] or pointer.version
        async with self._places.using(pointer.path) as kept:
            place = (kept.locations or found.locations).find(path)
            read = await read_metadata(place.store, place.key)
        if found.version is not None and f"{path}#{read.version}" != pointer.version:
            raise NotFoundError(
                f"{path} is another file, as the table was dropped and made again: resolve its name again",
                key=path,
            )
        return read

    def _keep(self, pointer: Pointer, read: ReadMetadata) -> None:
        tags = (*identity_tags(pointer.identity), catalog_tag(self.name))
        self._content.put(_metadata_key(pointer), read, tags=tags)


def _metadata_key(pointer: Pointer) -> tuple[Hashable, ...]:
    return (*pointer.content_key, _METADATA)
