"""Tables as values of a column of bytes."""

from __future__ import annotations

import pyarrow as pa

from lakehouse.spark.runtime.table_blobs import blobs, rows_of

ROWS = pa.table(
    {
        "id": pa.array(range(100), pa.int32()),
        "text": [None if one % 7 == 0 else "x" * one for one in range(100)],
        "list": [list(range(one % 4)) for one in range(100)],
    }
)


def test_tables_come_back_as_they_were() -> None:
    """Slices, chunks, no rows and another schema in one column, each by itself."""
    given = [
        ROWS.slice(13, 40),
        ROWS.slice(0, 0),
        pa.concat_tables([ROWS.slice(0, 3), ROWS.slice(90)]),
        pa.table({"other": [1.5]}),
    ]
    found = [rows_of(value.as_buffer()) for value in blobs(given)]
    assert found == given
    assert [one.schema for one in found] == [one.schema for one in given]


def test_no_tables_are_no_values() -> None:
    """An empty column, which is one all the same."""
    assert blobs([]).equals(pa.array([], pa.binary()))
