"""Commits of rows that were decided from a snapshot: a merge whose rows other processes read and wrote.

What was decided stays right while nobody commits rows of the keys that were looked at. Deciding again is
the caller's business, so the commit says with an error of kind ``conflict`` when it would be needed.

Invariant: the snapshot that is made is what the merge would have made had it read its parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lakehouse.errors import ConflictError, NotFoundError
from lakehouse.format.metadata import CommitKind, FileEntry, Snapshot
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.commit.kinds import traits_of
from lakehouse.storage.commit.spilled_manifest import SpilledManifest
from lakehouse.storage.metadata.run_order import interval
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["AddDecided", "KeySpan"]

KeySpan = tuple[bytes, bytes]
"""Least and greatest row key."""

_SNAPSHOTS_MAX = 1_000
"""More commits behind the one that was read are not looked at one by one."""


class AddDecided:
    """Adds files whose rows were decided from a snapshot.

    Args:
        core: the table, which has a primary key.
        read: the snapshot.
        entries: the files.
        looked_at: the keys that the decision depends on; None = all.
        must_commit: also when there are no files.
        message: for people.
    """

    blind: ClassVar[bool] = False

    def __init__(
        self,
        core: OpenTable,
        read: Snapshot,
        entries: tuple[FileEntry, ...],
        *,
        looked_at: Sequence[KeySpan] | None,
        must_commit: bool,
        message: str | None,
    ) -> None:
        self._core, self._read, self._entries = core, read, entries
        self._looked_at, self._must_commit, self._message = looked_at, must_commit, message
        self._own = SpilledManifest(core.env.store, core.root)

    async def draft(self, base: Base) -> Draft | None:
        """The files, unless what others committed meanwhile could have changed the decision."""
        if not self._entries and not self._must_commit:
            return None
        if base.snapshot.id != self._read.id and await self._has_changed(base):
            raise ConflictError(
                f"rows that were looked at in snapshot {self._read.id} may have changed up to snapshot "
                f"{base.snapshot.id}: decide again",
                snapshot=base.snapshot.id,
            )
        return Draft(
            kind=CommitKind.UPSERT,
            added=self._entries,
            manifest=await self._own.of(self._entries, base.snapshot),
            message=self._message,
        )

    async def _has_changed(self, base: Base) -> bool:
        head, read = base.snapshot, self._read
        if head.schema != read.schema or head.id - read.id > _SNAPSHOTS_MAX:
            return True
        if any(one.at is None or one.at > read.id for one in head.carried().segments):
            return True
        for number in range(read.id + 1, head.id + 1):
            try:
                between = await self._core.history.snapshot(number, head)
            except NotFoundError:
                return True
            traits = traits_of(between.kind)
            # A delete may take files away whole, and then no row says so.
            names_keys = traits.removes_by_key and not between.minus.files
            if traits.removes_rows and not names_keys:
                return True
            if traits.changes_rows and any(
                # What a flush wrote of rows that were read ends where these did.
                one.at == number and interval(one)[1][0] > read.id and self._is_looked_at(one)
                for one in await base.manifests.entries(between)
            ):
                return True
        return False

    def _is_looked_at(self, entry: FileEntry) -> bool:
        if self._looked_at is None or entry.min_key is None or entry.max_key is None:
            return True
        low, high = entry.min_key, entry.max_key
        return any(first <= high and low <= last for first, last in self._looked_at)
