"""What a commit did, and what becomes of the files it was to add.

Invariant: files of a commit that is known not to have been made are deleted; files of one whose outcome
is not known are left alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field

from lakehouse.errors import CommitUnknownError, LakehouseError
from lakehouse.io.cost import Cost
from lakehouse.storage.commit.committer import Change, Committed
from lakehouse.storage.files.file_writer import delete_files
from lakehouse.storage.files.row_writer import WrittenRows
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["CommitResult", "commit_change", "committed_or_deleted", "result_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """What a commit did."""

    snapshot: int
    """Id of the snapshot that was made; of the newest one when there was nothing to do."""
    changed: bool = True
    """Whether a snapshot was made by this very call."""
    rows: int = 0
    """Rows handed in, or rows deleted."""
    files: int = 0
    """Files added."""
    bytes: int = 0
    """Bytes of these files."""
    attempts: int = 1
    """Creates of a snapshot: more than one when others were first."""
    cost: Cost = field(default_factory=Cost, compare=False)
    """Requests and bytes of the whole call."""

    def __str__(self) -> str:
        if not self.changed:
            return f"snapshot {self.snapshot}: nothing to do; {self.cost}"
        return (
            f"snapshot {self.snapshot}: {self.rows:,} rows, {self.files} files, {self.bytes:,} bytes, "
            f"{self.attempts} attempts; {self.cost}"
        )


def result_of(done: Committed, written: WrittenRows) -> CommitResult:
    """A result out of its parts."""
    return CommitResult(
        snapshot=done.snapshot.id,
        changed=done.changed,
        rows=written.rows if done.changed else 0,
        files=len(written.entries) if done.changed else 0,
        bytes=written.bytes if done.changed else 0,
        attempts=done.attempts,
    )


async def commit_change(core: OpenTable, change: Change) -> CommitResult:
    """Commits a change that adds no rows, such as one of the schema."""
    done = await core.commit(change, view=await core.known())
    return CommitResult(snapshot=done.snapshot.id, changed=done.changed, attempts=done.attempts)


class _Fate:
    """Whether files belong to a snapshot now."""

    def __init__(self) -> None:
        self.kept = False


@contextlib.asynccontextmanager
async def committed_or_deleted(core: OpenTable, paths: Callable[[], Iterable[str]]) -> AsyncIterator[_Fate]:
    """Deletes files when the block ends without a commit that may refer to them.

    What the block says with ``kept`` counts when it ends well; CommitUnknownError, cancellation and
    everything else that says nothing about the outcome leave the files alone.
    """
    fate = _Fate()
    try:
        yield fate
    except CommitUnknownError:
        raise
    except LakehouseError:
        await delete_files(core.env.store, core.root, paths())
        raise
    if not fate.kept:
        await delete_files(core.env.store, core.root, paths())
