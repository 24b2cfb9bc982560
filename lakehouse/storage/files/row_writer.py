"""Writing: rows of any source and any number become data files that a commit can add.

Chunks are taken in, cast to the schema and collected until ``write.buffer_bytes`` are
there; then the buffer is cut into sorted parts, and these into files of about ``file.target_bytes``,
which are encoded and uploaded while the next buffer fills.

Invariant: a write ends with all its files in the store, or with an error and none of them (if
the store lets them be deleted); nothing is visible before a commit adds the entries. Within a merge
unit a later row of a key is in a run of a higher number than an earlier one. Memory holds the buffer
being filled, two being written, copies of their rows for a file per core, and
``table.write_concurrency`` encoded files, however long the input.

Rows that delete (:func:`write_rows` with ``deletes=True``) hold a key and nothing else. Where the key
does not determine the partition they have none: their entries have the partition ``()``, and since
merge units span partitions there, they hide older rows of their keys in any of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import pyarrow as pa

from lakehouse.config import TableSettings
from lakehouse.format.keys import RowKeyCodec
from lakehouse.format.metadata import FileEntry, FileFormat
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.storage.files.file_writer import FileRows, FileWriter, delete_files
from lakehouse.storage.merge.engines import folded_input
from lakehouse.storage.merge.intake import RowIntake
from lakehouse.storage.rows.duplicate_keys import repeated_key, same_key_error
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.missing_columns import Missing
from lakehouse.storage.rows.partitioner import PartitionRows, RunNumbers, joined, partition_rows

__all__ = ["WrittenRows", "write_rows"]

_SETTINGS = TableSettings()
_BUFFER_BYTES_MAX = 1 << 30
"""Maximum bytes of a buffer: Arrow counts the bytes of a column of text in 31 bits."""
_BUFFERS_UNDER_WAY = 2
"""Maximum buffers whose files are being written while another fills."""
_COPY_BYTES_MAX = 128 * 1024 * 1024
"""Maximum bytes of unordered rows that are copied for one file: memory that is fresh costs more time
than sorting, and two files keep two cores busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """Result of a write: files in the store that are in no snapshot yet."""

    entries: tuple[FileEntry, ...] = ()
    """Entries in the order of the rows; positions are null."""
    rows: int = 0
    """Number of rows handed in, including those that a later one of the same key replaces."""
    bytes: int = 0
    """Bytes of all data files."""
    first_upload_ms: int | None = None
    """Time at which the store answered the first upload, by its clock."""


async def write_rows(
    store: ObjectStore,
    root: str,
    schema: TableSchema,
    options: TableOptions,
    data: object,
    *,
    deletes: bool = False,
    unique: bool = False,
    missing: Missing | None = "null",
    settings: TableSettings = _SETTINGS,
) -> WrittenRows:
    """Writes rows as data files of a table.

    Args:
        store: the store that holds the table.
        root: the table's directory.
        schema: the table's schema.
        options: the table's options.
        data: the rows, in any form of :data:`lakehouse.storage.rows.input_tables.ACCEPTED`. Of several rows
            of a key the last one stays, or they are folded in this order where the table has a merge engine
            that folds.
        deletes: whether the rows are keys (the columns of the primary key alone) to be deleted. Nothing is
            written where the table ignores deletes.
        unique: whether several rows of a key are refused, if one buffer holds them; those of several
            buffers are in several runs.
        missing: treatment of columns that rows lack, except for ``keep``, which needs a base.
        settings: bound on the files that are encoded and uploaded at once.

    Raises:
        InvalidInputError: a row does not fit the schema; names column, row and value. On any
            error, also one of the source itself, files uploaded before are deleted.
    """
    intake = RowIntake(schema, deletes=deletes, missing=missing)
    if intake.stores_nothing:
        return WrittenRows()
    write = _Write(store, root, schema, options, intake, deletes=deletes, unique=unique)
    try:
        files = map_bounded(write.upload, write.files(data), settings.write_concurrency, ordered=False)
        async with contextlib.aclosing(files):
            entries = {number: entry async for number, entry in files}
    except BaseException:
        await delete_files(store, root, write.uploads.paths)
        raise
    return WrittenRows(
        entries=tuple(entries[number] for number in sorted(entries)),
        rows=write.rows,
        bytes=sum(entry.size for entry in entries.values()),
        first_upload_ms=write.uploads.first_answer_ms,
    )


class _Buffer:
    """Counter of a buffer's files that are not written yet, until when its rows are in memory."""

    def __init__(self) -> None:
        self._open = 1
        self.written = asyncio.Event()

    def open_one(self) -> None:
        self._open += 1

    def close_one(self) -> None:
        self._open -= 1
        if not self._open:
            self.written.set()


class _Job:
    """A file to write, handed over so that whoever takes it holds the only reference to its rows."""

    def __init__(self, file: FileRows, buffer: _Buffer) -> None:
        self._file: FileRows | None = file
        self.buffer = buffer
        buffer.open_one()

    def take(self) -> FileRows:
        file, self._file = self._file, None
        assert file is not None
        return file


class _Write:
    """One write in progress."""

    def __init__(
        self,
        store: ObjectStore,
        root: str,
        schema: TableSchema,
        options: TableOptions,
        intake: RowIntake,
        *,
        deletes: bool,
        unique: bool,
    ) -> None:
        self.rows = 0
        self.uploads = FileWriter(store, root, schema, options, format=FileFormat(options.file_format_level0))
        self._schema, self._options, self._deletes = schema, options, deletes
        self._intake = intake
        tells_partition = not deletes or schema.key_holds_partition
        self._partition_fields = schema.partition_fields if tells_partition else ()
        self._codec = RowKeyCodec(schema.key_fields) if schema.primary_key else None
        self._unique = unique and bool(schema.primary_key)
        self._runs = RunNumbers()
        self._files = 0
        self._under_way: deque[_Buffer] = deque()

    async def upload(self, job: _Job) -> tuple[int, FileEntry]:
        """Uploads one file; returns its place among the others and its entry."""
        written = await self.uploads.upload(job.take())
        job.buffer.close_one()
        return written

    async def files(self, data: object) -> AsyncGenerator[_Job, None]:
        """Yields the files to write, as rows come in."""
        limit = min(self._options.write_buffer_bytes, _BUFFER_BYTES_MAX)
        collected: list[pa.Table] = []
        weight = 0
        async with contextlib.aclosing(self._intake.chunks(data, chunk_bytes=limit)) as chunks:
            async for table in chunks:
                self.rows += table.num_rows
                if collected and weight + table.nbytes > limit:
                    async with contextlib.aclosing(self._files_of(collected)) as files:
                        async for file in files:
                            yield file
                    weight = 0
                collected.append(table)
                weight += table.nbytes
                # The generator must not hold rows that are in the buffer while it waits for more.
                del table
        if collected:
            async with contextlib.aclosing(self._files_of(collected)) as files:
                async for file in files:
                    yield file

    async def _files_of(self, collected: list[pa.Table]) -> AsyncGenerator[_Job, None]:
        """Yields the files of a buffer, which is emptied."""
        # Memory holds no more buffers than these: wait for the oldest.
        while len(self._under_way) >= _BUFFERS_UNDER_WAY:
            await self._under_way.popleft().written.wait()
        buffer = _Buffer()
        self._under_way.append(buffer)
        parts = await in_thread(self._parts, collected)
        while parts:
            part, run = parts.popleft()
            while len(part):
                count = -(-len(part) // await self._files_in(part))
                yield _Job(self._file(part.slice(0, count), run), buffer)
                part = part.slice(count, len(part) - count)
        buffer.close_one()

    async def _files_in(self, part: PartitionRows) -> int:
        """Returns the number of files for the rows of a part, all of about one size."""
        weight = part.source.nbytes * len(part) // part.source.num_rows
        files = 1 if part.order is None else -(-weight // _COPY_BYTES_MAX)
        if weight > self._options.file_target_bytes:
            files = max(files, -(-len(part) // await in_thread(self.uploads.fitting_rows, part)))
        return files

    def _file(self, part: PartitionRows, run: int | None) -> FileRows:
        number = self._files
        self._files += 1
        # Without a key rows belong to no bucket, and the run keeps the order of the files.
        bucket = part.bucket if self._codec is not None else number % self._schema.buckets
        return FileRows(part=part, bucket=bucket, run=number if run is None else run, number=number)

    def _parts(self, collected: list[pa.Table]) -> deque[tuple[PartitionRows, int | None]]:
        """Returns the parts of a buffer, which is emptied, with the numbers of their runs."""
        given = rows = joined(collected)
        if not self._deletes:
            rows = folded_input(rows, self._schema)
        parts = partition_rows(rows, self._schema, partition_fields=self._partition_fields)
        if self._unique and sum(map(len, parts)) < given.num_rows:
            key = repeated_key(given, KeyColumns(self._schema.key_fields))
            assert key is not None
            raise same_key_error(key)
        if self._codec is None:
            return deque((part, None) for part in parts)
        names = self._schema.primary_key
        units = [self._unit(part) for part in parts]
        ranges: dict[object, tuple[bytes, bytes]] = {}
        for unit, part in zip(units, parts, strict=True):
            low, high = part.key_range(self._codec, names)
            before_low, before_high = ranges.get(unit, (low, high))
            ranges[unit] = min(low, before_low), max(high, before_high)
        runs = {unit: self._runs.next(unit, *ends) for unit, ends in ranges.items()}
        return deque((part, runs[unit]) for unit, part in zip(units, parts, strict=True))

    def _unit(self, part: PartitionRows) -> object:
        """Returns the merge unit of a part."""
        return (part.partition, part.bucket) if self._schema.key_holds_partition else part.bucket
