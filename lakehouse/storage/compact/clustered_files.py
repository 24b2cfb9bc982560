"""Reading and writing of files for a rewrite of an append-only table in another order.

Invariant: every row that is read is written once, with its values and the snapshot it came with. Returned
files are in the store; when an error is raised none of them is, unless the store refuses to delete them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator
from contextlib import aclosing

import numpy as np
import pyarrow as pa

from lakehouse.config import TableSettings
from lakehouse.format.metadata import FileEntry, FileFormat, Level
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.storage.compact.clustering import PLACE_COLUMN, ClusterOrder, places
from lakehouse.storage.compact.lineage import lineage_scan
from lakehouse.storage.files.file_cutter import FileCutter
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.metadata.run_order import Interval
from lakehouse.storage.rows.partitioner import PartitionRows, joined
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["rows_with_places", "sampled", "write_in_order"]

_SAMPLED_PIECES = 8
"""Maximum number of pieces of a file that a sample reads."""


async def sampled(
    table: OpenTable, schema: TableSchema, order: ClusterOrder, number: int, entry: FileEntry, rows: int
) -> pa.Table:
    """Returns about ``rows`` rows spread over a file: the columns of an order, and places.

    Args:
        table: the table.
        schema: schema of the snapshot.
        order: the order.
        number: number of the file in its rewrite, for the places.
        entry: the file.
        rows: number of rows wanted.
    """
    reader = await table.open(entry, schema)
    fields = [field for field in schema.fields if field.name in order.names]
    count = len(reader.pieces)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _SAMPLED_PIECES), dtype=np.int64)).tolist()
    tables = []
    for at in chosen:
        piece = reader.pieces[at]
        arrow_rows = await reader.read(fields, [at])
        picked = np.unique(np.linspace(0, piece.rows - 1, max(1, rows // len(chosen)), dtype=np.int64))
        place = places(number, piece.first_row, piece.rows)
        tables.append(arrow_rows.append_column(PLACE_COLUMN, place).take(pa.array(picked)))
    return pa.concat_tables(tables)


async def rows_with_places(
    table: OpenTable,
    schema: TableSchema,
    number: int,
    entry: FileEntry,
    *,
    interval: Interval,
    memory_bytes: int,
) -> AsyncGenerator[pa.Table, None]:
    """Yields all rows of a file with the snapshots they came with, and their places, in bounded memory.

    Args:
        table: the table.
        schema: schema of the snapshot.
        number: number of the file in its rewrite, for the places.
        entry: the file.
        interval: interval of positions that the rewritten rows will have.
        memory_bytes: maximum bytes of rows in memory.
    """
    settings: TableSettings = dataclasses.replace(table.settings, scan_memory_bytes=max(1, memory_bytes))
    scan = lineage_scan([entry], schema, table, interval=interval, settings=settings)
    first = 0
    async with aclosing(scan.tables()) as tables:
        async for rows in tables:
            yield rows.append_column(PLACE_COLUMN, places(number, first, rows.num_rows))
            first += rows.num_rows


async def write_in_order(
    table: OpenTable,
    schema: TableSchema,
    options: TableOptions,
    partition: tuple[bytes, ...],
    rows: list[pa.Table],
) -> UploadedFiles:
    """Writes rows in the given order into files of the size that the options ask for.

    Args:
        table: the table.
        schema: schema of the snapshot.
        options: options to write with: the table's, or others.
        partition: partition of all the rows.
        rows: at least one row; the list is emptied, so that memory does not hold everything twice.
    """
    form = FileFormat(options.file_format)
    cutter = FileCutter(table.env.store, table.root, schema, options, format=form, level=Level.COMPACTED)
    return await cutter.upload(cutter.cut([(PartitionRows(partition=partition, source=joined(rows)), None)]))
