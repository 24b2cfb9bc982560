"""Flush: covered WAL segments become data files that keep the segments' positions.

A flush is compaction of segments: reads give the same rows before and after it. Any process may flush; the
streaming writer does it with rows that it still holds in memory.

Invariant: files of a group of segments have the interval of the group, and no other run lies between the
segments of a group. A group for which this no longer holds at the commit gives way.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.format.metadata import (
    KIND_COLUMN,
    CommitKind,
    FileEntry,
    FileFormat,
    Position,
    RowKind,
    SegmentRange,
    Snapshot,
    WalSegment,
)
from lakehouse.format.schema import TableSchema
from lakehouse.io.cost import measure
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.storage.commit.committer import Base, Committed
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.files.file_cutter import FileCutter
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.merge.engines import folded_input
from lakehouse.storage.metadata.run_order import interval
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.key_sort import last_of_each
from lakehouse.storage.rows.partitioner import PartitionRows, partition_rows
from lakehouse.storage.tables.commit_result import CommitResult, keep_committed, result_of
from lakehouse.storage.tables.long_reads import holding
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View
from lakehouse.storage.wal.segment_runs import segment_rows
from lakehouse.storage.wal.tail import Tail, covered

__all__ = ["Segments", "flush_table", "plan_groups"]

_ROUNDS = 8
"""Maximum number of plans of one flush, while other processes cover or flush meanwhile."""

Segments = Callable[[Sequence[int]], Awaitable[list[WalSegment]]]
"""Function that returns the segments of these numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Segments whose rows were put into files together."""

    numbers: tuple[int, ...]
    """Numbers of the segments, ascending."""
    entries: tuple[FileEntry, ...]
    """Uploaded files, without positions."""


def plan_groups(
    segments: Sequence[SegmentRange], files: Iterable[FileEntry], *, max_bytes: int
) -> list[tuple[int, ...]]:
    """Groups the segments that may be put into files together, oldest first.

    Args:
        segments: ranges that are covered and not flushed, ascending; ``at`` is known.
        files: live files, positions filled in.
        max_bytes: maximum bytes of a group, unless a single segment has more.
    """
    starts = sorted({interval(entry)[0] for entry in files})
    groups: list[list[int]] = []
    held, last = 0.0, (0, 0, 0)
    for covered_range in segments:
        assert covered_range.at is not None
        # A snapshot has the size of a range only: its segments count as equally large.
        each = covered_range.size / (covered_range.last - covered_range.first + 1)
        for number in range(covered_range.first, covered_range.last + 1):
            place = (covered_range.at, 0, number)
            # A run begins between the two: the segment cannot share an interval with the one before.
            parted = bisect.bisect(starts, place) != bisect.bisect(starts, last)
            if not groups or parted or held + each > max_bytes:
                groups.append([])
                held = 0.0
            groups[-1].append(number)
            held, last = held + each, place
    return [tuple(group) for group in groups]


async def flush_table(
    table: OpenTable,
    *,
    upto: int | None = None,
    segments: Segments | None = None,
) -> CommitResult:
    """Puts the rows of the write-ahead log into data files.

    Args:
        table: the table.
        upto: number of the last segment to flush; None = all that existed when the call began.
        segments: source of the segments; None = they are read from the store.
    """
    with measure() as cost:
        view = await table.known()
        if view.snapshot.wal is None:
            # A log may have been begun by another process.
            view = await table.newest()
        tail = await table.tail(view)
        if tail is not None and view.snapshot.wal is not None and tail.after > view.snapshot.wal.upto:
            # Others have covered and flushed what the view has not.
            view = await table.newest()
        if tail is not None and upto is not None:
            # What is not flushed need not be covered: readers would have to read it segment by segment.
            tail = tail.down_to(upto)
        result: CommitResult | None = None
        for _ in range(_ROUNDS):
            first = None if view.snapshot.wal is None else view.snapshot.wal.upto + 1
            grace_s = view.options.delete_grace_s
            async with holding(table, view.snapshot.id, grace_s=grace_s, segment=first):
                change = _Flush(table, view)
                commit = change.commit(tail, upto, segments or _from_store(table, view))
                committed = await keep_committed(table, change.uploaded, commit)
            done = result_of(committed, UploadedFiles(entries=committed.entries, rows=change.rows))
            result = done if result is None else _sum(result, done)
            if not done.changed:
                break
            view = await table.newest()
            # A group gave way, or the commit covered segments first: they are planned on the new head.
            if not _has_unflushed(view, upto if upto is not None else tail.upto if tail else 0):
                break
        assert result is not None
    return dataclasses.replace(result, cost=cost)


def _has_unflushed(view: View, upto: int) -> bool:
    return any(segments.first <= upto for segments in view.snapshot.segments)


def _sum(earlier: CommitResult, later: CommitResult) -> CommitResult:
    return dataclasses.replace(
        later,
        changed=earlier.changed or later.changed,
        rows=earlier.rows + later.rows,
        files=earlier.files + later.files,
        bytes=earlier.bytes + later.bytes,
        attempts=earlier.attempts + later.attempts,
    )


def _ranges(snapshot: Snapshot, tail: Tail | None, upto: int | None) -> tuple[SegmentRange, ...]:
    """Returns the segments that can be flushed once the snapshot's child covers the tail."""
    ranges = covered(snapshot, tail, at=snapshot.id + 1)
    if upto is None:
        return ranges
    return tuple(
        kept
        for segments in ranges
        for kept in segments.without(range(max(segments.first, upto + 1), segments.last + 1))
    )


def _from_store(table: OpenTable, view: View) -> Segments:
    async def read(numbers: Sequence[int]) -> list[WalSegment]:
        async def read_one(number: int) -> WalSegment:
            return await table.wal.read(number, snapshot=view.snapshot.id)

        at_once = table.settings.read_concurrency
        async with aclosing(map_bounded(read_one, numbers, at_once)) as segments:
            return [segment async for segment in segments]

    return read


class _Flush:
    """Takes segments out of the state and adds the files that hold their rows."""

    blind: ClassVar[bool] = False

    def __init__(self, table: OpenTable, view: View) -> None:
        self._table, self._view = table, view
        self._groups: list[_Group] = []
        self.rows = 0
        """Number of rows that were uploaded."""
        self._cutter = FileCutter(
            table.env.store,
            table.root,
            view.schema,
            view.options,
            format=FileFormat(view.options.file_format_level0),
            at_once=table.env.settings.table.write_concurrency,
        )

    async def commit(self, tail: Tail | None, upto: int | None, segments: Segments) -> Committed:
        """Uploads the groups that can be flushed in the view, and commits those that still can be."""
        view = self._view
        ranges, most = _ranges(view.snapshot, tail, upto), view.options.write_buffer_bytes
        for numbers in plan_groups(ranges, await view.files(), max_bytes=most):
            rows = await in_thread(segment_rows, await segments(numbers), view.schema)
            self.rows += rows.num_rows
            parts = await in_thread(_parts, rows, view.schema) if rows.num_rows else []
            files = await self._cutter.upload(self._cutter.cut((part, None) for part in parts))
            self._groups.append(_Group(numbers=numbers, entries=files.entries))
            del rows, parts
        return await self._table.commit(self, view=view, uploaded_ms=self._cutter.first_upload_ms, tail=tail)

    def uploaded(self) -> Sequence[str]:
        """Returns the paths of all files that were uploaded."""
        return self._cutter.paths

    async def draft(self, base: Base) -> Draft | None:
        """Returns the groups that are still unflushed and undivided; the cover alone when none is."""
        # Snapshot 0 stands for the one that this commit makes, whose id a lost race would change.
        places = {
            number: (0 if segments.at == base.snapshot.id + 1 else segments.at or 0, 0, number)
            for segments in base.segments
            for number in range(segments.first, segments.last + 1)
        }
        starts = sorted({interval(entry)[0] for entry in await base.files()})
        entries: list[FileEntry] = []
        flushed: list[int] = []
        for group in self._groups:
            if all(number in places for number in group.numbers):
                lo, hi = places[group.numbers[0]], places[group.numbers[-1]]
                if not _parted(starts, lo, hi):
                    entries += [dataclasses.replace(entry, lo=lo, hi=hi) for entry in group.entries]
                    flushed += group.numbers
        # The files have the buckets of the view: after a rescale they do not fit, and only the cover is left.
        buckets = self._view.schema.buckets
        if entries and (await base.schemas.read(base.snapshot.schema)).schema.buckets != buckets:
            entries, flushed = [], []
        wal = base.snapshot.wal
        covers = wal is not None and base.tail is not None and base.tail.upto > wal.upto
        if not flushed and not covers:
            return None
        return Draft(
            kind=CommitKind.FLUSH if flushed else CommitKind.WAL,
            added=tuple(entries),
            flushed=frozenset(flushed),
        )


def _parted(starts: Sequence[Position], lo: Position, hi: Position) -> bool:
    """Returns whether a run begins between two positions; snapshot 0 is the one that is being made."""
    if hi[0] == 0:
        return lo[0] != 0 and bool(starts) and starts[-1] > lo
    return bisect.bisect(starts, lo) != bisect.bisect(starts, hi)


def _parts(rows: pa.Table, schema: TableSchema) -> list[PartitionRows]:
    """Returns the rows by partition and bucket, each key once."""
    rows = folded_input(rows, schema)
    kinds = rows.column(KIND_COLUMN).to_numpy() if KIND_COLUMN in rows.column_names else None
    moves = bool(schema.primary_key) and not schema.key_holds_partition
    if kinds is None or not moves:
        return partition_rows(rows, schema, partition_fields=schema.partition_fields)
    # The partition of a deletion is not known; of a key both written and deleted, the later row stays.
    (keys,) = KeyColumns(schema.key_fields).arrays([rows])
    order = last_of_each(keys)
    if order is not None:
        rows = rows.take(pa.array(order))
    deletes = pc.equal(rows.column(KIND_COLUMN), pa.scalar(int(RowKind.DELETE), pa.int8()))
    parts = []
    for mask, fields in ((pc.invert(deletes), schema.partition_fields), (deletes, ())):
        selected = rows.filter(mask).combine_chunks()
        if selected.num_rows:
            parts += partition_rows(selected, schema, partition_fields=fields)
    return parts
