"""Published metadata in the store: the newest version is found, the next one created, old ones are deleted.

Versions are numbered without gaps, and creating the next number is the publication: of two publishers one
wins. Which version is the newest is told by a listing alone. The hint, which readers follow that know a
directory only, may be late.

**Cleaning.** Readers may still use metadata that were replaced less than ``delete_grace_s`` ago. Objects
carry the snapshot in their names that they were written for. So what was written for snapshots before the
oldest one of such metadata goes, unless the oldest one's own manifests need it: a manifest that a snapshot
has dropped never comes back.

Invariant: an object that metadata younger than the grace refer to is not deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakehouse.errors import CorruptionError, NotFoundError
from lakehouse.iceberg.manifests.manifest_list import ManifestFile, decode_manifest_list
from lakehouse.iceberg.publishing.documents import Document, Published, encode_document, read_document
from lakehouse.iceberg.publishing.manifests import Content, PublishedFile, decode_entries
from lakehouse.io import ObjectStore, map_bounded
from lakehouse.io.protocols import ObjectMeta
from lakehouse.storage.metadata import (
    PUBLISHED,
    join,
    published_version,
    published_version_path,
    published_writer,
    relative,
)

__all__ = ["PublishedStore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedStore:
    """The published objects of one table."""

    store: ObjectStore
    root: str
    """The table's directory."""
    table: str
    """Uuid of the table."""

    @property
    def location(self) -> str:
        """URL of the published table."""
        return self.url(PUBLISHED)

    def url(self, path: str) -> str:
        """Returns the URL of an object in the table's directory, as metadata name it."""
        return f"{self.store.url.rstrip('/')}/{join(self.root, path)}"

    def path(self, url: str) -> str:
        """Returns the path in the table's directory of an object that metadata name.

        Raises:
            CorruptionError: it is not in that directory.
        """
        base = self.url("")
        if not url.startswith(base):
            raise CorruptionError(
                f"published metadata name {url}, which is not below {base}: no publication wrote that. "
                f"Delete what is in {self.location}, and publish again.",
                key=url,
            )
        return url[len(base) :]

    async def listed(self) -> Mapping[str, ObjectMeta]:
        """Lists the objects, by path in the table's directory."""
        prefix = join(self.root, f"{PUBLISHED}/metadata/")
        return {relative(self.root, meta.key): meta async for meta in self.store.list(prefix)}

    def newest_version(self, listed: Mapping[str, ObjectMeta]) -> int:
        """Returns the number of the newest version; 0 = there is none."""
        return max((published_version(path) or 0 for path in listed), default=0)

    async def newest(self, listed: Mapping[str, ObjectMeta]) -> Published:
        """Reads the newest metadata."""
        version = self.newest_version(listed)
        published = await self.version(version) if version else Published()
        if version and published.document["location"] != self.location:
            # Manifests have URLs in them: of a warehouse that was moved, all of them are written anew.
            return published.left_behind()
        return published

    async def version(self, number: int) -> Published:
        """Reads one version."""
        path = published_version_path(number)
        fetched = await self.store.get(join(self.root, path))
        return read_document(fetched.data, self.url(path), number, self.table)

    def version_url(self, number: int) -> str:
        """Returns the URL of a version."""
        return self.url(published_version_path(number))

    async def put(self, path: str, data: bytes) -> str:
        """Writes an object that metadata will refer to; returns its URL."""
        await self.store.put(join(self.root, path), data)
        return self.url(path)

    async def create(self, number: int, document: Document, *, token: str) -> None:
        """Creates a version.

        Raises:
            ConflictError: another publisher was first.
            CommitUnknownError: it is not known whether it was made.
        """
        key = join(self.root, published_version_path(number))
        await self.store.put_if_absent(key, encode_document(document), token=token)

    async def hint(self, number: int) -> None:
        """Names a version to readers that know the directory alone."""
        await self.store.put(join(self.root, published_version_path(None)), str(number).encode())

    async def manifests(self, url: str) -> list[ManifestFile]:
        """Reads a manifest list."""
        fetched = await self.store.get(join(self.root, self.path(url)))
        return list(decode_manifest_list(fetched.data, key=url))

    async def entries(self, listed: ManifestFile) -> list[PublishedFile]:
        """Reads the live entries of a manifest."""
        fetched = await self.store.get(join(self.root, self.path(listed.path)))
        return decode_entries(fetched.data, listed, key=listed.path)

    async def clean(self, listed: Mapping[str, ObjectMeta], oldest: Published, *, before_ms: int) -> int:
        """Deletes what no metadata from a version on refer to; returns the number of objects.

        Args:
            listed: the objects that there are.
            oldest: the oldest metadata that readers may still use.
            before_ms: only objects that were written before this moment.
        """
        first = oldest.snapshots[0]
        needed = await self._needed(first["manifest-list"])
        gone = [
            path
            for path, meta in listed.items()
            if path not in needed
            and _is_older(path, oldest.version, first["snapshot-id"])
            and meta.modified_ms is not None
            and meta.modified_ms < before_ms
        ]
        return await self.store.delete_many([join(self.root, path) for path in gone]) if gone else 0

    async def _needed(self, manifest_list: str) -> set[str]:
        """Returns the paths of a snapshot's manifests and deletion vectors."""
        try:
            manifests = await self.manifests(manifest_list)
        except NotFoundError:
            return set()
        needed = {self.path(listed.path) for listed in manifests}
        deletes = [listed for listed in manifests if listed.content == Content.DELETES]
        async for files in map_bounded(self.entries, deletes, self.store.settings.ranges_concurrency):
            needed |= {self.path(file.vector.path) for file in files if file.vector is not None}
        return needed


def _is_older(path: str, version: int, snapshot: int) -> bool:
    number, writer = published_version(path), published_writer(path)
    return (number is not None and number < version) or (writer is not None and writer < snapshot)
