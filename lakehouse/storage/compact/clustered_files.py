"""Files of append-only tables read for another order, and written in it.

Invariant: every row that is read is written once, with its values and the snapshot it came with. Files are
in the store when they are handed out, or an error is raised and none of them is (as far as the store lets
them be deleted).
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakehouse.config import TableSettings
from lakehouse.format.metadata import FileEntry, FileFormat, Level
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.storage.compact.clustering import PLACE_COLUMN, ClusterOrder, places
from lakehouse.storage.compact.lineage import lineage_scan
from lakehouse.storage.files.file_writer import FileRows, FileUploads, delete_files
from lakehouse.storage.metadata.run_order import Interval
from lakehouse.storage.rows.partitioner import PartitionRows, joined
from lakehouse.storage.scan.table_scan import TableRuns
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["WrittenInOrder", "rows_with_places", "sampled", "write_in_order"]

_SAMPLED_PIECES = 8
"""Pieces of a file that are looked at."""
_FILES_UNDER_WAY = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenInOrder:
    """Files that are in the store."""

    entries: tuple[FileEntry, ...]
    first_upload_ms: int | None


async def sampled(
    core: OpenTable, schema: TableSchema, order: ClusterOrder, number: int, entry: FileEntry, rows: int
) -> pa.Table:
    """About so many rows of a file, spread over it: the columns of an order, and places.

    Args:
        core: the table.
        schema: of the snapshot.
        order: the order.
        number: of the file.
        entry: the file.
        rows: how many rows.
    """
    reader = await core.open(entry, schema)
    fields = [one for one in schema.fields if one.name in order.names]
    count = len(reader.pieces)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _SAMPLED_PIECES), dtype=np.int64)).tolist()
    tables = []
    for at in chosen:
        piece = reader.pieces[at]
        table = await reader.read(fields, [at])
        found = np.unique(np.linspace(0, piece.rows - 1, max(1, rows // len(chosen)), dtype=np.int64))
        place = places(number, piece.first_row, piece.rows)
        tables.append(table.append_column(PLACE_COLUMN, place).take(pa.array(found)))
    return pa.concat_tables(tables)


async def rows_with_places(
    core: OpenTable,
    schema: TableSchema,
    number: int,
    entry: FileEntry,
    *,
    interval: Interval,
    memory_bytes: int,
) -> AsyncGenerator[pa.Table, None]:
    """All rows of a file with the snapshots they came with, and places; in bounded memory.

    Args:
        core: the table.
        schema: of the snapshot.
        number: of the file.
        entry: the file.
        interval: at which the rows will stand.
        memory_bytes: what rows under way may take.
    """
    settings: TableSettings = dataclasses.replace(
        core.env.settings.table, scan_memory_bytes=max(1, memory_bytes)
    )
    scan = lineage_scan([entry], schema, TableRuns(core, schema), interval=interval, settings=settings)
    first = 0
    async with aclosing(scan.tables()) as tables:
        async for table in tables:
            yield table.append_column(PLACE_COLUMN, places(number, first, table.num_rows))
            first += table.num_rows


async def write_in_order(
    core: OpenTable,
    schema: TableSchema,
    options: TableOptions,
    partition: tuple[bytes, ...],
    rows: list[pa.Table],
) -> WrittenInOrder:
    """Writes rows as they stand into files of the size that the options ask for.

    Args:
        core: the table.
        schema: of the snapshot.
        options: of the table, or others.
        partition: of all the rows.
        rows: at least one; the list is emptied.
    """
    store, root = core.env.store, core.root
    form, level = FileFormat(options.file_format), Level.COMPACTED
    uploads = FileUploads(store, root, schema, options, format=form, level=level)
    whole = PartitionRows(partition=partition, source=joined(rows))
    fitting = await in_thread(uploads.fitting_rows, whole)
    count = -(-len(whole) // fitting)
    ends = [len(whole) * number // count for number in range(count + 1)]

    async def upload(number: int) -> tuple[int, FileEntry]:
        part = whole.slice(ends[number], ends[number + 1] - ends[number])
        return await uploads.upload(FileRows(part=part, bucket=0, run=number, number=number))

    numbers: Sequence[int] = range(count)
    try:
        done = {at: one async for at, one in map_bounded(upload, numbers, _FILES_UNDER_WAY, ordered=False)}
    except BaseException:
        await delete_files(store, root, uploads.paths)
        raise
    entries = tuple(done[number] for number in numbers)
    return WrittenInOrder(entries=entries, first_upload_ms=uploads.first_answer_ms)
