"""Names: databases, and which directory a table's name stands for.

Invariant: a name belongs to at most one live table; it changes hands by compare-and-swap only, so two
creators of one name never both succeed.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from lakehouse.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
)
from lakehouse.format.metadata import (
    DatabaseMarker,
    NamePointer,
    NameState,
    decode_database,
    decode_pointer,
    encode_database,
    encode_pointer,
)
from lakehouse.ids import new_token
from lakehouse.io.protocols import Fetched
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import map_bounded
from lakehouse.storage.metadata.paths import database_key, pointer_key, pointer_prefix
from lakehouse.storage.metadata.table_name import _NAME, TableName, check_name, check_new_name
from lakehouse.suggest import suggestion

__all__ = ["Names", "taken"]

_CONCURRENCY = 16


class Names:
    """The names in one warehouse.

    Args:
        store: its root is the warehouse.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    # --- databases ----------------------------------------------------------------

    async def create_database(self, name: str, *, comment: str | None = None) -> None:
        """Makes a database; AlreadyExistsError when there is one."""
        check_new_name(name, "database")
        key, token = database_key(name), new_token()
        data = encode_database(DatabaseMarker(name=name, comment=comment, token=token))
        try:
            await self._store.put_if_absent(key, data, token=token)
        except ConflictError as lost:
            found = lost.context["winner"]
            if _decoded(found).state is NameState.LIVE:
                raise AlreadyExistsError(f"there is a database {name!r} already", database=name) from lost
            await self._store.put_if_match(key, data, version=found.version, token=token)

    async def drop_database(self, name: str) -> None:
        """Ends a database that has no tables.

        Its marker goes on to say the token by which tables that were dropped with it are known.
        """
        found = await self._database(name)
        async with aclosing(self.tables(name)) as tables:
            async for table in tables:
                raise InvalidInputError(
                    f"database {name!r} has tables, such as {table.table!r}: drop them, or pass cascade=True",
                    database=name,
                )
        marker = _decoded(found)
        await self._replace_marker(
            found, dataclasses.replace(marker, state=NameState.DROPPED, cascade=marker.token)
        )

    async def _replace_marker(self, found: Fetched, marker: DatabaseMarker) -> None:
        token = new_token()
        data = encode_database(dataclasses.replace(marker, token=token))
        await self._store.put_if_match(found.key, data, version=_version(found), token=token)

    async def cascade_token(self, database: str) -> str:
        """The token by which tables are known that are dropped with a database, or were."""
        marker = _decoded(await self._marker(database))
        return marker.token if marker.state is NameState.LIVE else marker.cascade or ""

    async def restore_database(self, name: str) -> bool:
        """Makes a dropped database live again; False when it is."""
        found = await self._marker(name)
        marker = _decoded(found)
        if marker.state is NameState.LIVE:
            return False
        await self._replace_marker(found, dataclasses.replace(marker, state=NameState.LIVE, cascade=None))
        return True

    async def _marker(self, name: str) -> Fetched:
        """The marker of a database, dropped or not."""
        check_name(name, "database")
        try:
            return await self._store.get(database_key(name))
        except NotFoundError as missing:
            if missing.kind == "missing-bucket":
                raise
            raise NotFoundError(f"there never was a database {name!r}", database=name) from missing

    async def has_database(self, name: str) -> bool:
        """Whether there is a database of that name."""
        return await self._find_database(name) is not None

    async def databases(self) -> AsyncGenerator[str, None]:
        """Names of all databases, in order."""

        async def look(prefix: str) -> str | None:
            name = prefix.rstrip("/")
            return name if await self.has_database(name) else None

        async with aclosing(map_bounded(look, self._directories(), _CONCURRENCY)) as looked:
            async for found in looked:
                if found is not None:
                    yield found

    async def _directories(self) -> AsyncGenerator[str, None]:
        page: str | None = None
        while True:
            found = await self._store.list_page("", delimiter="/", page=page)
            for one in found.prefixes:
                if _NAME.fullmatch(one.rstrip("/")):
                    yield one
            page = found.next_page
            if page is None:
                return

    async def _database(self, name: str) -> Fetched:
        found = await self._find_database(name)
        if found is None:
            known = [one async for one in self.databases()]
            raise NotFoundError(f"there is no database {name!r}; {suggestion(name, known)}", database=name)
        return found

    async def _find_database(self, name: str) -> Fetched | None:
        check_name(name, "database")
        try:
            found = await self._store.get(database_key(name))
        except NotFoundError as missing:
            if missing.kind == "missing-bucket":
                raise
            return None
        return found if _decoded(found).state is NameState.LIVE else None

    # --- tables -------------------------------------------------------------------

    async def resolve(self, name: TableName) -> NamePointer:
        """What a name stands for; NotFoundError when it stands for nothing live."""
        try:
            pointer, _ = await self._read(name)
        except NotFoundError as missing:
            if missing.kind == "missing-bucket":
                raise
            await self._database(name.database)
            near = [one.table async for one in self.tables(name.database)]
            what = suggestion(name.table, near) if near else f"database {name.database!r} has no tables"
            raise NotFoundError(f"there is no table {str(name)!r}; {what}", table=str(name)) from missing
        if pointer.state is NameState.LIVE:
            return pointer
        raise NotFoundError(f"there is no table {str(name)!r}: {_fate(pointer)}", table=str(name))

    async def find(self, name: TableName) -> NamePointer | None:
        """What a name stands for; None when it is free. The database must exist."""
        pointer = await self._find_live(name)
        if pointer is None:
            await self._database(name.database)
        return pointer

    async def claim(self, name: TableName, pointer: NamePointer, *, first: bool = False) -> None:
        """Gives a free name to a table; AlreadyExistsError when it is not free.

        Args:
            name: the name.
            pointer: what is to stand there.
            first: the table never had a name before. If it has lost this one when the answer comes,
                somebody else has dropped or renamed it already, and so it stays.
        """
        key, data = pointer_key(name.database, name.table), encode_pointer(pointer)
        try:
            await self._store.put_if_absent(key, data, token=pointer.token)
            return
        except ConflictError as lost:
            winner: Fetched = lost.context["winner"]
        found = decode_pointer(winner.data, key=key)
        if found.table == pointer.table and (first or found.state is NameState.LIVE):
            return
        if found.state is NameState.LIVE:
            raise taken(name)
        data = encode_pointer(found.given_to(pointer))
        try:
            await self._store.put_if_match(key, data, version=_version(winner), token=pointer.token)
        except ConflictError as lost:
            raise taken(name) from lost

    async def look(self, name: TableName) -> tuple[NamePointer, str]:
        """The pointer of a name whatever its state, and the version to replace it by.

        Whoever replaces it because of what a table's log says looks here first, then at the log: so that
        what others did to both meanwhile is noticed.
        """
        return await self._read(name)

    async def replace(self, pointer: NamePointer, *, version: str) -> None:
        """Puts the next version of a pointer in the place of the one that was looked at, or ConflictError."""
        name = TableName.parse(pointer.name)
        key, data = pointer_key(name.database, name.table), encode_pointer(pointer)
        await self._store.put_if_match(key, data, version=version, token=pointer.token)

    async def release(
        self,
        name: TableName,
        pointer: NamePointer,
        *,
        state: NameState,
        time_ms: int,
        moved_to: str | None = None,
        token: str | None = None,
        cascade: str | None = None,
    ) -> NamePointer:
        """Takes the name from a table, if it still has it; what stands there then.

        Args:
            name: the name.
            pointer: of the table.
            state: what becomes of the name.
            time_ms: when.
            moved_to: the table's new name.
            token: only while the version with this token stands there.
            cascade: see :class:`NamePointer`.
        """
        found, version = await self._read(name)
        if found.table != pointer.table or found.state is not NameState.LIVE:
            return found
        if token is not None and found.token != token:
            return found
        ended = dataclasses.replace(
            found, state=state, token=new_token(), time_ms=time_ms, moved_to=moved_to, cascade=cascade
        )
        try:
            await self.replace(ended, version=version)
        except ConflictError as lost:
            key = pointer_key(name.database, name.table)
            return decode_pointer(lost.context["winner"].data, key=key)
        return ended

    async def move(
        self, old: TableName, new: TableName, pointer: NamePointer, *, time_ms: int
    ) -> NamePointer:
        """Gives a table another name; repeating it after a failure ends it."""
        if old == new:
            raise taken(new)
        await self._database(new.database)
        moved = dataclasses.replace(pointer, name=str(new), token=new_token(), time_ms=time_ms, before=())
        await self.claim(new, moved)
        try:
            left = await self.release(old, pointer, state=NameState.MOVED, time_ms=time_ms, moved_to=str(new))
            if left.table == pointer.table and left.moved_to == str(new):
                return moved
            # Two names for one table would be worse than none of ours.
            await self.release(new, moved, state=NameState.MOVED, time_ms=time_ms, moved_to=left.moved_to)
        except LakehouseError as error:
            raise CommitUnknownError(
                f"table {str(old)!r} is called {str(new)!r} too now, and it is not known whether it has lost "
                f"its old name: {error} Rename it again.",
                table=str(old),
            ) from error
        raise ConflictError(
            f"table {str(old)!r} was dropped or renamed by others while it was renamed to {str(new)!r}",
            table=str(old),
        )

    async def tables(
        self, database: str, *, prefix: str = "", after: str | None = None
    ) -> AsyncGenerator[TableName, None]:
        """Live tables of a database, in order of their names.

        Args:
            database: its name.
            prefix: only tables whose names begin so.
            after: only tables behind this name, to go on with a listing.
        """
        async with aclosing(self.pointers(database, prefix=prefix, after=after)) as pointers:
            async for pointer in pointers:
                if pointer.state is NameState.LIVE:
                    yield TableName.parse(pointer.name)

    async def pointers(
        self, database: str, *, prefix: str = "", after: str | None = None
    ) -> AsyncGenerator[NamePointer, None]:
        """The pointers of a database's names whatever their state, in order; see :meth:`tables`."""
        start = pointer_prefix(database)

        async def look(key: str) -> NamePointer | None:
            # What a listing shows may come to nothing: see DenseLog.
            return await self._find(TableName(database, key.removeprefix(start)))

        listed = self._store.list(start + prefix, start_after=start + after if after else None)
        keys = (one.key async for one in listed if _NAME.fullmatch(one.key.removeprefix(start)))
        async with aclosing(map_bounded(look, keys, _CONCURRENCY)) as looked:
            async for found in looked:
                if found is not None:
                    yield found

    async def names_of(self, tables: Mapping[uuid.UUID, TableName]) -> dict[uuid.UUID, TableName]:
        """The names whose pointers know dropped tables, as far as there are any.

        Args:
            tables: the tables, each with the name it was made with, where it is looked for first.
        """
        found: dict[uuid.UUID, TableName] = {}

        async def look(one: tuple[uuid.UUID, TableName]) -> None:
            pointer = await self._find(one[1])
            if pointer is not None and pointer.state_of(one[0]) not in (None, NameState.MOVED):
                found[one[0]] = one[1]

        async for _ in map_bounded(look, tables.items(), _CONCURRENCY):
            pass
        if len(found) == len(tables):
            return found
        # Renamed before they were dropped, in another database perhaps.
        async for directory in self._directories():
            async with aclosing(self.pointers(directory.rstrip("/"))) as pointers:
                async for pointer in pointers:
                    for table in {pointer.table, *(one.table for one in pointer.before)} & tables.keys():
                        if pointer.state_of(table) is not NameState.MOVED:
                            found.setdefault(table, TableName.parse(pointer.name))
        return found

    async def _find(self, name: TableName) -> NamePointer | None:
        try:
            return (await self._read(name))[0]
        except NotFoundError as missing:
            if missing.kind == "missing-bucket":
                raise
            return None

    async def _find_live(self, name: TableName) -> NamePointer | None:
        pointer = await self._find(name)
        return pointer if pointer is not None and pointer.state is NameState.LIVE else None

    async def _read(self, name: TableName) -> tuple[NamePointer, str]:
        found = await self._store.get(pointer_key(name.database, name.table))
        pointer = decode_pointer(found.data, key=found.key)
        if pointer.name != str(name):
            raise CorruptionError(
                f"{found.key} holds the pointer of {pointer.name!r}: the object was put in another's place",
                key=found.key,
                expected=str(name),
                got=pointer.name,
            )
        return pointer, _version(found)


def taken(name: TableName) -> AlreadyExistsError:
    """The error that says a name is not free."""
    return AlreadyExistsError(f"there is a table {str(name)!r} already", table=str(name))


def _fate(pointer: NamePointer) -> str:
    """What became of a table whose name is free."""
    if pointer.moved_to is not None:
        return f"it is called {pointer.moved_to!r} now"
    if pointer.state is NameState.PURGING:
        return "it was dropped, and its objects are deleted"
    return "it was dropped; undrop_table brings it back until it is purged"


def _version(found: Fetched) -> str:
    """The version to replace; empty where the store tells none: it is for reading, and refuses replaces."""
    return found.version or ""


def _decoded(found: Fetched) -> DatabaseMarker:
    marker = decode_database(found.data, key=found.key)
    name = found.key.rpartition("/")[0]
    if marker.name != name:
        raise CorruptionError(
            f"{found.key} is not the marker of database {name!r}: another object stands in its place",
            key=found.key,
            expected=name,
            got=marker.name,
        )
    return marker
