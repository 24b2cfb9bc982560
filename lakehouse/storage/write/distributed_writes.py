"""Commits of files that other processes uploaded: the tasks of a job that together make one write.

Rows of a key are in the order of the runs. Tasks have no order among each other, so their files are put
into runs by key ranges alone: files whose ranges do not overlap form one run, and a task's later run stays
above its earlier ones. Of two tasks' rows of one key none would be the newer; where that would matter it is
refused (:mod:`lakehouse.storage.write.conflicting_keys`) or cannot happen, because rows of a key
were brought together first.

Invariant: the runs that tasks' files are put into depend on the ranges of their keys, not on the order in
which the tasks ended. Files are deleted only when it is known that no snapshot refers to them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter

from lakehouse.expr import Expr
from lakehouse.format.metadata import CommitKind, FileEntry, Snapshot
from lakehouse.format.schema import TableSchema
from lakehouse.io.cost import measure
from lakehouse.io.work import beside
from lakehouse.storage.commit.changes import AddFiles, ReplacePartitions
from lakehouse.storage.commit.committer import Change
from lakehouse.storage.commit.spilled_manifest import SpilledManifest
from lakehouse.storage.files.uploaded_files import UploadedFiles, object_paths
from lakehouse.storage.metadata.run_order import Unit, unit_of
from lakehouse.storage.tables.commit_result import CommitResult, delete_unless_committed, result_of
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View
from lakehouse.storage.wal.tail import Tail
from lakehouse.storage.write.add_if_unchanged import AddIfUnchanged, KeySpan
from lakehouse.storage.write.blind_writes import WriterId, flushing
from lakehouse.storage.write.conditional_writes import commit_replacing

__all__ = ["commit_decided", "commit_uploaded", "in_runs", "overwrite_uploaded", "replace_uploaded"]


async def commit_uploaded(
    table: OpenTable,
    written: Sequence[UploadedFiles],
    schema: TableSchema,
    *,
    kind: CommitKind,
    clears: bool = False,
    tail: Tail | None = None,
    writer: WriterId | None = None,
    message: str | None = None,
) -> CommitResult:
    """Adds the files that several processes uploaded, in one commit.

    Args:
        table: the table.
        written: the uploads of each process.
        schema: the schema with which all of them wrote.
        kind: kind of the snapshot.
        clears: whether every older row is removed in the same commit.
        tail: end of the write-ahead log, read after the write was called; None = it is read now.
        writer: makes the commit safe to repeat.
        message: the snapshot's message, for people.
    """
    whole = in_runs(written, schema)
    change = AddFiles(
        kind=kind,
        entries=whole.entries,
        own=SpilledManifest(table.env.store, table.root),
        clears=clears,
        must_commit=writer is not None,
        message=message,
    )
    return await _committed(table, change, whole, tail, writer)


async def replace_uploaded(
    table: OpenTable,
    written: Sequence[UploadedFiles],
    schema: TableSchema,
    *,
    holds: Callable[[tuple[bytes, ...]], bool],
    tail: Tail | None = None,
    writer: WriterId | None = None,
    message: str | None = None,
) -> CommitResult:
    """Replaces all rows of whole partitions by the files that several processes uploaded."""
    whole = in_runs(written, schema)
    change = ReplacePartitions(
        kind=CommitKind.OVERWRITE,
        holds=holds,
        entries=whole.entries,
        own=SpilledManifest(table.env.store, table.root),
        must_commit=writer is not None,
        message=message,
    )
    return await _committed(table, change, whole, tail, writer)


async def overwrite_uploaded(
    table: OpenTable,
    written: Sequence[UploadedFiles],
    schema: TableSchema,
    where: Expr,
    *,
    tail: Tail | None = None,
    writer: WriterId | None = None,
    message: str | None = None,
) -> CommitResult:
    """Replaces the rows that match a condition by uploads of several processes, whose rows all match."""
    whole = in_runs(written, schema)

    async def attempt(view: View, read: Awaitable[Tail | None]) -> CommitResult:
        return await commit_replacing(
            table,
            where,
            whole,
            view=view,
            tail=read,
            kind=CommitKind.OVERWRITE,
            writer=writer,
            message=message,
        )

    return await _attempted(table, whole, tail, attempt)


async def commit_decided(
    table: OpenTable,
    written: Sequence[UploadedFiles],
    schema: TableSchema,
    read: Snapshot,
    *,
    looked_at: Sequence[KeySpan] | None,
    writer: WriterId | None = None,
    message: str | None = None,
) -> CommitResult:
    """Adds rows that were computed from a snapshot, which covers all that the write-ahead log held then.

    Args:
        table: the table.
        written: the uploads of each process.
        schema: the schema with which all of them wrote.
        read: the snapshot that was read.
        looked_at: ranges of keys that the new rows depend on; None = all keys.
        writer: makes the commit safe to repeat.
        message: the snapshot's message, for people.

    Raises:
        ConflictError: rows in these ranges may have changed; the files are deleted.
    """
    whole = in_runs(written, schema)
    change = AddIfUnchanged(
        table,
        read,
        whole.entries,
        looked_at=looked_at,
        must_commit=writer is not None,
        message=message,
    )
    # The tail is empty: rows put into the log since the read stay above this commit.
    tail = None if read.wal is None else Tail(after=read.wal.upto)
    return await _committed(table, change, whole, tail, writer)


async def _committed(
    table: OpenTable, change: Change, whole: UploadedFiles, tail: Tail | None, writer: WriterId | None
) -> CommitResult:
    async def attempt(view: View, read: Awaitable[Tail | None]) -> CommitResult:
        done = await table.commit(
            change, view=view, writer=writer, uploaded_ms=whole.first_upload_ms, tail=await read
        )
        return result_of(done, whole)

    return await _attempted(table, whole, tail, attempt)


async def _attempted(
    table: OpenTable,
    whole: UploadedFiles,
    tail: Tail | None,
    attempt: Callable[[View, Awaitable[Tail | None]], Awaitable[CommitResult]],
) -> CommitResult:
    """Makes the commit; rows of the log that it removes are flushed first."""

    async def read(view: View) -> Tail | None:
        return tail if tail is not None else await table.tail(view)

    with measure() as cost:
        async with delete_unless_committed(table, lambda: object_paths(whole.entries)) as fate:
            view = await table.known()
            async with beside(read(view)) as log_tail:
                result = await flushing(table, view, log_tail, attempt)
            fate.committed = result.changed
    return dataclasses.replace(result, cost=cost)


def in_runs(written: Sequence[UploadedFiles], schema: TableSchema) -> UploadedFiles:
    """Joins the uploads of several processes into one write, with the numbers of its runs."""
    if schema.primary_key:
        entries = _keyed(written, schema)
    else:
        # Rows without a key are in the order of the processes, and within them as they were written.
        entries = []
        for rows in written:
            entries += [
                dataclasses.replace(entry, run=len(entries) + place)
                for place, entry in enumerate(rows.entries)
            ]
    return dataclasses.replace(UploadedFiles.joined(written), entries=tuple(entries))


@dataclasses.dataclass(slots=True)
class _Block:
    """The files that one process wrote into one run of a merge unit; their keys are disjoint."""

    low: bytes
    high: bytes
    entries: list[FileEntry]


def _keyed(written: Sequence[UploadedFiles], schema: TableSchema) -> list[FileEntry]:
    units: dict[Unit, dict[int, list[_Block]]] = {}
    for rows in written:
        mine: dict[tuple[Unit, int], _Block] = {}
        for entry in rows.entries:
            low, high = entry.min_key or b"", entry.max_key or b""
            unit = unit_of(entry, schema)
            block = mine.get((unit, entry.run))
            if block is None:
                block = mine[unit, entry.run] = _Block(low, high, [])
                units.setdefault(unit, {}).setdefault(entry.run, []).append(block)
            block.low, block.high = min(low, block.low), max(high, block.high)
            block.entries.append(entry)
    entries = []
    for unit in sorted(units):
        first = 0
        for run in sorted(units[unit]):
            numbers = _numbered(units[unit][run])
            for number, block in numbers:
                entries += [dataclasses.replace(entry, run=first + number) for entry in block.entries]
            # A task's later runs lie above the first runs of all tasks.
            first += max(number for number, _ in numbers) + 1
    return sorted(entries, key=lambda entry: (entry.run, entry.partition, entry.bucket, entry.min_key or b""))


def _numbered(blocks: list[_Block]) -> list[tuple[int, _Block]]:
    """Numbers each block by the first run whose keys are all below it."""
    # First fit: for each run so far, its greatest key.
    reach: list[bytes] = []
    numbered = []
    for block in sorted(blocks, key=attrgetter("low", "high")):
        number = next((at for at, high in enumerate(reach) if high < block.low), len(reach))
        reach[number : number + 1] = [block.high]
        numbered.append((number, block))
    return numbered
