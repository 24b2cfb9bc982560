"""Commits: one create-if-absent, decided against the head, tried again behind whoever was first.

Words: *change* (what a commit wants) → *draft* (that, for one head) → *snapshot* (the child). A *fold* puts
entries into manifests; a *spilled manifest* holds the entries of one commit that is too large for its
snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.commit.changes import AddFiles, FilesChange, ReplacePartitions
    from lakehouse.storage.commit.committer import Base, Committed
    from lakehouse.storage.commit.draft import Draft
    from lakehouse.storage.commit.kinds import traits_of

__all__ = ["AddFiles", "Base", "Committed", "Draft", "FilesChange", "ReplacePartitions", "traits_of"]

__getattr__, __dir__ = door(
    __name__,
    {
        "changes": "AddFiles FilesChange ReplacePartitions",
        "committer": "Base Committed",
        "draft": "Draft",
        "kinds": "traits_of",
    },
)
