"""Data files and manifests of tables, read by other people's Parquet readers."""

from __future__ import annotations

import json

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.storage.table import Table
from tests.kit.golden_tables import HOME, plain, warehouse
from tests.kit.worlds import process, restored

PARQUET = sorted(key for key in warehouse() if key.endswith(".parquet") or "/manifest/" in key)


def rows_of(table: pa.Table) -> list[str]:
    """Rows as text: two readers may say the same in different Arrow types."""
    return [json.dumps(plain(row), ensure_ascii=False) for row in table.to_pylist()]


@pytest.mark.parametrize("key", PARQUET)
def test_two_readers_agree_about_a_file(key: str) -> None:
    """DuckDB and pyarrow, which share no code, find the same columns and rows."""
    path = HOME / "warehouse" / key
    arrow = pq.ParquetFile(path).read()
    with duckdb.connect() as db:
        relation = db.sql("SELECT * FROM read_parquet(?, hive_partitioning = false)", params=[str(path)])
        found = relation.to_arrow_table()
    assert found.column_names == arrow.column_names
    assert rows_of(found) == rows_of(arrow)


@pytest.mark.parametrize("name", ["golden.types", "golden.log", "golden.partitioned"])
async def test_files_hold_what_the_table_says(name: str) -> None:
    """Each file of a table has as many rows, and field ids, as the table's own relation says."""
    table: Table = await process(await restored(warehouse())).table(name)
    directory = table.location.rpartition("/golden/")[2]
    ids = {field.id for field in (await table.schema()).fields}
    for one in (await table.files()).to_pylist():
        if one["format"] != "parquet":
            continue
        file = pq.ParquetFile(HOME / "warehouse" / "golden" / directory / one["path"])
        assert file.metadata.num_rows == one["stored_rows"]
        found = {int(field.metadata[b"PARQUET:field_id"]) for field in file.schema_arrow}
        assert found >= ids


async def test_a_file_without_deletes_is_its_rows() -> None:
    """The rows of an append are in the file as the table shows them, after the columns that are its own."""
    table = await process(await restored(warehouse())).table("golden.types")
    (one,) = (await table.files(snapshot=2)).to_pylist()
    directory = table.location.rpartition("/golden/")[2]
    path = HOME / "warehouse" / "golden" / directory / one["path"]
    wanted = await table.scan(snapshot=2).to_arrow()
    found = pq.ParquetFile(path).read(columns=wanted.column_names)
    assert rows_of(found) == rows_of(wanted)
