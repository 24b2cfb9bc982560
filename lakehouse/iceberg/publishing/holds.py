"""Holds: tags of ours that keep a snapshot, and its files, as long as published metadata refer to it.

A publication holds its snapshot before its metadata can be seen. The next one drops the holds of snapshots
that the metadata before it do not list, older ones alone: whoever wants to publish such a snapshot comes too
late, since a publication never follows that of a newer snapshot. So one commit does both.

Invariant: a snapshot that published metadata list is held.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from lakehouse.errors import NotFoundError
from lakehouse.format.metadata import CommitKind, Ref, RefKind
from lakehouse.storage.commit import Base, Draft

__all__ = ["HOLD", "MoveHolds", "hold_name"]

HOLD = "iceberg-"
"""First letters of the names of holds; the id of the snapshot follows."""


def hold_name(snapshot: int) -> str:
    """Returns the name of the tag that holds a snapshot."""
    return f"{HOLD}{snapshot}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveHolds:
    """Commit that holds a snapshot, and drops the holds of older ones that are not listed any more."""

    snapshot: int
    listed: Collection[int]
    """Snapshots that the published metadata list; the last is the newest that was published."""
    blind: ClassVar[bool] = False

    async def draft(self, base: Base) -> Draft | None:
        """Returns the tags to make and to drop; None when they are as wanted.

        Raises:
            NotFoundError: the snapshot has expired meanwhile.
        """
        refs = base.snapshot.refs
        name, wanted = hold_name(self.snapshot), Ref(snapshot=self.snapshot)
        kept = any(ref.snapshot == self.snapshot and ref.kind is RefKind.TAG for ref in refs.values())
        if not kept and not base.snapshot.earliest <= self.snapshot <= base.snapshot.id:
            raise NotFoundError(
                f"snapshot {self.snapshot} expired while it was being published: publish again",
                snapshot=self.snapshot,
            )
        newest = max(self.listed, default=0)
        changes: dict[str, Ref | None] = {
            other: None
            for other, ref in refs.items()
            if other == hold_name(ref.snapshot) and ref.snapshot < newest and ref.snapshot not in self.listed
        }
        if refs.get(name) != wanted:
            changes[name] = wanted
        return Draft(kind=CommitKind.TAG, refs=changes) if changes else None
