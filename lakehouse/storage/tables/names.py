"""Names: the databases of a warehouse, and the directory that each table's name refers to.

Invariant: a name belongs to at most one live table; it changes hands by compare-and-swap only, so two
creators of one name never both succeed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing

from lakehouse.config import TableSettings
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
    NameKind,
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
from lakehouse.io.work import map_bounded, or_none
from lakehouse.storage.metadata.paths import database_key, pointer_key, pointer_prefix, view_marker_prefix
from lakehouse.storage.metadata.table_name import (
    _NAME,
    INFORMATION_SCHEMA,
    TableName,
    check_name,
    check_new_name,
)
from lakehouse.suggest import suggestion

__all__ = ["NameListener", "Names", "name_taken_error", "other_kind_error"]

_LOOKS = 5
"""Attempts to read pointers together, or to replace one, that others change meanwhile."""

NameListener = Callable[[str, str | None], None]
"""Function that hears the database and the table whose name this process may have changed; None = the
database's own."""


class Names:
    """The names of databases and tables in one warehouse.

    Args:
        store: its root is the warehouse.
        settings: bound on concurrency; None = the default.
    """

    def __init__(self, store: ObjectStore, settings: TableSettings | None = None) -> None:
        self._store = store
        self._concurrency = (settings or TableSettings()).read_concurrency
        self.listeners: list[NameListener] = []
        """Functions that are called after every attempt to change a name."""

    @contextlib.contextmanager
    def _changing(self, database: str, table: str | None = None) -> Iterator[None]:
        """Tells listeners of a change, whether it succeeded, failed, or nobody knows."""
        try:
            yield
        finally:
            for listener in self.listeners:
                listener(database, table)

    # --- databases ----------------------------------------------------------------

    async def create_database(self, name: str, *, comment: str | None = None) -> None:
        """Creates a database; AlreadyExistsError when there is one."""
        check_new_name(name, "database")
        with self._changing(name):
            await self._create_database(name, comment)

    async def _create_database(self, name: str, comment: str | None) -> None:
        key, token = database_key(name), new_token()
        data = encode_database(DatabaseMarker(name=name, comment=comment, token=token))
        try:
            await self._store.put_if_absent(key, data, token=token)
        except ConflictError as lost:
            winner = lost.context["winner"]
            # The marker of a dropped database keeps its key but leaves the name free.
            if _decoded(winner).state is NameState.LIVE:
                raise AlreadyExistsError(f"there is a database {name!r} already", database=name) from lost
            await self._store.put_if_match(key, data, version=winner.version, token=token)

    async def drop_database(self, name: str) -> None:
        """Drops a database that has no tables and no views.

        Its marker keeps the token by which tables that were dropped with it are recognised.
        """
        fetched = await self._database(name)
        async with aclosing(self.relations(name)) as relations:
            async for found in relations:
                raise InvalidInputError(
                    f"database {name!r} has {found.kind.value}s, such as "
                    f"{TableName.parse(found.name).table!r}: drop them, or pass cascade=True",
                    database=name,
                )
        marker = _decoded(fetched)
        await self._replace_marker(
            fetched, dataclasses.replace(marker, state=NameState.DROPPED, cascade=marker.token)
        )

    async def _replace_marker(self, fetched: Fetched, marker: DatabaseMarker) -> None:
        token = new_token()
        data = encode_database(dataclasses.replace(marker, token=token))
        with self._changing(marker.name):
            await self._store.put_if_match(fetched.key, data, version=_version(fetched), token=token)

    async def cascade_token(self, database: str) -> str:
        """Returns the token that marks tables which are, or were, dropped together with a database."""
        marker = _decoded(await self._marker(database))
        return marker.token if marker.state is NameState.LIVE else marker.cascade or ""

    async def restore_database(self, name: str) -> bool:
        """Makes a dropped database live again; returns False when it is live."""
        fetched = await self._marker(name)
        marker = _decoded(fetched)
        if marker.state is NameState.LIVE:
            return False
        await self._replace_marker(fetched, dataclasses.replace(marker, state=NameState.LIVE, cascade=None))
        return True

    async def _marker(self, name: str) -> Fetched:
        """Reads the marker of a database, dropped or not."""
        check_name(name, "database")
        fetched = await or_none(self._store.get(database_key(name)))
        if fetched is None:
            raise NotFoundError(f"there never was a database {name!r}", database=name)
        return fetched

    async def has_database(self, name: str) -> bool:
        """Returns whether there is a live database of that name."""
        return await self._find_database(name) is not None

    async def expect_database(self, name: str) -> None:
        """Raises NotFoundError, with names that are near, when there is no live database of that name."""
        await self._database(name)

    async def databases(self) -> AsyncGenerator[str, None]:
        """Yields the names of all databases, in order."""

        async def look(prefix: str) -> str | None:
            name = prefix.rstrip("/")
            return name if await self.has_database(name) else None

        async with aclosing(map_bounded(look, self._directories(), self._concurrency)) as looked:
            async for name in looked:
                if name is not None:
                    yield name

    async def _directories(self) -> AsyncGenerator[str, None]:
        async with aclosing(self._store.directories()) as directories:
            async for directory in directories:
                if _NAME.fullmatch(directory.rstrip("/")):
                    yield directory

    async def _database(self, name: str) -> Fetched:
        fetched = await self._find_database(name)
        if fetched is None:
            if name.lower() == INFORMATION_SCHEMA:
                raise NotFoundError(
                    f"{name!r} is no database: the catalog computes what is in it, and "
                    f"lake.graph.system_rows('{INFORMATION_SCHEMA}.tables') returns the rows",
                    database=name,
                )
            known = [database async for database in self.databases()]
            told = suggestion(name, known) if known else f"make it: lake.create_database({name!r})"
            raise NotFoundError(f"there is no database {name!r}; {told}", database=name)
        return fetched

    async def _find_database(self, name: str) -> Fetched | None:
        check_name(name, "database")
        fetched = await or_none(self._store.get(database_key(name)))
        return fetched if fetched is not None and _decoded(fetched).state is NameState.LIVE else None

    # --- tables -------------------------------------------------------------------

    async def resolve(self, name: TableName) -> NamePointer:
        """Returns the pointer of a live table.

        Raises:
            NotFoundError: the name refers to nothing live.
            InvalidInputError: it is the name of a view.
        """
        pointer = await self.pointer(name)
        if pointer is None or pointer.state is not NameState.LIVE:
            raise await self._absent_error(name, pointer, NameKind.TABLE)
        if pointer.kind is not NameKind.TABLE:
            raise other_kind_error(name, pointer.kind, NameKind.TABLE)
        return pointer

    async def relation(self, name: TableName, what: NameKind = NameKind.TABLE) -> NamePointer:
        """Returns the pointer of whatever has the name; NotFoundError when nothing live has it.

        Args:
            name: the name.
            what: kind that the caller wants; for errors.
        """
        for _ in range(_LOOKS):
            pointer = await self.pointer(name)
            if pointer is None or pointer.state is not NameState.LIVE:
                raise await self._absent_error(name, pointer, what)
            if pointer.moved_from is None:
                return pointer
            holder = await self._holder(pointer)
            if holder is not None and holder.name != pointer.name:
                return dataclasses.replace(holder, name=str(name))
            # The former name was read later than this one, which may have changed before.
            if await self.pointer(name) != pointer:
                continue
            if holder is not None:
                return holder
            raise NotFoundError(
                f"there is no view {str(name)!r}: it was dropped, or renamed by others, while it was renamed",
                table=str(name),
            )
        raise ConflictError(f"the pointer of {name} is replaced by others again and again", table=str(name))

    async def _holder(self, pointer: NamePointer) -> NamePointer | None:
        """Returns the pointer that says what a view is while it gets a name; None = there is no view."""
        seen = set[str]()
        while pointer.moved_from is not None:
            seen.add(pointer.name)
            former = await self.pointer(TableName.parse(pointer.moved_from))
            if former is None or former.has_left_for(pointer):
                break
            is_there = former.table == pointer.table and former.state is NameState.LIVE
            if not is_there or former.name in seen:  # names that refer to each other: it has neither
                return None
            pointer = former
        return pointer

    async def _absent_error(
        self, name: TableName, pointer: NamePointer | None, what: NameKind
    ) -> NotFoundError:
        """Returns the error for a name that refers to nothing live."""
        absent = f"there is no {what.value} {str(name)!r}"
        if pointer is not None:
            return NotFoundError(f"{absent}: {_fate(pointer)}", table=str(name), moved_to=pointer.moved_to)
        # A missing database explains a missing table, so it is reported first.
        await self._database(name.database)
        found = self.views(name.database) if what is NameKind.VIEW else self.tables(name.database)
        near = [table.table async for table in found]
        advice = suggestion(name.table, near) if near else f"database {name.database!r} has no {what.value}s"
        return NotFoundError(f"{absent}; {advice}", table=str(name))

    async def find(self, name: TableName) -> NamePointer | None:
        """Returns the pointer of what has a name; None when the name is free. The database must exist."""
        pointer = await self._find_live(name)
        # Only then: a live pointer proves that there is a database.
        if pointer is None:
            await self._database(name.database)
        return pointer

    async def claim(self, name: TableName, pointer: NamePointer, *, first: bool = False) -> None:
        """Gives a free name to a table or view; AlreadyExistsError when the name is not free.

        Args:
            name: the name.
            pointer: the pointer to be written.
            first: whether the table never had a name before. If it has lost this one when the answer comes,
            somebody else has dropped or renamed it already, and that stays so.
        """
        with self._changing(name.database, name.table):
            await self._claim(name, pointer, first=first)

    async def _claim(self, name: TableName, pointer: NamePointer, *, first: bool) -> None:
        key, data = pointer_key(name.database, name.table), encode_pointer(pointer)
        try:
            await self._store.put_if_absent(key, data, token=pointer.token)
            return
        except ConflictError as lost:
            winner: Fetched = lost.context["winner"]
        current = decode_pointer(winner.data, key=key)
        # An earlier attempt, whose answer was lost, may have given the name to this table.
        if current.table == pointer.table and (first or current.state is NameState.LIVE):
            return
        # What a service says of its table would be lost with the pointer, so a dead one stays too.
        if current.state is NameState.LIVE or current.kind is NameKind.ICEBERG:
            raise name_taken_error(name, current.kind)
        await self.end_renaming(current)
        data = encode_pointer(current.given_to(pointer))
        try:
            await self._store.put_if_match(key, data, version=_version(winner), token=pointer.token)
        except ConflictError as lost:
            raise name_taken_error(name, pointer.kind) from lost

    async def end_renaming(self, left: NamePointer) -> None:
        """Completes the renaming by which a view has left a name, which is about to forget where it went.

        Raises:
            ConflictError: others change the new name again and again.
        """
        if left.renaming is None or left.moved_to is None:
            return
        for _ in range(_LOOKS):
            known = await or_none(self.look(TableName.parse(left.moved_to)))
            if known is None or not left.has_left_for(known[0]):
                return
            with contextlib.suppress(ConflictError):
                await self.replace(known[0].renamed(token=new_token()), version=known[1])
                return
        raise ConflictError(
            f"the pointer of {left.moved_to} is replaced by others again and again", table=left.name
        )

    async def look(self, name: TableName) -> tuple[NamePointer, str]:
        """Returns the pointer of a name whatever its state, and the version to replace it by.

        To replace it because of a table's log, look here first and then at the log: so the replacement
        fails if others have changed either meanwhile.
        """
        fetched = await self._store.get(pointer_key(name.database, name.table))
        pointer = decode_pointer(fetched.data, key=fetched.key)
        if pointer.name != str(name):
            raise CorruptionError(
                f"{fetched.key} holds the pointer of {pointer.name!r}: the object was put in another's place",
                key=fetched.key,
                expected=str(name),
                got=pointer.name,
            )
        return pointer, _version(fetched)

    async def replace(self, pointer: NamePointer, *, version: str) -> None:
        """Replaces the pointer that was read by its next version; ConflictError if another has, or may."""
        name = TableName.parse(pointer.name)
        if pointer.kind is NameKind.ICEBERG:
            raise ConflictError(
                f"{name} is {_KINDS[pointer.kind]}, which alone changes its pointer", table=str(name)
            )
        key, data = pointer_key(name.database, name.table), encode_pointer(pointer)
        with self._changing(name.database, name.table):
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
        """Takes the name from a table, if it still has it; returns the pointer that is there then.

        Args:
            name: the name.
            pointer: the table's pointer.
            state: the name's state from then on.
            time_ms: the time of the change.
            moved_to: the table's new name.
            token: if given, the name is taken only while its pointer has this token.
            cascade: see :class:`NamePointer`.
        """
        current, version = await self.look(name)
        if current.table != pointer.table or current.state is not NameState.LIVE:
            return current
        if token is not None and current.token != token:
            return current
        ended = dataclasses.replace(
            current, state=state, token=new_token(), time_ms=time_ms, moved_to=moved_to, cascade=cascade
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
        """Gives a table another name; repeated after a failure, it completes the renaming."""
        if old == new:
            raise name_taken_error(new)
        await self._database(new.database)
        # The new name first: a failure in between leaves a table with two names, never one without.
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
        """Yields the live tables of a database, in order of their names.

        Args:
            database: its name.
            prefix: only tables whose names begin so.
            after: only tables whose names follow this one, to continue a listing.
        """
        async with aclosing(self.relations(database, prefix=prefix, after=after)) as relations:
            async for pointer in relations:
                if pointer.kind is NameKind.TABLE:
                    yield TableName.parse(pointer.name)

    async def views(
        self, database: str, *, prefix: str = "", after: str | None = None
    ) -> AsyncGenerator[TableName, None]:
        """Yields the live views of a database, in order of their names; see :meth:`tables`.

        Reads the pointers of names that a view has or had, and of no others.
        """
        start = view_marker_prefix(database)
        async with aclosing(self._looked(database, start, prefix, after)) as pointers:
            async for pointer in pointers:
                if pointer.state is NameState.LIVE and pointer.kind is NameKind.VIEW:
                    yield TableName.parse(pointer.name)

    async def view_names(self, database: str) -> AsyncGenerator[TableName, None]:
        """Yields the names that a view has or had, in order, without reading their pointers."""
        start = view_marker_prefix(database)
        async for entry in self._store.list(start):
            name = entry.key.removeprefix(start)
            if _NAME.fullmatch(name):
                yield TableName(database, name)

    async def relations(
        self, database: str, *, prefix: str = "", after: str | None = None
    ) -> AsyncGenerator[NamePointer, None]:
        """Yields the live pointers of a database's tables and views, in order; see :meth:`tables`."""
        async with aclosing(self.pointers(database, prefix=prefix, after=after)) as pointers:
            async for pointer in pointers:
                if pointer.state is NameState.LIVE:
                    yield pointer

    async def pointers(
        self, database: str, *, prefix: str = "", after: str | None = None
    ) -> AsyncGenerator[NamePointer, None]:
        """Yields the pointers of a database's names whatever their state, in order; see :meth:`tables`."""
        start = pointer_prefix(database)
        async with aclosing(self._looked(database, start, prefix, after)) as pointers:
            async for pointer in pointers:
                yield pointer

    async def _looked(
        self, database: str, start: str, prefix: str, after: str | None
    ) -> AsyncGenerator[NamePointer, None]:
        """Yields the pointers of the names that keys below ``start`` end in."""

        async def look(key: str) -> NamePointer | None:
            # What a listing shows may come to nothing: see DenseLog.
            return await self.pointer(TableName(database, key.removeprefix(start)))

        listed = self._store.list(start + prefix, start_after=start + after if after else None)
        keys = (entry.key async for entry in listed if _NAME.fullmatch(entry.key.removeprefix(start)))
        async with aclosing(map_bounded(look, keys, self._concurrency)) as looked:
            async for pointer in looked:
                if pointer is not None:
                    yield pointer

    async def names_of(self, tables: Mapping[uuid.UUID, TableName]) -> dict[uuid.UUID, TableName]:
        """Returns the names whose pointers refer to dropped tables; tables without such a name are left out.

        Args:
            tables: the tables, each with the name it was created with, which is tried first.
        """
        names: dict[uuid.UUID, TableName] = {}

        async def look(item: tuple[uuid.UUID, TableName]) -> None:
            table, name = item
            pointer = await self.pointer(name)
            if pointer is not None and pointer.state_of(table) not in (None, NameState.MOVED):
                names[table] = name

        async for _ in map_bounded(look, tables.items(), self._concurrency):
            pass
        if len(names) == len(tables):
            return names
        # Renamed before they were dropped, in another database perhaps.
        async for directory in self._directories():
            async with aclosing(self.pointers(directory.rstrip("/"))) as pointers:
                async for pointer in pointers:
                    earlier = (former.table for former in pointer.before)
                    for table in {pointer.table, *earlier} & tables.keys():
                        if pointer.state_of(table) is not NameState.MOVED:
                            names.setdefault(table, TableName.parse(pointer.name))
        return names

    async def pointer(self, name: TableName) -> NamePointer | None:
        """Returns the pointer of a name whatever its state; None where the name never had one."""
        known = await or_none(self.look(name))
        return known[0] if known is not None else None

    async def _find_live(self, name: TableName) -> NamePointer | None:
        pointer = await self.pointer(name)
        return pointer if pointer is not None and pointer.state is NameState.LIVE else None


def name_taken_error(name: TableName, kind: NameKind = NameKind.TABLE) -> AlreadyExistsError:
    """Returns the error for a name that is not free."""
    return AlreadyExistsError(f"there is {_KINDS[kind]} {str(name)!r} already", table=str(name))


def other_kind_error(name: TableName, kind: NameKind, wanted: NameKind) -> InvalidInputError:
    """Returns the error for a name of another kind of relation than the call is about."""
    return InvalidInputError(
        f"{str(name)!r} is {_KINDS[kind]}, not {_KINDS[wanted]}: {_ADVICE[kind]}",
        kind="wrong-relation",
        table=str(name),
        got=kind.value,
    )


_KINDS = {
    NameKind.TABLE: "a table",
    NameKind.VIEW: "a view",
    NameKind.ICEBERG: "an Iceberg table of a catalog service",
}
_ADVICE = {
    NameKind.TABLE: "lake.table opens it",
    NameKind.VIEW: "lake.view has its SQL, lake.drop_view drops it",
    NameKind.ICEBERG: "attach the service with lake.attach_catalog and open it there",
}


def _fate(pointer: NamePointer) -> str:
    """Describes, for an error, what happened to the table that had a name."""
    if pointer.moved_to is not None:
        return f"it is called {pointer.moved_to!r} now"
    if pointer.state is NameState.PURGING:
        return "it was dropped, and its objects are deleted"
    return f"it was dropped; undrop_{pointer.kind.value} brings it back until it is purged"


def _version(fetched: Fetched) -> str:
    """Returns the version to replace; empty where the store has none, since it refuses replaces."""
    return fetched.version or ""


def _decoded(fetched: Fetched) -> DatabaseMarker:
    marker = decode_database(fetched.data, key=fetched.key)
    name = fetched.key.rpartition("/")[0]
    if marker.name != name:
        raise CorruptionError(
            f"{fetched.key} is not the marker of database {name!r}: another object stands in its place",
            key=fetched.key,
            expected=name,
            got=marker.name,
        )
    return marker
