"""Encoding and uploading of data files: rows are encoded, indexed, described by an entry, and stored.

Invariant: an entry is handed out only for a file that is in the store, whole, with its index file if it
has one. Every path whose upload began is remembered, so that a failed write can delete its files.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import google_crc32c
import pyarrow as pa

from lakehouse.format.keys import RowKeyCodec, partition_dir, stats_of
from lakehouse.format.metadata import ColumnStats, FileEntry, FileFormat, Level
from lakehouse.format.parquet import ParquetOptions, encode_parquet
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.format.sstable import SstableOptions, encode_sstable
from lakehouse.io.protocols import Stored
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.storage.indexes.build import BuiltIndex, build_index, definitions_for, rows_at_hand
from lakehouse.storage.merge.ordering import kind_counts
from lakehouse.storage.metadata.paths import index_path, join, new_data_path
from lakehouse.storage.metadata.store_clock import answered_ms
from lakehouse.storage.rows.fit_to_schema import with_columns
from lakehouse.storage.rows.partitioner import PartitionRows
from lakehouse.storage.rows.row_size import group_rows
from lakehouse.storage.rows.take import take_rows

__all__ = ["FileRows", "FileWriter"]

_LARGE_ROWS = 1 << 17
"""Rows from which a file is computed in several threads."""
_SAMPLE_ROWS = 1 << 14
"""Rows that are encoded as a sample of the bytes of a row."""


class FileRows:
    """Rows of one data file, handed over so that whoever takes them holds the only reference.

    Args:
        part: the rows; missing columns are null, which only rows of kind DELETE may be.
        run: number of the run they belong to.
        number: place of the file among those of its write.
    """

    __slots__ = ("_part", "number", "run")

    def __init__(self, part: PartitionRows, run: int, number: int) -> None:
        self._part: PartitionRows | None = part
        self.run, self.number = run, number

    def take(self) -> PartitionRows:
        """Returns the rows, once."""
        part, self._part = self._part, None
        assert part is not None
        return part


class FileWriter:
    """Encodes and uploads data files of one table.

    Args:
        store: the store that holds the table.
        root: the table's directory.
        schema: the schema of the rows.
        options: the table's options.
        format: format of the files.
        level: level of compaction of the rows.
    """

    def __init__(
        self,
        store: ObjectStore,
        root: str,
        schema: TableSchema,
        options: TableOptions,
        *,
        format: FileFormat,  # noqa: A002 - as the entry calls it
        level: Level = Level.FRESH,
    ) -> None:
        self._store, self._root, self._options = store, root, options
        self._schema, self._arrow, self._format, self._level = schema, schema.arrow(), format, level
        self._parquet = ParquetOptions(
            compression=options.parquet_compression,
            compression_level=options.parquet_compression_level,
        )
        self._sstable = SstableOptions(
            block_bytes=options.sst_block_bytes,
            codec=options.sst_codec,
            bloom_bits_per_key=options.sst_bloom_bits_per_key,
        )
        self._codec = RowKeyCodec(schema.key_fields) if schema.primary_key else None
        self.paths: list[str] = []
        """Paths of every file whose upload began, index files included."""
        self.first_answer_ms: int | None = None
        """Time at which the store answered the first upload, by its clock."""
        self._rows_done = 0
        self._bytes_done = 0
        # More files at once than there are cores take turns in memory and caches, and none is faster.
        self._computing = asyncio.Semaphore(os.cpu_count() or 1)

    async def upload(self, file: FileRows) -> FileEntry:
        """Encodes a file, uploads it and returns its entry, without positions."""
        part = file.take()
        async with self._computing:
            if len(part) < _LARGE_ROWS:
                rows, data, entry = await in_thread(self._made, part)
                index = await self._indexed(rows, entry.path)
            else:
                rows, data, entry, index = await self._made_beside(part)
        del part, rows  # memory is freed before the store answers
        self._rows_done += entry.rows
        self._bytes_done += entry.size
        entry = dataclasses.replace(entry, run=file.run, index=None if index is None else index.ref)
        objects = [(entry.path, data)]
        if index is not None:
            objects.append((index.ref.path, memoryview(index.data)))
        self.paths += [path for path, _ in objects]
        async for stored in map_bounded(self._put_object, objects, len(objects)):
            # Of parallel uploads the earliest answer counts: the horizon of orphans is compared with it.
            answered = stored.store_time_ms
            if answered is None and self.first_answer_ms is None:
                answered = await answered_ms(self._store, stored)
            if answered is not None and (self.first_answer_ms is None or answered < self.first_answer_ms):
                self.first_answer_ms = answered
        return entry

    def fitting_rows(self, part: PartitionRows) -> int:
        """Estimates how many rows of a part fill a file; computes, for a thread.

        Files written before show the bytes of a row; at first, a sample is encoded.
        """
        if self._rows_done:
            per_row = self._bytes_done / self._rows_done
        else:
            sample = part.slice(0, _SAMPLE_ROWS).rows()
            per_row = len(self._encoded(sample)) / sample.num_rows
        return max(1, int(self._options.file_target_bytes / per_row))

    async def _put_object(self, item: tuple[str, memoryview]) -> Stored:
        path, data = item
        key, store = join(self._root, path), self._store
        if len(data) <= store.settings.single_put_max_bytes or not store.capabilities.multipart:
            return await store.put(key, data)
        step = store.settings.part_bytes
        async with store.writer(key) as writer:
            for begin in range(0, len(data), step):
                await writer.write(data[begin : begin + step])
        assert writer.stored is not None
        return writer.stored

    # --- computing ----------------------------------------------------------------

    def _made(self, part: PartitionRows) -> tuple[pa.Table, memoryview, FileEntry]:
        """Returns a file's rows, bytes and entry."""
        rows = part.rows()
        data = self._encoded(rows)
        return rows, data, self._entry(part, self._new_path(part), rows, data, self._stats(rows))

    async def _made_beside(
        self, part: PartitionRows
    ) -> tuple[pa.Table, memoryview, FileEntry, BuiltIndex | None]:
        """Returns the same and the index, in several threads: columns side by side, then the rest."""
        source, order = part.source, part.order
        if order is None:
            rows = source
        else:
            columns = map_bounded(lambda column: in_thread(take_rows, column, order), source.columns, 2)
            rows = pa.Table.from_arrays([column async for column in columns], schema=source.schema)
        path = self._new_path(part)
        works: list[Callable[[], Awaitable[Any]]] = [
            partial(in_thread, self._encoded, rows),
            partial(in_thread, self._stats, rows),
            partial(self._indexed, rows, path),
        ]
        data, stats, index = [result async for result in map_bounded(_called, works, len(works))]
        return rows, data, await in_thread(self._entry, part, path, rows, data, stats), index

    async def _indexed(self, rows: pa.Table, path: str) -> BuiltIndex | None:
        """Builds the index file of a data file, if it gets one."""
        schema = self._schema
        deletes, _ = kind_counts(rows)
        definitions = definitions_for(schema, self._options, rows=rows.num_rows, deletes=deletes)
        if not definitions:
            return None
        uuid_text = path.rpartition("/")[2].partition(".")[0]
        filled = with_columns(rows, self._arrow)
        return await build_index(
            partial(rows_at_hand, filled), schema, definitions, path=index_path(uuid_text), of=path
        )

    def _encoded(self, rows: pa.Table) -> memoryview:
        rows = with_columns(rows, self._arrow)
        if self._format is FileFormat.SSTABLE:
            return memoryview(encode_sstable(rows, self._schema, self._sstable))
        groups = group_rows(self._options, rows.nbytes / max(1, rows.num_rows))
        options = dataclasses.replace(self._parquet, row_group_rows=groups)
        return memoryview(encode_parquet(rows, self._schema, options))

    def _stats(self, rows: pa.Table) -> dict[int, ColumnStats]:
        return stats_of(rows, self._schema.fields, text_bytes=self._options.stats_text_bytes)

    def _entry(
        self,
        part: PartitionRows,
        path: str,
        rows: pa.Table,
        data: memoryview,
        stats: Mapping[int, ColumnStats],
    ) -> FileEntry:
        low, high = None, None
        if self._codec is not None:
            low, high = PartitionRows(source=rows).key_range(self._codec, self._schema.primary_key)
        deletes, updates = kind_counts(rows)
        return FileEntry(
            path=path,
            partition=part.partition,
            bucket=part.bucket,
            total_buckets=self._schema.buckets,
            level=self._level,
            format=self._format,
            size=len(data),
            rows=rows.num_rows,
            deletes=deletes,
            updates=updates,
            min_key=low,
            max_key=high,
            stats=stats,
            schema_id=self._schema.id,
            checksum=google_crc32c.value(pa.py_buffer(data)),
        )

    def _new_path(self, part: PartitionRows) -> str:
        values = part.partition
        directory = partition_dir(self._schema.partition_fields, values) if values else ""
        return new_data_path(directory, part.bucket, str(self._format))


async def _called(work: Callable[[], Awaitable[Any]]) -> Any:
    return await work()
