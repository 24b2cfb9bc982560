"""Splitting the files of a run by another number of buckets.

Invariant: the output holds the rows of the input, each with its kind and the snapshot it came with, and
stands where the input stood: same interval, run number and level. In every bucket the files of the run
are in key order and share no key. Memory holds a piece of each input file and the rows of files under way.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa

from lakehouse.cache import CacheBudget
from lakehouse.config import CacheSettings, TableSettings
from lakehouse.errors import CommitUnknownError, LakehouseError
from lakehouse.format.metadata import SEQUENCE_COLUMN, FileEntry, Position
from lakehouse.format.schema import SEQUENCE_FIELD, Field, TableOptions, TableSchema
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.storage.files.file_writer import FileRows, FileUploads, delete_files, object_paths
from lakehouse.storage.files.open import open_run
from lakehouse.storage.files.reader import RunReader
from lakehouse.storage.metadata.caches import RunCaches
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.partitioner import PartitionRows, cut_rows, joined

__all__ = ["Resplit", "SplitRun", "split_run"]

_FILES_UNDER_WAY = 2
_ROOM_SHARE = 4
"""Rows that are in no file yet take one part in four of the memory."""
_OPENS = 16
_CACHE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRun:
    """What became of the files of a run: files that are in the store and belong to no snapshot yet."""

    inputs: tuple[FileEntry, ...]
    outputs: tuple[FileEntry, ...]
    paths: tuple[str, ...]
    """Every object that was uploaded."""
    first_upload_ms: int | None = None
    """When the first upload was answered, by the store's clock."""


async def split_run(
    store: ObjectStore,
    root: str,
    schema: TableSchema,
    inputs: Sequence[FileEntry],
    *,
    buckets: int,
    caches: RunCaches,
    settings: TableSettings,
    stands: tuple[Position | None, Position | None] | None = None,
) -> SplitRun:
    """Writes the rows of some files anew, split by so many buckets.

    Args:
        store: where the table is.
        root: its directory.
        schema: its schema; rows are written with it.
        inputs: files of one run and one partition, with or without positions.
        buckets: how many there are to be.
        caches: of data files.
        settings: how much memory there is.
        stands: first and last position of the output; None = those of the input.
    """
    first = inputs[0]
    lo, hi = (first.lo, first.hi) if stands is None else stands
    target = dataclasses.replace(schema, buckets=buckets)
    options = TableOptions.parse(schema.options)
    level = min(one.level for one in inputs)
    uploads = FileUploads(store, root, target, options, format=first.format, level=level)
    merged = lo is not None and hi is not None and lo[0] != hi[0]
    fields = (*target.fields, SEQUENCE_FIELD) if merged else target.fields
    splitting = _Splitting(uploads, target, first, settings.compaction_memory_bytes // _ROOM_SHARE)

    async def open_file(entry: FileEntry) -> RunReader:
        return await open_run(store, root, entry, schema, caches)

    async def jobs() -> AsyncGenerator[FileRows, None]:
        readers = [one async for one in map_bounded(open_file, inputs, _OPENS)]
        async with aclosing(_in_key_order(readers, target, fields)) as tables:
            async for table in tables:
                for job in await in_thread(splitting.add, table):
                    yield job
        for job in splitting.rest():
            yield job

    try:
        async with aclosing(map_bounded(uploads.upload, jobs(), _FILES_UNDER_WAY, ordered=False)) as files:
            made = {number: entry async for number, entry in files}
    except BaseException:
        await delete_files(store, root, uploads.paths)
        raise
    outputs = tuple(dataclasses.replace(made[number], lo=lo, hi=hi, run=first.run) for number in sorted(made))
    return SplitRun(
        inputs=tuple(inputs),
        outputs=outputs,
        paths=tuple(uploads.paths),
        first_upload_ms=uploads.first_answer_ms,
    )


class Resplit:
    """Splits the files of one commit when it finds that the table has another number of buckets.

    Args:
        store: where the table is.
        root: its directory.
    """

    def __init__(self, store: ObjectStore, root: str) -> None:
        self._store, self._root = store, root
        self._of: tuple[tuple[FileEntry, ...], int] | None = None
        self._splits: list[SplitRun] = []
        """Of the last draft."""
        self._uploaded: list[str] = []
        self.committed = False
        """Whether the commit was made, of which files are kept that the last draft speaks of."""

    async def fitting(self, added: tuple[FileEntry, ...], schema: TableSchema) -> tuple[FileEntry, ...]:
        """The files, those of another number of buckets split; the same for the same files."""
        if self._of is None or self._of[0] is not added or self._of[1] != schema.buckets:
            self._of, self._splits = (added, schema.buckets), []
            runs: dict[tuple[object, ...], list[FileEntry]] = {}
            for one in added:
                if one.total_buckets != schema.buckets:
                    run = (one.partition, one.run, one.lo, one.hi, one.level, one.format)
                    runs.setdefault(run, []).append(one)
            for files in runs.values():
                split = await split_run(
                    self._store,
                    self._root,
                    schema,
                    files,
                    buckets=schema.buckets,
                    caches=RunCaches(CacheBudget(CacheSettings(max_bytes=_CACHE_BYTES))),
                    settings=TableSettings(),
                )
                self._splits.append(split)
                self._uploaded += split.paths
        kept = (one for one in added if one.total_buckets == schema.buckets)
        return (*kept, *(one for split in self._splits for one in split.outputs))

    @contextlib.asynccontextmanager
    async def settled(self) -> AsyncIterator[None]:
        """Deletes what the block does not need in the end: what was split, or what came of it."""
        try:
            yield
        except CommitUnknownError:
            raise
        except LakehouseError:
            await delete_files(self._store, self._root, self._uploaded)
            raise
        kept = {path for split in self._splits for path in split.paths} if self.committed else set[str]()
        inputs = [one for split in self._splits for one in split.inputs] if self.committed else []
        spare = [path for path in self._uploaded if path not in kept]
        await delete_files(self._store, self._root, [*spare, *object_paths(inputs)])


async def _in_key_order(
    readers: Sequence[RunReader], schema: TableSchema, fields: Sequence[Field]
) -> AsyncGenerator[pa.Table, None]:
    """The rows of files without a key in common: every table's keys are above those of the one before."""
    keys = KeyColumns(schema.key_fields)
    kinds = any(one.entry.deletes + one.entry.updates for one in readers)
    left = [iter(range(len(one.pieces))) for one in readers]
    held: dict[int, pa.Table] = {}
    while True:
        for place, reader in enumerate(readers):
            piece = next(left[place], None) if place not in held else None
            if piece is not None:
                held[place] = _dated(await reader.read(fields, [piece], kinds=kinds), reader.entry)
        if not held:
            return
        if len(held) == 1:
            ((place, table),) = held.items()
            held = {}
            yield table
            continue
        # What is not held yet of a file is above what is held of it.
        reach = min(keys.encoded(table.slice(table.num_rows - 1))[0].as_py() for table in held.values())
        below = []
        for place, table in list(held.items()):
            count = keys.rows_below(table, reach, included=True)
            below.append(table.slice(0, count))
            if count == table.num_rows:
                del held[place]
            else:
                held[place] = table.slice(count)
        yield pa.concat_tables(below)


def _dated(table: pa.Table, entry: FileEntry) -> pa.Table:
    """The rows with the snapshot they came with, where they are asked for it and do not say it themselves."""
    if SEQUENCE_COLUMN not in table.column_names or entry.lo is None:
        return table
    place = table.column_names.index(SEQUENCE_COLUMN)
    return table.set_column(place, table.schema.field(place), table.column(place).fill_null(entry.lo[0]))


class _Splitting:
    """Cuts rows into files by bucket, as they come.

    Args:
        uploads: tells how many rows fill a file.
        schema: with the number of buckets there are to be.
        like: says the partition.
        room: bytes of rows that may be collected.
    """

    def __init__(self, uploads: FileUploads, schema: TableSchema, like: FileEntry, room: int) -> None:
        self._uploads, self._schema, self._like, self._room = uploads, schema, like, max(1, room)
        self._collected: dict[int, list[pa.Table]] = {}
        self._files = 0

    def add(self, table: pa.Table) -> list[FileRows]:
        """Takes rows; returns files that are full, and the largest when there are too many rows."""
        for part in cut_rows(joined([table]), self._schema, partition_fields=()):
            self._collected.setdefault(part.bucket, []).append(part.rows())
        jobs = []
        for bucket, tables in list(self._collected.items()):
            fitting = self._uploads.fitting_rows(PartitionRows(source=tables[0]))
            if sum(one.num_rows for one in tables) >= fitting:
                jobs.append(self._job(bucket))
        while sum(one.nbytes for tables in self._collected.values() for one in tables) > self._room:
            jobs.append(self._job(max(self._collected, key=self._size)))
        return jobs

    def rest(self) -> list[FileRows]:
        """The files of what is left."""
        return [self._job(bucket) for bucket in sorted(self._collected)]

    def _size(self, bucket: int) -> int:
        return sum(one.nbytes for one in self._collected[bucket])

    def _job(self, bucket: int) -> FileRows:
        number = self._files
        self._files += 1
        part = PartitionRows(
            partition=self._like.partition, bucket=bucket, source=joined(self._collected.pop(bucket))
        )
        return FileRows(part=part, bucket=bucket, run=self._like.run, number=number)
