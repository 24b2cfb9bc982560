"""Rows that are deleted by their numbers: position delete files, and deletion vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError
from lakehouse.io import measure
from tests.kit.iceberg_files import MadeTable, field, with_ids

_ROWS = pa.table({"id": range(20)})


def _table() -> MadeTable:
    return MadeTable([field(1, "id", "long")])


def _ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


@settings(max_examples=40, deadline=None)
@given(
    deleted=st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 19)), max_size=30), max_size=3),
    low=st.integers(0, 20),
)
async def test_rows_of_every_file_are_hidden_by_number(
    deleted: list[list[tuple[int, int]]], low: int
) -> None:
    """Positions in any order, of several files and twice, hide what a brute force hides."""
    table = _table()
    tasks = [await table.data(_ROWS, [1]) for _ in range(3)]
    deletes = [await table.positions((tasks[file].path, row) for file, row in lines) for lines in deleted]
    found = [await table.left(task, *deletes, where=f"id >= {low}") for task in tasks]
    hidden = {pair for lines in deleted for pair in lines}
    assert [_ids(rows) for rows in found] == [
        [row for row in range(low, 20) if (file, row) not in hidden] for file in range(3)
    ]


async def test_a_delete_file_of_many_data_files_is_read_once() -> None:
    """Ten data files and one delete file are eleven requests."""
    table = _table()
    tasks = [await table.data(_ROWS, [1]) for _ in range(10)]
    delete = await table.positions((task.path, at) for at, task in enumerate(tasks))
    with measure() as cost:
        found = await table.rows(*(replace(task, deletes=(delete,)) for task in tasks))
    assert len(found) == 190
    assert cost.by_kind() == {"get": 11}


async def test_positions_of_other_files_are_passed_over() -> None:
    """What a delete file says of files that the scan does not read hides nothing."""
    table = _table()
    task = await table.data(_ROWS, [1])
    delete = await table.positions([("memory://elsewhere/x.parquet", 999), (task.path, 0)])
    assert _ids(await table.left(task, delete)) == list(range(1, 20))


@pytest.mark.parametrize("row", [-1, 20, 2**40])
async def test_a_row_that_the_file_has_not_is_corruption(row: int) -> None:
    """A position outside of the data file names both files."""
    table = _table()
    task = await table.data(_ROWS, [1])
    delete = await table.positions([(task.path, 3), (task.path, row)])
    with pytest.raises(CorruptionError, match=f"deletes row {row:,} of .*, which has 20 rows") as caught:
        await table.left(task, delete)
    assert caught.value.context["key"] == delete.path


async def test_a_file_of_other_columns_is_no_position_delete_file() -> None:
    """A file without the columns that position deletes have is an error that names it."""
    table = _table()
    task = await table.data(_ROWS, [1])
    path, size = await table.parquet(with_ids(_ROWS, [7]))
    delete = replace(await table.positions([(task.path, 1)]), path=path, size=size, rows=20)
    with pytest.raises(CorruptionError, match="must not be null") as caught:
        await table.left(task, delete)
    assert path in str(caught.value)


@settings(max_examples=40, deadline=None)
@given(rows=st.sets(st.integers(0, 19)))
async def test_a_vector_hides_its_rows(rows: set[int]) -> None:
    """A data file has the rows that its vector has not."""
    table = _table()
    task = await table.data(_ROWS, [1])
    vectors = await table.vectors({"other": [1, 2], task.path: sorted(rows), "third": [3]})
    assert _ids(await table.left(task, vectors[task.path])) == sorted(set(range(20)) - rows)


async def test_a_vector_is_one_ranged_get() -> None:
    """Only the blob is fetched, whatever else the puffin file holds."""
    table = _table()
    task = await table.data(_ROWS, [1])
    vectors = await table.vectors({"other": range(0, 200_000, 3), task.path: [5]})
    with measure() as cost:
        assert len(await table.left(task, vectors[task.path])) == 19
    assert cost.by_kind() == {"get": 2}
    assert cost.bytes_read == task.size + (vectors[task.path].length or 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 2}, "another number of positions than was said"),
        ({"size": 10_000}, "and the manifest says 10,000"),
        ({"offset": None}, "bytes at byte None"),
        ({"length": 10**6}, "1000000 bytes at byte"),
        ({"length": 0}, "has 0 bytes at byte"),
        ({"offset": 5}, "deletion vector"),
        ({"referenced": "memory://x"}, "the vector is about memory://x"),
        ({"path": "memory://iceberg-made/gone"}, "is missing"),
    ],
)
async def test_a_vector_that_is_not_as_said_is_corruption(change: dict[str, Any], message: str) -> None:
    """Counts, sizes, places and names that disagree are errors that name the puffin file."""
    table = _table()
    task = await table.data(_ROWS, [1])
    vector = (await table.vectors({task.path: [5]}))[task.path]
    if "path" in change:
        change = {"path": f"{table.url}/gone.puffin"}
    with pytest.raises(CorruptionError, match=message) as caught:
        await table.left(task, replace(vector, **change))
    assert caught.value.context["key"].endswith(".puffin")


async def test_a_vector_may_not_delete_rows_that_the_file_has_not() -> None:
    """A position beyond the data file is damage."""
    table = _table()
    task = await table.data(_ROWS, [1])
    vectors = await table.vectors({task.path: [5, 20]})
    with pytest.raises(CorruptionError, match="deletion vector"):
        await table.left(task, vectors[task.path])
