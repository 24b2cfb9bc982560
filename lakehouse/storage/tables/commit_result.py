"""Results of commits, and the deletion of uploaded files that no commit added.

Invariant: files of a commit that is known not to have been made are deleted; files of one whose outcome
is not known are left alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

from lakehouse.errors import CommitUnknownError, LakehouseError
from lakehouse.io.work import CostReport
from lakehouse.storage.commit.committer import Change, Committed
from lakehouse.storage.files.uploaded_files import UploadedFiles, delete_files
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["CommitResult", "commit_change", "delete_unless_committed", "result_of"]


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


class _Fate:
    """Answer of a block to the question whether its files belong to a snapshot now."""

    def __init__(self) -> None:
        self.committed = False
        """True once a commit has added the files; the block sets it."""


@contextlib.asynccontextmanager
async def delete_unless_committed(
    table: OpenTable, paths: Callable[[], Iterable[str]]
) -> AsyncIterator[_Fate]:
    """Deletes files when the block ends without a commit that may refer to them.

    When the block ends well, its ``committed`` decides. CommitUnknownError, cancellation and every other
    error that leaves the outcome open keep the files.
    """
    fate = _Fate()
    try:
        yield fate
    except CommitUnknownError:
        raise
    except LakehouseError:
        await delete_files(table.env.store, table.root, paths())
        raise
    if not fate.committed:
        await delete_files(table.env.store, table.root, paths())
