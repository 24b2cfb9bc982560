"""Rows of a write by partition and bucket: the last of each key in one part, in order, copied late."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.format.keys import RowKeyCodec, encode_value
from lakehouse.format.keys.buckets import bucket_of
from lakehouse.format.schema import Primitive, TableSchema
from lakehouse.storage.rows.partitioner import PartitionRows, RunNumbers, joined, partition_rows
from tests.kit.written_files import schema_of, table_of

PLAIN, BUCKETS = schema_of(), schema_of(buckets=4)
DAILY = schema_of(partition_by=("day",))


def rows(*ids_and_days: tuple[int, int]) -> pa.Table:
    """Returns rows with these ids and days, each named after its place."""
    return table_of(
        [
            {"id": number, "day": dt.date(2026, 1, day), "name": f"row {place}", "amount": None}
            for place, (number, day) in enumerate(ids_and_days)
        ]
    )


def day(number: int) -> tuple[bytes, ...]:
    """Returns the partition of a day."""
    return (encode_value(dt.date(2026, 1, number), Primitive("date")),)


def parts_of(table: pa.Table, schema: TableSchema) -> list[PartitionRows]:
    """Returns the parts of rows whose partition is known."""
    return partition_rows(table, schema, partition_fields=schema.partition_fields)


def names(part: PartitionRows) -> list[str]:
    """Returns the names of a part's rows, in the order of writing."""
    found: list[str] = part.rows().column("name").to_pylist()
    return found


def test_rows_in_order_are_not_copied() -> None:
    """Rows of one part that are in key order already are passed on as they are."""
    table = rows((1, 1), (2, 1), (3, 1))
    (part,) = parts_of(table, PLAIN)
    assert part.rows() is table
    assert (part.partition, part.bucket, len(part)) == ((), 0, 3)


def test_the_last_row_of_each_key_stays() -> None:
    """Rows come by key, each key once with its last row."""
    (part,) = parts_of(rows((3, 1), (1, 1), (3, 1), (2, 1), (1, 1)), PLAIN)
    assert names(part) == ["row 4", "row 3", "row 2"]
    assert len(part) == 3


def test_rows_without_a_key_keep_their_order() -> None:
    """In a table without a key all rows stay, in one bucket, in the order of the input in each partition."""
    schema = schema_of(primary_key=(), partition_by=("day",), buckets=3)
    parts = parts_of(rows((3, 2), (1, 1), (3, 2), (1, 1)), schema)
    assert [(part.partition, part.bucket, names(part)) for part in parts] == [
        (day(1), 0, ["row 1", "row 3"]),
        (day(2), 0, ["row 0", "row 2"]),
    ]


def test_keys_are_in_their_buckets() -> None:
    """Each row is in the bucket of its key, rows of a bucket are by key, and buckets come in order."""
    parts = parts_of(rows(*((number * 37 % 100, 1) for number in range(100))), BUCKETS)
    assert [part.bucket for part in parts] == [0, 1, 2, 3]
    for part in parts:
        ids = part.rows().column("id").to_pylist()
        assert ids == sorted(ids)
        assert {bucket_of((number,), BUCKETS.key_fields, 4) for number in ids} == {part.bucket}
    assert sum(map(len, parts)) == 100


def test_a_bucket_without_rows_has_no_part() -> None:
    """A part has a row at least."""
    (part,) = parts_of(rows((1, 1)), BUCKETS)
    assert part.bucket == bucket_of((1,), BUCKETS.key_fields, 4)


def test_a_key_in_two_partitions_is_written_once() -> None:
    """A key that moved between partitions within the input is in that of its last row alone."""
    parts = parts_of(rows((1, 1), (2, 1), (1, 2)), DAILY)
    assert [(part.partition, names(part)) for part in parts] == [(day(1), ["row 1"]), (day(2), ["row 2"])]
    (part,) = parts_of(rows((1, 1), (1, 2)), DAILY)
    assert (part.partition, names(part)) == (day(2), ["row 1"])


def test_partitions_come_in_order_with_their_buckets() -> None:
    """Parts are ordered by partition and then by bucket, whatever the order of the rows."""
    schema = schema_of(partition_by=("day",), buckets=2)
    parts = parts_of(rows(*((number, 1 + number % 3) for number in reversed(range(60)))), schema)
    order = [(part.partition, part.bucket) for part in parts]
    assert order == [(day(number), bucket) for number in (1, 2, 3) for bucket in (0, 1)]


def test_rows_of_unknown_partition_are_not_partitioned() -> None:
    """Keys alone, as in a delete, have no partition where the key does not say it."""
    keys = rows((2, 1), (1, 2)).select(["id"])
    (part,) = partition_rows(keys, DAILY, partition_fields=())
    assert (part.partition, part.rows().to_pydict()) == ((), {"id": [1, 2]})


@pytest.mark.parametrize("ids", [(1, 2, 3, 4), (4, 3, 2, 1)])
def test_a_slice_is_in_the_order_of_writing(ids: tuple[int, ...]) -> None:
    """A slice of a part has the rows that are written there, also where these are out of order."""
    (part,) = parts_of(rows(*((number, 1) for number in ids)), PLAIN)
    middle = part.slice(1, 2)
    assert len(middle) == 2
    assert middle.rows().column("id").to_pylist() == [2, 3]
    assert middle.slice(1, 1).rows().column("id").to_pylist() == [3]


@pytest.mark.parametrize("ids", [(1, 2, 9), (9, 1, 2), (9, 1, 9)])
def test_a_part_has_the_range_of_its_keys(ids: tuple[int, ...]) -> None:
    """The range goes from the first key to the last in the order of writing."""
    codec = RowKeyCodec(PLAIN.key_fields)
    (part,) = parts_of(rows(*((number, 1) for number in ids)), PLAIN)
    assert part.key_range(codec, PLAIN.primary_key) == (codec.encode_one((1,)), codec.encode_one((9,)))


def test_joined_tables_have_one_chunk_a_column() -> None:
    """Rows of several tables follow each other in one chunk, and the list that held them is empty."""
    tables = [rows((1, 1)), rows((2, 1), (3, 1)), rows()]
    schema = tables[0].schema
    table = joined(tables)
    assert tables == []
    assert table.schema.equals(schema, check_metadata=True)
    assert table.column("id").to_pylist() == [1, 2, 3]
    assert [column.num_chunks for column in table.columns] == [1] * 4


def numbers(*ranges: tuple[Any, bytes, bytes]) -> list[int]:
    """Returns the run numbers of ranges of keys that are given out one after another."""
    runs = RunNumbers()
    return [runs.next(*one) for one in ranges]


@pytest.mark.parametrize(
    ("ranges", "runs"),
    [
        ([(b"a", b"c"), (b"d", b"f"), (b"g", b"g")], [0, 0, 0]),
        ([(b"a", b"c"), (b"c", b"d")], [0, 1]),
        ([(b"m", b"z"), (b"a", b"c"), (b"d", b"e"), (b"b", b"b")], [0, 1, 1, 2]),
    ],
)
def test_rows_above_a_run_belong_to_it(ranges: list[tuple[bytes, bytes]], runs: list[int]) -> None:
    """Rows whose keys are all above those of the newest run go on with it; other rows begin another run."""
    assert numbers(*(("unit", low, high) for low, high in ranges)) == runs


def test_runs_are_numbered_in_each_unit() -> None:
    """Rows of one merge unit do not begin a run of another."""
    assert numbers((1, b"m", b"z"), (1, b"a", b"b"), (2, b"c", b"d"), (1, b"c", b"d")) == [0, 1, 0, 1]
