"""Source of the index files that the manifests of GreptimeDB's regions name.

A listing finds the regions; each region's manifest is fetched and folded, several regions at the same
time. GreptimeDB's own enumeration follows the same rules: a file counts when a manifest names it,
belongs to the region that refers to it, and has the size and version in the manifest. Files that no
manifest names are reported, those of a region that is being dropped among them. A region whose
manifest cannot be read is reported too; its files are then taken from the listing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from lakehouse.errors import FormatError, LakehouseError
from lakehouse.index.greptime.layout import DATA_DIRECTORY, DROPPING_MARKER, GreptimeFile, RegionDir
from lakehouse.index.greptime.manifest import (
    POINTER_NAME,
    ManifestPointer,
    fold_manifest,
    plan_manifest,
)
from lakehouse.index.metas.sources import FileProblem, IndexFile, IsVisible
from lakehouse.index.models import IndexFileLocator
from lakehouse.io import ObjectMeta, ObjectStore, map_bounded
from lakehouse.io.work import in_thread

__all__ = ["GreptimeListing", "GreptimeManifests", "greptime_locator"]

_REGIONS_AT_ONCE = 8
_OBJECTS_AT_ONCE = 8
_UNREFERENCED_MAX = 10_000


@dataclass(slots=True)
class _Region:
    """Objects listed in one region's directory."""

    directory: RegionDir
    manifest: list[str] = field(default_factory=list)
    """Names of manifest objects, relative to the directory."""
    indexes: dict[str, ObjectMeta] = field(default_factory=dict)
    """Puffin files by key."""
    is_dropping: bool = False
    is_visible: bool = True


@dataclass(slots=True)
class _Loaded:
    """A region with the index files that its manifest names, or that were listed."""

    region: _Region
    locators: list[IndexFileLocator]
    problem: FileProblem | None = None


class GreptimeManifests:
    """The index files of a GreptimeDB data directory that its manifests name."""

    def __init__(self, store: ObjectStore, root: str = DATA_DIRECTORY) -> None:
        self._store = store
        self._root = root
        self.unreferenced: list[str] = []
        """Keys of the first 10,000 puffin files that no manifest names; complete after the iteration."""
        self.unreferenced_count = 0

    @property
    def store(self) -> ObjectStore:
        """Store that holds the files."""
        return self._store

    def files(self) -> AsyncIterator[IndexFile | FileProblem]:
        """Returns an iterator over the files, region by region in key order, by file id within a region."""
        return self.visible_files(_all_visible)

    async def visible_files(self, is_visible: IsVisible) -> AsyncIterator[IndexFile | FileProblem]:
        """Yields the same files, but reads no manifest of hidden tables: their files come as listed."""
        # By table, since after a repartition a region refers to files of another region of its table.
        table, listed, named = None, dict[str, ObjectMeta](), set[str]()
        async with aclosing(map_bounded(self._load, self._regions(is_visible), _REGIONS_AT_ONCE)) as regions:
            async for loaded in regions:
                if loaded.region.directory.table_dir != table:
                    self._report(listed, named)
                    table, listed, named = loaded.region.directory.table_dir, {}, set()
                if loaded.region.is_visible:
                    listed |= loaded.region.indexes
                if loaded.problem is not None:
                    yield loaded.problem
                for locator in loaded.locators:
                    key = locator.index_file_path
                    named.add(key)
                    meta = listed.get(key)
                    version = meta.version if meta is not None else None
                    yield IndexFile(locator=locator, size=locator.index_file_size, version=version)
        self._report(listed, named)

    def _report(self, listed: dict[str, ObjectMeta], named: set[str]) -> None:
        lost = [key for key in listed if key not in named]
        self.unreferenced_count += len(lost)
        self.unreferenced += lost[: _UNREFERENCED_MAX - len(self.unreferenced)]

    async def _regions(self, is_visible: IsVisible) -> AsyncIterator[_Region]:
        """Yields regions in key order; a region's data and metadata folders are regions of their own."""
        place, pending = None, dict[RegionDir, _Region]()
        async for meta in self._store.list(self._root):
            split = RegionDir.split(meta.key)
            if split is None:
                continue
            directory, rest = split
            here = (directory.table_dir, directory.table_id, directory.sequence)
            if here != place:
                for region in pending.values():
                    yield region
                place, pending = here, {}
            if directory not in pending:
                visible = await is_visible(directory.table_dir)
                pending[directory] = _Region(directory, is_visible=visible)
            region = pending[directory]
            if rest == DROPPING_MARKER:
                region.is_dropping = True
            elif rest.startswith(("manifest/", "staging/manifest/")):
                region.manifest.append(rest)
            elif rest.endswith(".puffin"):
                region.indexes[meta.key] = meta
        for region in pending.values():
            yield region

    async def _load(self, region: _Region) -> _Loaded:
        directory = region.directory
        if not region.is_visible:
            return _Loaded(region, _from_listing(region))
        if region.is_dropping or not region.manifest:
            # A folder without a manifest holds files that another region refers to, or is not GreptimeDB's.
            return _Loaded(region, [])
        try:
            pointer = None
            if POINTER_NAME in region.manifest:
                fetched = await self._store.get(directory.path + POINTER_NAME)
                pointer = ManifestPointer.decode(fetched.data)
            plan = plan_manifest(region.manifest, pointer)

            async def fetch(name: str) -> tuple[str, bytes]:
                return name, (await self._store.get(directory.path + name)).data

            contents = dict([part async for part in map_bounded(fetch, plan.names, _OBJECTS_AT_ONCE)])
            manifest = await in_thread(fold_manifest, plan, contents)
        except LakehouseError as error:
            path = f"{directory.path}manifest/"
            problem = FileProblem.of(path, error, table_dir=directory.table_dir)
            message = f"{path}: {error.message}; the region's files are taken from the listing"
            return _Loaded(region, _from_listing(region), replace(problem, message=message))
        return _Loaded(region, manifest.index_files(directory.table_dir, directory.path_type))


async def _all_visible(table_dir: str) -> bool:
    return True


def _from_listing(region: _Region) -> list[IndexFileLocator]:
    locators = []
    for meta in region.indexes.values():
        try:
            locators.append(greptime_locator(meta))
        except FormatError:
            continue  # GreptimeDB would not open such a file
    return locators


class GreptimeListing:
    """Source of the index files in a GreptimeDB data directory, from a listing.

    Their region is the one that made them. Only a region's manifest tells which of them it still
    refers to.
    """

    def __init__(self, store: ObjectStore, root: str = DATA_DIRECTORY) -> None:
        self._store = store
        self._root = root

    @property
    def store(self) -> ObjectStore:
        """Store that holds the files."""
        return self._store

    async def files(self) -> AsyncIterator[IndexFile | FileProblem]:
        """Yields the files in key order; puffin files with names that GreptimeDB never gives are problems."""
        async for meta in self._store.list(self._root):
            if not meta.key.endswith(".puffin"):
                continue
            try:
                locator = greptime_locator(meta)
            except FormatError as error:
                place = RegionDir.split(meta.key)
                yield FileProblem.of(meta.key, error, table_dir=place and place[0].table_dir)
                continue
            yield IndexFile(locator=locator, size=meta.size, version=meta.version)


def greptime_locator(meta: ObjectMeta) -> IndexFileLocator:
    """Returns the locator of a listed index file of GreptimeDB; FormatError when its key is not one's."""
    file = GreptimeFile.parse(meta.key)
    return IndexFileLocator(
        table_dir=file.region.table_dir,
        region_id=file.region.region_id,
        file_id=file.file_id,
        index_file_path=meta.key,
        index_file_size=meta.size,
    )
