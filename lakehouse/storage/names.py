"""Names: databases, and which directory a table's name stands for.

Invariant: a name belongs to at most one live table; it changes hands by compare-and-swap only, so two
creators of one name never both succeed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from lakehouse.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
)
from lakehouse.format.name_pointer import NamePointer, NameState, decode_pointer, encode_pointer
from lakehouse.format.nearest import suggestion
from lakehouse.format.sealed_json import seal, unseal
from lakehouse.ids import new_token
from lakehouse.io.fanout import map_bounded
from lakehouse.io.protocols import Fetched
from lakehouse.io.store import ObjectStore
from lakehouse.storage.layout import database_key, pointer_key, pointer_prefix

__all__ = ["Names", "TableName", "check_name", "taken"]

_NAME = re.compile(r"[^\W_][\w-]{0,126}")
_CONCURRENCY = 16
_DATABASE_FORMAT = 1


@dataclass(frozen=True, slots=True)
class TableName:
    """``database.table``."""

    database: str
    table: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """The name in a text; an error that says what a name is."""
        database, dot, table = text.partition(".")
        if not dot:
            raise InvalidInputError(
                f"{text!r} is not the name of a table: it needs a database, as in 'sales.{text or 'orders'}'",
                name=text,
            )
        return cls(check_name(database, "database"), check_name(table, "table"))

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


def check_name(text: str, what: str) -> str:
    """The name itself when it is a good one."""
    if not _NAME.fullmatch(text):
        raise InvalidInputError(
            f"{text!r} cannot be the name of a {what}: use a letter or digit, then letters, digits, '_' and "
            "'-', 127 characters at most",
            name=text,
        )
    return text


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
        check_name(name, "database")
        key, token = database_key(name), new_token()
        data = _database(name, comment, token)
        try:
            await self._store.put_if_absent(key, data, token=token)
        except ConflictError as lost:
            found = lost.context["winner"]
            if _members(found)["state"] == NameState.LIVE:
                raise AlreadyExistsError(f"there is a database {name!r} already", database=name) from lost
            await self._store.put_if_match(key, data, version=found.version, token=token)

    async def drop_database(self, name: str) -> None:
        """Ends a database that has no tables."""
        found = await self._database(name)
        async with aclosing(self.tables(name)) as tables:
            async for table in tables:
                raise InvalidInputError(
                    f"database {name!r} has tables, such as {table.table!r}: drop them, or pass cascade=True",
                    database=name,
                )
        token = new_token()
        members = {**_members(found), "state": NameState.DROPPED.value, "token": token}
        del members["crc32c"]
        await self._store.put_if_match(found.key, seal(members), version=_version(found), token=token)

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
        return found if _members(found)["state"] == NameState.LIVE else None

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
        what = f"it is called {pointer.moved_to!r} now" if pointer.moved_to else "it was dropped"
        raise NotFoundError(f"there is no table {str(name)!r}: {what}", table=str(name))

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
        try:
            await self._store.put_if_match(key, data, version=_version(winner), token=pointer.token)
        except ConflictError as lost:
            raise taken(name) from lost

    async def release(
        self,
        name: TableName,
        pointer: NamePointer,
        *,
        state: NameState,
        time_ms: int,
        moved_to: str | None = None,
    ) -> NamePointer:
        """Takes the name from a table, if it still has it; what stands there then."""
        found, version = await self._read(name)
        if found.table != pointer.table or found.state is not NameState.LIVE:
            return found
        token = new_token()
        ended = dataclasses.replace(found, state=state, token=token, time_ms=time_ms, moved_to=moved_to)
        key = pointer_key(name.database, name.table)
        try:
            await self._store.put_if_match(key, encode_pointer(ended), version=version, token=token)
        except ConflictError as lost:
            return decode_pointer(lost.context["winner"].data, key=key)
        return ended

    async def move(
        self, old: TableName, new: TableName, pointer: NamePointer, *, time_ms: int
    ) -> NamePointer:
        """Gives a table another name; repeating it after a failure ends it."""
        if old == new:
            raise taken(new)
        await self._database(new.database)
        moved = dataclasses.replace(pointer, name=str(new), token=new_token(), time_ms=time_ms)
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
        start = pointer_prefix(database)

        async def look(key: str) -> TableName | None:
            name = TableName(database, key.removeprefix(start))
            # What a listing shows may come to nothing: see DenseLog.
            return name if await self._find_live(name) is not None else None

        listed = self._store.list(start + prefix, start_after=start + after if after else None)
        keys = (one.key async for one in listed if _NAME.fullmatch(one.key.removeprefix(start)))
        async with aclosing(map_bounded(look, keys, _CONCURRENCY)) as looked:
            async for found in looked:
                if found is not None:
                    yield found

    async def _find_live(self, name: TableName) -> NamePointer | None:
        try:
            pointer, _ = await self._read(name)
        except NotFoundError as missing:
            if missing.kind == "missing-bucket":
                raise
            return None
        return pointer if pointer.state is NameState.LIVE else None

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


def _version(found: Fetched) -> str:
    assert found.version is not None, "a store that commits tells versions"
    return found.version


def _database(name: str, comment: str | None, token: str) -> bytes:
    return seal(
        {
            "format": _DATABASE_FORMAT,
            "name": name,
            "state": NameState.LIVE.value,
            "token": token,
            "comment": comment,
        }
    )


def _members(found: Fetched) -> dict[str, object]:
    members = unseal(found.data, key=found.key, what="database marker", newest=_DATABASE_FORMAT)
    name = found.key.rpartition("/")[0]
    if members.get("name") != name or "state" not in members:
        raise CorruptionError(
            f"{found.key} is not the marker of database {name!r}: another object stands in its place",
            key=found.key,
            expected=name,
            got=members.get("name"),
        )
    return members
