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

import contextlib
import dataclasses
from collections import deque
from collections.abc import AsyncGenerator

import pyarrow as pa

from lakehouse.config import TableSettings
from lakehouse.format.keys import RowKeyCodec
from lakehouse.format.metadata import FileFormat
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import in_thread
from lakehouse.storage.files.file_cutter import FileCutter
from lakehouse.storage.files.file_writer import FileRows
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.merge.engines import folded_input
from lakehouse.storage.merge.intake import RowIntake
from lakehouse.storage.rows.duplicate_keys import repeated_key, same_key_error
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.missing_columns import Missing
from lakehouse.storage.rows.partitioner import PartitionRows, RunNumbers, joined, partition_rows

__all__ = ["write_rows"]

_SETTINGS = TableSettings()
_BUFFER_BYTES_MAX = 1 << 30
"""Maximum bytes of a buffer: Arrow counts the bytes of a column of text in 31 bits."""
_BUFFERS_UNDER_WAY = 2
"""Maximum buffers whose files are being written while another fills."""


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
) -> UploadedFiles:
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
        return UploadedFiles()
    form, at_once = FileFormat(options.file_format_level0), settings.write_concurrency
    cutter = FileCutter(store, root, schema, options, format=form, at_once=at_once)
    write = _Write(cutter, schema, options, intake, deletes=deletes, unique=unique)
    files = await cutter.upload(write.files(data))
    return dataclasses.replace(files, rows=write.rows)


class _Write:
    """One write in progress."""

    def __init__(
        self,
        cutter: FileCutter,
        schema: TableSchema,
        options: TableOptions,
        intake: RowIntake,
        *,
        deletes: bool,
        unique: bool,
    ) -> None:
        self.rows = 0
        self._cutter, self._schema, self._options, self._deletes = cutter, schema, options, deletes
        self._intake = intake
        tells_partition = not deletes or schema.key_holds_partition
        self._partition_fields = schema.partition_fields if tells_partition else ()
        self._codec = RowKeyCodec(schema.key_fields) if schema.primary_key else None
        self._unique = unique and bool(schema.primary_key)
        self._runs = RunNumbers()

    async def files(self, data: object) -> AsyncGenerator[FileRows, None]:
        """Yields the files to write, as rows come in."""
        under_way: deque[int] = deque()
        async with contextlib.aclosing(self._buffers(data)) as buffers:
            async for buffer in buffers:
                # Memory holds no more buffers than these: wait for the oldest.
                while len(under_way) >= _BUFFERS_UNDER_WAY:
                    await self._cutter.wait_for(under_way.popleft())
                files = self._cutter.cut(await in_thread(self._parts, buffer))
                async with contextlib.aclosing(files):
                    async for file in files:
                        yield file
                under_way.append(self._cutter.count)

    async def _buffers(self, data: object) -> AsyncGenerator[list[pa.Table], None]:
        """Yields the rows, fitted to the schema, in buffers that the caller empties."""
        limit = min(self._options.write_buffer_bytes, _BUFFER_BYTES_MAX)
        collected: list[pa.Table] = []
        weight = 0
        async with contextlib.aclosing(self._intake.chunks(data, chunk_bytes=limit)) as chunks:
            async for table in chunks:
                self.rows += table.num_rows
                if collected and weight + table.nbytes > limit:
                    yield collected
                    weight = 0
                collected.append(table)
                weight += table.nbytes
                # The generator must not hold rows that are in the buffer while it waits for more.
                del table
        if collected:
            yield collected

    def _parts(self, collected: list[pa.Table]) -> list[tuple[PartitionRows, int | None]]:
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
            return [(part, None) for part in parts]
        names = self._schema.primary_key
        units = [self._unit(part) for part in parts]
        ranges: dict[object, tuple[bytes, bytes]] = {}
        for unit, part in zip(units, parts, strict=True):
            low, high = part.key_range(self._codec, names)
            before_low, before_high = ranges.get(unit, (low, high))
            ranges[unit] = min(low, before_low), max(high, before_high)
        runs = {unit: self._runs.next(unit, *ends) for unit, ends in ranges.items()}
        return [(part, runs[unit]) for unit, part in zip(units, parts, strict=True)]

    def _unit(self, part: PartitionRows) -> object:
        """Returns the merge unit of a part."""
        return (part.partition, part.bucket) if self._schema.key_holds_partition else part.bucket
