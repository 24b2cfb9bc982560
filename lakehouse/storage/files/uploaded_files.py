"""Uploads: data files that are in the store and in no snapshot yet.

Invariant: whoever uploads files deletes them when it fails, and else hands them on to whoever commits them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import anyio

from lakehouse.errors import LakehouseError
from lakehouse.format.metadata import FileEntry
from lakehouse.io.store import ObjectStore
from lakehouse.log import get_logger
from lakehouse.storage.metadata.paths import join

__all__ = ["UploadedFiles", "delete_files", "object_paths"]

_log = get_logger(__name__)
_DELETE_SECONDS_MAX = 30.0
"""Seconds that the deletion of a failed write's files may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedFiles:
    """Data files that are in the store and in no snapshot yet, in the order of their rows."""

    entries: tuple[FileEntry, ...] = ()
    """Their entries, without positions unless the files take the place of others."""
    rows: int = 0
    """Number of rows handed in, including those that a later one of the same key replaces."""
    first_upload_ms: int | None = None
    """Time at which the store answered the first upload, by its clock."""

    @property
    def bytes(self) -> int:
        """Bytes of all data files."""
        return sum(entry.size for entry in self.entries)

    @property
    def paths(self) -> list[str]:
        """Paths of the data files and of their index files."""
        return object_paths(self.entries)

    @classmethod
    def joined(cls, uploads: Iterable[UploadedFiles]) -> UploadedFiles:
        """Returns the files of several uploads as one, in their order; the earliest answer counts."""
        several = list(uploads)
        answers = [files.first_upload_ms for files in several if files.first_upload_ms is not None]
        return cls(
            entries=tuple(entry for files in several for entry in files.entries),
            rows=sum(files.rows for files in several),
            first_upload_ms=min(answers, default=None),
        )


def object_paths(entries: Sequence[FileEntry]) -> list[str]:
    """Returns the paths of these data files and of their index files."""
    indexes = [entry.index.path for entry in entries if entry.index is not None]
    return [*(entry.path for entry in entries), *indexes]


async def delete_files(store: ObjectStore, root: str, paths: Iterable[str]) -> None:
    """Deletes data files that no commit refers to; failures are logged.

    Files that stay are found and deleted as orphans later, so no error is raised; a
    cancellation does not stop it, ``_DELETE_SECONDS_MAX`` does.
    """
    keys = [join(root, path) for path in paths]
    if not keys:
        return
    with anyio.move_on_after(_DELETE_SECONDS_MAX, shield=True):
        try:
            await store.delete_many(keys)
        except LakehouseError as error:
            _log.warning("could not delete the files of a write that failed", files=len(keys), error=error)
