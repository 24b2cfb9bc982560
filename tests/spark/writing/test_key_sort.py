"""Rows of a task in key order, with and without room for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.format.keys.buckets import buckets_of
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.writing.key_sort import in_key_order
from tests.kit.spark_written import NAME, made

ROOMY = 1 << 30


def schema_of(connection: Connection, **how: Any) -> TableSchema:
    """Of a table with columns id, part and v."""
    made(connection, **how)
    schema: TableSchema = warehouse(connection).call(warehouse(connection).table(NAME).known).schema
    return schema


def tables(ids: np.ndarray, count: int) -> list[pa.Table]:
    """Rows with these ids in tables of so many."""
    parts = pa.array(np.char.add("p", (ids % 3).astype(str)))
    whole = pa.table({"id": ids, "part": parts, "v": np.arange(len(ids))})
    return [whole.slice(begin, count) for begin in range(0, len(ids), count)]


@pytest.mark.parametrize("room", [ROOMY, 4_000])
@pytest.mark.parametrize(
    "how",
    [
        {"primary_key": "id"},
        {"primary_key": "id", "bucket": 3},
        {"primary_key": ["id", "part"], "partition_by": "part"},
        {"primary_key": ["part", "id"], "bucket": 2},
    ],
)
def test_rows_come_by_bucket_and_key(
    connection: Connection, how: dict[str, Any], room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them, whatever the room; rows of a key are in one table, and nothing stays on disk."""
    folder = tmp_path / "spills"
    folder.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{folder},/nowhere")
    schema = schema_of(connection, **how)
    ids = np.random.default_rng(7).integers(-100, 100, 600)
    found = list(in_key_order(tables(ids, 70), schema, room))
    assert (len(found) == 1) == (room == ROOMY)
    rows = pa.concat_tables(found)
    assert sorted(rows.column("v").to_pylist()) == list(range(600))
    assert rows.column("id").to_pylist() == [int(ids[v]) for v in rows.column("v").to_pylist()]
    buckets = buckets_of(
        [rows.column(name).combine_chunks() for name in schema.primary_key], schema.key_fields, schema.buckets
    )
    order = [*how.get("partition_by", "").split(), *schema.primary_key]
    keys = list(zip(buckets.tolist(), *(rows.column(name).to_pylist() for name in order), strict=True))
    assert keys == sorted(keys)
    cuts = np.cumsum([one.num_rows for one in found])[:-1].tolist()
    assert all(keys[cut - 1] != keys[cut] for cut in cuts)
    assert not list(folder.iterdir())


def test_rows_of_one_key_that_outgrow_the_room_stay_together(connection: Connection) -> None:
    """However many stretches and batches they are in."""
    schema = schema_of(connection, primary_key="id")
    ids = np.array([5] * 300 + [1, 9] * 20)
    found = list(in_key_order(tables(ids, 50), schema, 3_000))
    assert [set(one.column("id").to_pylist()) >= {5} for one in found].count(True) == 1
    assert sum(one.num_rows for one in found) == 340


def test_a_null_key_is_named(connection: Connection) -> None:
    """As a write names it."""
    schema = schema_of(connection, primary_key="id")
    rows = pa.table({"id": pa.array([1, None]), "part": ["a", "b"], "v": [1, 2]})
    with pytest.raises(InvalidInputError, match="column 'id', row 1: null where no null may be"):
        list(in_key_order([rows], schema, ROOMY))
