"""Hidden rows: those that a newer published row replaces, or that delete, found in bounded memory."""

from __future__ import annotations

import pytest

from lakehouse.iceberg.publishing.coverage import cover
from lakehouse.iceberg.publishing.hidden_rows import hidden_rows
from tests.kit.published import ROWS, numbered
from tests.kit.worlds import NAME, process, restored


@pytest.mark.parametrize("range_bytes", [1 << 30, 2_000])
async def test_rows_that_are_not_the_newest_are_hidden(range_bytes: int) -> None:
    """In one range of keys or in many, the numbers are those of replaced and deleting rows."""
    lake = process(await restored({}))
    await lake.create_database("db")
    options = {"parquet.row_group_rows": 128}
    table = await lake.create_table(NAME, ROWS, primary_key="id", options=options)
    await table.upsert(numbered(0, 1_000))
    await table.upsert(numbered(900, 1_200, "w"))
    await table.delete("id = 5 or id = 950")
    view = await table.core.newest()
    found = cover(
        await view.files(), view.snapshot, view.schema, version=3, misses_default=lambda entry: False
    )
    (runs,) = found.hiding
    hidden = await hidden_rows(table.core, view.schema, runs, range_bytes=range_bytes)
    first, second, third = (hidden[run[0].path].tolist() for run in runs)
    assert first == [5, *range(900, 1_000)]
    assert second == [50]
    assert third == [0, 1]
