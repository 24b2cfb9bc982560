"""Manifests that a commit writes: of entries that are too many for its snapshot, and of folds."""

from __future__ import annotations

import google_crc32c

from lakehouse.format.metadata import FileEntry, ManifestRef, Snapshot, encode_manifest
from lakehouse.io.store import ObjectStore
from lakehouse.storage.commit.draft import counts_of
from lakehouse.storage.metadata.paths import join, new_manifest_path

__all__ = ["SpilledManifest", "write_manifest"]

_OWN_ENTRIES_MAX = 128
"""Maximum number of a commit's own entries inside its snapshot; more go into a manifest of their own."""


class SpilledManifest:
    """Entries of one commit that are too many for its snapshot: their manifest, written once."""

    def __init__(self, store: ObjectStore, root: str) -> None:
        self._store, self._root = store, root
        self._written: tuple[tuple[FileEntry, ...], ManifestRef] | None = None

    async def of(self, entries: tuple[FileEntry, ...], base: Snapshot) -> ManifestRef | None:
        """Returns the manifest of these entries; None when the snapshot itself can list them."""
        if len(entries) <= _OWN_ENTRIES_MAX:
            return None
        # By identity: another attempt has the same tuple, unless its files were split for other buckets.
        if self._written is None or self._written[0] is not entries:
            self._written = entries, await write_manifest(self._store, self._root, base, entries)
        return self._written[1]

    @property
    def written(self) -> tuple[tuple[ManifestRef, tuple[FileEntry, ...]], ...]:
        """The manifest with its entries, where one was written."""
        return () if self._written is None else ((self._written[1], self._written[0]),)


async def write_manifest(
    store: ObjectStore, root: str, base: Snapshot, entries: tuple[FileEntry, ...]
) -> ManifestRef:
    """Stores a manifest of these entries."""
    data = encode_manifest(entries, table=base.table)
    path = new_manifest_path()
    await store.put(join(root, path), data)
    # Keys that are deleted may be of any partition; bounds of the other files would be wrong for them.
    partitions = [one.partition for one in entries if one.partition]
    sides = list(zip(*partitions, strict=True)) if len(partitions) == len(entries) else []
    return ManifestRef(
        path=path,
        size=len(data),
        entries=len(entries),
        rows=counts_of(entries).rows,
        checksum=google_crc32c.value(data),
        partition_low=tuple(map(min, sides)),
        partition_high=tuple(map(max, sides)),
    )
