"""Rows packed for the tasks that write them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.format.keys.buckets import buckets_of
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.writing.exchange import PACKED, RANGE, TASK, Exchange, packed, unpacked
from tests.kit.spark_written import NAME, made

_ROWS = PACKED.split(", ")[-1].split()[0]
IDS = np.random.default_rng(3).permutation(1_000)


def schema_of(connection: Connection) -> TableSchema:
    """Of a table with four buckets."""
    made(connection, primary_key="id", bucket=4)
    schema: TableSchema = warehouse(connection).call(warehouse(connection).table(NAME).known).schema
    return schema


@pytest.mark.parametrize(("ranges", "tasks"), [(1, 1), (1, 2), (1, 4), (3, 12)])
def test_rows_go_where_their_keys_say(connection: Connection, ranges: int, tasks: int) -> None:
    """Whole buckets to a task, or each range of a bucket to one; all rows arrive."""
    schema = schema_of(connection)
    rows = pa.table({"id": IDS, "part": ["a"] * 1_000, "v": IDS})
    given = rows.append_column(RANGE, pa.array(IDS % 3, pa.int32())) if ranges > 1 else rows
    exchange = Exchange(schema=schema, ranges=ranges, tasks=tasks)
    batches = list(packed(exchange, [given.slice(0, 600), given.slice(600)]))
    buckets = buckets_of([rows.column("id")], schema.key_fields, 4)
    places = dict(
        zip(IDS.tolist(), (buckets * ranges + (IDS % 3 if ranges > 1 else 0)).tolist(), strict=True)
    )
    seen = []
    for task in range(tasks):
        mine = [batch.filter(pa.compute.equal(batch.column(TASK), task)) for batch in batches]
        for table in unpacked(mine):
            assert table.schema.names == ["id", "part", "v"]
            found = table.column("id").to_pylist()
            assert {places[one] * tasks // (4 * ranges) for one in found} == {task}
            seen += found
    assert sorted(seen) == list(range(1_000))


def parts(schema: TableSchema, rows: int) -> list[pa.RecordBatch]:
    """Wide rows for one task, a batch for each part of their values."""
    table = pa.table({"id": np.arange(rows), "part": ["x" * 100] * rows, "v": np.arange(rows)})
    (batch,) = packed(Exchange(schema=schema, tasks=1), [table])
    return [batch.slice(at, 1) for at in range(batch.num_rows)]


def test_values_are_cut_and_put_together_in_any_order(connection: Connection) -> None:
    """No part is larger than fits a batch of a thousand; parts of several values may come mixed."""
    schema = schema_of(connection)
    first, second = parts(schema, 5_000), parts(schema, 3_000)
    assert len(first) > 5
    assert max(len(one.column(_ROWS)[0].as_py()) for one in first) <= 64 * 1024
    mixed = [*first, *second]
    order = np.random.default_rng(1).permutation(len(mixed)).tolist()
    found = sorted(table.num_rows for table in unpacked(mixed[at] for at in order))
    assert found == [3_000, 5_000]
    (table,) = unpacked(reversed(first))
    assert table.column("v").to_pylist() == list(range(5_000))


def test_a_part_that_is_missing_is_an_error(connection: Connection) -> None:
    """Rows are not left out in silence."""
    with pytest.raises(InvalidInputError, match="1 values without all of their parts"):
        list(unpacked(parts(schema_of(connection), 5_000)[1:]))


def test_what_is_no_key_goes_to_the_first_task(connection: Connection) -> None:
    """Its writer refuses it; the keys beside it go where they belong."""
    exchange = Exchange(schema=schema_of(connection), tasks=4)
    ids = pa.array([*IDS.tolist(), None])
    places = exchange.places(pa.table({"id": ids}))
    assert places[-1] == 0
    assert places[:-1].tolist() == exchange.places(pa.table({"id": IDS})).tolist()
    assert exchange.places(pa.table({"id": ["text"]})).tolist() == [0]
