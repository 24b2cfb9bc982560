"""Writes that a table offers: rows are uploaded, then one commit makes them visible.

Invariant: a write covers what the write-ahead log held when it was called, and stands above it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pyarrow as pa

from lakehouse.errors import ConflictError, InvalidInputError
from lakehouse.excerpt import is_utf8, short
from lakehouse.format.metadata import CommitKind
from lakehouse.io.cost import measure
from lakehouse.io.work import beside
from lakehouse.storage.commit.changes import UNFLUSHED, AddFiles, ReplacePartitions
from lakehouse.storage.commit.committer import Change, Committed
from lakehouse.storage.commit.spilled_manifest import SpilledManifest
from lakehouse.storage.files.file_writer import delete_files, object_paths
from lakehouse.storage.files.row_writer import WrittenRows
from lakehouse.storage.rows.missing_columns import Missing
from lakehouse.storage.tables.commit_result import CommitResult, committed_or_deleted, result_of
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View
from lakehouse.storage.wal.tail import Tail
from lakehouse.storage.write.flush import flush_table

__all__ = [
    "WriterId",
    "add_rows",
    "check_message",
    "check_writer",
    "commit_written",
    "flushing",
    "recorded_snapshot",
    "replace_partitions",
    "with_current_schema",
]

WriterId = tuple[str, int]
"""(id, sequence): a write that is made at most once, however often it is asked for."""
_WRITER_ID_MAX = 1_000
"""Every snapshot, and every segment of the log, carries the ids of all writers."""


async def add_rows(
    core: OpenTable,
    data: object,
    *,
    kind: CommitKind,
    deletes: bool = False,
    clears: bool = False,
    missing: Missing | None = "null",
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
        missing: what becomes of columns that rows come without.
        writer: makes the call safe to repeat.
        message: for people.
    """

    async def attempt(view: View, tail: Awaitable[Tail | None]) -> CommitResult:
        recorded = recorded_snapshot(view, writer)
        if recorded is not None:
            return CommitResult(snapshot=recorded, changed=False)
        written = await core.write(view, data, deletes=deletes, missing=missing)
        change = AddFiles(
            kind=kind,
            entries=written.entries,
            own=SpilledManifest(core.env.store, core.root),
            clears=clears,
            must_commit=writer is not None,
            message=message,
        )
        return result_of(await commit_written(core, view, change, written, writer, tail), written)

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

    async def attempt(view: View, tail: Awaitable[Tail | None]) -> CommitResult:
        written = await core.write(view, data)
        is_held = holds(view)
        outside = [one for one in written.entries if not is_held(one.partition)]
        if outside:
            await delete_files(core.env.store, core.root, object_paths(written.entries))
            raise InvalidInputError(
                "the new rows do not all lie in the partitions to be replaced: "
                f"{outside[0].path.rpartition('/')[0]!r} is outside. Leave those rows out, or widen the "
                "condition."
            )
        change = ReplacePartitions(
            kind=CommitKind.OVERWRITE,
            holds=is_held,
            entries=written.entries,
            own=SpilledManifest(core.env.store, core.root),
            must_commit=writer is not None,
            message=message,
        )
        return result_of(await commit_written(core, view, change, written, writer, tail), written)

    return await with_current_schema(core, data, attempt)


async def with_current_schema(
    core: OpenTable, data: object, attempt: Callable[[View, Awaitable[Tail | None]], Awaitable[CommitResult]]
) -> CommitResult:
    """Writes with the schema that is known, and once more when it turns out to be an old one.

    Knowing the newest would take a request that a write which fits needs not make. Rows that can be
    read only once are written with the newest schema from the start. Meanwhile the tail of the
    write-ahead log is read, which the commit covers; rows of it that the write has to take away are put
    into files first.
    """
    with measure() as cost:
        core.expect_commit()
        again = _can_be_read_again(data)
        view = await (core.known() if again else core.newest())
        async with beside(core.tail(view)) as tail:
            try:
                found = await flushing(core, view, tail, attempt)
            except (ConflictError, InvalidInputError):
                newest = await core.newest()
                if not again or newest.snapshot.schema == view.snapshot.schema:
                    raise
                found = await flushing(core, newest, tail, attempt)
    return dataclasses.replace(found, cost=cost)


async def flushing(
    core: OpenTable,
    view: View,
    tail: Awaitable[Tail | None],
    attempt: Callable[[View, Awaitable[Tail | None]], Awaitable[CommitResult]],
) -> CommitResult:
    """The attempt, again for as long as rows that it takes away have to be flushed first.

    Rows put after the call began need not be taken away, so the tail stays the one read then.
    """
    flushes = view.options.commit_max_retries
    while True:
        try:
            return await attempt(view, tail)
        except ConflictError as conflict:
            if conflict.kind != UNFLUSHED or not flushes:
                raise
        flushes -= 1
        read = await tail
        await flush_table(core, upto=read.upto if read is not None else None)
        view = await core.newest()


def _can_be_read_again(data: object) -> bool:
    """Whether reading the rows leaves them where they are."""
    return isinstance(data, pa.Table | pa.RecordBatch | Mapping | Sequence) or hasattr(data, "columns")


async def commit_written(
    core: OpenTable,
    view: View,
    change: Change,
    written: WrittenRows,
    writer: WriterId | None,
    tail: Awaitable[Tail | None],
) -> Committed:
    """Commits files that are uploaded."""
    async with committed_or_deleted(core, lambda: object_paths(written.entries)) as keep:
        done = await core.commit(
            change, view=view, writer=writer, uploaded_ms=written.first_upload_ms, tail=await tail
        )
        keep.kept = done.changed
    return done


def check_writer(writer: object) -> None:
    """Refuses what is no (id, sequence)."""
    match writer:
        case None:
            return
        case (str(name), int(sequence)) if name.isprintable() and not isinstance(sequence, bool):
            if 0 < len(name) <= _WRITER_ID_MAX and 0 <= sequence < 2**63:
                return
    raise InvalidInputError(
        f"writer must be (id, sequence), a printable text of 1 to {_WRITER_ID_MAX:,} characters and a number "
        f"from 0 below 2^63, not {writer!r:.200}"
    )


def check_message(message: object) -> None:
    """Refuses what is no text of UTF-8, before anything is uploaded for the commit."""
    if message is not None and not (isinstance(message, str) and is_utf8(message)):
        raise InvalidInputError(
            f"message must be text that UTF-8 can hold, not {short(message)}: leave out what is half of a "
            "surrogate pair",
            argument="message",
        )


def recorded_snapshot(view: View, writer: WriterId | None) -> int | None:
    """The snapshot that has the sequence already, as far as this process knows: saves the upload."""
    if writer is None:
        return None
    mark = view.snapshot.writers.get(writer[0])
    return mark.snapshot if mark is not None and mark.sequence >= writer[1] else None
