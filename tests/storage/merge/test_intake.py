"""What becomes of the rows of a write before they are stored."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.format.metadata import KIND_COLUMN, RowKind
from lakehouse.format.schema import TableSchema, schema_from_arrow
from lakehouse.storage.merge.intake import RowIntake

COLUMNS = pa.schema({"value": pa.int32(), "id": pa.int64()})


def schema(**options: object) -> TableSchema:
    """Returns a schema with the key behind the value."""
    return schema_from_arrow(COLUMNS, primary_key="id", options=options)


async def test_rows_of_a_plain_table_are_stored_as_they_are() -> None:
    """Rows get the columns and types of the schema, and no kinds where every row is an insert."""
    intake = RowIntake(schema(), deletes=False, missing="error")
    chunks = [rows async for rows in intake.chunks([{"id": 1, "value": 2}], chunk_bytes=1 << 20)]
    assert [rows.schema.names for rows in chunks] == [["value", "id"]]
    assert not intake.stores_nothing


async def test_rows_of_an_engine_that_folds_are_operands() -> None:
    """Rows of a table whose engine folds are stored as operands."""
    intake = RowIntake(schema(merge_engine="partial-update"), deletes=False, missing="null")
    rows = await intake.all_of([{"id": 1, "value": 2}, {"id": 2}], chunk_bytes=1 << 20)
    assert rows.column(KIND_COLUMN).to_pylist() == [RowKind.UPDATE] * 2


async def test_keys_to_delete_are_deletes() -> None:
    """Keys to delete are stored with the key's columns alone, each as a delete."""
    intake = RowIntake(schema(), deletes=True, missing="error")
    rows = await intake.all_of({"id": [3, 4]}, chunk_bytes=1 << 20)
    assert rows.to_pydict() == {"id": [3, 4], KIND_COLUMN: [RowKind.DELETE] * 2}
    assert (await intake.all_of([], chunk_bytes=1 << 20)).schema == rows.schema


def test_deletes_that_are_ignored_store_nothing() -> None:
    """A table that ignores deletes stores nothing of them."""
    ignoring = schema(merge_engine="partial-update", ignore_delete=True)
    assert RowIntake(ignoring, deletes=True, missing=None).stores_nothing
    assert not RowIntake(ignoring, deletes=False, missing=None).stores_nothing


async def test_an_error_counts_rows_over_all_chunks() -> None:
    """An error names the row by its number in the whole input, not in its chunk."""
    intake = RowIntake(schema(), deletes=True, missing=None)
    keys = [pa.table({"id": pa.array([1, 2])}), pa.table({"id": pa.array([3, None])})]
    with pytest.raises(InvalidInputError, match="row 3"):
        await intake.all_of(keys, chunk_bytes=1 << 20)


@pytest.mark.parametrize("number", [0, 1])
def test_a_table_is_checked_for_missing_columns_when_it_has_rows(number: int) -> None:
    """Missing columns are refused in tables with rows, and do not matter in those without."""
    intake = RowIntake(schema(), deletes=False, missing="error")
    table = pa.table({"id": pa.array(range(number), pa.int64())})
    if not number:
        assert intake.of_table(table).schema.names == ["value", "id"]
        return
    with pytest.raises(InvalidInputError, match="have no column 'value'"):
        intake.of_table(table)


def test_rows_of_a_table_without_a_key_cannot_be_deleted_by_key() -> None:
    """Deletes by key need a table with a key."""
    with pytest.raises(InvalidInputError, match="no primary key"):
        RowIntake(schema_from_arrow(COLUMNS), deletes=True, missing=None)
