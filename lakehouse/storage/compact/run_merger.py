"""Merging the runs of a compaction task into the files of one run.

Sections of the runs are read and merged as a scan does it, and their rows cut into files that are encoded
and uploaded while further sections are read. Needs a store, a schema, options and a task, and no table,
so that it can run in another process.

Invariant: the output holds the fold of the rows of the inputs, each with the snapshot it came with
(``_SEQUENCE_NUMBER``), and has the hull of their intervals. Rows that delete stay unless the task has
the oldest run. It ends with all files in the store, or with an error and none of them (if the store
lets them be deleted). Memory keeps to its bound, however large the runs are and however many
(:mod:`lakehouse.storage.compact.memory_passes`), as long as it has room for a few row groups.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.format.metadata import KIND_COLUMN, FileFormat, Level, RowKind
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.io.store import ObjectStore
from lakehouse.storage.compact.lineage import lineage_scan
from lakehouse.storage.compact.memory_passes import MergePass, PassPlanner
from lakehouse.storage.compact.plan import CompactionTask
from lakehouse.storage.files.file_cutter import FileCutter
from lakehouse.storage.files.reader import EVERY_KEY, KeyRange, RunSource
from lakehouse.storage.files.uploaded_files import UploadedFiles, delete_files
from lakehouse.storage.metadata.run_order import Unit
from lakehouse.storage.rows.partitioner import PartitionRows, partition_rows
from lakehouse.storage.rows.row_size import RowSize, group_rows
from lakehouse.storage.schema.row_ttl import Lifetime, may_drop_hidden

__all__ = ["MergedRuns", "merge_runs"]

_SCAN_SHARE = 4
"""Divisor of the memory: the part that sections under way get."""
_FILE_SHARE = 5
"""Divisor of the memory: the part for a file's rows, which are collected, encoded, and then held once or
twice more in encoded form."""
_GUESSES = 3
"""Factor by which rows may take more memory than their entries let one guess."""
_LINEAGE_BYTES = 9
"""Bytes of a row's snapshot and kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRuns:
    """Result of a compaction task."""

    task: CompactionTask
    """The task, with its original inputs."""
    files: UploadedFiles
    """Its output, by key; empty when every key was deleted."""


async def merge_runs(
    store: ObjectStore,
    root: str,
    schema: TableSchema,
    options: TableOptions,
    task: CompactionTask,
    source: RunSource,
    *,
    memory_bytes: int,
    shows: Lifetime | None = None,
    keys: KeyRange = EVERY_KEY,
    watch: Callable[[int], None] | None = None,
) -> MergedRuns:
    """Writes the output files of a task.

    Args:
        store: the store that holds the table.
        root: the table's directory.
        schema: the table's schema; rows are written with it.
        options: the table's options.
        task: the runs to merge.
        source: opens the files.
        memory_bytes: memory that rows and files under way may take.
        shows: the rows that the base shows; a bottom run leaves out the others where it may.
        keys: range of keys to merge: a part of the output, of which other calls make the rest.
        watch: called with the number of rows read so far, whenever it has grown.
    """
    writing = _Writing(store, root, schema, source, memory_bytes, shows, keys, watch)
    planner = await _planner(schema, options, task, source, memory_bytes)
    if planner is None:
        return await writing.run(task, options)
    between: list[str] = []
    inputs = task.inputs
    try:
        while (todo := planner.next_pass(inputs)) is not None:
            made = await _done(writing, todo, task, options)
            between += made.paths
            done = {entry.path for group in todo.groups for entry in group}
            inputs = (*(entry for entry in inputs if entry.path not in done), *made.entries)
            planner = planner.knowing([entry.path for entry in made.entries], todo.piece_rows)
        merged = await writing.run(dataclasses.replace(task, inputs=inputs), options)
    # The files between two passes are in no snapshot: nobody else would delete them before the grace ends.
    finally:
        await delete_files(store, root, between)
    return dataclasses.replace(merged, task=task)


async def _planner(
    schema: TableSchema, options: TableOptions, task: CompactionTask, source: RunSource, memory_bytes: int
) -> PassPlanner | None:
    """Plans passes; None where one merge clearly fits. Else a piece is read, to measure its rows."""
    if not schema.primary_key:
        return None  # nothing is merged
    guess = RowSize(schema.fields, schema.fields, task.inputs).bytes_per_row
    planner = PassPlanner(
        memory_bytes=memory_bytes, row_bytes=guess * _GUESSES, piece_rows=group_rows(options, guess)
    )
    if planner.fits(task.inputs):
        return None
    reader = await source.open(max(task.inputs, key=lambda entry: entry.rows), schema)
    sample = await reader.read(schema.fields, [0])
    row_bytes = sample.nbytes / sample.num_rows
    rows = max(group_rows(options, row_bytes), *(piece.rows for piece in reader.pieces))
    return dataclasses.replace(planner, row_bytes=row_bytes + _LINEAGE_BYTES, piece_rows=rows)


async def _done(
    writing: _Writing, todo: MergePass, task: CompactionTask, options: TableOptions
) -> UploadedFiles:
    """Merges the groups of a pass and returns their files; leaves none where it fails."""
    # Parquet whatever the table's format: only its pieces have a number of rows that can be set.
    small = dataclasses.replace(
        options, file_format=FileFormat.PARQUET.value, parquet_row_group_rows=todo.piece_rows
    )
    plain = writing.without_indexes()
    made = UploadedFiles()
    try:
        for group in todo.groups:
            merged = await plain.run(dataclasses.replace(task, inputs=group, bottom=False), small)
            made = UploadedFiles.joined([made, merged.files])
    except BaseException:
        await delete_files(writing.store, writing.root, made.paths)
        raise
    return made


@dataclass(frozen=True, slots=True)
class _Writing:
    """State that the merges of a task share; the fields are the arguments of :func:`merge_runs`."""

    store: ObjectStore
    root: str
    schema: TableSchema
    source: RunSource
    memory_bytes: int
    shows: Lifetime | None
    keys: KeyRange
    watch: Callable[[int], None] | None

    def without_indexes(self) -> _Writing:
        """Returns a copy for files that only this task reads, once: without indexes and without progress."""
        return dataclasses.replace(self, schema=dataclasses.replace(self.schema, indexes=()), watch=None)

    async def run(self, task: CompactionTask, options: TableOptions) -> MergedRuns:
        """Merges the runs of a task in one go."""
        memory = self.memory_bytes
        cutter = FileCutter(
            self.store,
            self.root,
            self.schema,
            options,
            format=FileFormat(options.file_format),
            level=Level.BOTTOM if task.bottom else Level.COMPACTED,
            room=max(1, memory // _FILE_SHARE),
        )
        settings = dataclasses.replace(self.source.settings, scan_memory_bytes=max(1, memory // _SCAN_SHARE))
        shows = self.shows if task.bottom and may_drop_hidden(self.schema) else None
        scan = lineage_scan(
            task.inputs,
            self.schema,
            self.source,
            interval=task.interval,
            kinds=not task.bottom and any(entry.deletes or entry.updates for entry in task.inputs),
            where=None if shows is None else shows.where,
            keys=self.keys,
            settings=settings,
        )

        async def tables() -> AsyncGenerator[pa.Table, None]:
            async with aclosing(scan.tables()) as merged:
                async for table in merged:
                    if self.watch is not None:
                        self.watch(scan.report.rows_read)
                    yield table
                    # Dropped before the next one is awaited, or two tables would be in memory.
                    del table

        files = await cutter.upload(cutter.collect(tables(), partial(_parted, self.schema, task.unit)))
        lo, hi = task.interval
        entries = tuple(dataclasses.replace(entry, lo=lo, hi=hi) for entry in files.entries)
        return MergedRuns(task=task, files=dataclasses.replace(files, entries=entries))


def _parted(schema: TableSchema, unit: Unit, table: pa.Table) -> list[PartitionRows]:
    """Divides merged rows by partition, where a merge unit spans several; rows that delete have none."""
    partition, bucket = unit
    if not schema.primary_key or schema.key_holds_partition:
        return [PartitionRows(partition=partition, bucket=bucket, source=table)]
    parts: list[PartitionRows] = []
    if KIND_COLUMN in table.column_names:
        deletes = table.column(KIND_COLUMN).to_numpy() == RowKind.DELETE
        if deletes.any():
            parts.append(PartitionRows(source=_where(table, deletes)))
            table = _where(table, ~deletes)
    if table.num_rows:
        keyless = dataclasses.replace(schema, primary_key=())
        parts += partition_rows(table.combine_chunks(), keyless, partition_fields=schema.partition_fields)
    return [dataclasses.replace(part, bucket=bucket) for part in parts]


def _where(table: pa.Table, mask: np.ndarray) -> pa.Table:
    return table.filter(pc.fill_null(pa.array(mask), False))
