"""Row keys as arrays: they compare as the encoded keys do, and divide sorted rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.format.schema import BinaryType, DataType, Field, Primitive, StringType, arrow_type
from lakehouse.storage.rows.key_arrays import KeyColumns
from tests.kit.key_commits import commits_of_keys, runs_of

INT8, INT64, DATE = Primitive("int8"), Primitive("int64"), Primitive("date")


def keys_of(*kinds: DataType) -> KeyColumns:
    """Returns key columns ``k1``, ``k2`` … of these types."""
    return KeyColumns(
        [Field(id=at, name=f"k{at}", type=kind, required=True) for at, kind in enumerate(kinds, 1)]
    )


def table_of(keys: KeyColumns, *rows: tuple[Any, ...]) -> pa.Table:
    """Returns rows of the key columns."""
    columns = [
        pa.array([row[at] for row in rows], arrow_type(field.type)) for at, field in enumerate(keys.fields)
    ]
    return pa.table(columns, names=list(keys.names))


def ranks(values: Sequence[Any]) -> list[int]:
    """Returns the place of each value among the different ones."""
    places = {value: place for place, value in enumerate(sorted(set(values)))}
    return [places[value] for value in values]


@given(drawn=commits_of_keys())
@settings(max_examples=60, deadline=None)
def test_arrays_compare_as_encoded_keys(drawn: tuple[list[str], list[list[tuple[Any, ...]]]]) -> None:
    """Keys of all tables of a call are in the order of their encoded bytes, and equal where these are."""
    keys, tables = runs_of(*drawn)
    arrays = keys.arrays(tables)
    assert [len(array) for array in arrays] == [table.num_rows for table in tables]
    encoded = [key for table in tables for key in keys.encoded(table).to_pylist()]
    assert ranks([key for array in arrays for key in array.tolist()]) == ranks(encoded)


@pytest.mark.parametrize("kind", [StringType(), BinaryType()])
def test_one_column_of_text_is_passed_on(kind: DataType) -> None:
    """Text and bytes sort as they are, so that the column is not copied."""
    keys = keys_of(kind)
    table = table_of(keys, ("b",), ("a",)) if kind == StringType() else table_of(keys, (b"b",), (b"a",))
    (array,) = keys.arrays([table])
    assert array.buffers()[2].address == table.column("k1").chunk(0).buffers()[2].address


def test_chunks_of_a_column_are_joined() -> None:
    """A key array has the rows of all chunks, of none too."""
    keys = keys_of(StringType())
    chunks = pa.chunked_array([["a", "b"], [], ["c"]], pa.string())
    none = pa.chunked_array([], pa.string())
    arrays = keys.arrays([pa.table({"k1": chunks}), pa.table({"k1": none})])
    assert [array.to_pylist() for array in arrays] == [["a", "b", "c"], []]


@pytest.mark.parametrize(
    ("rows", "is_packed"),
    [
        ([(-5, 2), (2**40, 1)], True),
        ([(0, 0), (2**31 - 1, 2**31 - 1)], True),
        ([(0, 0), (2**31, 2**31 - 1)], False),
        ([(-(2**63), 0), (2**63 - 1, 0)], False),
    ],
)
def test_columns_of_numbers_are_packed_where_they_fit(rows: list[tuple[int, int]], is_packed: bool) -> None:
    """Several numbers become one of 62 bits at most; where the ranges are wider, keys are encoded."""
    keys = keys_of(INT64, INT64)
    arrays = keys.arrays([table_of(keys, row) for row in rows])
    assert [isinstance(array, np.ndarray) for array in arrays] == [is_packed] * 2
    low, high = (array.tolist()[0] for array in arrays)
    assert low < high


def test_ranges_of_numbers_span_all_tables() -> None:
    """A key of one table equals the same key of another, whatever else these tables hold."""
    keys = keys_of(INT8, DATE)
    same = (3, 20_000)
    arrays = keys.arrays([table_of(keys, (-100, 1), same), table_of(keys), table_of(keys, same, (9, 30_000))])
    first, empty, second = (array.tolist() for array in arrays)
    assert (first[1], empty) == (second[0], [])
    assert first[0] < first[1] < second[1]


@given(drawn=commits_of_keys(), data=st.data())
@settings(max_examples=200, deadline=None)
def test_rows_below_a_key_are_counted(
    drawn: tuple[list[str], list[list[tuple[Any, ...]]]], data: st.DataObject
) -> None:
    """A key divides a sorted table where its values do, whatever their types."""
    keys, tables = runs_of(*drawn)
    every = [tuple(row.values()) for table in tables for row in table.to_pylist()]
    if not every:
        return
    wanted = data.draw(st.sampled_from(every))
    for table in tables:
        rows = [tuple(row.values()) for row in table.to_pylist()]
        assert keys.rows_below(table, keys.codec.encode_one(wanted)) == sum(row < wanted for row in rows)


@pytest.mark.parametrize(
    ("key", "below", "included"),
    [
        ((1, "a"), 0, 1),
        ((1, "b"), 1, 3),
        ((2, "a"), 3, 3),
        ((3, ""), 3, 3),
        ((3, "x"), 3, 4),
        ((9, ""), 4, 4),
    ],
)
def test_rows_up_to_a_key_are_counted_with_it(key: tuple[int, str], below: int, included: int) -> None:
    """Rows of the key itself count only where they are asked for, and a key need not be there."""
    keys = keys_of(INT64, StringType())
    table = table_of(keys, (1, "a"), (1, "b"), (1, "b"), (3, "x"))
    encoded = keys.codec.encode_one(key)
    assert keys.rows_below(table, encoded) == below
    assert keys.rows_below(table, encoded, included=True) == included
