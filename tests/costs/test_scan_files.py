"""Scans and lookups of real data files: the right rows, for the requests and bytes that were promised."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.config import TableSettings
from lakehouse.errors import InvalidInputError
from lakehouse.expr import col, lit
from lakehouse.format.metadata.file_entry import FileFormat
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import Field, Primitive, StringType
from lakehouse.storage.scan.lookup import Lookup
from lakehouse.storage.scan.scan import Scan
from tests.kit.stored_runs import StoredRuns

SCHEMA = TableSchema(
    fields=(
        Field(id=1, name="id", type=Primitive("int64"), required=True),
        Field(id=2, name="a", type=Primitive("int64")),
        Field(id=3, name="b", type=StringType()),
    ),
    primary_key=("id",),
    highest_field_id=3,
)
APPENDED = TableSchema(fields=SCHEMA.fields, highest_field_id=3)


def rows_of(ids: Any, a: int | None = None) -> pa.Table:
    """Rows of these keys; ``b`` is long and different in each."""
    ids = np.asarray(ids, np.int64)
    texts = np.random.default_rng(len(ids)).bytes(len(ids) * 100)
    return pa.table(
        [
            pa.array(ids),
            pa.array(ids % 1000 if a is None else np.full(len(ids), a)),
            pa.array([texts[at * 100 : at * 100 + 100].hex() for at in range(len(ids))]),
        ],
        schema=SCHEMA.arrow(),
    )


async def read(runs: StoredRuns, **asked: Any) -> tuple[pa.Table, Scan]:
    """All rows of a scan."""
    scan = Scan(runs.entries, runs.schema, runs, **asked)
    tables = [table async for table in scan.tables()]
    return pa.concat_tables([scan.schema.empty_table(), *tables]), scan


@pytest.mark.parametrize("kind", list(FileFormat))
async def test_overlapping_runs_are_merged(kind: FileFormat) -> None:
    """Newer rows replace older ones and deletions take them away, in any format and any order of files."""
    runs = StoredRuns(SCHEMA, file_format_level0=kind, parquet_row_group_rows=500, sst_block_bytes=4096)
    await runs.add(rows_of(range(10_000)))
    await runs.add(rows_of(range(0, 12_000, 3), a=-1))
    await runs.add(rows_of(range(100, 200)).select(["id"]), deletes=True)
    runs.entries.reverse()
    expected = {
        key: -1 if key % 3 == 0 else key % 1000
        for key in range(12_000)
        if (key < 10_000 or key % 3 == 0) and not 100 <= key < 200
    }
    small = TableSettings(scan_memory_bytes=100_000)
    for asked in (
        {},
        {"settings": small},
        {"columns": ["a", "id"]},
        {"columns": ["a", "id"], "settings": small},
    ):
        table, scan = await read(runs, **asked)
        assert dict(zip(table["id"].to_pylist(), table["a"].to_pylist(), strict=True)) == expected
        assert table.schema == scan.schema
    table, _ = await read(runs, where=col("a") == -1, columns=["id"], settings=small)
    assert table["id"].to_pylist() == [key for key, a in expected.items() if a == -1]
    assert await Scan(runs.entries, SCHEMA, runs, columns=[]).count() == len(expected)


async def test_a_file_that_nothing_overlaps_is_counted_without_being_opened() -> None:
    """Entries tell how many rows there are, where no file may hide another's."""
    runs = StoredRuns(SCHEMA)
    await runs.add(rows_of(range(100)))
    await runs.add(rows_of(range(200, 300)))
    assert await Scan(runs.entries, SCHEMA, runs, columns=[]).count() == 200
    assert runs.gets() == 0
    await runs.add(rows_of(range(250, 350)))
    assert await Scan(runs.entries, SCHEMA, runs, columns=[]).count() == 250
    assert runs.gets() == 2


async def test_a_small_limit_reads_one_piece() -> None:
    """A few rows of a large table cost opening one file and reading its first piece."""
    runs = StoredRuns(SCHEMA, parquet_row_group_rows=1_000)
    for begin in range(0, 100_000, 20_000):
        await runs.add(rows_of(range(begin, begin + 20_000)))
    table, scan = await read(runs, limit=10)
    assert table["id"].to_pylist() == list(range(10))
    assert (runs.gets(), runs.gets(runs.entries[0])) == (2, 2)
    assert scan.report.cost.bytes_read < runs.entries[0].size / 10


@pytest.mark.parametrize(("columns", "said"), [(["id", "c"], "these are: id, a, b"), (["a", "a"], "twice")])
async def test_columns_are_there_and_named_once(columns: list[str], said: str) -> None:
    """A column that is not there, or named twice, is refused with what there is."""
    runs = StoredRuns(SCHEMA)
    with pytest.raises(InvalidInputError, match=said):
        Scan([], SCHEMA, runs, columns=columns)
    with pytest.raises(InvalidInputError, match=said):
        await Lookup([], SCHEMA, runs).get({"id": 1}, columns=columns)


async def test_conditions_without_columns() -> None:
    """A condition that is the same for all rows lets all rows pass, or none."""
    runs = StoredRuns(SCHEMA)
    await runs.add(rows_of(range(50)))
    await runs.add(rows_of(range(25, 75)))
    for where, count in ((lit(1) == 1, 75), (lit(1) == 2, 0), (lit(None) == 1, 0)):
        assert (await read(runs, where=where))[0].num_rows == count
        assert await Scan(runs.entries, SCHEMA, runs, columns=[], where=where).count() == count


async def test_a_limit_of_nothing_reads_nothing() -> None:
    """No row is wanted, no file is opened."""
    runs = StoredRuns(SCHEMA)
    await runs.add(rows_of(range(10)))
    assert (await read(runs, limit=0))[0].num_rows == 0
    assert runs.gets() == 0


async def test_one_of_a_hundred_files_matches() -> None:
    """Of a hundred files the bytes of the only one that may match are read, and little more."""
    runs = StoredRuns(APPENDED)
    for number in range(100):
        await runs.add(rows_of(range(number * 100, number * 100 + 100), a=number))
    table, scan = await read(runs, where=col("a") == 42)
    assert table["id"].to_pylist() == list(range(4_200, 4_300))
    assert scan.report.files_pruned == {"stats": 99}
    assert scan.report.cost.bytes_read <= 1.5 * runs.entries[42].size


async def test_wide_columns_are_read_where_rows_pass() -> None:
    """With a condition that few rows pass, other columns are read of the pieces with such rows alone."""
    runs = StoredRuns(SCHEMA, parquet_row_group_rows=10_000, parquet_compression="none")
    for at in range(2):
        await runs.add(rows_of(range(at, 60_000, at + 1)))
    await runs.add(rows_of([30_001], a=5_000))
    runs.forget()
    where = col("a") + 0 == 5_000  # of which statistics say nothing
    table, scan = await read(runs, where=where)
    assert table["id"].to_pylist() == [30_001]
    assert scan.report.cost.bytes_read < sum(entry.size for entry in runs.entries) / 4


@pytest.mark.parametrize("schema", [SCHEMA, APPENDED], ids=["by key", "as they came"])
async def test_a_condition_with_rows_everywhere_costs_no_second_request(schema: TableSchema) -> None:
    """Where most pieces have rows that pass, all columns come with the same requests as without a condition,
    and are those of the rows that pass."""
    runs = StoredRuns(schema, parquet_row_group_rows=10_000, parquet_compression="none")
    await runs.add(rows_of(range(200_000)))
    memory = TableSettings(scan_memory_bytes=10_000_000)
    requests = []
    for where in (None, col("a") + 0 == 7):
        runs.forget()
        table, _ = await read(runs, where=where, columns=["b", "id"], settings=memory)
        requests.append(runs.gets())
    texts = rows_of(range(200_000))["b"]
    assert sorted(table["id"].to_pylist()) == list(range(7, 200_000, 1_000))
    assert table["b"].to_pylist() == texts.take(table["id"]).to_pylist()
    # The first sections find out that it is so.
    assert requests[1] <= requests[0] + 6


async def test_a_newer_file_that_hides_is_read_for_its_keys() -> None:
    """A file excluded by statistics that overlaps an older one that is not costs its keys, not its rows."""
    runs = StoredRuns(SCHEMA, parquet_compression="none")
    await runs.add(rows_of(range(5_000), a=1))
    (newer,) = await runs.add(rows_of(range(0, 10_000, 2), a=2))
    runs.forget()
    table, scan = await read(runs, where=col("a") == 1)
    assert table["id"].to_pylist() == list(range(1, 5_000, 2))
    assert scan.report.files_keys_only == 1
    assert scan.report.cost.bytes_read < runs.entries[0].size + newer.size / 4
    table, scan = await read(runs, where=col("a") == 2)
    assert table["id"].to_pylist() == list(range(0, 10_000, 2))
    assert (scan.report.files_keys_only, scan.report.files_pruned) == (0, {"stats": 1})


@pytest.mark.parametrize("kind", list(FileFormat))
async def test_a_lookup_costs_one_read(kind: FileFormat) -> None:
    """One run may have the key: one read once its metadata is known, none when the range says no."""
    runs = StoredRuns(SCHEMA, file_format_level0=kind, point_reads=True, parquet_row_group_rows=1_000)
    await runs.add(rows_of(range(0, 40_000, 2)))
    await runs.add(rows_of(range(100_000, 140_000, 2)))
    lookup = Lookup(runs.entries, SCHEMA, runs)
    await lookup.get({"id": 0})
    runs.store.clear()
    row = await lookup.get({"id": 20_000})
    assert row is not None
    assert row["a"] == 0
    assert runs.gets() == 1
    assert await lookup.get({"id": 90_000}) is None
    assert runs.gets() == 1


@pytest.mark.parametrize("kind", list(FileFormat))
async def test_many_lookups_share_reads(kind: FileFormat) -> None:
    """A thousand keys cost far fewer reads than keys, and come by key with the newest values."""
    runs = StoredRuns(SCHEMA, file_format_level0=kind, parquet_row_group_rows=5_000)
    await runs.add(rows_of(range(20_000)))
    await runs.add(rows_of(range(0, 20_000, 10), a=-7))
    runs.forget()
    wanted = np.random.default_rng(3).permutation(30_000)[:1_000]
    found = await Lookup(runs.entries, SCHEMA, runs).get_many(pa.table({"id": wanted}), columns=["id", "a"])
    there = np.sort(wanted[wanted < 20_000])
    assert found["id"].to_pylist() == there.tolist()
    assert found["a"].to_pylist() == np.where(there % 10 == 0, -7, there % 1000).tolist()
    assert runs.gets() < 20


async def test_batches_keep_to_the_memory_allowed() -> None:
    """However large the table is, a scan holds no more than was allowed, times little."""
    runs = StoredRuns(SCHEMA, parquet_row_group_rows=2_000)
    await runs.add(rows_of(range(100_000)))
    await runs.add(rows_of(range(0, 100_000, 5), a=1))
    settings = TableSettings(scan_memory_bytes=4_000_000, scan_concurrency=4)
    gc.collect()
    before = pa.total_allocated_bytes()
    held = rows = 0
    async for table in Scan(runs.entries, SCHEMA, runs, settings=settings).tables():
        rows += table.num_rows
        held = max(held, pa.total_allocated_bytes() - before)
    assert rows == 100_000
    assert held < 2 * settings.scan_memory_bytes, held
