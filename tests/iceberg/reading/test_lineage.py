"""Values that a task knows of its file: identity partitions, row ids, commits of last changes."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from tests.kit.iceberg_files import MadeTable, field

_SPEC = [
    {"name": "day", "transform": "identity", "source-id": 2, "field-id": 1000},
    {"name": "id_bucket", "transform": "bucket[4]", "source-id": 1, "field-id": 1001},
]
_FIELDS = [field(1, "id", "long"), field(2, "day", "string")]
_LINEAGE = ["id", "_row_id", "_last_updated_sequence_number"]


async def test_partition_columns_that_a_file_lacks_come_from_its_task() -> None:
    """As in files that Hive wrote; conditions see the value, and other transforms give none."""
    table = MadeTable(_FIELDS, specs={0: _SPEC})
    tasks = [
        await table.data(pa.table({"id": [1, 2]}), [1], partition=("monday", 3)),
        await table.data(pa.table({"id": [3]}), [1], partition=(None, 3)),
    ]
    assert [row["day"] for row in await table.rows(*tasks)] == ["monday", "monday", None]
    assert await table.rows(*tasks, where="day = 'monday' and id > 1") == [{"id": 2, "day": "monday"}]


async def test_a_column_in_the_file_wins() -> None:
    """Where the file has the column, its values count."""
    table = MadeTable(_FIELDS, specs={0: _SPEC})
    task = await table.data(pa.table({"id": [1], "day": ["tuesday"]}), [1, 2], partition=("monday", 3))
    assert await table.rows(task) == [{"id": 1, "day": "tuesday"}]


async def test_rows_are_numbered_through_their_file() -> None:
    """Row ids count from the file's first, whatever rows deletes and conditions leave."""
    table = MadeTable(_FIELDS)
    task = await table.data(pa.table({"id": range(20)}), [1], first_row_id=100, sequence=7)
    vector = (await table.vectors({task.path: [0, 8]}))[task.path]
    found = await table.left(task, vector, where="id in (1, 8, 9, 19)", columns=_LINEAGE)
    assert [tuple(row.values()) for row in found] == [(1, 101, 7), (9, 109, 7), (19, 119, 7)]


async def test_rewritten_rows_keep_their_lineage() -> None:
    """What stands in a file is what a row had before; only what is null there follows from the file."""
    table = MadeTable(_FIELDS)
    rows = pa.table({"id": [1, 2], "_row_id": [55, None], "_last_updated_sequence_number": [3, None]})
    task = await table.data(rows, [1, 2147483540, 2147483539], first_row_id=100, sequence=7)
    found = await table.rows(task, columns=_LINEAGE, where="_row_id > 0")
    assert [tuple(row.values()) for row in found] == [(1, 55, 3), (2, 101, 7)]


async def test_without_a_first_row_id_lineage_is_not_known() -> None:
    """Files from before version 3 have rows without ids."""
    table = MadeTable(_FIELDS)
    task = await table.data(pa.table({"id": [1]}), [1], sequence=7)
    assert await table.rows(task, columns=_LINEAGE) == [
        {"id": 1, "_row_id": None, "_last_updated_sequence_number": None}
    ]
    assert await table.rows(replace(task, first_row_id=0), columns=["_row_id"]) == [{"_row_id": 0}]


async def test_lineage_is_shown_when_it_is_asked_for() -> None:
    """All columns are those of the schema."""
    table = MadeTable(_FIELDS)
    task = await table.data(pa.table({"id": [1]}), [1], first_row_id=0)
    assert table.scan([task]).schema.names == ["id", "day"]
