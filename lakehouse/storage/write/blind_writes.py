"""Writes of a table: rows are uploaded, then one commit makes them visible.

Invariant: a write covers the rows that the write-ahead log held when it was called, and is newer than them.
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
from lakehouse.storage.files.uploaded_files import UploadedFiles, delete_files, object_paths
from lakehouse.storage.rows.missing_columns import Missing
from lakehouse.storage.tables.commit_result import CommitResult, delete_unless_committed, result_of
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
"""(id, sequence): identity of a write that is made at most once, however often it is asked for."""
_WRITER_ID_MAX = 1_000
"""Maximum characters of an id: every snapshot, and every segment of the log, carries all ids."""


async def add_rows(
    table: OpenTable,
    data: object,
    *,
    kind: CommitKind,
    deletes: bool = False,
    clears: bool = False,
    missing: Missing | None = "null",
    writer: WriterId | None = None,
    message: str | None = None,
) -> CommitResult:
    """Adds rows without reading the existing ones.

    Args:
        table: the table.
        data: rows, or keys if ``deletes``.
        kind: kind of the snapshot.
        deletes: whether the rows are keys to be deleted.
        clears: whether every older row is removed in the same commit.
        missing: treatment of columns that rows lack.
        writer: makes the call safe to repeat.
        message: the snapshot's message, for people.
    """

    async def attempt(view: View, tail: Awaitable[Tail | None]) -> CommitResult:
        recorded = recorded_snapshot(view, writer)
        if recorded is not None:
            return CommitResult(snapshot=recorded, changed=False)
        written = await table.write(view, data, deletes=deletes, missing=missing)
        change = AddFiles(
            kind=kind,
            entries=written.entries,
            own=SpilledManifest(table.env.store, table.root),
            clears=clears,
            must_commit=writer is not None,
            message=message,
        )
        return result_of(await commit_written(table, view, change, written, writer, tail), written)

    return await with_current_schema(table, data, attempt)


async def replace_partitions(
    table: OpenTable,
    data: object,
    *,
    holds: Callable[[View], Callable[[tuple[bytes, ...]], bool]],
    writer: WriterId | None = None,
    message: str | None = None,
) -> CommitResult:
    """Replaces all rows of whole partitions, also those that others commit before this commit."""

    async def attempt(view: View, tail: Awaitable[Tail | None]) -> CommitResult:
        written = await table.write(view, data)
        is_held = holds(view)
        outside = [entry for entry in written.entries if not is_held(entry.partition)]
        if outside:
            await delete_files(table.env.store, table.root, object_paths(written.entries))
            raise InvalidInputError(
                "the new rows do not all lie in the partitions to be replaced: "
                f"{outside[0].path.rpartition('/')[0]!r} is outside. Leave those rows out, or widen the "
                "condition."
            )
        change = ReplacePartitions(
            kind=CommitKind.OVERWRITE,
            holds=is_held,
            entries=written.entries,
            own=SpilledManifest(table.env.store, table.root),
            must_commit=writer is not None,
            message=message,
        )
        return result_of(await commit_written(table, view, change, written, writer, tail), written)

    return await with_current_schema(table, data, attempt)


async def with_current_schema(
    table: OpenTable, data: object, attempt: Callable[[View, Awaitable[Tail | None]], Awaitable[CommitResult]]
) -> CommitResult:
    """Writes with the known schema, and once more if that turns out not to be the newest.

    Asking for the newest takes a request that a write which fits does not need. Rows that can be
    read only once are written with the newest schema from the start. Meanwhile the tail of the
    write-ahead log is read, which the commit covers; rows of it that the write must remove are put
    into files first.
    """
    with measure() as cost:
        table.expect_commit()
        again = _can_be_read_again(data)
        view = await (table.known() if again else table.newest())
        async with beside(table.tail(view)) as tail:
            try:
                result = await flushing(table, view, tail, attempt)
            except (ConflictError, InvalidInputError):
                newest = await table.newest()
                if not again or newest.snapshot.schema == view.snapshot.schema:
                    raise
                result = await flushing(table, newest, tail, attempt)
    return dataclasses.replace(result, cost=cost)


async def flushing(
    table: OpenTable,
    view: View,
    tail: Awaitable[Tail | None],
    attempt: Callable[[View, Awaitable[Tail | None]], Awaitable[CommitResult]],
) -> CommitResult:
    """Makes the attempt, and repeats it as long as rows that it removes have to be flushed first.

    Rows put after the call began need not be removed, so the tail stays the one read then.
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
        await flush_table(table, upto=read.upto if read is not None else None)
        view = await table.newest()


def _can_be_read_again(data: object) -> bool:
    """Returns whether the rows can be read a second time: an iterator's cannot."""
    return isinstance(data, pa.Table | pa.RecordBatch | Mapping | Sequence) or hasattr(data, "columns")


async def commit_written(
    table: OpenTable,
    view: View,
    change: Change,
    written: UploadedFiles,
    writer: WriterId | None,
    tail: Awaitable[Tail | None],
) -> Committed:
    """Commits files that are uploaded, and deletes them if nothing is committed."""
    async with delete_unless_committed(table, lambda: object_paths(written.entries)) as keep:
        done = await table.commit(
            change, view=view, writer=writer, uploaded_ms=written.first_upload_ms, tail=await tail
        )
        keep.committed = done.changed
    return done


def check_writer(writer: object) -> None:
    """Refuses a value that is no (id, sequence)."""
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
    """Refuses a message that is no text of UTF-8, before anything is uploaded for the commit."""
    if message is not None and not (isinstance(message, str) and is_utf8(message)):
        raise InvalidInputError(
            f"message must be text that UTF-8 can hold, not {short(message)}: leave out what is half of a "
            "surrogate pair",
            argument="message",
        )


def recorded_snapshot(view: View, writer: WriterId | None) -> int | None:
    """Returns the snapshot that has the sequence already, if this process knows it: saves the upload."""
    if writer is None:
        return None
    mark = view.snapshot.writers.get(writer[0])
    return mark.snapshot if mark is not None and mark.sequence >= writer[1] else None
