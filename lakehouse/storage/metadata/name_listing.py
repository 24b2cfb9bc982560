"""Listings of names that read as few name pointers as they can: pages, by one LIST each.

A name keeps its pointer when its table is dropped or renamed, so a listing of keys alone would show names
that stand for nothing. The pointer of a table that was never renamed has a size that follows from its name,
and every other state has another: only pointers of other sizes are read, and of these each version once. One
case is shown that should not be: a table that was renamed to a name of as many bytes less as the word
``dropped`` is longer than ``live``, and dropped then. A listing is no proof that a name stands for something,
so whoever opens it finds out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from lakehouse.cache import CacheRegion
from lakehouse.format.metadata import NamePointer, NameState, encode_pointer
from lakehouse.ids import new_token, new_uuid
from lakehouse.io.protocols import ObjectMeta
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import map_bounded
from lakehouse.storage.metadata.paths import pointer_prefix, table_directory
from lakehouse.storage.metadata.table_name import _NAME, TableName

__all__ = ["ListedPointer", "NameListing", "plain_size"]

_ReadPointer = Callable[[TableName], Awaitable[NamePointer | None]]
_MOMENT_MS = 1_700_000_000_000
"""A time of 13 digits, which all have from 2001 to 2286."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPointer:
    """A name in a listing."""

    name: TableName
    pointer: NamePointer | None = None
    """Its pointer, where that was read; None = its size says that it is of a table."""


def plain_size(name: TableName) -> int:
    """Returns the size of the pointer of a live table that never had another name."""
    table = new_uuid()
    directory = table_directory(name.database, name.table, table.hex)
    pointer = NamePointer(name=str(name), table=table, path=directory, token=new_token(), time_ms=_MOMENT_MS)
    return len(encode_pointer(pointer))


class NameListing:
    """Listings of the names of one warehouse.

    Args:
        store: its root is the warehouse.
        read: reads the pointer of a name; None where it never had one.
        cache: pointers by key and version, which say the same for ever.
        concurrency: pointers that are read at once.
    """

    def __init__(
        self,
        store: ObjectStore,
        read: _ReadPointer,
        cache: CacheRegion[tuple[str, str], NamePointer],
        *,
        concurrency: int,
    ) -> None:
        self._store, self._read, self._cache = store, read, cache
        self._concurrency = concurrency

    async def page(
        self, database: str, *, prefix: str = "", after: str | None = None, limit: int
    ) -> tuple[list[ListedPointer], str | None]:
        """Lists a page of live names in order, and the name behind which the next page begins; None = the
        last.

        A page may be short, or empty, where names stand for nothing any more.
        """
        start = pointer_prefix(database)
        behind = start + after if after is not None else None
        listed = await self._store.list_page(start + prefix, start_after=behind, limit=limit)
        entries = [meta for meta in listed.objects if _NAME.fullmatch(meta.key.removeprefix(start))]
        # Names of one database differ in their pointers by their own bytes alone, twice.
        spare = plain_size(TableName(database, "x")) - 2
        look = partial(self._look, database, len(start), spare)
        looked = [one async for one in map_bounded(look, entries, self._concurrency)]
        following = listed.objects[-1].key.removeprefix(start) if listed.next_page is not None else None
        return [one for one in looked if one is not None], following

    async def _look(self, database: str, skipped: int, spare: int, meta: ObjectMeta) -> ListedPointer | None:
        name = TableName(database, meta.key[skipped:])
        if meta.size == spare + 2 * len(name.table.encode()):
            return ListedPointer(name=name)
        pointer = await self._pointer(name, meta)
        live = pointer is not None and pointer.state is NameState.LIVE
        return ListedPointer(name=name, pointer=pointer) if live else None

    async def _pointer(self, name: TableName, meta: ObjectMeta) -> NamePointer | None:
        async def load(_: tuple[str, str]) -> NamePointer | None:
            return await self._read(name)

        if meta.version is None:
            return await self._read(name)
        return await self._cache.get((meta.key, meta.version), load)
