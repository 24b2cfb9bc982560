"""Rewrites in another order: rows are sampled and read with their places, and written as they come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakehouse.format.metadata import SEQUENCE_COLUMN, FileEntry, Level
from lakehouse.format.schema import TableOptions
from lakehouse.storage.compact.clustered_files import rows_with_places, sampled, write_in_order
from lakehouse.storage.compact.clustering import PLACE_COLUMN, parse_order
from lakehouse.storage.metadata.run_order import hull
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View
from tests.kit.worlds import NAME, process, restored

ROWS = 2_000
SCHEMA = pa.schema({"v": pa.int64(), "text": pa.string()})
_FILE_BITS = 40


def rows_from(first: int, count: int = ROWS) -> pa.Table:
    """Rows whose values are their numbers."""
    numbers = np.arange(first, first + count)
    return pa.table({"v": numbers, "text": [f"row {number}" for number in numbers]}, SCHEMA)


async def made(files: int = 1) -> tuple[OpenTable, View, list[FileEntry]]:
    """A table of files of sixteen row groups each, its newest snapshot, and its files."""
    lake = process(await restored({}))
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, options={"parquet.row_group_rows": 128})
    for number in range(files):
        await table.append(rows_from(number * ROWS))
    view = await table.core.newest()
    return table.core, view, list(await view.files())


async def test_a_sample_is_spread_over_its_file() -> None:
    """It has the columns of the order and places, and rows from the first to the last of the file."""
    table, view, (entry,) = await made()
    order = parse_order(view.schema, sort_by="v")
    sample = await sampled(table, view.schema, order, 3, entry, 40)
    numbers = sample.column("v").to_pylist()
    assert sample.column_names == ["v", PLACE_COLUMN]
    assert (sample.num_rows, numbers[0], numbers[-1]) == (40, 0, ROWS - 1)
    assert numbers == sorted(numbers)
    assert sample.column(PLACE_COLUMN).to_pylist() == [(3 << _FILE_BITS) + number for number in numbers]


async def test_a_sample_reads_few_pieces() -> None:
    """However many rows are wanted, rows of eight pieces are read."""
    table, view, (entry,) = await made()
    order = parse_order(view.schema, sort_by="v")
    reader = await table.open(entry, view.schema)
    assert len(reader.pieces) == 16
    sample = await sampled(table, view.schema, order, 0, entry, ROWS)
    assert len({number // 128 for number in sample.column("v").to_pylist()}) == 8


async def test_rows_are_read_with_places_and_snapshots() -> None:
    """In however little memory, every row comes once, in order, with its place and its snapshot."""
    table, view, files = await made(2)
    interval = hull(files)
    found = [
        rows
        async for rows in rows_with_places(table, view.schema, 5, files[1], interval=interval, memory_bytes=1)
    ]
    whole = pa.concat_tables(found)
    assert len(found) > 1
    assert whole.column("v").to_pylist() == list(range(ROWS, 2 * ROWS))
    assert whole.column(PLACE_COLUMN).to_pylist() == [(5 << _FILE_BITS) + at for at in range(ROWS)]
    assert set(whole.column(SEQUENCE_COLUMN).to_pylist()) == {files[1].at}


async def test_rows_of_one_commit_carry_no_snapshot() -> None:
    """Where the rewritten rows stand at one commit, the entry of their file says which it is."""
    table, view, (entry,) = await made()
    tables = rows_with_places(table, view.schema, 0, entry, interval=hull([entry]), memory_bytes=1 << 20)
    assert {tuple(rows.column_names) async for rows in tables} == {("v", "text", PLACE_COLUMN)}


async def test_rows_are_written_in_the_order_they_come_in() -> None:
    """They become a compacted file, and the list that held them is empty."""
    table, view, _ = await made()
    rows = [rows_from(10, 5), rows_from(0, 5)]
    files = await write_in_order(table, view.schema, TableOptions.parse(view.schema.options), (), rows)
    (entry,) = files.entries
    assert (entry.level, entry.rows, rows) == (Level.COMPACTED, 10, [])
    reader = await table.open(entry, view.schema)
    found = await reader.read([view.schema.field("v")])
    assert found.column("v").to_pylist() == [10, 11, 12, 13, 14, 0, 1, 2, 3, 4]
