"""Splits of a run's files for another number of buckets.

Invariant: the output holds the rows of the input, each with its kind and the snapshot it came with, and
has the place of the input: same interval, run number and level. In every bucket the files of the run
are in key order and share no key. Memory holds a piece of each input file and the rows of files under way.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

import pyarrow as pa

from lakehouse.cache import CacheBudget
from lakehouse.config import CacheSettings, TableSettings
from lakehouse.errors import CommitUnknownError, LakehouseError
from lakehouse.format.metadata import SEQUENCE_COLUMN, FileEntry, Position
from lakehouse.format.schema import SEQUENCE_FIELD, Field, TableOptions, TableSchema
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import map_bounded
from lakehouse.storage.files.file_cutter import FileCutter
from lakehouse.storage.files.open import open_run
from lakehouse.storage.files.reader import RunReader
from lakehouse.storage.files.uploaded_files import UploadedFiles, delete_files, object_paths
from lakehouse.storage.metadata.caches import RunCaches
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.partitioner import PartitionRows, joined, partition_rows

__all__ = ["Resplit", "split_run"]

_ROOM_SHARE = 4
"""Divisor of the memory: the part that rows which are in no file yet may take."""
_CACHE_BYTES = 64 * 1024 * 1024
"""Size of the cache that a split within a commit reads with."""


async def split_run(
    store: ObjectStore,
    root: str,
    schema: TableSchema,
    inputs: Sequence[FileEntry],
    *,
    buckets: int,
    caches: RunCaches,
    settings: TableSettings,
    span: tuple[Position | None, Position | None] | None = None,
) -> UploadedFiles:
    """Writes the rows of some files anew, split into so many buckets.

    Args:
        store: the store that holds the table.
        root: the table's directory.
        schema: the table's schema; rows are written with it.
        inputs: files of one run and one partition, with or without positions.
        buckets: the new number of buckets.
        caches: caches of data files.
        settings: bounds on memory and concurrency.
        span: first and last position of the output; None = those of the input.
    """
    first = inputs[0]
    lo, hi = (first.lo, first.hi) if span is None else span
    target = dataclasses.replace(schema, buckets=buckets)
    options = TableOptions.parse(schema.options)
    level = min(entry.level for entry in inputs)
    room = max(1, settings.compaction_memory_bytes // _ROOM_SHARE)
    cutter = FileCutter(store, root, target, options, format=first.format, level=level, room=room)
    # Rows of several commits carry their snapshot in a column; rows of one have it from the entry.
    merged = lo is not None and hi is not None and lo[0] != hi[0]
    fields = (*target.fields, SEQUENCE_FIELD) if merged else target.fields

    async def open_file(entry: FileEntry) -> RunReader:
        return await open_run(store, root, entry, schema, caches)

    def parts_of(table: pa.Table) -> list[PartitionRows]:
        # The input is of one partition, so rows are divided by bucket only.
        parts = partition_rows(joined([table]), target, partition_fields=())
        return [dataclasses.replace(part, partition=first.partition) for part in parts]

    readers = [reader async for reader in map_bounded(open_file, inputs, settings.read_concurrency)]
    files = await cutter.upload(cutter.collect(_in_key_order(readers, target, fields), parts_of))
    outputs = tuple(dataclasses.replace(entry, lo=lo, hi=hi, run=first.run) for entry in files.entries)
    return dataclasses.replace(files, entries=outputs)


class Resplit:
    """Splits the files of one commit if the table has another number of buckets by then.

    Args:
        store: the store that holds the table.
        root: the table's directory.
    """

    def __init__(self, store: ObjectStore, root: str) -> None:
        self._store, self._root = store, root
        self._of: tuple[tuple[FileEntry, ...], int] | None = None
        self._fitting: tuple[FileEntry, ...] = ()
        self._inputs: list[FileEntry] = []
        """Files of the last draft that were split."""
        self._outputs: list[FileEntry] = []
        """Files that they were split into."""
        self._uploaded: list[str] = []
        self.committed = False
        """Whether the commit was made, so that the files of the last draft are kept."""

    async def fitting(self, added: tuple[FileEntry, ...], schema: TableSchema) -> tuple[FileEntry, ...]:
        """Returns the files, split if of another number of buckets; the same result for the same files."""
        if self._of is None or self._of[0] is not added or self._of[1] != schema.buckets:
            self._of, self._outputs = (added, schema.buckets), []
            self._inputs = [entry for entry in added if entry.total_buckets != schema.buckets]
            runs: dict[tuple[object, ...], list[FileEntry]] = {}
            for entry in self._inputs:
                run = (entry.partition, entry.run, entry.lo, entry.hi, entry.level, entry.format)
                runs.setdefault(run, []).append(entry)
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
                self._outputs += split.entries
                self._uploaded += split.paths
            kept = (entry for entry in added if entry.total_buckets == schema.buckets)
            self._fitting = (*kept, *self._outputs)
        return self._fitting

    @contextlib.asynccontextmanager
    async def settled(self) -> AsyncIterator[None]:
        """Deletes the files that turn out not to be needed: the split ones, or those they were split into."""
        try:
            yield
        # The commit may have been made: then its files must stay.
        except CommitUnknownError:
            raise
        except LakehouseError:
            await delete_files(self._store, self._root, self._uploaded)
            raise
        kept = set(object_paths(self._outputs)) if self.committed else set[str]()
        inputs = self._inputs if self.committed else []
        spare = [path for path in self._uploaded if path not in kept]
        await delete_files(self._store, self._root, [*spare, *object_paths(inputs)])


async def _in_key_order(
    readers: Sequence[RunReader], schema: TableSchema, fields: Sequence[Field]
) -> AsyncGenerator[pa.Table, None]:
    """Yields the rows of files that share no key in tables, each with keys above those before it."""
    keys = KeyColumns(schema.key_fields)
    kinds = any(reader.entry.deletes + reader.entry.updates for reader in readers)
    left = [iter(range(len(reader.pieces))) for reader in readers]
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
        # Rows of a file that are not held yet have keys above those that are.
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
    """Returns the rows with the snapshot they came with, if it was read and is not there already."""
    if SEQUENCE_COLUMN not in table.column_names or entry.lo is None:
        return table
    place = table.column_names.index(SEQUENCE_COLUMN)
    return table.set_column(place, table.schema.field(place), table.column(place).fill_null(entry.lo[0]))
