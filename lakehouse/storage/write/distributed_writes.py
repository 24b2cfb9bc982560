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
from collections.abc import Sequence
from operator import attrgetter

from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import beside, measured
from lakehouse.storage.commit.changes import FilesChange
from lakehouse.storage.commit.committer import Committed
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.metadata.run_order import Unit, unit_of
from lakehouse.storage.tables.commit_result import CommitResult, keep_committed, result_of
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View
from lakehouse.storage.wal.tail import Tail
from lakehouse.storage.write.table_write import WriterId, commit_flushed

__all__ = ["commit_uploaded", "in_runs"]


@measured
async def commit_uploaded(
    table: OpenTable,
    change: FilesChange,
    *,
    tail: Tail | None = None,
    writer: WriterId | None = None,
    message: str | None = None,
) -> CommitResult:
    """Commits files that several processes uploaded, or deletes them.

    Args:
        table: the table.
        change: what to do with the files.
        tail: end of the write-ahead log, read after the write was called; None = it is read now.
        writer: makes the commit safe to repeat.
        message: the snapshot's message, for people.
    """

    async def read(view: View) -> Tail | None:
        return tail if tail is not None else await table.tail(view)

    async def commit() -> Committed:
        view = await table.known()
        async with beside(read(view)) as log_tail:
            return await commit_flushed(
                table, change, view=view, tail=log_tail, writer=writer, message=message
            )

    done = await keep_committed(table, change.uploaded, commit())
    return result_of(done, change.written)


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
