"""Our warehouse as a source: names are pointers on the bucket, versions are snapshots.

A name costs one GET, a version one look at the head; a table that is open in this process knows its schema
and the snapshot that it saw last, and is asked before the bucket.

Invariant: a pointer's version is the snapshot that its handle holds, so what is read through it is of one
state.
"""

from __future__ import annotations

import dataclasses
import json
import re
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.nodes import RelationPath, TableSummary
from lakehouse.catalog.sources.source import (
    ListedName,
    Page,
    Pointer,
    SnapshotFacts,
    TableFacts,
    ViewFacts,
)
from lakehouse.errors import InternalError, InvalidInputError, NotFoundError
from lakehouse.format.metadata import NameKind, NamePointer, NameState, Snapshot, ViewVersion
from lakehouse.format.schema import TableSchema
from lakehouse.iceberg.publishing import published_schema
from lakehouse.io.work import map_bounded, or_none
from lakehouse.storage.metadata import NameListing, TableName
from lakehouse.storage.tables import Environment, Names, OpenTable, shared_table

__all__ = ["OpenState", "WarehouseSource", "advanced"]

_SCHEMA_VERSION = 3
"""Version of Iceberg's format whose types schemas are written in: the one that knows defaults of columns."""
_DIRECTORY = re.compile(r"(?P<database>[^/]+)/(?P<table>[^/]+)-(?P<digits>[0-9a-f]{8})/")
_PARTS = 2
_DIALECT = "duckdb"
"""Dialect that is shown of a view that has it; of others the first by name."""


@dataclass(frozen=True, slots=True, eq=False)
class OpenState:
    """A table that is open, and the snapshot that was its newest; None = only its name was looked at."""

    table: OpenTable
    head: Snapshot | None = None


class WarehouseSource:
    """Databases and tables of one warehouse.

    Args:
        env: state that its tables share.
        names: its names.
        listing: its names in pages.
    """

    connector = "lakehouse"
    name = ""

    def __init__(self, env: Environment, names: Names, listing: NameListing) -> None:
        self._env, self._names, self._listing = env, names, listing

    @property
    def display(self) -> str:
        """URL of the warehouse."""
        return self._env.store.url

    # --- names --------------------------------------------------------------------

    async def namespaces(self, inside: RelationPath = ()) -> list[RelationPath]:
        """Lists the databases; a database has none inside."""
        if inside:
            await self._check_database(inside)
            return []
        return [(name,) async for name in self._names.databases()]

    async def page(
        self, namespace: RelationPath, *, prefix: str = "", after: str | None = None, limit: int
    ) -> Page:
        """Lists a page of the names of a database: one LIST, and a GET of each pointer that says more."""
        database = await self._check_database(namespace) if after is None else _database(namespace)
        listed, following = await self._listing.page(database, prefix=prefix, after=after, limit=limit)
        entries = tuple(
            ListedName(
                path=(database, one.name.table),
                kind=NodeKind.TABLE if one.pointer is None else _kind(one.pointer),
            )
            for one in listed
        )
        return Page(entries=entries, after=following)

    async def names(
        self, namespace: RelationPath, *, prefix: str = "", after: str | None = None
    ) -> AsyncGenerator[RelationPath, None]:
        """Yields the names of a database, each of whose pointers is read."""
        database = await self._check_database(namespace)
        async with aclosing(self._names.tables(database, prefix=prefix, after=after)) as names:
            async for name in names:
                yield (name.database, name.table)

    async def locate(self, identity: uuid.UUID) -> RelationPath | None:
        """Finds a table by the digits of its uuid that its directory's name ends in: one LIST a database.

        Else a view is looked for: one more LIST a database, and a GET of each name that a view has or had.
        """
        databases = [database async for database in self._names.databases()]
        for database in databases:
            for name in await self._candidates(database, identity.hex[:8]):
                found = await or_none(self._names.resolve(name))
                if found is not None and found.table == identity:
                    return (name.database, name.table)
        for database in databases:
            path = await self._view_path(database, identity)
            if path is not None:
                return path
        return None

    async def _view_path(self, database: str, identity: uuid.UUID) -> RelationPath | None:
        names = self._names.view_names(database)
        concurrency = self._env.settings.table.read_concurrency
        async with aclosing(map_bounded(self._names.pointer, names, concurrency)) as pointers:
            async for pointer in pointers:
                if pointer is not None and pointer.state_of(identity) is NameState.LIVE:
                    name = TableName.parse(pointer.name)
                    return (name.database, name.table)
        return None

    async def _candidates(self, database: str, digits: str) -> list[TableName]:
        """Returns the names of directories that end in some digits, and what else tables of them are
        called."""
        names: list[TableName] = []
        async for directory in self._env.store.directories(f"{database}/"):
            found = _DIRECTORY.fullmatch(directory)
            if found is not None and found["digits"] == digits:
                names.append(TableName(database, found["table"]))
        return [await self._renamed(name) for name in names]

    async def _renamed(self, name: TableName) -> TableName:
        pointer = await self._names.pointer(name)
        moved = pointer.moved_to if pointer is not None else None
        return name if moved is None else TableName.parse(moved)

    # --- pointers -----------------------------------------------------------------

    async def identify(self, path: RelationPath) -> Pointer:
        """Reads the pointer of a name: one GET. A view's has the view in it, and so its version."""
        name = _table_name(path)
        found = await self._names.relation(name)
        view = found.view if found.kind is NameKind.VIEW else None
        if view is None and found.kind is not NameKind.TABLE:
            await self._names.resolve(name)  # raises: this release does not read it
        version = "" if view is None else str(view.number)
        return Pointer(
            path=(name.database, name.table),
            kind=NodeKind.TABLE if view is None else NodeKind.VIEW,
            identity=found.table,
            version=version,
            content_key=(found.table.hex, version) if version else (),
            location=f"{self._env.store.url.rstrip('/')}/{found.path}",
            handle=OpenState(shared_table(self._env, name, found)) if view is None else view,
        )

    async def pointer(self, path: RelationPath) -> Pointer:
        """Reads the pointer of a name, and looks for the newest snapshot of a table."""
        found = await self.identify(path)
        return found if found.kind is NodeKind.VIEW else await self.renew(found)

    async def renew(self, pointer: Pointer) -> Pointer:
        """Looks for the newest snapshot: one GET where the last one is known. A view's name is read again."""
        if pointer.kind is NodeKind.VIEW:
            return await self.identify(pointer.path)
        table = _state(pointer).table
        return _at(pointer, table, table.snapshots.check_live((await table.snapshots.head()).snapshot))

    # --- content ------------------------------------------------------------------

    async def table(self, pointer: Pointer) -> TableFacts:
        """Reads the schema of the newest snapshot."""
        return await _facts(_state(pointer).table, _head(pointer), of=_head(pointer))

    async def view(self, pointer: Pointer) -> ViewFacts:
        """Returns the view that the pointer holds."""
        if not isinstance(pointer.handle, ViewVersion):
            raise InvalidInputError(f"{'.'.join(pointer.path)} is a table, not a view")
        return _view_facts(pointer.handle)

    async def snapshots(self, pointer: Pointer) -> tuple[SnapshotFacts, ...]:
        """Reads every snapshot that readers may read: one GET each that is not cached."""
        table, head = _state(pointer).table, _head(pointer)
        numbers = {*range(head.earliest, head.id + 1), *(ref.snapshot for ref in head.refs.values())}
        read = map_bounded(
            lambda number: table.snapshots.snapshot(number, head),
            sorted(numbers),
            self._env.settings.table.read_concurrency,
        )
        return tuple([_snapshot_facts(snapshot) async for snapshot in read])

    async def snapshot(
        self, pointer: Pointer, *, number: int | None = None, as_of_ms: int | None = None
    ) -> SnapshotFacts:
        """Reads one snapshot: by its id, by binary search over times, or the newest."""
        snapshots, head = _state(pointer).table.snapshots, _head(pointer)
        if number is not None:
            return _snapshot_facts(await snapshots.snapshot(number, head))
        return _snapshot_facts(head if as_of_ms is None else await snapshots.at_time(as_of_ms, head))

    async def schema(self, pointer: Pointer, *, snapshot: int) -> TableFacts:
        """Reads the schema of a snapshot."""
        table, head = _state(pointer).table, _head(pointer)
        return await _facts(table, head, of=await table.snapshots.snapshot(snapshot, head))

    async def open(self, pointer: Pointer) -> OpenTable:
        """Returns the open table; where only its name is known, by one GET."""
        if isinstance(pointer.handle, OpenState):
            return pointer.handle.table
        name = _table_name(pointer.path)
        return shared_table(self._env, name, await self._names.resolve(name))

    async def aclose(self) -> None:
        """Does nothing: the store is the lake's."""

    async def _check_database(self, namespace: RelationPath) -> str:
        database = _database(namespace)
        await self._names.expect_database(database)
        return database


def advanced(pointer: Pointer, table: OpenTable, head: Snapshot) -> Pointer | None:
    """Returns the pointer of a table after a commit; None where a later one is known already."""
    known = pointer.handle.head if isinstance(pointer.handle, OpenState) else None
    return None if known is not None and known.id >= head.id else _at(pointer, table, head)


def _at(pointer: Pointer, table: OpenTable, head: Snapshot) -> Pointer:
    version = f"{head.id}-{head.token}"
    return dataclasses.replace(
        pointer,
        version=version,
        content_key=(pointer.identity.hex, version),
        handle=OpenState(table, head),
    )


def _state(pointer: Pointer) -> OpenState:
    state = pointer.handle
    if not isinstance(state, OpenState):
        raise InternalError(f"the pointer of {'.'.join(pointer.path)} is not one of the warehouse")
    return state


def _head(pointer: Pointer) -> Snapshot:
    head = _state(pointer).head
    if head is None:
        raise InternalError(f"of {'.'.join(pointer.path)} only the name was looked at")
    return head


def _kind(pointer: NamePointer) -> NodeKind:
    return NodeKind.VIEW if pointer.kind is NameKind.VIEW else NodeKind.TABLE


def _database(namespace: RelationPath) -> str:
    if len(namespace) != 1:
        raise NotFoundError(
            f"a database has a name of one part, and {'.'.join(namespace)!r} has {len(namespace)}",
            missing="namespace",
        )
    return namespace[0]


def _table_name(path: RelationPath) -> TableName:
    if len(path) != _PARTS:
        raise InvalidInputError(
            f"{'.'.join(path)!r} names no table of the warehouse: these have two parts, database.table",
            name=".".join(path),
        )
    return TableName.of_parts(*path)


async def _facts(table: OpenTable, head: Snapshot, *, of: Snapshot) -> TableFacts:
    view = await table.view_of(of)
    return _table_facts(view.schema, of, head)


def _table_facts(schema: TableSchema, snapshot: Snapshot, head: Snapshot) -> TableFacts:
    """Returns what a snapshot says of its table, with the references that the newest one has."""
    return TableFacts(
        format="lakehouse",
        schema_id=schema.id,
        schema_json=json.dumps(published_schema(schema, _SCHEMA_VERSION), separators=(",", ":")),
        field_ids={field.name: field.id for field in schema.fields},
        primary_key=schema.primary_key,
        not_null=tuple(field.name for field in schema.fields if field.required),
        partition_keys=schema.partition_by,
        current_snapshot=snapshot.id,
        previous_snapshot=None if snapshot.parent is None else snapshot.parent.id,
        references={name: ref.snapshot for name, ref in head.refs.items()},
        summary=_summary(snapshot),
        updated_ms=snapshot.time_ms,
    )


def _summary(snapshot: Snapshot) -> TableSummary:
    total = snapshot.total
    return TableSummary(rows=total.rows, bytes=total.bytes, files=total.files)


def _view_facts(view: ViewVersion) -> ViewFacts:
    dialect = _DIALECT if _DIALECT in view.texts else min(view.texts)
    return ViewFacts(
        sql=view.texts[dialect],
        dialect=dialect,
        texts=view.texts,
        columns=view.columns,
        base_relations=view.depends_on or (),
        search_path=view.search_path,
        owner=view.owner,
        updated_ms=view.time_ms,
    )


def _snapshot_facts(snapshot: Snapshot) -> SnapshotFacts:
    return SnapshotFacts(
        id=snapshot.id,
        parent=None if snapshot.parent is None else snapshot.parent.id,
        time_ms=snapshot.time_ms,
        schema_id=snapshot.schema.id,
        operation=snapshot.kind.value,
        summary=_summary(snapshot),
    )
