"""Cutting of a write's rows into data files of the table's target size, and their upload.

Rows that are all at hand are cut into files of equal length; rows that arrive one table after the other are
collected until they fill a file. Some files are encoded and uploaded while further ones are cut.

Invariant: an upload ends with all its files in the store, or with an error and none of them (if the store
lets them be deleted). Files are numbered in the order in which they are cut, and handed out in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing

import anyio
import pyarrow as pa

from lakehouse.format.metadata import FileEntry, FileFormat, Level
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.storage.files.file_writer import FileRows, FileWriter
from lakehouse.storage.files.uploaded_files import UploadedFiles, delete_files
from lakehouse.storage.rows.partitioner import PartitionRows

__all__ = ["FileCutter"]

_FILES_UNDER_WAY = 2
"""Files that are encoded and uploaded at once, in turns, where nothing else is asked for."""
_COPY_BYTES_MAX = 128 * 1024 * 1024
"""Maximum bytes of unordered rows that are copied for one file: memory that is fresh costs more time
than sorting, and two files keep two cores busy."""
_TELLING_ROWS = 1024
"""Fewer rows are too small a sample of the bytes that a row takes in a file."""


class FileCutter:
    """Files of one write: cut by size, numbered, and uploaded, some at once.

    Args:
        store: the store that holds the table.
        root: the table's directory.
        schema: the schema of the rows.
        options: the table's options.
        format: format of the files.
        level: level of compaction of the rows.
        at_once: files that are encoded and uploaded at once.
        room: bytes of rows that may be collected.
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
        at_once: int = _FILES_UNDER_WAY,
        room: int = 0,
    ) -> None:
        self._store, self._root, self._schema, self._options = store, root, schema, options
        self._writer = FileWriter(store, root, schema, options, format=format, level=level)
        self._at_once, self._room = at_once, room
        self._collected: dict[tuple[tuple[bytes, ...], int], _Collected] = {}
        self.count = 0
        """Number of files that were cut so far."""
        self._under_way: set[int] = set()
        self._uploaded = anyio.Event()

    @property
    def paths(self) -> list[str]:
        """Paths of every file whose upload began, index files included."""
        return self._writer.paths

    @property
    def first_upload_ms(self) -> int | None:
        """Time at which the store answered the first upload, by its clock."""
        return self._writer.first_answer_ms

    # --- cutting ------------------------------------------------------------------

    def file(self, part: PartitionRows, run: int | None = None) -> FileRows:
        """Returns the next file; its run is 0, or without a key its number, which keeps the order of rows."""
        number = self.count
        self.count += 1
        self._under_way.add(number)
        if run is None:
            run = 0 if self._schema.primary_key else number
        return FileRows(part, run, number)

    async def cut(self, parts: Iterable[tuple[PartitionRows, int | None]]) -> AsyncGenerator[FileRows, None]:
        """Yields the files of parts that are at hand, those of a part of about one size.

        Args:
            parts: the rows of each part, and the number of its run as for :meth:`file`.
        """
        for part, run in parts:
            if not self._schema.primary_key:
                # Without a key rows belong to no bucket: parts are spread evenly. The files of a part share
                # one, since files at one interval are ordered by bucket first.
                part = dataclasses.replace(part, bucket=self.count % self._schema.buckets)
            while len(part):
                rows = -(-len(part) // await self._files_in(part))
                yield self.file(part.slice(0, rows), run)
                part = part.slice(rows, len(part) - rows)

    async def _files_in(self, part: PartitionRows) -> int:
        """Returns the number of files for the rows of a part."""
        weight = part.source.nbytes * len(part) // part.source.num_rows
        files = 1 if part.order is None else -(-weight // _COPY_BYTES_MAX)
        if weight > self._options.file_target_bytes:
            files = max(files, -(-len(part) // await in_thread(self._writer.fitting_rows, part)))
        return files

    async def collect(
        self, tables: AsyncGenerator[pa.Table, None], parts_of: Callable[[pa.Table], Iterable[PartitionRows]]
    ) -> AsyncGenerator[FileRows, None]:
        """Yields the files of rows that arrive table by table, in order; rows wait until they fill a file.

        Args:
            tables: the rows; at the end they are closed.
            parts_of: divides the rows of a table by partition and bucket; called in a thread.
        """
        async with aclosing(tables):
            async for table in tables:
                files = await in_thread(self._full_files, parts_of, table)
                # Dropped before the next table is awaited, or two tables would be in memory.
                del table
                for file in files:
                    yield file
        for place, collected in sorted(self._collected.items()):
            if collected.rows:
                yield self._collected_file(place, collected.rows)

    def _full_files(
        self, parts_of: Callable[[pa.Table], Iterable[PartitionRows]], table: pa.Table
    ) -> list[FileRows]:
        """Collects rows; returns the files that are full, and the largest when too many rows wait."""
        files = []
        for part in parts_of(table):
            place = part.partition, part.bucket
            collected = self._collected.setdefault(place, _Collected())
            collected.add(part.rows())
            if collected.rows < _TELLING_ROWS:
                continue
            fitting = self._writer.fitting_rows(PartitionRows(source=collected.whole()))
            fitting = min(fitting, max(1, int(self._room * collected.rows / max(1, collected.size))))
            while collected.rows >= fitting:
                files.append(self._collected_file(place, fitting))
        while sum(held.size for held in self._collected.values()) > self._room:
            largest = max(self._collected, key=lambda place: self._collected[place].size)
            files.append(self._collected_file(largest, self._collected[largest].rows))
        return files

    def _collected_file(self, place: tuple[tuple[bytes, ...], int], rows: int) -> FileRows:
        partition, bucket = place
        source = self._collected[place].take(rows)
        return self.file(PartitionRows(partition=partition, bucket=bucket, source=source))

    # --- uploading ----------------------------------------------------------------

    async def upload(self, files: AsyncGenerator[FileRows, None] | Iterable[FileRows]) -> UploadedFiles:
        """Uploads files; returns them in order. If it fails, all files of the write are deleted."""
        try:
            uploads = map_bounded(self._upload, files, self._at_once, ordered=False)
            async with aclosing(uploads):
                entries = {number: entry async for number, entry in uploads}
        # Also on cancellation: nobody else knows of these files yet.
        except BaseException:
            await delete_files(self._store, self._root, self.paths)
            self.paths.clear()
            raise
        return UploadedFiles(
            entries=tuple(entries[number] for number in sorted(entries)),
            rows=sum(entry.rows for entry in entries.values()),
            first_upload_ms=self.first_upload_ms,
        )

    async def _upload(self, file: FileRows) -> tuple[int, FileEntry]:
        entry = await self._writer.upload(file)
        self._under_way.discard(file.number)
        self._uploaded.set()
        return file.number, entry

    async def wait_for(self, count: int) -> None:
        """Waits until the first ``count`` files are uploaded, so that nothing holds their rows."""
        while self._under_way and min(self._under_way) < count:
            self._uploaded = anyio.Event()
            await self._uploaded.wait()


class _Collected:
    """Rows of one partition and bucket that are in no file yet, in order."""

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

    def whole(self) -> pa.Table:
        """Returns all the rows, which are not copied."""
        return pa.concat_tables(self.tables)

    def take(self, rows: int) -> pa.Table:
        """Removes and returns the first of the rows."""
        whole = self.whole()
        first, rest = whole.slice(0, rows), whole.slice(rows)
        self.tables, self.rows, self.size = [], 0, 0
        if rest.num_rows:
            self.add(rest)
        return first
