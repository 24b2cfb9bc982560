"""Reachability: the objects that some snapshots refer to, gathered in bounded memory.

Invariant: an object that one of the snapshots needs is never reported as unreachable. Paths are kept as
64-bit hashes, eight bytes each; two paths of one hash can only make an object seem to be needed, so that
it is kept. A manifest or schema that cannot be read is an error, since the objects it needs are unknown,
unless only expired snapshots refer to it, which may have been deleted in part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import xxhash

from lakehouse.errors import FormatError
from lakehouse.format.metadata import FileEntry, ManifestRef, SchemaRef, Snapshot
from lakehouse.io.work import map_bounded
from lakehouse.kernels.arrays import U64
from lakehouse.storage.metadata.manifests import Manifests
from lakehouse.storage.metadata.schemas import Schemas

__all__ = ["PathSet", "Reachable", "paths_of"]

_FRESH = 65_536
"""Maximum paths that are held in a Python set before they are sorted into the array of hashes."""


class PathSet:
    """A set of paths, held as hashes, that may travel to other processes."""

    def __init__(self) -> None:
        self._fresh: set[int] = set()
        self._hashes: U64 = np.empty(0, np.uint64)

    def add(self, paths: Iterable[str]) -> None:
        """Adds paths to the set."""
        self._fresh.update(map(_hash, paths))
        if len(self._fresh) > _FRESH:
            self._settle()

    def others(self, paths: Sequence[str]) -> list[str]:
        """Returns the paths that are not in the set."""
        self._settle()
        hashes = np.fromiter(map(_hash, paths), np.uint64, len(paths))
        places = np.minimum(np.searchsorted(self._hashes, hashes), max(0, len(self._hashes) - 1))
        there = self._hashes[places] == hashes if len(self._hashes) else np.zeros(len(paths), np.bool_)
        return [path for path, known in zip(paths, there.tolist(), strict=True) if not known]

    def _settle(self) -> None:
        if self._fresh:
            fresh = np.fromiter(self._fresh, np.uint64, len(self._fresh))
            self._hashes = np.union1d(self._hashes, fresh)
            self._fresh = set()


def _hash(path: str) -> int:
    """Hashes a path alike in every process, which Python's own hash does not."""
    return xxhash.xxh3_64_intdigest(path.encode())


def paths_of(entry: FileEntry) -> Iterable[tuple[str, int]]:
    """Yields the objects of a data file, itself and its index, with their sizes in bytes."""
    yield entry.path, entry.size
    if entry.index is not None:
        yield entry.index.path, entry.index.size


@dataclass(slots=True)
class _Listing:
    """A manifest that snapshots refer to."""

    ref: ManifestRef
    snapshot: Snapshot
    dead: frozenset[str]
    """Paths that are live in none of those snapshots."""
    expired: bool
    """Whether all of those snapshots are expired."""


class Reachable:
    """Gathers the objects that snapshots refer to: add every snapshot, then ask for the set.

    Args:
        manifests: the table's manifests.
        schemas: the table's schemas.
    """

    def __init__(self, manifests: Manifests, schemas: Schemas) -> None:
        self._manifests, self._schemas = manifests, schemas
        self._listings: dict[str, _Listing] = {}
        self._schema_refs: dict[SchemaRef, bool] = {}
        self._paths = PathSet()
        self._segments: set[int] = set()

    def add(self, snapshot: Snapshot, *, expired: bool = False) -> None:
        """Adds the objects of a snapshot; if it is expired, those of metadata that can be read."""
        for entry in snapshot.added:
            self._paths.add(path for path, _ in paths_of(entry))
        removed = frozenset(snapshot.removed)
        for ref in snapshot.manifests:
            known = self._listings.get(ref.path)
            if known is None:
                self._listings[ref.path] = _Listing(ref, snapshot, removed, expired)
            else:
                # A manifest's file is dead only if it is removed in all the snapshots that list it.
                known.dead &= removed
                known.expired &= expired
        for segments in snapshot.segments:
            self._segments.update(range(segments.first, segments.last + 1))
        if snapshot.statistics is not None:
            self._paths.add([snapshot.statistics.path])
        self._schema_refs[snapshot.schema] = expired and self._schema_refs.get(snapshot.schema, True)

    @property
    def segments(self) -> frozenset[int]:
        """Numbers of the WAL segments that the snapshots cover and whose rows are in no file."""
        return frozenset(self._segments)

    async def paths(self) -> PathSet:
        """Returns all that the snapshots refer to: data, index and statistics files, manifests, schemas."""
        self._paths.add(self._listings)

        async def listed(listing: _Listing) -> Sequence[str]:
            try:
                (entries,) = await self._manifests.listed(listing.snapshot, [listing.ref])
            except FormatError:
                if not listing.expired:
                    raise
                return ()
            return [
                path for entry in entries if entry.path not in listing.dead for path, _ in paths_of(entry)
            ]

        at_once = self._manifests.settings.read_concurrency
        async for paths in map_bounded(listed, self._listings.values(), at_once, ordered=False):
            self._paths.add(paths)
        for ref, expired in self._schema_refs.items():
            self._paths.add([ref.path])
            try:
                self._paths.add(ancestor.path for ancestor in (await self._schemas.read(ref)).ancestors)
            except FormatError:
                if not expired:
                    raise
        return self._paths
