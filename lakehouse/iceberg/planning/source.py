"""Manifest lists and manifests of a table: fetched once each, decoded, checked and cached.

Both never change, so they are cached by path and length, for each scope apart. A manifest is served only when
it is whole: as long as the list says, with as many entries as the list counts. What fails is not cached. A
list or manifest that another scope holds is taken over for a HEAD of one's own: neither bytes nor decoding.

Invariant: entries that are handed out are live, and have what they inherit.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from lakehouse.cache import CacheBudget, CacheRegion, CacheSpec
from lakehouse.errors import CorruptionError, LakehouseError
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.manifests import (
    ManifestColumns,
    ManifestFile,
    decode_manifest,
    decode_manifest_list,
    decode_manifests,
)
from lakehouse.iceberg.metadata import IcebergSnapshot, PartitionSpec
from lakehouse.iceberg.planning.explanation import CacheUse
from lakehouse.iceberg.planning.files import FileSet, LiveEntries
from lakehouse.iceberg.scopes import Scope, scope_tag
from lakehouse.io import Fetched, map_bounded
from lakehouse.io.work import in_thread, or_none

__all__ = ["ManifestSource", "PlanCaches", "decode_whole"]

T = TypeVar("T")

_DECODED_BYTES = 1 << 20
"""Bytes of manifests that are decoded together: enough for many small ones, little beside what is fetched."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class _ManifestList:
    """A manifest list as it is held: a tuple cannot be referred to weakly."""

    manifests: tuple[ManifestFile, ...]


_Held = ManifestColumns | weakref.ref[ManifestColumns]
"""Entries of a manifest: its own, or those that another scope holds as long as it holds them."""
_HeldList = _ManifestList | weakref.ref[_ManifestList]
_TAKEN_OVER_BYTES = 100
_OBJECTS_BYTES = 5_000


def _weigh_list(held: _HeldList) -> int:
    return 600 * len(held.manifests) if isinstance(held, _ManifestList) else _TAKEN_OVER_BYTES


def _weigh_columns(columns: _Held) -> int:
    if not isinstance(columns, ManifestColumns):
        return _TAKEN_OVER_BYTES
    # Some fifty objects beside the arrays, and what an allocator leaves between them.
    size = columns.nbytes
    return size + size // 8 + _OBJECTS_BYTES


def _weigh_files(files: FileSet) -> int:
    return files.nbytes


_LISTS = CacheSpec(name="iceberg-manifest-lists", weigh=_weigh_list)
_MANIFESTS = CacheSpec(name="iceberg-manifests", weigh=_weigh_columns)
_FILES = CacheSpec(name="iceberg-files", weigh=_weigh_files)
_PUFFIN = CacheSpec(name="puffin")


@dataclass(frozen=True, slots=True)
class _Copy(Generic[T]):
    """A manifest or a manifest list that some scope holds."""

    content: weakref.ref[T]
    size: int
    version: str
    """Version of the object that it was decoded from."""


_COPIES = CacheSpec(name="iceberg-copies", weigh=lambda _: _TAKEN_OVER_BYTES)


class PlanCaches:
    """Caches of planning, shared by all tables of a scope.

    Args:
        budget: bytes that they share.
        scope: whose they are; it may get other credentials, and other caches with them.
    """

    def __init__(self, budget: CacheBudget, scope: Scope | None = None) -> None:
        self._budget, self._scope = budget, scope or Scope()
        self._copies: CacheRegion[tuple[str, type[object], str], _Copy[Any]] = budget.region(_COPIES)
        """Manifests and lists that scopes hold, by store, class and path."""

    @property
    def puffin(self) -> CacheRegion[tuple[Hashable, ...], Any]:
        """Footers of puffin files, and what was made of their blobs."""
        return self._budget.region(_PUFFIN, group=self._scope.who)

    @property
    def lists(self) -> CacheRegion[str, _HeldList]:
        """Manifests by path of the list."""
        return self._budget.region(_LISTS, group=self._scope.who)

    @property
    def manifests(self) -> CacheRegion[tuple[str, int], _Held]:
        """Entries by path and length of the manifest."""
        return self._budget.region(_MANIFESTS, group=self._scope.who)

    @property
    def files(self) -> CacheRegion[tuple[str, ...], FileSet]:
        """Columns of files with bounds, by the paths of their manifests."""
        return self._budget.region(_FILES, group=self._scope.who)

    def offer(self, store: str, path: str, content: object, fetched: Fetched) -> None:
        """Lets other scopes of a store know of content, where its object has a version to know it by."""
        if store and fetched.version is not None and self._scope.who is not None:
            copy = _Copy(weakref.ref(content), len(fetched.data), fetched.version)
            self._copies.put((store, type(content), path), copy, tags=(scope_tag(self._scope.who),))

    def offered(self, store: str, path: str, kind: type[T]) -> _Copy[T] | None:
        """Returns content of an object that some scope of a store holds."""
        copy: _Copy[T] | None = self._copies.get_if_present((store, kind, path)) if store else None
        return None if copy is None or copy.content() is None else copy


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """Reads of the manifests of one table.

    Args:
        locations: the places of the table's files.
        caches: shared by the tables of a connection.
        at_once: maximum number of manifests that are fetched at once.
        tags: by which the table's entries in the caches are found again.
    """

    locations: Locations
    caches: PlanCaches
    at_once: int
    tags: tuple[Hashable, ...] = ()

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

    async def entries(
        self, manifests: Sequence[ManifestFile], cache: CacheUse | None = None
    ) -> list[LiveEntries]:
        """Returns the live entries of manifests, each fetched once; notes in ``cache`` which were there."""
        keys = {(manifest.path, manifest.length): manifest for manifest in manifests}
        if cache is not None:
            there = sum([key in self.caches.manifests for key in keys])
            cache.hits += there
            cache.misses += len(keys) - there

        async def load(missing: Sequence[tuple[str, int]]) -> dict[tuple[str, int], _Held]:
            taken = await self._taken_over(missing)
            left = [key for key in missing if key not in taken]
            return {**taken, **dict(zip(left, await self._loaded([keys[key] for key in left]), strict=True))}

        held = self.caches.manifests
        found: dict[tuple[str, int], ManifestColumns] = {}
        while len(found) < len(keys):
            got = await held.get_many([key for key in keys if key not in found], load, tags=self.tags)
            for key, columns in got.items():
                alive = columns if isinstance(columns, ManifestColumns) else columns()
                if alive is None:  # whoever held it let it go
                    held.invalidate(key)
                else:
                    found[key] = alive
        return [LiveEntries.of(one, found[one.path, one.length]) for one in manifests]

    async def files(
        self,
        manifests: Sequence[ManifestFile],
        specs: Mapping[int, PartitionSpec],
        cache: CacheUse | None = None,
    ) -> FileSet:
        """Returns the files of manifests, with the bounds that were made of them before."""
        found = self.caches.files.get_if_present(tuple(manifest.path for manifest in manifests))
        if found is None:
            return FileSet(await self.entries(manifests, cache), specs)
        if cache is not None:
            cache.hits += len(manifests)
        return found

    def keep(self, files: FileSet) -> None:
        """Keeps files with the bounds that have been made of them."""
        if files.has_grown:
            self.caches.files.put(files.key, files, tags=self.tags)
            files.has_grown = False

    async def _listed(self, path: str) -> tuple[ManifestFile, ...]:
        async def load(_: str) -> _HeldList:
            copy = self.caches.offered(self.locations.store_digest, path, _ManifestList)
            if copy is not None and await self._is_same(path, copy):
                return copy.content
            fetched = await self._fetched(path)
            read = await in_thread(partial(decode_manifest_list, key=path), bytes(fetched.data))
            made = _ManifestList(tuple(read))
            self.caches.offer(self.locations.store_digest, path, made, fetched)
            return made

        while True:
            held = await self.caches.lists.get(path, load, tags=self.tags)
            alive = held() if isinstance(held, weakref.ref) else held
            if alive is not None:
                return alive.manifests
            self.caches.lists.invalidate(path)  # whoever held it let it go

    async def _unlisted(self, path: str, snapshot: int) -> ManifestFile:
        """Returns a manifest of version 1 that no list describes: it is read to be known."""
        data = bytes((await self._fetched(path)).data)
        columns = await in_thread(partial(decode_manifest, key=path), data)
        self.caches.manifests.put((path, len(data)), columns, tags=self.tags)
        return ManifestFile(path=path, length=len(data), spec_id=columns.spec_id or 0, snapshot_id=snapshot)

    async def _taken_over(
        self, keys: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], weakref.ref[ManifestColumns]]:
        """Returns manifests that other scopes hold, where this one's credentials reach the same objects."""
        known = dict[tuple[str, int], _Copy[ManifestColumns]]()
        for path, length in keys:
            copy = self.caches.offered(self.locations.store_digest, path, ManifestColumns)
            if copy is not None and copy.size == length:
                known[path, length] = copy

        async def prove(key: tuple[str, int]) -> tuple[tuple[str, int], bool]:
            return key, await self._is_same(key[0], known[key])

        async with aclosing(map_bounded(prove, known, self.at_once)) as proven:
            return {key: known[key].content async for key, is_same in proven if is_same}

    async def _is_same(self, path: str, copy: _Copy[Any]) -> bool:
        """Returns whether one's own credentials reach the object that a copy was decoded from, by a HEAD."""
        place = self.locations.find(path)
        try:
            head = await place.store.head(place.key)
        except LakehouseError:
            return False  # the answer to a HEAD has no body: the GET that follows is told why
        return (head.size, head.version) == (copy.size, copy.version)

    async def _loaded(self, manifests: Sequence[ManifestFile]) -> list[ManifestColumns]:
        """Fetches manifests; those that have arrived are decoded together, which is quicker, by the way."""
        loaded: list[ManifestColumns] = []
        waiting: list[tuple[ManifestFile, Fetched]] = []
        waiting_bytes = 0

        async def decode() -> None:
            decoded = await in_thread(decode_whole, [(one, bytes(fetched.data)) for one, fetched in waiting])
            for (manifest, fetched), columns in zip(waiting, decoded, strict=True):
                self.caches.offer(self.locations.store_digest, manifest.path, columns, fetched)
            loaded.extend(decoded)
            waiting.clear()

        async with aclosing(map_bounded(self.whole, manifests, self.at_once)) as arriving:
            async for one in arriving:
                waiting.append(one)
                waiting_bytes += one[0].length
                if waiting_bytes >= _DECODED_BYTES:
                    await decode()
                    waiting_bytes = 0
        if waiting:
            await decode()
        return loaded

    async def whole(self, manifest: ManifestFile) -> tuple[ManifestFile, Fetched]:
        """Fetches a manifest, as long as the list says; :func:`decode_whole` decodes it."""
        fetched = await self._fetched(manifest.path)
        if len(fetched.data) != manifest.length:
            raise _differs_error(manifest, "bytes", manifest.length, len(fetched.data))
        return manifest, fetched

    def kept(self, manifest: ManifestFile) -> LiveEntries | None:
        """Returns the live entries of a manifest that is in memory; None = it has to be fetched."""
        held = self.caches.manifests.get_if_present((manifest.path, manifest.length))
        columns = held if held is None or isinstance(held, ManifestColumns) else held()
        return None if columns is None else LiveEntries.of(manifest, columns)

    def decoded(self, manifest: ManifestFile, fetched: Fetched, columns: ManifestColumns) -> LiveEntries:
        """Keeps what :func:`decode_whole` made of a fetched manifest, and returns its live entries."""
        self.caches.manifests.put((manifest.path, manifest.length), columns)
        self.caches.offer(self.locations.store_digest, manifest.path, columns, fetched)
        return LiveEntries.of(manifest, columns)

    async def _fetched(self, path: str) -> Fetched:
        place = self.locations.find(path)
        fetched = await or_none(place.store.get(place.key))
        if fetched is None:
            raise CorruptionError(
                f"{path} is missing, and a snapshot of the table refers to it: restore it, or read another "
                "snapshot",
                key=path,
            )
        return fetched


def decode_whole(files: Sequence[tuple[ManifestFile, bytes]]) -> list[ManifestColumns]:
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
