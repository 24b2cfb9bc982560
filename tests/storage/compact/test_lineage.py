"""Scans of rows that are written again: each row tells the snapshot it came with, and its kind."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakehouse.expr import col
from lakehouse.format.keys import RowKeyCodec
from lakehouse.format.metadata import KIND_COLUMN, SEQUENCE_COLUMN, FileEntry, RowKind
from lakehouse.storage.compact.lineage import lineage_scan
from lakehouse.storage.metadata.run_order import hull
from tests.kit.memory_runs import MemoryRuns
from tests.kit.run_histories import SCHEMA, run_table


def run(*ids: int, value: int = 0) -> pa.Table:
    """Rows of these ids."""
    return run_table(dict.fromkeys(ids, (RowKind.INSERT, value, "x")))


def deletion(*ids: int) -> pa.Table:
    """Rows that delete these ids."""
    return run_table(dict.fromkeys(ids, (RowKind.DELETE, None, None)))


def runs_of(*tables: pa.Table) -> tuple[MemoryRuns, list[FileEntry]]:
    """The tables as commits 2, 3, and so on."""
    runs = MemoryRuns(SCHEMA)
    return runs, [runs.add(rows, lo=(at, 1, 0), hi=(at, 1, 0)) for at, rows in enumerate(tables, start=2)]


async def scanned(runs: MemoryRuns, entries: list[FileEntry], **how: Any) -> pa.Table:
    """The rows of a scan of files, to be written at the hull of their positions."""
    scan = lineage_scan(entries, SCHEMA, runs, interval=hull(entries), settings=runs.settings, **how)
    return pa.concat_tables([rows async for rows in scan.tables()])


async def test_each_row_tells_its_snapshot() -> None:
    """Of several commits the newest row of a key has the number of the commit that brought it."""
    runs, entries = runs_of(run(1, 2, 3), run(2), run(3, 4))
    found = await scanned(runs, entries)
    assert found.column("id").to_pylist() == [1, 2, 3, 4]
    assert found.column(SEQUENCE_COLUMN).to_pylist() == [2, 3, 4, 4]


async def test_rows_of_one_commit_need_no_column_for_it() -> None:
    """The entry of the file they are written to says it."""
    runs, entries = runs_of(run(1, 2))
    assert (await scanned(runs, entries)).column_names == ["id", "a", "b"]


async def test_rows_that_carry_their_snapshot_keep_it() -> None:
    """In a file of several commits a row without a snapshot of its own came with the first of them."""
    runs, entries = runs_of(run(9))
    rows = run(1, 2, 3).append_column(SEQUENCE_COLUMN, pa.array([None, 4, 5], pa.int64()))
    entries.append(runs.add(rows, lo=(3, 1, 0), hi=(5, 1, 0)))
    found = await scanned(runs, entries)
    assert found.column("id").to_pylist() == [1, 2, 3, 9]
    assert found.column(SEQUENCE_COLUMN).to_pylist() == [3, 4, 5, 2]


async def test_rows_that_delete_are_kept_when_asked_for() -> None:
    """With kinds every row has its own, and keys that were deleted are there; without, they are not."""
    runs, entries = runs_of(run(1, 2), deletion(2, 7))
    kept = await scanned(runs, entries, kinds=True)
    assert kept.column("id").to_pylist() == [1, 2, 7]
    assert kept.column(KIND_COLUMN).to_pylist() == [RowKind.INSERT, RowKind.DELETE, RowKind.DELETE]
    assert (await scanned(runs, entries)).column("id").to_pylist() == [1]


async def test_only_rows_of_a_range_of_keys_are_read() -> None:
    """The first key of the range is in it, the end is not."""
    runs, entries = runs_of(run(1, 2, 3, 4), run(3, 5))
    codec = RowKeyCodec(SCHEMA.key_fields)
    found = await scanned(runs, entries, keys=(codec.encode_one((2,)), codec.encode_one((5,))))
    assert found.column("id").to_pylist() == [2, 3, 4]


async def test_rows_outside_a_condition_are_left_out() -> None:
    """A condition is about the newest row of a key: an older one that meets it does not come back."""
    runs, entries = runs_of(run(1, 2, value=1), run(2, value=5))
    found = await scanned(runs, entries, where=col("a") < 5)
    assert found.column("id").to_pylist() == [1]
    assert found.column(SEQUENCE_COLUMN).to_pylist() == [2]
