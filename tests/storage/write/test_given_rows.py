"""Rows that have only some columns: how those of one key become one, and what fills them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import Field, Primitive, StringType, TableSchema
from lakehouse.storage.rows.input_tables import input_chunks
from lakehouse.storage.scan.lookup import FoundRows
from lakehouse.storage.write.given_rows import GivenRows, given_chunk
from tests.kit.worlds import Row

SCHEMA = TableSchema(
    fields=(
        Field(id=1, name="id", type=Primitive("int64"), required=True),
        Field(id=2, name="a", type=Primitive("int64")),
        Field(id=3, name="b", type=StringType()),
        Field(id=4, name="kind", type=StringType(), write_default="new"),
    ),
    primary_key=("id",),
    highest_field_id=4,
)
NEW = {"a": None, "b": None, "kind": "new"}
"""Values of a new row that has only its key."""


async def given_rows(*calls: list[Row] | pa.Table, schema: TableSchema = SCHEMA) -> GivenRows:
    """The rows of a call that hands these in, one after the other."""
    chunks = [
        given_chunk(chunk, schema, first_row=0)
        for rows in calls
        async for chunk in input_chunks(rows, schema.fields, chunk_bytes=1 << 20, marks=True)
    ]
    return GivenRows.of(chunks, schema)


def found_in(older: dict[int, Row], rows: GivenRows) -> FoundRows:
    """The older rows of the keys that are to be read, with the columns that are lacking."""
    keys = [key for key in rows.keys_to_read()["id"].to_pylist() if key in older]
    fields = rows.lacking
    return FoundRows(
        keys=pa.table({"id": pa.array(keys, pa.int64())}),
        rows=pa.table(
            {
                field.name: pa.array(
                    [older[key][field.name] for key in keys], SCHEMA.arrow().field(field.name).type
                )
                for field in fields
            }
        ),
    )


async def test_of_the_rows_of_a_key_the_last_that_has_a_column_decides_it() -> None:
    """Rows of one key are one row, in key order, and a null that is given counts as a value."""
    rows = await given_rows(
        [{"id": 2, "a": 1, "b": "x"}, {"id": 1, "b": "y"}, {"id": 2, "a": None}, {"id": 2, "kind": "own"}]
    )
    assert rows.handed_in == 4
    assert rows.rows.select(["id", "a", "b"]).to_pylist() == [
        {"id": 1, "a": None, "b": "y"},
        {"id": 2, "a": None, "b": "x"},
    ]
    assert {name: mask.tolist() for name, mask in rows.given.items()} == {
        "a": [False, True],
        "b": [True, True],
        "kind": [False, True],
    }


async def test_rows_of_several_tables_may_lack_different_columns() -> None:
    """Columns that one table lacks may be given by the next, for the same key."""
    rows = await given_rows(pa.table({"id": [1, 2], "a": [1, 2]}), pa.table({"b": ["x"], "id": [2]}))
    assert rows.rows.select(["id", "a", "b"]).to_pylist() == [
        {"id": 1, "a": 1, "b": None},
        {"id": 2, "a": 2, "b": "x"},
    ]
    assert rows.given["a"].tolist() == [True, True]
    assert rows.given["b"].tolist() == [False, True]


async def test_older_rows_are_read_of_the_keys_that_lack_a_column() -> None:
    """Keys whose rows have every column are not read, nor are columns that every row has."""
    whole = {"a": 1, "b": "x", "kind": "own"}
    rows = await given_rows([{"id": 1, **whole}, {"id": 2, "b": "y", "kind": "own"}])
    assert [field.name for field in rows.lacking] == ["a"]
    assert rows.incomplete.tolist() == [False, True]
    assert rows.keys_to_read().to_pylist() == [{"id": 2}]
    complete = await given_rows([{"id": 1, **whole}])
    assert complete.lacking == ()
    assert complete.keys_to_read().num_rows == 0


async def test_what_is_lacking_is_that_of_the_older_row_or_the_default() -> None:
    """A row that is there keeps its values, null and defaults included; a new one has the defaults."""
    rows = await given_rows([{"id": 1, "a": 5}, {"id": 2, "b": "z"}, {"id": 3}])
    older = {1: {"id": 1, "a": 0, "b": None, "kind": "old"}, 3: {"id": 3, "a": 7, "b": "q", "kind": None}}
    assert rows.filled(found_in(older, rows)).to_pylist() == [
        {"id": 1, "a": 5, "b": None, "kind": "old"},
        {"id": 2, **NEW, "b": "z"},
        {"id": 3, "a": 7, "b": "q", "kind": None},
    ]


async def test_no_rows_are_no_rows() -> None:
    """A call without rows has the columns of the table and nothing to read."""
    rows = await given_rows([])
    assert (rows.rows.num_rows, rows.handed_in, rows.lacking) == (0, 0, ())
    assert rows.rows.column_names == ["id", "a", "b", "kind"]


async def test_a_new_row_without_a_required_value_is_named() -> None:
    """A required column may be lacking where an older row has it; of a new row the key is in the error."""
    schema = TableSchema(
        fields=(SCHEMA.fields[0], Field(id=2, name="a", type=Primitive("int64"), required=True)),
        primary_key=("id",),
        highest_field_id=2,
    )
    rows = await given_rows([{"id": 8}, {"id": 1}], schema=schema)
    assert rows.filled(found_in({1: {"a": 3}, 8: {"a": 4}}, rows))["a"].to_pylist() == [3, 4]
    with pytest.raises(InvalidInputError, match=r"'a' of the row with key .* must not be null") as refused:
        rows.filled(found_in({1: {"a": 3}}, rows))
    assert refused.value.context["key"] == {"id": 8}


async def test_rows_have_their_whole_key() -> None:
    """Rows without a column of the key are refused, whatever else they have."""
    with pytest.raises(InvalidInputError, match="no column 'id', of the key"):
        await given_rows(pa.table({"a": [1]}))


async def test_a_table_with_a_sequence_has_each_key_once_in_a_call() -> None:
    """Where a sequence field decides between rows, two rows of one key cannot be combined."""
    schema = TableSchema(
        fields=SCHEMA.fields, primary_key=("id",), highest_field_id=4, options={"sequence.field": "a"}
    )
    assert (await given_rows([{"id": 1, "a": 1}, {"id": 2, "b": "x"}], schema=schema)).rows.num_rows == 2
    with pytest.raises(InvalidInputError, match="rows 0 and 1"):
        await given_rows([{"id": 1, "a": 1}, {"id": 1, "b": "x"}], schema=schema)


_row = st.fixed_dictionaries(
    {"id": st.integers(0, 5)},
    optional={
        "a": st.none() | st.integers(0, 9),
        "b": st.none() | st.sampled_from(["", "x"]),
        "kind": st.none() | st.just("own"),
    },
)
_whole = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(0, 9),
        "b": st.none() | st.sampled_from(["", "x"]),
        "kind": st.none() | st.just("old"),
    }
)


@settings(max_examples=100, deadline=None)
@given(
    older=st.dictionaries(st.integers(0, 5), _whole),
    calls=st.lists(st.lists(_row, min_size=1, max_size=6), min_size=1, max_size=3),
)
async def test_filling_is_reading_changing_and_writing_row_by_row(
    older: dict[int, Row], calls: list[list[Row]]
) -> None:
    """Whatever rows lack which columns, they come to what a dict updated row by row holds."""
    rows = await given_rows(*calls)
    expected: dict[int, Row] = {}
    for row in (row for call in calls for row in call):
        before: dict[str, Any] = expected.get(row["id"]) or older.get(row["id"]) or NEW
        expected[row["id"]] = {**before, **row}
    filled = rows.filled(found_in(older, rows)).to_pylist()
    assert filled == [expected[key] for key in sorted(expected)]
