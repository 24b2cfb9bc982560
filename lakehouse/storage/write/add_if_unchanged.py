"""Conditional commits of rows that were computed from a snapshot, such as a merge run by other processes.

The rows stay right while nobody commits rows of the keys that were read. Computing them again is up to the
caller, so the commit fails with an error of kind ``conflict`` when that would be needed.

Invariant: the snapshot that is made equals the one that the merge would have made by reading its parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lakehouse.errors import ConflictError, NotFoundError
from lakehouse.format.metadata import CommitKind, FileEntry, Snapshot
from lakehouse.storage.commit.changes import FilesChange
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.commit.kinds import traits_of
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.metadata.run_order import interval
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.wal.tail import Tail

__all__ = ["AddIfUnchanged", "KeySpan"]

KeySpan = tuple[bytes, bytes]
"""Least and greatest row key, both inclusive."""

_SNAPSHOTS_MAX = 1_000
"""Maximum number of later commits that are checked one by one; more count as a conflict."""


class AddIfUnchanged(FilesChange):
    """Adds files whose rows were computed from a snapshot, unless the keys that were read have changed.

    Args:
        table: the table, which has a primary key.
        read: the snapshot that was read; it covers all that the write-ahead log held then.
        written: the files to add.
        looked_at: ranges of the keys that were read; None = all keys.
    """

    blind: ClassVar[bool] = False

    def __init__(
        self,
        table: OpenTable,
        read: Snapshot,
        written: UploadedFiles,
        *,
        looked_at: Sequence[KeySpan] | None,
    ) -> None:
        self._table, self._read, self.written, self._looked_at = table, read, written, looked_at

    @property
    def tail(self) -> Tail | None:
        """The log's tail to commit with; it is empty, so that rows put since the read stay above."""
        return None if self._read.wal is None else Tail(after=self._read.wal.upto)

    async def draft(self, base: Base) -> Draft | None:
        """Returns a draft that adds the files; None when there are none.

        Raises:
            ConflictError: commits made meanwhile may have changed keys that were read.
        """
        if not self.written.entries and not base.must_commit:
            return None
        if base.snapshot.id != self._read.id and await self._has_changed(base):
            raise ConflictError(
                f"rows that were looked at in snapshot {self._read.id} may have changed up to snapshot "
                f"{base.snapshot.id}: decide again",
                snapshot=base.snapshot.id,
            )
        return Draft(kind=CommitKind.UPSERT, added=self.written.entries)

    async def _has_changed(self, base: Base) -> bool:
        """Returns whether keys that were read may have changed up to the head; True when in doubt."""
        head, read = base.snapshot, self._read
        if head.schema != read.schema or head.id - read.id > _SNAPSHOTS_MAX:
            return True
        # The keys of a WAL segment are known only by reading it: newly covered ones count as a change.
        if any(segments.at is None or segments.at > read.id for segments in head.with_positions().segments):
            return True
        for number in range(read.id + 1, head.id + 1):
            try:
                between = await self._table.snapshots.snapshot(number, head)
            except NotFoundError:
                return True  # expired meanwhile: its changes cannot be known
            traits = traits_of(between.kind)
            # A delete may remove whole files, and then no row names the keys.
            names_keys = traits.removes_by_key and not between.minus.files
            if traits.removes_rows and not names_keys:
                return True
            if traits.changes_rows and any(
                # A flush of segments that were read adds files at the segments' positions, not after them.
                entry.at == number and interval(entry)[1][0] > read.id and self._is_looked_at(entry)
                for entry in await base.manifests.entries(between)
            ):
                return True
        return False

    def _is_looked_at(self, entry: FileEntry) -> bool:
        # Without bounds a file may hold any key.
        if self._looked_at is None or entry.min_key is None or entry.max_key is None:
            return True
        low, high = entry.min_key, entry.max_key
        return any(first <= high and low <= last for first, last in self._looked_at)
