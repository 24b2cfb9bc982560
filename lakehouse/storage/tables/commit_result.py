"""Results of commits, and the deletion of uploaded files that no commit added.

Invariant: files of a commit that is known not to have been made are deleted; files of one whose outcome
is not known are left alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from lakehouse.errors import CommitUnknownError, LakehouseError
from lakehouse.io.work import CostReport
from lakehouse.storage.commit.committer import Change, Committed
from lakehouse.storage.files.uploaded_files import UploadedFiles, delete_files, object_paths
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["CommitResult", "commit_change", "keep_committed", "result_of"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CommitResult(CostReport):
    """Outcome of a commit as callers see it."""

    snapshot: int
    """Id of the snapshot that was made, or of the newest one when there was nothing to do."""
    changed: bool = True
    """True when this very call made a snapshot."""
    rows: int = 0
    """Number of rows handed in, or deleted; 0 when nothing changed."""
    files: int = 0
    """Number of data files added."""
    bytes: int = 0
    """Bytes of the added files."""
    attempts: int = 1
    """Number of attempts to create the snapshot: more than one when other commits were first."""

    def __str__(self) -> str:
        if not self.changed:
            return f"snapshot {self.snapshot}: nothing to do; {self.cost}"
        return (
            f"snapshot {self.snapshot}: {self.rows:,} rows, {self.files} files, {self.bytes:,} bytes, "
            f"{self.attempts} attempts; {self.cost}"
        )


def result_of(done: Committed, written: UploadedFiles) -> CommitResult:
    """Returns the result of a commit that adds written files."""
    return CommitResult(
        snapshot=done.snapshot.id,
        changed=done.changed,
        rows=written.rows if done.changed else 0,
        files=len(written.entries) if done.changed else 0,
        bytes=written.bytes if done.changed else 0,
        attempts=done.attempts,
    )


async def commit_change(table: OpenTable, change: Change) -> CommitResult:
    """Commits a change that adds no rows, such as one of the schema."""
    done = await table.commit(change, view=await table.known())
    return CommitResult(snapshot=done.snapshot.id, changed=done.changed, attempts=done.attempts)


async def keep_committed(
    table: OpenTable, uploaded: Callable[[], Iterable[str]], commit: Awaitable[Committed]
) -> Committed:
    """Waits for a commit, and deletes the files uploaded for it that no snapshot can refer to.

    CommitUnknownError, cancellation and every other error that leaves the outcome open keep the files.
    """
    try:
        done = await commit
    except CommitUnknownError:
        raise
    except LakehouseError:
        await delete_files(table.env.store, table.root, uploaded())
        raise
    # Files of drafts that lost against other commits are in no snapshot either.
    kept = set(object_paths(done.entries))
    await delete_files(table.env.store, table.root, [path for path in uploaded() if path not in kept])
    return done
