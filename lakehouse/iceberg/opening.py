"""Finding and loading of a table's metadata: by the URL of a metadata file, or of the table's directory.

Which file of a directory is the newest:

1. ``metadata/version-hint.text`` names a version ``N``: ``vN.metadata.json``, and after it every next number
   that exists, because a hint may be written late. A hint that is no number names a file.
2. Without a hint, or where the file that it names is gone, the listing of ``metadata/`` decides: the highest
   number of ``NNNNN-<uuid>.metadata.json`` and ``vN.metadata.json``. Writers that lost a race leave a file of
   the same number: of several the one with the latest ``last-updated-ms`` counts, of these the last by name.
   A catalog knows which one was committed; a directory does not.

Costs: a metadata file is one GET. By a hint five: the hint, then side by side its version and the three names
that the next one, which is missing, could have. Without a hint: one for the hint that is missing, one LIST
for each 1,000 objects of ``metadata/``, and one GET for each file of the highest number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.clock import Clock
from lakehouse.config import IoSettings, Settings
from lakehouse.errors import CorruptionError, NotFoundError
from lakehouse.excerpt import short
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.metadata import TableMetadata
from lakehouse.iceberg.metadata_json import decode_metadata
from lakehouse.iceberg.renewing import Renew
from lakehouse.iceberg.scopes import Scope
from lakehouse.io import ObjectStore, map_bounded
from lakehouse.io.location import Location
from lakehouse.io.work import in_thread, or_none

__all__ = [
    "ReadMetadata", "find_metadata", "is_metadata_file", "load_metadata", "open_locations", "read_metadata",
]  # fmt: skip

_FOLDER = "metadata"
_HINT = f"{_FOLDER}/version-hint.text"
_ENDS = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_FILE = re.compile(
    r"(?:v(?P<version>\d{1,18})|(?P<number>\d{1,18})-[^/]+?)(?:\.gz)?\.metadata\.json(?:\.gz)?"
)
_HINT_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMetadata:
    """Metadata, and the version of the object that they were read from."""

    metadata: TableMetadata
    version: str | None = None
    """Version by the store, such as an ETag; None where it tells none."""


def is_metadata_file(url: str) -> bool:
    """Returns whether a URL names a metadata file, and not a table's directory."""
    return url.rstrip("/").endswith((".json", ".json.gz"))


def open_locations(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    locations: Sequence[str] = (),
    moved: bool = False,
    settings: Settings | IoSettings | None = None,
    clock: Clock | None = None,
    renew: Renew | None = None,
    scope: Scope | None = None,
) -> Locations:
    """Returns the places of the table that a URL names; nothing is contacted."""
    directory = Location.parse(url)
    if is_metadata_file(url):
        folder = directory.path.rpartition("/")[0]
        inner = folder.rpartition("/")
        path = inner[0] if inner[2] == _FOLDER else folder
        directory = Location(scheme=directory.scheme, path=path or "/")
    return Locations(
        directory.url,
        storage_options=storage_options,
        locations=locations,
        moved=moved,
        settings=settings,
        clock=clock,
        renew=renew,
        scope=scope,
    )


async def load_metadata(locations: Locations, url: str) -> TableMetadata:
    """Loads the metadata that a URL names; see :func:`find_metadata`."""
    return (await find_metadata(locations, url)).metadata


async def find_metadata(locations: Locations, url: str, *, known: ReadMetadata | None = None) -> ReadMetadata:
    """Loads the metadata that a URL names, and admits the places that they name.

    Args:
        locations: made by :func:`open_locations` for the same URL.
        url: a metadata file, or the directory of a table, in which the newest file is found.
        known: metadata that were read before; where their object is still the same, it is not read again.

    Raises:
        NotFoundError: there are no metadata.
        CorruptionError: they are damaged, or the hint is.
        UnsupportedVersionError: they are of a later version of the format.
    """
    reader = _Reader(locations.store, known)
    if is_metadata_file(url):
        key = Location.parse(url).path[len(locations.opened.path.rstrip("/")) + 1 :]
        read = await reader.read(key)
    else:
        read = await reader.newest()
    locations.admit(read.metadata)
    return read


async def read_metadata(store: ObjectStore, key: str) -> ReadMetadata:
    """Reads one metadata file: one GET."""
    fetched = await store.get(key)
    metadata = await in_thread(decode_metadata, fetched.data, f"{store.url}/{key}")
    return ReadMetadata(metadata=metadata, version=fetched.version)


class _Reader:
    """Reads of the metadata files of one directory.

    Args:
        store: its root is the table's directory.
        known: metadata that were read before.
    """

    def __init__(self, store: ObjectStore, known: ReadMetadata | None) -> None:
        self._store, self._known = store, known

    async def read(self, key: str) -> ReadMetadata:
        """Reads a file: one GET, or a HEAD where it is still the one that is known."""
        known, path = self._known, f"{self._store.url}/{key}"
        is_named = known is not None and known.version is not None and known.metadata.path == path
        # By its version too: who drops a table and makes it anew may use the path again.
        if known is not None and is_named and (await self._store.head(key)).version == known.version:
            return known
        return await read_metadata(self._store, key)

    async def newest(self) -> ReadMetadata:
        """Reads the newest file."""
        store = self._store
        hint = await or_none(store.get(_HINT))
        if hint is not None:
            hinted = await self._hinted(_hint_text(store, hint.data))
            if hinted is not None:
                return hinted
        keys = await _listed(store)
        if not keys:
            raise NotFoundError(
                f"there are no metadata of an Iceberg table at {store.url}/{_FOLDER}: give the directory "
                "that holds metadata/ and data/, or a metadata file",
                key=_FOLDER,
            )
        found = [read async for read in map_bounded(self.read, keys, store.settings.ranges_concurrency)]
        return max(found, key=lambda read: (read.metadata.last_updated_ms, read.metadata.path))

    async def _hinted(self, hint: str) -> ReadMetadata | None:
        """Reads the version that a hint names or the last one after it; None when there is none."""
        if not hint.isdecimal():
            return await self._version(hint.removesuffix(_ENDS[0]))
        number = int(hint[:18])
        versions = map_bounded(self._version, [f"v{number}", f"v{number + 1}"], 2)
        one, following = [read async for read in versions]
        while following is not None:
            one, number = following, number + 1
            following = await self._version(f"v{number + 1}")
        return one

    async def _version(self, name: str) -> ReadMetadata | None:
        """Reads a file by its name without the ending; None when it is not there, plain or compressed."""
        if (plain := await or_none(self.read(f"{_FOLDER}/{name}{_ENDS[0]}"))) is not None:
            return plain
        compressed = map_bounded(
            lambda end: or_none(self.read(f"{_FOLDER}/{name}{end}")), _ENDS[1:], len(_ENDS)
        )
        found = [read async for read in compressed if read is not None]
        return found[0] if found else None


def _hint_text(store: ObjectStore, data: bytes) -> str:
    text = data[:_HINT_BYTES_MAX].decode(errors="replace").strip()
    if not text or "/" in text or not text.isprintable():
        raise CorruptionError(
            f"{store.url}/{_HINT} says {short(text)}, which is no version: remove it, or open a metadata "
            "file",
            key=_HINT,
            got=short(text),
        )
    return text


async def _listed(store: ObjectStore) -> list[str]:
    """Returns the keys of the metadata files with the highest number."""
    highest = -1
    keys: list[str] = []
    async for meta in store.list(f"{_FOLDER}/"):
        found = _FILE.fullmatch(meta.key.removeprefix(f"{_FOLDER}/"))
        if found is None:
            continue
        number = int(found["version"] or found["number"])
        if number > highest:
            highest, keys = number, []
        if number == highest:
            keys.append(meta.key)
    return keys
