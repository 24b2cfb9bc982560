"""The files of a snapshot.

Invariant: every entry handed out has its ``at`` and its interval filled in; a snapshot's files are the
same for ever, so they are cached by its id.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse.cache import CacheRegion
from lakehouse.errors import CorruptionError, NotFoundError
from lakehouse.format.metadata import FileEntry, ManifestRef, Position, Snapshot, decode_manifest
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.storage.metadata.paths import join

__all__ = ["Manifests", "placed"]

_CONCURRENCY = 16
_BIG_MANIFEST = 64 * 1024
"""Decoding larger ones would hold up the loop."""


def placed(entry: FileEntry, snapshot: int) -> FileEntry:
    """The entry with its positions filled in; ``snapshot`` added it, unless it says itself which did."""
    lo, hi = entry.lo, entry.hi
    if entry.at is not None and lo is not None and hi is not None and lo[0] and hi[0]:
        return entry
    at = entry.at if entry.at is not None else snapshot
    own = (at, 1, entry.run)
    return dataclasses.replace(entry, at=at, lo=_known(lo, at) or own, hi=_known(hi, at) or own)


def _known(position: Position | None, at: int) -> Position | None:
    """A position whose snapshot is said: 0 stands for the one that adds the entry."""
    return position if position is None or position[0] else (at, *position[1:])


@dataclass(frozen=True, slots=True)
class Manifests:
    """Reads the manifests of one table.

    Args:
        store: where the table is.
        root: its directory.
        table: its uuid.
        cache: entries by (root, path of the manifest).
    """

    store: ObjectStore
    root: str
    table: uuid.UUID
    cache: CacheRegion[tuple[str, str], tuple[FileEntry, ...]]

    async def entries(self, snapshot: Snapshot) -> tuple[FileEntry, ...]:
        """The live files of a snapshot."""
        removed = frozenset(snapshot.removed)
        found: list[FileEntry] = []
        for entries in await self.listed(snapshot, snapshot.manifests):
            found += [one for one in entries if one.path not in removed] if removed else entries
        found += [placed(one, snapshot.id) for one in snapshot.added]
        return tuple(found)

    async def listed(
        self, snapshot: Snapshot, manifests: Sequence[ManifestRef]
    ) -> list[tuple[FileEntry, ...]]:
        """What each of these manifests of a snapshot lists, live or not."""

        async def read(ref: ManifestRef) -> tuple[FileEntry, ...]:
            async def load(_: tuple[str, str]) -> tuple[FileEntry, ...]:
                return await self._load(ref, snapshot.id)

            return await self.cache.get((self.root, ref.path), load) or ()

        return [found async for found in map_bounded(read, manifests, _CONCURRENCY)]

    async def _load(self, ref: ManifestRef, snapshot: int) -> tuple[FileEntry, ...]:
        key = join(self.root, ref.path)
        try:
            data = (await self.store.get(key)).data
        except NotFoundError as missing:
            raise CorruptionError(
                f"manifest {key} is missing; snapshot {snapshot} refers to it", key=key, snapshot=snapshot
            ) from missing

        def decode() -> tuple[FileEntry, ...]:
            entries = decode_manifest(data, key=key, table=self.table, checksum=ref.checksum)
            at = ref.at if ref.at is not None else snapshot
            return tuple(placed(one, at) for one in entries)

        found = await in_thread(decode) if len(data) > _BIG_MANIFEST else decode()
        if len(found) != ref.entries:
            raise CorruptionError(
                f"manifest {key} lists {len(found)} files; snapshot {snapshot} says {ref.entries}",
                key=key,
                expected=ref.entries,
                got=len(found),
            )
        return found
