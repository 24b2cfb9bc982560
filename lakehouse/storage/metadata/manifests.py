"""Manifests of a table, and the files of its snapshots.

Invariant: every entry handed out has its ``at`` and its interval filled in; a snapshot's files are the
same for ever, so they are cached by its id.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lakehouse.cache import CacheRegion, identity_tags
from lakehouse.config import TableSettings
from lakehouse.errors import CorruptionError
from lakehouse.format.metadata import (
    ColumnarEntries,
    FileEntry,
    LiveFiles,
    ManifestRef,
    Position,
    Snapshot,
    decode_manifest,
)
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import in_thread, map_bounded, or_none
from lakehouse.kernels.arrays import Mask
from lakehouse.storage.metadata.paths import join

__all__ = ["Manifests", "with_position"]

_BIG_MANIFEST = 64 * 1024
"""Bytes above which a manifest is decoded in a thread, as it would hold up the event loop."""


def with_position(entry: FileEntry, snapshot: int) -> FileEntry:
    """Returns the entry with its positions filled in; ``snapshot`` added it, unless it names another."""
    # A position with snapshot 0 was written before the number of its own commit was known.
    lo, hi = entry.lo, entry.hi
    if entry.at is not None and lo is not None and hi is not None and lo[0] and hi[0]:
        return entry
    at = entry.at if entry.at is not None else snapshot
    own = (at, 1, entry.run)
    return dataclasses.replace(entry, at=at, lo=_known(lo, at) or own, hi=_known(hi, at) or own)


def _known(position: Position | None, at: int) -> Position | None:
    """Returns a position with its snapshot: 0 means the snapshot that adds the entry."""
    return position if position is None or position[0] else (at, *position[1:])


@dataclass(frozen=True, slots=True)
class Manifests:
    """Reads of the manifests of one table.

    Args:
        store: the store that holds the table.
        root: the table's directory.
        table: the table's uuid.
        cache: entries by (root, path of the manifest).
        settings: bound on concurrency.
    """

    store: ObjectStore
    root: str
    table: uuid.UUID
    cache: CacheRegion[tuple[str, str], ColumnarEntries]
    settings: TableSettings = field(default_factory=TableSettings)

    async def entries(self, snapshot: Snapshot) -> LiveFiles:
        """Returns the live files of a snapshot."""
        # A manifest never changes: what later commits removed is left out by each snapshot.
        removed = frozenset(snapshot.removed)
        parts: list[tuple[Sequence[FileEntry], Mask | None]] = []
        for entries in await self.listed(snapshot, snapshot.manifests):
            kept = np.array([entry.path not in removed for entry in entries], np.bool_) if removed else None
            parts.append((entries, None if kept is None or kept.all() else kept))
        parts.append(([with_position(entry, snapshot.id) for entry in snapshot.added], None))
        return LiveFiles(parts)

    async def listed(self, snapshot: Snapshot, manifests: Sequence[ManifestRef]) -> list[ColumnarEntries]:
        """Returns the entries of each of these manifests of a snapshot, live or not."""

        def read(ref: ManifestRef) -> Awaitable[ColumnarEntries]:
            return self.read(snapshot, ref)

        return [entries async for entries in map_bounded(read, manifests, self.settings.read_concurrency)]

    async def read(self, snapshot: Snapshot, manifest: ManifestRef) -> ColumnarEntries:
        """Returns the entries of one manifest of a snapshot, live or not."""

        async def load(_: tuple[str, str]) -> ColumnarEntries:
            return await self._load(manifest, snapshot.id)

        found = await self.cache.get((self.root, manifest.path), load, tags=identity_tags(self.table))
        return found or ColumnarEntries(())

    def keep(self, ref: ManifestRef, entries: Sequence[FileEntry], snapshot: int) -> None:
        """Puts the entries of a manifest that a snapshot has just written into the cache."""
        key = (self.root, ref.path)
        if key not in self.cache:
            at = ref.at if ref.at is not None else snapshot
            placed = ColumnarEntries([with_position(entry, at) for entry in entries])
            self.cache.put(key, placed, tags=identity_tags(self.table))

    async def _load(self, ref: ManifestRef, snapshot: int) -> ColumnarEntries:
        key = join(self.root, ref.path)
        fetched = await or_none(self.store.get(key))
        if fetched is None:
            raise CorruptionError(
                f"manifest {key} is missing; snapshot {snapshot} refers to it", key=key, snapshot=snapshot
            )
        data = fetched.data

        # Entries without a snapshot of their own were added by the one that wrote the manifest.
        def decode() -> ColumnarEntries:
            entries = decode_manifest(data, key=key, table=self.table, checksum=ref.checksum)
            at = ref.at if ref.at is not None else snapshot
            return ColumnarEntries([with_position(entry, at) for entry in entries])

        entries = await in_thread(decode) if len(data) > _BIG_MANIFEST else decode()
        if len(entries) != ref.entries:
            raise CorruptionError(
                f"manifest {key} lists {len(entries)} files; snapshot {snapshot} says {ref.entries}",
                key=key,
                expected=ref.entries,
                got=len(entries),
            )
        return entries
