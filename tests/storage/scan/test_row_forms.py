"""Forms of the rows of a scan: the same rows in each, counted and explained."""

from __future__ import annotations

import pyarrow as pa

from lakehouse.expr import col
from lakehouse.testing import RecordingStore
from tests.kit.scanned import filled
from tests.kit.streaming import made


async def test_every_form_has_the_same_rows() -> None:
    """Rows are the same as an Arrow table, batches, tables, dicts and data frames, and in DuckDB."""
    scan = (await filled()).scan("part = 'b'", columns=["v", "id"])
    expected = [{"v": None, "id": 2}, {"v": 30, "id": 3}]
    arrow = await scan.to_arrow()
    assert arrow.to_pylist() == expected
    assert await scan.to_pylist() == expected
    assert [row async for batch in scan.batches() for row in batch.to_pylist()] == expected
    assert [row async for table in scan.tables() for row in table.to_pylist()] == expected
    assert (await scan.to_pandas())["id"].tolist() == [2, 3]
    assert (await scan.to_polars()).to_dicts() == expected
    database = await scan.to_duckdb("found")
    assert database.sql("SELECT v, id FROM found ORDER BY id").fetchall() == [(None, 2), (30, 3)]
    assert await scan.to_duckdb("again", database) is database


async def test_no_rows_have_their_columns() -> None:
    """A scan that finds nothing is a table of the columns that were asked for, with their types."""
    found = await (await filled()).scan("v > 1000", columns=["v"]).to_arrow()
    assert (found.num_rows, found.schema.names, found.schema.types) == (0, ["v"], [pa.int64()])


async def test_a_limit_bounds_rows_and_their_count() -> None:
    """With a limit there are no more rows, and ``count`` counts those."""
    scan = (await filled()).scan(limit=2)
    assert len(await scan.to_pylist()) == 2
    assert await scan.count() == 2


async def test_a_scan_is_explained_without_opening_files() -> None:
    """The plan says what is left out and reads no data file; a reading reports its rows afterwards."""
    store = RecordingStore(await made("append-only"))
    table = await filled(store)
    scan = table.scan(col("v") > 25)
    store.clear()
    plan = await scan.explain()
    assert (plan.files, sum(plan.files_pruned.values()), plan.rows) == (2, 1, 0)
    assert not [call for call in store.calls if "/data/" in call.key]
    await scan.to_arrow()
    assert (scan.report.files, scan.report.rows) == (2, 1)
