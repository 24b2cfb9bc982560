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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config import TableSettings
from lakehouse.format.metadata import KIND_COLUMN, FileEntry, FileFormat, Level, RowKind
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.storage.compact.lineage import lineage_scan
from lakehouse.storage.compact.memory_passes import MergePass, PassPlanner
from lakehouse.storage.compact.plan import CompactionTask
from lakehouse.storage.files.file_writer import FileRows, FileWriter, delete_files
from lakehouse.storage.files.reader import EVERY_KEY, KeyRange, RunSource
from lakehouse.storage.rows.partitioner import PartitionRows, partition_rows
from lakehouse.storage.rows.row_size import RowSize, group_rows
from lakehouse.storage.scan.scan import Scan
from lakehouse.storage.schema.row_ttl import Lifetime, may_drop_hidden

__all__ = ["MergedRuns", "merge_runs"]

_FILES_UNDER_WAY = 2
"""Files that are encoded and uploaded at once, in turns."""
_SCAN_SHARE = 4
"""Divisor of the memory: the part that sections under way get."""
_FILE_SHARE = 5
"""Divisor of the memory: the part for a file's rows, which are collected, encoded, and then held once or
twice more in encoded form."""
_GUESSES = 3
"""Factor by which rows may take more memory than their entries let one guess."""
_LINEAGE_BYTES = 9
"""Bytes of a row's snapshot and kind."""
_TELLING_ROWS = 1024
"""Fewer rows are too small a sample of the bytes that a row takes in a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRuns:
    """Result of a task: files that are in the store and in no snapshot yet."""

    task: CompactionTask
    """The task, with its original inputs."""
    outputs: tuple[FileEntry, ...]
    """The files, by key; empty when every key was deleted."""
    first_upload_ms: int | None = None
    """Time at which the store answered the first upload, by its clock."""

    @property
    def rows(self) -> int:
        """Rows of the output, of every kind."""
        return sum(entry.rows for entry in self.outputs)

    @property
    def size(self) -> int:
        """Bytes of the output."""
        return sum(entry.size for entry in self.outputs)


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
            between += [entry.path for entry in made]
            done = {entry.path for group in todo.groups for entry in group}
            inputs = (*(entry for entry in inputs if entry.path not in done), *made)
            planner = planner.knowing([entry.path for entry in made], todo.piece_rows)
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
) -> list[FileEntry]:
    """Merges the groups of a pass and returns their files; leaves none where it fails."""
    # Parquet whatever the table's format: only its pieces have a number of rows that can be set.
    small = dataclasses.replace(
        options, file_format=FileFormat.PARQUET.value, parquet_row_group_rows=todo.piece_rows
    )
    plain = writing.without_indexes()
    made: list[FileEntry] = []
    try:
        for group in todo.groups:
            merged = await plain.run(dataclasses.replace(task, inputs=group, bottom=False), small)
            made += merged.outputs
    except BaseException:
        await delete_files(writing.store, writing.root, [entry.path for entry in made])
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
        level = Level.BOTTOM if task.bottom else Level.COMPACTED
        uploads = FileWriter(
            self.store, self.root, self.schema, options, format=FileFormat(options.file_format), level=level
        )
        memory = self.memory_bytes
        settings = dataclasses.replace(self.source.settings, scan_memory_bytes=max(1, memory // _SCAN_SHARE))
        shows = self.shows if may_drop_hidden(self.schema) else None
        scan = _scan(self.schema, task, self.source, settings, shows, self.keys)
        cutting = _Cutting(uploads, self.schema, task, max(1, memory // _FILE_SHARE))

        async def jobs() -> AsyncGenerator[_Job, None]:
            async with aclosing(scan.tables()) as tables:
                async for table in tables:
                    if self.watch is not None:
                        self.watch(scan.report.rows_read)
                    async with aclosing(cutting.add(table)) as full:
                        async for job in full:
                            yield job
                    # Dropped before the next table is awaited, or two tables would be in memory.
                    del table
            for job in cutting.rest():
                yield job

        async def upload(job: _Job) -> tuple[int, FileEntry]:
            return await uploads.upload(job.take())

        try:
            async with aclosing(map_bounded(upload, jobs(), _FILES_UNDER_WAY, ordered=False)) as files:
                entries = {number: entry async for number, entry in files}
        except BaseException:
            await delete_files(self.store, self.root, uploads.paths)
            raise
        lo, hi = task.interval
        return MergedRuns(
            task=task,
            outputs=tuple(dataclasses.replace(entries[at], lo=lo, hi=hi) for at in sorted(entries)),
            first_upload_ms=uploads.first_answer_ms,
        )


def _scan(
    schema: TableSchema,
    task: CompactionTask,
    source: RunSource,
    settings: TableSettings,
    shows: Lifetime | None,
    keys: KeyRange,
) -> Scan:
    """Returns the scan that yields the rows of the output."""
    return lineage_scan(
        task.inputs,
        schema,
        source,
        interval=task.interval,
        kinds=not task.bottom and any(entry.deletes or entry.updates for entry in task.inputs),
        where=shows.where if shows is not None and task.bottom else None,
        keys=keys,
        settings=settings,
    )


# --- reading --------------------------------------------------------------------------


# --- writing --------------------------------------------------------------------------


class _Job:
    """A file to write, handed over so that whoever takes it holds the only reference to its rows."""

    __slots__ = ("_file",)

    def __init__(self, file: FileRows) -> None:
        self._file: FileRows | None = file

    def take(self) -> FileRows:
        """Returns the rows, once."""
        file, self._file = self._file, None
        assert file is not None
        return file


class _Collected:
    """Rows of one partition that are in no file yet, in order."""

    __slots__ = ("rows", "size", "tables")

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []
        self.rows = 0
        self.size = 0

    def add(self, table: pa.Table) -> None:
        """Appends rows."""
        self.tables.append(table)
        self.rows += table.num_rows
        self.size += table.nbytes

    def take(self, rows: int) -> pa.Table:
        """Removes and returns the first of the rows."""
        whole = pa.concat_tables(self.tables)
        first, rest = whole.slice(0, rows), whole.slice(rows)
        self.tables, self.rows, self.size = [], 0, 0
        if rest.num_rows:
            self.add(rest)
        return first


class _Cutting:
    """Cuts the rows of a run, as they arrive, into files of the table's target size.

    Args:
        uploads: measures how many rows fill a file.
        schema: the table's schema.
        task: the task, whose merge unit the files belong to.
        room: bytes of rows that may be collected.
    """

    def __init__(self, uploads: FileWriter, schema: TableSchema, task: CompactionTask, room: int) -> None:
        self._uploads, self._schema, self._room = uploads, schema, room
        self._keyed = bool(schema.primary_key)
        self._partition, self._bucket = task.unit
        self._spreads = self._keyed and not schema.key_holds_partition
        self._collected: dict[tuple[bytes, ...], _Collected] = {}
        self._files = 0

    async def add(self, table: pa.Table) -> AsyncGenerator[_Job, None]:
        """Takes rows; yields files that are full, and the largest when too many rows are collected."""
        for partition, rows in await self._by_partition(table):
            collected = self._collected.setdefault(partition, _Collected())
            collected.add(rows)
            if collected.rows < _TELLING_ROWS:
                continue
            sample = PartitionRows(source=pa.concat_tables(collected.tables))
            fitting = await in_thread(self._uploads.fitting_rows, sample)
            del sample
            fitting = min(fitting, max(1, int(self._room * collected.rows / max(1, collected.size))))
            while collected.rows >= fitting:
                yield self._job(partition, fitting)
        while sum(held.size for held in self._collected.values()) > self._room:
            largest = max(self._collected, key=lambda partition: self._collected[partition].size)
            yield self._job(largest, self._collected[largest].rows)

    def rest(self) -> list[_Job]:
        """Returns the files of the rows that are left."""
        return [
            self._job(partition, collected.rows)
            for partition, collected in sorted(self._collected.items())
            if collected.rows
        ]

    def _job(self, partition: tuple[bytes, ...], rows: int) -> _Job:
        number = self._files
        self._files += 1
        source = self._collected[partition].take(rows)
        part = PartitionRows(partition=partition, bucket=self._bucket, source=source)
        # Without a key the number keeps the order of files that stand at one interval.
        run = 0 if self._keyed else number
        return _Job(FileRows(part=part, bucket=self._bucket, run=run, number=number))

    async def _by_partition(self, table: pa.Table) -> list[tuple[tuple[bytes, ...], pa.Table]]:
        if not self._spreads:
            return [(self._partition, table)]
        return await in_thread(self._parted, table)

    def _parted(self, table: pa.Table) -> list[tuple[tuple[bytes, ...], pa.Table]]:
        """Separates the rows by partition; rows that delete have none."""
        parted: list[tuple[tuple[bytes, ...], pa.Table]] = []
        if KIND_COLUMN in table.column_names:
            deletes = table.column(KIND_COLUMN).to_numpy() == RowKind.DELETE
            if deletes.any():
                parted.append(((), _where(table, deletes)))
                table = _where(table, ~deletes)
        if table.num_rows:
            keyless = dataclasses.replace(self._schema, primary_key=())
            parts = partition_rows(
                table.combine_chunks(), keyless, partition_fields=self._schema.partition_fields
            )
            parted += [(part.partition, part.rows()) for part in parts]
        return parted


def _where(table: pa.Table, mask: np.ndarray) -> pa.Table:
    return table.filter(pc.fill_null(pa.array(mask), False))
