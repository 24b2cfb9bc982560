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

__all__ = ["AddFiles", "FilesChange", "ReplacePartitions"]

__getattr__, __dir__ = door(__name__, {"changes": "AddFiles FilesChange ReplacePartitions"})
