"""Choice of what index files lie below a URL: those of a warehouse, of GreptimeDB's directory, or just files.

Directories decide, whatever they hold and however many objects there are: those of databases have a marker,
those of GreptimeDB's regions a name of their own.

Invariant: a bounded number of requests; no flat listing.
"""

from __future__ import annotations

import enum
from contextlib import aclosing

from lakehouse.errors import FormatError
from lakehouse.index.greptime import DATA_DIRECTORY, RegionDir
from lakehouse.io import ObjectStore, map_bounded
from lakehouse.storage.metadata import DATABASE_MARKER

__all__ = ["SourceKind", "source_kind"]

_DATABASES_MAX = 1_000
"""Maximum directories in which a marker is looked for."""
_HEADS = 32
_LISTINGS_MAX = 32
"""Maximum directories that are listed to find one of a region."""


class SourceKind(enum.StrEnum):
    """Kinds of places that index files lie in."""

    AUTO = "auto"
    PREFIX = "prefix"
    GREPTIME = "greptime"
    MANIFEST = "manifest"
    TABLES = "tables"


async def source_kind(store: ObjectStore) -> SourceKind:
    """Chooses by the names at the root of a store."""
    directories = (await store.list_page("", delimiter="/")).prefixes
    if await _has_database(store, directories[:_DATABASES_MAX]):
        return SourceKind.TABLES
    return SourceKind.GREPTIME if await _has_region(store, directories) else SourceKind.PREFIX


async def _has_database(store: ObjectStore, directories: tuple[str, ...]) -> bool:
    async def has_marker(directory: str) -> bool:
        return await store.exists(directory + DATABASE_MARKER)

    async with aclosing(map_bounded(has_marker, directories, _HEADS, ordered=False)) as answers:
        async for is_marked in answers:
            if is_marked:
                return True
    return False


async def _has_region(store: ObjectStore, directories: tuple[str, ...]) -> bool:
    """Returns whether a region's directory is among these or in them; depth first, which is where one is."""
    left, listings = _in_turn(directories), 0
    if any(map(_is_region, directories)):
        return True
    while left and listings < _LISTINGS_MAX:
        inner = (await store.list_page(left.pop(), delimiter="/")).prefixes
        listings += 1
        if any(map(_is_region, inner)):
            return True
        left += _in_turn(inner)
    return False


def _in_turn(directories: tuple[str, ...]) -> list[str]:
    """Returns the directories to go into, the first of them last: GreptimeDB's own, then by name."""
    first = sorted(directories, key=lambda name: (not name.endswith(DATA_DIRECTORY), name))
    return first[:_LISTINGS_MAX][::-1]


def _is_region(directory: str) -> bool:
    try:
        RegionDir.parse(directory)
    except FormatError:
        return False
    return True
