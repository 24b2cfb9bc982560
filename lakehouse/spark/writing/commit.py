"""The driver's side of a write: its beginning, its one commit, and its undoing if that fails.

A write begins with the newest snapshot and reads the tail of the write-ahead log then, as writes in
process do: rows put into the log while the job runs are newer than the job's.

Invariant: :func:`finish_write` commits what the tasks uploaded or deletes it, unless the outcome of
the commit is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse.errors import InvalidInputError, LakehouseError
from lakehouse.expr import Expr, all_of, any_of, col
from lakehouse.format.keys import decode_value
from lakehouse.format.metadata import CommitKind, Snapshot
from lakehouse.format.schema import TableSchema
from lakehouse.spark.writing.task import TaskFiles
from lakehouse.storage.commit import AddFiles, FilesChange, ReplacePartitions
from lakehouse.storage.files import UploadedFiles, delete_files
from lakehouse.storage.rows import Missing, refusing_missing
from lakehouse.storage.scan import bind_where, partition_test
from lakehouse.storage.tables import CommitResult, OpenTable, View
from lakehouse.storage.wal import Tail
from lakehouse.storage.write import (
    AddIfUnchanged,
    WriterId,
    commit_uploaded,
    flush_table,
    in_runs,
    overwriting_change,
    recorded_snapshot,
    refuse_ignored_deletes,
    refuse_shared_keys,
)

__all__ = ["WriteBase", "WriteRequest", "begin_write", "finish_write", "refuse_lost_columns", "undo_write"]

_KINDS = {"append": CommitKind.APPEND, "upsert": CommitKind.UPSERT, "delete": CommitKind.DELETE}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """A write as it is asked for."""

    operation: str
    """Kind of write: append, upsert, delete, overwrite, overwrite_partitions or merge."""
    where: Expr | None = None
    """Condition of an overwrite: only rows that match are replaced."""
    writer: WriterId | None = None
    missing: Missing | None = None
    """Treatment of columns that the rows of an append or upsert lack."""
    message: str | None = None
    whole_table: bool = False
    """True: a merge depends on all rows of the table, not only on those with keys it came across."""
    leaves_trace: bool = True
    """True: a write with a writer leaves a snapshot even if it has no rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBase:
    """State that a write begins with."""

    snapshot: Snapshot
    schema: TableSchema
    tail: Tail | None
    """Tail of the write-ahead log when the write began; None = it had none."""
    recorded: int | None
    """Id of the snapshot that has the write already; None = there is none."""


async def begin_write(table: OpenTable, wanted: WriteRequest) -> WriteBase:
    """Reads the newest state; refuses what the table cannot do before anything runs."""
    table.expect_commit()
    view = await table.newest()
    if wanted.operation == "merge":
        view = await _flushed(table, view)
    schema = view.schema
    if wanted.operation in ("upsert", "delete", "merge") and not schema.primary_key:
        raise InvalidInputError(f"{wanted.operation} needs a primary key, and {table.name} has none")
    if wanted.missing is not None and wanted.operation not in ("append", "upsert"):
        raise InvalidInputError(
            f"missing={wanted.missing!r} goes with append and upsert, not with {wanted.operation!r}"
        )
    if wanted.operation == "overwrite_partitions":
        if not schema.partition_by:
            raise InvalidInputError(f"{table.name} has no partitions: overwrite() replaces all its rows")
        if not _are_apart(schema):
            refuse_ignored_deletes(table, view)
    if wanted.where is not None:
        if wanted.operation != "overwrite":
            raise InvalidInputError(f"a condition goes with an overwrite, not with {wanted.operation!r}")
        bind_where(wanted.where, schema)
        if partition_test(wanted.where, schema) is None:
            refuse_ignored_deletes(table, view)
    return WriteBase(
        snapshot=view.snapshot,
        schema=schema,
        tail=await table.tail(view),
        recorded=recorded_snapshot(view, wanted.writer),
    )


def refuse_lost_columns(wanted: WriteRequest, schema: TableSchema, names: Sequence[str]) -> None:
    """Refuses rows without columns whose values older rows would lose, unless the write allows it."""
    check = refusing_missing(schema, wanted.missing)
    if check is not None and wanted.operation in ("append", "upsert"):
        check(names, None)


async def _flushed(table: OpenTable, view: View) -> View:
    """Returns a state whose files have all that was acknowledged; flushes the log for it where needed."""
    tail = await table.tail(view)
    waits = tail is not None and view.snapshot.wal is not None and tail.upto > view.snapshot.wal.upto
    if not waits and not view.snapshot.segments:
        return view
    await flush_table(table)
    return await table.newest()


async def finish_write(
    table: OpenTable,
    base: WriteBase,
    wanted: WriteRequest,
    done: Sequence[TaskFiles],
    *,
    apart: bool = False,
) -> CommitResult:
    """Commits what the tasks uploaded; if one of them failed, deletes it and raises.

    Args:
        table: the table.
        base: what the write began with.
        wanted: what to do.
        done: what the tasks said.
        apart: rows of a key were not brought together: the same key in two tasks is an error.
    """
    schema = base.schema
    files = in_runs([*(task.written for task in done), *(task.deleted for task in done)], schema)
    try:
        failed = [task.error for task in done if task.error is not None]
        if failed:
            raise failed[0]
        if apart and schema.primary_key and wanted.operation != "delete":
            await refuse_shared_keys(files.entries, schema, table)
    except LakehouseError:
        await undo_write(table, done)
        raise
    if not wanted.leaves_trace and not files.entries:
        return CommitResult(snapshot=base.snapshot.id, changed=False)
    change: FilesChange
    tail = base.tail
    if wanted.operation == "merge":
        ranges = [task.looked_at for task in done if task.looked_at is not None]
        looked_at = None if wanted.whole_table else ranges
        change = AddIfUnchanged(table, base.snapshot, files, looked_at=looked_at)
        tail = change.tail
    else:
        change = _change(table, wanted, files, schema)
    return await commit_uploaded(table, change, tail=tail, writer=wanted.writer, message=wanted.message)


def _change(table: OpenTable, wanted: WriteRequest, files: UploadedFiles, schema: TableSchema) -> FilesChange:
    """Returns what becomes of the files of a write other than a merge."""
    if wanted.where is not None:
        return overwriting_change(table, wanted.where, files, schema)
    if wanted.operation == "overwrite_partitions":
        return _replaced_partitions(table, files, schema)
    kind = _KINDS.get(wanted.operation, CommitKind.OVERWRITE)
    return AddFiles(kind=kind, written=files, clears=wanted.operation == "overwrite")


async def undo_write(table: OpenTable, done: Sequence[TaskFiles | None]) -> None:
    """Deletes what tasks uploaded."""
    uploads = [
        files for message in done if message is not None for files in (message.written, message.deleted)
    ]
    await delete_files(table.env.store, table.root, UploadedFiles.joined(uploads).paths)


def _replaced_partitions(table: OpenTable, files: UploadedFiles, schema: TableSchema) -> FilesChange:
    """Replaces the partitions that the new files belong to."""
    partitions = {entry.partition for entry in files.entries}
    if _are_apart(schema) or not partitions:
        return ReplacePartitions(kind=CommitKind.OVERWRITE, holds=partitions.__contains__, written=files)
    fields = schema.partition_fields
    where = any_of(
        *(
            all_of(
                *(
                    col(field.name) == decode_value(value, field.type)
                    for field, value in zip(fields, partition, strict=True)
                )
            )
            for partition in sorted(partitions)
        )
    )
    return overwriting_change(table, where, files, schema)


def _are_apart(schema: TableSchema) -> bool:
    """Returns whether no file of a partition hides rows of another; else rows are removed by their keys."""
    return schema.key_holds_partition or not schema.primary_key
