"""Manifest lists and manifests of a table: fetched once each, decoded, checked and cached.

Both never change, so they are cached by path and length. A manifest is served only when it is whole: as long
as the list says, with as many entries as the list counts. What fails is not cached.

Invariant: entries that are handed out are live, and have what they inherit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from lakehouse.cache import CacheBudget, CacheRegion, CacheSpec
from lakehouse.errors import CorruptionError
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.manifests import (
    ManifestColumns,
    ManifestFile,
    decode_manifest,
    decode_manifest_list,
    decode_manifests,
)
from lakehouse.iceberg.metadata import IcebergSnapshot, PartitionSpec
from lakehouse.iceberg.planning.files import FileSet, LiveEntries
from lakehouse.io import map_bounded
from lakehouse.io.work import in_thread, or_none

__all__ = ["ManifestSource", "PlanCaches"]

_DECODED_BYTES = 1 << 20
"""Bytes of manifests that are decoded together: enough for many small ones, little beside what is fetched."""


def _weigh_list(manifests: Sequence[ManifestFile]) -> int:
    return 600 * len(manifests)


def _weigh_columns(columns: ManifestColumns) -> int:
    return columns.nbytes


def _weigh_files(files: FileSet) -> int:
    return files.nbytes


_LISTS = CacheSpec(name="iceberg-manifest-lists", weigh=_weigh_list)
_MANIFESTS = CacheSpec(name="iceberg-manifests", weigh=_weigh_columns)
_FILES = CacheSpec(name="iceberg-files", weigh=_weigh_files)


class PlanCaches:
    """Caches of planning, shared by all tables of a connection."""

    def __init__(self, budget: CacheBudget) -> None:
        self.lists: CacheRegion[str, tuple[ManifestFile, ...]] = budget.region(_LISTS)
        """Manifests by path of the list."""
        self.manifests: CacheRegion[tuple[str, int], ManifestColumns] = budget.region(_MANIFESTS)
        """Entries by path and length of the manifest."""
        self.files: CacheRegion[tuple[str, ...], FileSet] = budget.region(_FILES)
        """Columns of files with bounds, by the paths of their manifests."""


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """Reads of the manifests of one table.

    Args:
        locations: the places of the table's files.
        caches: shared by the tables of a connection.
        at_once: maximum number of manifests that are fetched at once.
    """

    locations: Locations
    caches: PlanCaches
    at_once: int

    async def manifests(self, snapshot: IcebergSnapshot | None) -> tuple[ManifestFile, ...]:
        """Returns the manifests of a snapshot, those of one partition spec beside each other."""
        if snapshot is None:
            return ()
        if snapshot.manifest_list is not None:
            found = await self._listed(snapshot.manifest_list)
        else:
            loaded = map_bounded(
                lambda path: self._unlisted(path, snapshot.id), snapshot.manifests, self.at_once
            )
            found = tuple([manifest async for manifest in loaded])
        return tuple(sorted(found, key=lambda manifest: manifest.spec_id))

    async def entries(self, manifests: Sequence[ManifestFile]) -> list[LiveEntries]:
        """Returns the live entries of manifests, each fetched once."""
        keys = {(manifest.path, manifest.length): manifest for manifest in manifests}

        async def load(missing: Sequence[tuple[str, int]]) -> dict[tuple[str, int], ManifestColumns]:
            return dict(zip(missing, await self._loaded([keys[key] for key in missing]), strict=True))

        found = await self.caches.manifests.get_many(keys, load)
        return [LiveEntries.of(one, found[one.path, one.length]) for one in manifests]

    async def files(self, manifests: Sequence[ManifestFile], specs: Mapping[int, PartitionSpec]) -> FileSet:
        """Returns the files of manifests, with the bounds that were made of them before."""
        found = self.caches.files.get_if_present(tuple(manifest.path for manifest in manifests))
        return found if found is not None else FileSet(await self.entries(manifests), specs)

    def keep(self, files: FileSet) -> None:
        """Keeps files with the bounds that have been made of them."""
        if files.has_grown:
            self.caches.files.put(files.key, files)
            files.has_grown = False

    async def _listed(self, path: str) -> tuple[ManifestFile, ...]:
        async def load(_: str) -> tuple[ManifestFile, ...]:
            return await in_thread(partial(decode_manifest_list, key=path), await self._fetched(path))

        return await self.caches.lists.get(path, load) or ()

    async def _unlisted(self, path: str, snapshot: int) -> ManifestFile:
        """Returns a manifest of version 1 that no list describes: it is read to be known."""
        data = await self._fetched(path)
        columns = await in_thread(partial(decode_manifest, key=path), data)
        self.caches.manifests.put((path, len(data)), columns)
        return ManifestFile(path=path, length=len(data), spec_id=columns.spec_id or 0, snapshot_id=snapshot)

    async def _loaded(self, manifests: Sequence[ManifestFile]) -> list[ManifestColumns]:
        """Fetches manifests; those that have arrived are decoded together, which is quicker, by the way."""
        loaded: list[ManifestColumns] = []
        waiting: list[tuple[ManifestFile, bytes]] = []
        waiting_bytes = 0

        async def decode() -> None:
            loaded.extend(await in_thread(_decoded, tuple(waiting)))
            waiting.clear()

        async with aclosing(map_bounded(self._whole, manifests, self.at_once)) as arriving:
            async for one in arriving:
                waiting.append(one)
                waiting_bytes += one[0].length
                if waiting_bytes >= _DECODED_BYTES:
                    await decode()
                    waiting_bytes = 0
        if waiting:
            await decode()
        return loaded

    async def _whole(self, manifest: ManifestFile) -> tuple[ManifestFile, bytes]:
        data = await self._fetched(manifest.path)
        if len(data) != manifest.length:
            raise _differs_error(manifest, "bytes", manifest.length, len(data))
        return manifest, data

    async def _fetched(self, path: str) -> bytes:
        place = self.locations.find(path)
        fetched = await or_none(place.store.get(place.key))
        if fetched is None:
            raise CorruptionError(
                f"{path} is missing, and a snapshot of the table refers to it: restore it, or read another "
                "snapshot",
                key=path,
            )
        return bytes(fetched.data)


def _decoded(files: Sequence[tuple[ManifestFile, bytes]]) -> list[ManifestColumns]:
    """Decodes manifests that have as many entries as the manifest list says."""
    decoded = decode_manifests([(data, manifest.path) for manifest, data in files])
    for (manifest, _), columns in zip(files, decoded, strict=True):
        said = (manifest.existing_files, manifest.added_files, manifest.deleted_files)
        counts = zip(
            ("kept files", "added files", "deleted files"), said, columns.status_counts(), strict=True
        )
        for what, expected, got in counts:
            if expected is not None and expected != got:
                raise _differs_error(manifest, what, expected, got)
    return decoded


def _differs_error(manifest: ManifestFile, what: str, expected: int, got: int) -> CorruptionError:
    return CorruptionError(
        f"manifest {manifest.path} has {got:,} {what}, and the manifest list says {expected:,}: it was cut "
        "off or replaced; restore it, or read another snapshot",
        key=manifest.path,
        expected=expected,
        got=got,
    )
