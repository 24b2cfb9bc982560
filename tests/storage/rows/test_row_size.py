"""What a row takes, and how many rows are kept together for it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakehouse.format.parquet.run_footer import RunFooter
from lakehouse.format.schema.table_options import TableOptions
from lakehouse.io import ObjectStore
from lakehouse.storage.rows.row_size import group_rows
from tests.kit.worlds import NAME, process, restored

_MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("row_bytes", "rows"), [(1, 131_072), (512, 131_072), (1024, 65_536), (_MIB, 8_192), (0.5, 131_072)]
)
def test_row_groups_of_wide_rows_have_fewer(row_bytes: float, rows: int) -> None:
    """A row group takes 64 MiB in memory at most, unless it would have hardly any rows."""
    assert group_rows(TableOptions(), row_bytes) == rows


def test_row_groups_have_no_more_rows_than_the_options_say() -> None:
    """However narrow rows are, and also where that is fewer than are worth it."""
    assert group_rows(TableOptions(parquet_row_group_rows=500), 1) == 500
    assert group_rows(TableOptions(parquet_row_group_rows=500), _MIB) == 500


async def _groups(store: ObjectStore, rows: pa.Table) -> list[int]:
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(NAME, rows.schema, primary_key="id")
    await table.append(rows)
    (key,) = [one.key async for one in store.list("db/") if one.key.endswith(".parquet")]
    found = await store.get(key)
    footer = RunFooter.parse(found.data, found.size)
    assert isinstance(footer, RunFooter)
    counts: list[int] = footer.pieces.rows.tolist()
    return counts


async def test_files_have_such_row_groups() -> None:
    """What is written keeps to it: wide rows in several groups, narrow ones in one."""
    wide = pa.table({"id": range(20_000), "text": [f"{at:010000}" for at in range(20_000)]})
    assert await _groups(await restored({}), wide) == [8_192, 8_192, 3_616]
    narrow = pa.table({"id": range(100_000)})
    assert await _groups(await restored({}), narrow) == [100_000]
