"""Stated manifests: the manifests that the newest snapshot of an open table names, of either format.

Invariant: a manifest is asked for once, and not at all while the lake's caches have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakehouse.errors import InternalError
from lakehouse.format.metadata import FileEntry, ManifestRef
from lakehouse.iceberg import IcebergTable
from lakehouse.iceberg.manifests import ManifestColumns, ManifestFile
from lakehouse.iceberg.metadata import IcebergSnapshot
from lakehouse.iceberg.planning import LiveEntries, ManifestSource
from lakehouse.io import Fetched
from lakehouse.storage.metadata import join
from lakehouse.storage.table import Table
from lakehouse.storage.tables import View

__all__ = ["Raw", "StatedManifest", "stated"]

_Owner = tuple[str, str, str, int | None]
"""Catalog, full name of the table, its format, its newest snapshot."""


class Raw(NamedTuple):
    """Manifest that was fetched and is not decoded."""

    manifest: ManifestFile
    fetched: Fetched

    @property
    def data(self) -> bytes:
        """Bytes of the manifest."""
        return bytes(self.fetched.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedManifest:
    """Manifest of a table, before it is read."""

    owner: _Owner
    path: str | None
    """URL of the manifest; None = the entries stand in the snapshot itself."""
    bytes: int
    content: str
    """``data`` or ``deletes``."""
    spec_id: int | None
    added_snapshot: int | None
    """Snapshot that added the manifest."""
    location: str = ""
    """URL of the table's directory, where paths of entries are relative to it."""
    removed: frozenset[str] = frozenset()
    """Paths of entries that the snapshot has removed."""
    entries: Sequence[FileEntry] = ()
    """Entries, where the snapshot itself has them."""
    ours: tuple[View, ManifestRef] | None = None
    """The state of our table that names the manifest."""
    theirs: tuple[ManifestSource, ManifestFile] | None = None
    """The source of an Iceberg manifest."""

    def kept(self) -> LiveEntries | Sequence[FileEntry] | None:
        """Returns the entries where they are in memory; None = they have to be read."""
        if self.ours is not None:
            manifests, ref = self.ours[0].manifests, self.ours[1]
            return manifests.cache.get_if_present((manifests.root, ref.path))
        if self.theirs is None:
            return self.entries
        source, manifest = self.theirs
        return source.kept(manifest)

    async def read(self) -> Sequence[FileEntry] | Raw:
        """Reads the entries; of an Iceberg manifest its bytes, to be decoded together with others."""
        if self.ours is not None:
            view, ref = self.ours
            return await view.manifests.read(view.snapshot, ref)
        if self.theirs is not None:
            source, manifest = self.theirs
            return Raw(*await source.whole(manifest))
        return self.entries

    def decoded(self, raw: Raw, columns: ManifestColumns) -> LiveEntries:
        """Keeps what was decoded of an Iceberg manifest, and returns its live entries."""
        if self.theirs is None:
            raise InternalError(f"{self.path} is no manifest of an Iceberg table")
        return self.theirs[0].decoded(raw.manifest, raw.fetched, columns)


async def stated(catalog: str, table: Table | IcebergTable) -> Iterator[StatedManifest]:
    """Returns the manifests of the newest snapshot, and the entries that stand in the snapshot itself.

    Each is made when it is asked for: a table may have very many, and all are known once this returns.
    """
    if isinstance(table, IcebergTable):
        snapshot = table.metadata.current_snapshot
        return _theirs(catalog, table, snapshot, await table.source.manifests(snapshot))
    view = await table.core.newest()
    entries = view.snapshot.with_positions().added if view.snapshot.added else ()
    return _ours(catalog, table, view, entries)


def _ours(catalog: str, table: Table, view: View, entries: Sequence[FileEntry]) -> Iterator[StatedManifest]:
    snapshot = view.snapshot
    owner = (catalog, table.name, "lakehouse", snapshot.id)
    removed = frozenset(snapshot.removed)
    for ref in snapshot.manifests:
        yield StatedManifest(
            owner=owner,
            path=join(table.location, ref.path),
            bytes=ref.size,
            content="data",
            spec_id=None,
            added_snapshot=ref.at if ref.at is not None else snapshot.id,
            location=table.location,
            removed=removed,
            ours=(view, ref),
        )
    if entries:
        yield StatedManifest(
            owner=owner,
            path=None,
            bytes=0,
            content="data",
            spec_id=None,
            added_snapshot=snapshot.id,
            location=table.location,
            entries=entries,
        )


def _theirs(
    catalog: str, table: IcebergTable, snapshot: IcebergSnapshot | None, manifests: Iterable[ManifestFile]
) -> Iterator[StatedManifest]:
    owner = (catalog, table.name, "iceberg", None if snapshot is None else snapshot.id)
    for manifest in manifests:
        yield StatedManifest(
            owner=owner,
            path=manifest.path,
            bytes=manifest.length,
            content="deletes" if manifest.content else "data",
            spec_id=manifest.spec_id,
            added_snapshot=manifest.snapshot_id,
            theirs=(table.source, manifest),
        )
