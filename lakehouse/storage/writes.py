"""Writes that a table offers: rows are uploaded, then one commit makes them visible.

Invariant: files of a write that is known not to be committed are deleted; files of one whose outcome
is not known are left alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakehouse.errors import CommitUnknownError, ConflictError, InvalidInputError, LakehouseError
from lakehouse.format.snapshot import CommitKind
from lakehouse.io.cost import Cost, measure
from lakehouse.storage.commit import Change, Committed, OwnManifest
from lakehouse.storage.intents import AddFiles, ReplacePartitions
from lakehouse.storage.opened import OpenTable, View
from lakehouse.storage.upload import delete_files
from lakehouse.storage.write import WrittenRows

__all__ = [
    "CommitResult",
    "WriterId",
    "add_rows",
    "check_writer",
    "commit_written",
    "committed_or_deleted",
    "replace_partitions",
    "result_of",
    "with_current_schema",
]

WriterId = tuple[str, int]
"""(id, sequence): a write that is made at most once, however often it is asked for."""


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


async def add_rows(
    core: OpenTable,
    data: object,
    *,
    kind: CommitKind,
    deletes: bool = False,
    clears: bool = False,
    writer: WriterId | None = None,
    message: str | None = None,
) -> CommitResult:
    """Adds rows without looking at those that are there.

    Args:
        core: the table.
        data: rows, or keys when ``deletes``.
        kind: what the snapshot says it is.
        deletes: the rows are keys to be deleted.
        clears: takes every older row away in the same commit.
        writer: makes the call safe to repeat.
        message: for people.
    """

    async def attempt(view: View) -> CommitResult:
        recorded = _recorded(view, writer)
        if recorded is not None:
            return CommitResult(snapshot=recorded, changed=False)
        written = await core.write(view, data, deletes=deletes)
        change = AddFiles(
            kind=kind,
            entries=written.entries,
            own=OwnManifest(core.env.store, core.root),
            clears=clears,
            must_commit=writer is not None,
            message=message,
        )
        return result_of(await commit_written(core, view, change, written, writer), written)

    return await with_current_schema(core, data, attempt)


async def replace_partitions(
    core: OpenTable,
    data: object,
    *,
    holds: Callable[[View], Callable[[tuple[bytes, ...]], bool]],
    writer: WriterId | None = None,
    message: str | None = None,
) -> CommitResult:
    """Replaces all rows of whole partitions, whatever they are when it is committed."""

    async def attempt(view: View) -> CommitResult:
        written = await core.write(view, data)
        is_held = holds(view)
        outside = [one for one in written.entries if not is_held(one.partition)]
        if outside:
            await delete_files(core.env.store, core.root, (one.path for one in written.entries))
            raise InvalidInputError(
                "the new rows do not all lie in the partitions to be replaced: "
                f"{outside[0].path.rpartition('/')[0]!r} is outside. Leave those rows out, or widen the "
                "condition."
            )
        change = ReplacePartitions(
            kind=CommitKind.OVERWRITE,
            holds=is_held,
            entries=written.entries,
            own=OwnManifest(core.env.store, core.root),
            must_commit=writer is not None,
            message=message,
        )
        return result_of(await commit_written(core, view, change, written, writer), written)

    return await with_current_schema(core, data, attempt)


async def with_current_schema(
    core: OpenTable, data: object, attempt: Callable[[View], Awaitable[CommitResult]]
) -> CommitResult:
    """Writes with the schema that is known, and once more when it turns out to be an old one.

    Knowing the newest would take a request that a write which fits needs not make. Rows that can be
    read only once are written with the newest schema from the start.
    """
    with measure() as cost:
        again = _can_be_read_again(data)
        view = await (core.known() if again else core.newest())
        try:
            found = await attempt(view)
        except (ConflictError, InvalidInputError):
            newest = await core.newest()
            if not again or newest.snapshot.schema == view.snapshot.schema:
                raise
            found = await attempt(newest)
    return dataclasses.replace(found, cost=cost)


def _can_be_read_again(data: object) -> bool:
    """Whether reading the rows leaves them where they are."""
    return isinstance(data, pa.Table | pa.RecordBatch | Mapping | Sequence) or hasattr(data, "columns")


async def commit_written(
    core: OpenTable, view: View, change: Change, written: WrittenRows, writer: WriterId | None
) -> Committed:
    """Commits files that are uploaded."""
    async with committed_or_deleted(core, lambda: (one.path for one in written.entries)) as keep:
        done = await core.commit(change, view=view, writer=writer, uploaded_ms=written.first_upload_ms)
        keep.kept = done.changed
    return done


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


def check_writer(writer: object) -> None:
    """Refuses what is no (id, sequence)."""
    match writer:
        case None:
            return
        case (str(name), int(sequence)) if name and sequence >= 0 and not isinstance(sequence, bool):
            return
    raise InvalidInputError(f"writer must be (id, sequence), a text and a number from 0, not {writer!r}")


def _recorded(view: View, writer: WriterId | None) -> int | None:
    """The snapshot that has the sequence already, as far as this process knows: saves the upload."""
    if writer is None:
        return None
    mark = view.snapshot.writers.get(writer[0])
    return mark.snapshot if mark is not None and mark.sequence >= writer[1] else None
