"""Rows on their way into the log: the forms they come in, the batch they become, and what they weigh."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.format.keys import RowKeyCodec
from lakehouse.format.metadata import KIND_COLUMN, RowKind
from lakehouse.format.schema import schema_from_arrow
from lakehouse.storage.write.log_batches import log_batch, put_weight, rows_of
from tests.kit.streaming import made
from tests.kit.worlds import table_of

COLUMNS = pa.schema({"name": pa.string(), "id": pa.int64(), "day": pa.date32()})
SCHEMA = schema_from_arrow(COLUMNS, primary_key="id")
DAY = dt.date(2026, 1, 31)


def some(*numbers: int) -> list[dict[str, Any]]:
    """Rows with these ids."""
    return [{"name": f"n{number}", "id": number, "day": DAY} for number in numbers]


def arrow(*numbers: int) -> pa.Table:
    """The same as a table."""
    return pa.Table.from_pylist(some(*numbers), COLUMNS)


async def put(data: object, *, deletes: bool = False) -> pa.Table:
    """The rows of a put."""
    return await rows_of(data, SCHEMA, deletes=deletes, missing="null")


@pytest.mark.parametrize(
    "data",
    [some(2, 1), arrow(2, 1), arrow(2, 1).to_batches()[0], arrow(2, 1).to_reader(), arrow(2, 1).to_pydict()],
    ids=["dicts", "table", "batch", "reader", "columns"],
)
async def test_rows_are_the_same_in_whatever_form_they_come(data: object) -> None:
    """A put has the rows that were handed in, in their order, with the columns of the table."""
    rows = await put(data)
    assert rows.column_names == COLUMNS.names
    assert rows.to_pylist() == some(2, 1)


async def test_keys_to_delete_have_a_kind_and_no_other_column() -> None:
    """A put of keys has the key's columns and says of each row that it deletes."""
    rows = await put([{"id": 7}], deletes=True)
    assert rows.to_pydict() == {"id": [7], KIND_COLUMN: [RowKind.DELETE]}


async def test_a_table_that_ignores_deletes_gets_none() -> None:
    """Where the table's engine ignores deletes, a put of keys has no row."""
    ignoring = schema_from_arrow(
        COLUMNS, primary_key="id", options={"merge_engine": "partial-update", "ignore_delete": True}
    )
    assert (await rows_of([{"id": 7}], ignoring, deletes=True, missing="null")).num_rows == 0


async def test_a_row_that_does_not_fit_is_refused() -> None:
    """A value that its column cannot hold is an error that names column and row."""
    with pytest.raises(InvalidInputError, match="column 'id', row 1"):
        await put([{"id": 1}, {"id": "x"}])


async def test_puts_are_one_batch_in_their_order() -> None:
    """A batch has the rows of all puts one after the other, and the range of their keys."""
    codec = RowKeyCodec(SCHEMA.key_fields)
    batch = await log_batch([arrow(5, 3), arrow(9)], SCHEMA)
    assert batch.rows.to_pylist() == some(5, 3, 9)
    assert (batch.min_key, batch.max_key) == (codec.encode_one([3]), codec.encode_one([9]))


async def test_a_batch_with_deletes_has_a_kind_for_every_row() -> None:
    """Rows beside deleted keys are inserts; columns that keys lack are null."""
    batch = await log_batch([arrow(1), await put([{"id": 2}], deletes=True)], SCHEMA)
    assert batch.rows.column_names == [*COLUMNS.names, KIND_COLUMN]
    assert [tuple(row.values()) for row in batch.rows.to_pylist()] == [
        ("n1", 1, DAY, RowKind.INSERT),
        (None, 2, None, RowKind.DELETE),
    ]


async def test_columns_that_a_put_lacks_are_null() -> None:
    """A batch has all columns of the table in its order, whatever the puts have."""
    batch = await log_batch([pa.table({"id": [4]})], SCHEMA)
    assert batch.rows.to_pylist() == [{"name": None, "id": 4, "day": None}]


async def test_a_batch_without_a_key_has_no_range() -> None:
    """Rows of an append-only table have no keys to range over."""
    batch = await log_batch([arrow(5, 3)], schema_from_arrow(COLUMNS))
    assert (batch.min_key, batch.max_key) == (None, None)
    assert batch.rows.to_pylist() == some(5, 3)


async def test_a_batch_holds_no_more_than_its_rows() -> None:
    """Of a slice of a large table the batch has a copy, and does not keep the table."""
    large = arrow(*range(3_000))
    batch = await log_batch([large.slice(5, 2)], SCHEMA)
    assert batch.rows.get_total_buffer_size() < 1_000 < large.get_total_buffer_size()


async def test_many_rows_make_the_same_batch() -> None:
    """Rows that are so many that a thread joins them are joined as few are."""
    numbers = range(5_000)
    batch = await log_batch([await put(arrow(*numbers)), await put(some(7_000))], SCHEMA)
    assert batch.rows["id"].to_pylist() == [*numbers, 7_000]


def test_rows_weigh_what_they_are_in_the_log() -> None:
    """Columns that rows lack count as the nulls that they become; whole rows weigh their own bytes."""
    keys, whole = pa.table({"id": list(range(100))}), arrow(*range(100))
    assert put_weight(whole, SCHEMA) == whole.nbytes
    assert put_weight(keys, SCHEMA) > keys.nbytes
    assert put_weight(keys.slice(0, 10), SCHEMA) < put_weight(keys, SCHEMA)


async def test_deleted_keys_are_weighed_with_the_columns_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    """A put of keys to delete counts as what it takes in the log, where its other columns are null."""
    async with (await table_of(await made())).writer() as writer:
        keys = {"id": list(range(100))}
        size = pa.table(keys).nbytes
        monkeypatch.setattr("lakehouse.storage.write.log_batches._PUT_BYTES_MAX", 2 * size)
        with pytest.raises(InvalidInputError, match="one put holds"):
            await writer.delete(pa.table(keys))
