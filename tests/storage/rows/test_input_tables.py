"""What may be handed in as rows, how it is cut, and what is said of what does not fit."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema.types import (
    BinaryType,
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
)
from lakehouse.storage.rows.input_tables import input_chunks

MIB = 1 << 20
FIELDS = (
    Field(id=1, name="id", type=Primitive("int64"), required=True),
    Field(id=2, name="note", type=StringType(), write_default="none"),
    Field(id=3, name="price", type=DecimalType(9, 2)),
)
TABLE = pa.table({"id": pa.array(range(10), pa.int64()), "note": [f"n{i}" for i in range(10)]})
ROWS = TABLE.to_pylist()


async def _all(data: Any, *, fields: tuple[Field, ...] = FIELDS, **bounds: int) -> list[pa.Table]:
    return [one async for one in input_chunks(data, fields, **{"chunk_bytes": MIB, **bounds})]


async def _rows(data: Any, **bounds: int) -> list[dict[str, Any]]:
    return [row for table in await _all(data, **bounds) for row in table.to_pylist()]


async def _asynchronous(items: Any) -> AsyncGenerator[Any, None]:
    for item in items:
        yield item


class _Capsule:
    """Has nothing but the Arrow protocol."""

    def __init__(self, inner: Any, name: str) -> None:
        setattr(self, name, getattr(inner, name))


@pytest.mark.parametrize(
    "make",
    [
        lambda: TABLE,
        lambda: TABLE.to_batches()[0],
        lambda: TABLE.to_reader(3),
        lambda: ds.dataset(TABLE),
        lambda: ds.dataset(TABLE).scanner(),
        lambda: TABLE.to_pandas(),
        lambda: pl.from_arrow(TABLE),
        lambda: duckdb.from_arrow(TABLE),
        lambda: _Capsule(TABLE, "__arrow_c_stream__"),
        lambda: _Capsule(TABLE.to_batches()[0], "__arrow_c_array__"),
        lambda: TABLE.to_struct_array(),
        lambda: ROWS,
        lambda: tuple(ROWS),
        lambda: (row for row in ROWS),
        lambda: TABLE.to_pydict(),
        lambda: {"id": np.arange(10), "note": pd.Series(TABLE["note"].to_pylist())},
        lambda: {"id": range(10), "note": pl.Series(TABLE["note"].to_pylist())},
        lambda: {"id": TABLE["id"], "note": TABLE["note"].combine_chunks()},
        lambda: TABLE.to_batches(3),
        lambda: (TABLE.slice(i, 5) for i in (0, 5)),
        lambda: [ROWS[:4], ROWS[4:]],
        lambda: [*ROWS[:3], TABLE.slice(3, 3), *ROWS[6:]],
        lambda: _asynchronous(ROWS),
        lambda: _asynchronous([*ROWS[:3], TABLE.slice(3, 3), ROWS[6:]]),
        lambda: _asynchronous(TABLE.to_batches(4)),
    ],
)
async def test_every_accepted_form_gives_the_same_rows(make: Any) -> None:
    """Whatever the form, the rows and their order are the same, also in small chunks."""
    assert await _rows(make()) == ROWS
    assert await _rows(make(), chunk_rows=2) == ROWS


@pytest.mark.parametrize("data", [TABLE.slice(0, 0), [], {}, {"id": []}, iter([[]]), TABLE.to_pandas()[:0]])
async def test_input_without_rows_gives_no_table(data: Any) -> None:
    """Empty input of any form is no table at all."""
    assert await _all(data) == []


async def test_a_table_that_fits_is_handed_on_as_it_is() -> None:
    """A small table is neither copied nor cut."""
    (found,) = await _all(TABLE)
    assert found is TABLE


async def test_large_input_is_sliced_and_not_copied() -> None:
    """Chunks of a large table lie in its own memory."""
    table = pa.table({"id": np.arange(1_000_000)})
    before = pa.total_allocated_bytes()
    chunks = await _all(table, chunk_bytes=MIB)
    assert pa.total_allocated_bytes() - before < MIB
    assert len(chunks) >= 8
    assert pa.concat_tables(chunks).equals(table)


async def test_rows_of_different_weight_are_cut_by_their_bytes() -> None:
    """A chunk holds no more bytes than asked for where a single row does not."""
    table = pa.table({"text": ["x"] * 500 + ["y" * 50_000] * 40 + ["z" * 2 * MIB]})
    chunks = await _all(table, chunk_bytes=MIB)
    assert [chunk for chunk in chunks if chunk.nbytes > MIB and chunk.num_rows > 1] == []
    assert pa.concat_tables(chunks).equals(table)


async def test_a_shared_dictionary_does_not_shatter_a_table() -> None:
    """Slices that share most of their bytes are not cut down to single rows."""
    words = pa.DictionaryArray.from_arrays(
        np.arange(1000, dtype=np.int32) % 7, pa.array(["w" * 100_000 + str(i) for i in range(7)])
    )
    assert len(await _all(pa.table({"word": words}), chunk_bytes=1000)) < 20


async def test_small_batches_of_a_reader_share_a_chunk() -> None:
    """A reader of tiny batches costs no chunk for each."""
    assert len(await _all(TABLE.to_reader(1))) == 1


async def test_rows_from_a_generator_are_pulled_as_they_are_needed() -> None:
    """A generator of heavy rows is not read ahead by more than a chunk."""
    pulled = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal pulled
        for i in range(100_000):
            pulled += 1
            yield {"id": i, "note": "x" * 1000}

    async for first in input_chunks(rows(), FIELDS, chunk_bytes=MIB):
        assert first.nbytes <= MIB
        break
    assert pulled < 10_000


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_generator_is_closed_when_its_rows_are_not_wanted_any_more(asynchronous: bool) -> None:
    """Whoever stops early has the generator's own clean-up run."""
    closed = []

    def rows() -> Iterator[dict[str, int]]:
        try:
            for i in range(100_000):
                yield {"id": i}
        finally:
            closed.append(1)

    async def rows_async() -> AsyncGenerator[dict[str, int], None]:
        try:
            for i in range(100_000):
                yield {"id": i}
        finally:
            closed.append(1)

    chunks = input_chunks(rows_async() if asynchronous else rows(), FIELDS, chunk_bytes=100)
    await anext(chunks)
    await chunks.aclose()
    assert closed == [1]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_the_error_of_a_generator_comes_through_unchanged(asynchronous: bool) -> None:
    """What the caller's own code raises is not dressed up."""

    def rows() -> Iterator[dict[str, int]]:
        yield {"id": 1}
        raise KeyError("mine")

    async def rows_async() -> AsyncGenerator[dict[str, int], None]:
        yield {"id": 1}
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await _all(rows_async() if asynchronous else rows())


async def test_the_index_of_a_data_frame_is_left_out() -> None:
    """A pandas index is no column."""
    frame = pd.DataFrame({"id": [1, 2]}, index=pd.Index(["a", "b"], name="note"))
    assert await _rows(frame) == [{"id": 1}, {"id": 2}]


async def test_missing_values_of_a_data_frame_are_null() -> None:
    """NaN is null in pandas, in columns of numbers and of objects."""
    frame = pd.DataFrame({"id": [1.0, float("nan")], "note": ["a", float("nan")], "price": [None, None]})
    assert await _rows(frame) == [
        {"id": 1.0, "note": "a", "price": None},
        {"id": None, "note": None, "price": None},
    ]


@pytest.mark.parametrize("value", [1.5, decimal.Decimal("1.005"), 2**40, dt.datetime(2026, 1, 1, 5)])
async def test_values_are_not_cut_to_fit_their_column(value: Any) -> None:
    """What a value is worth in its column is judged later; here it arrives whole."""
    fields = tuple(
        Field(id=i, name=name, type=kind)
        for i, (name, kind) in enumerate(
            {"i": Primitive("int8"), "p": DecimalType(9, 2), "d": Primitive("date")}.items(), 1
        )
    )
    for name in ("i", "p", "d"):
        (table,) = await _all([{name: value}, {name: None}], fields=fields)
        assert table[name].to_pylist() == [value, None]


async def test_a_row_without_a_field_has_its_write_default() -> None:
    """Rows of one list need not have the same keys."""
    rows = [{"id": 1, "note": None}, {"id": 2}, {"note": "x", "id": 3, "extra": 4}]
    assert await _rows(rows) == [
        {"id": 1, "note": None, "extra": None},
        {"id": 2, "note": "none", "extra": None},
        {"id": 3, "note": "x", "extra": 4},
    ]


async def test_maps_may_be_dicts_in_python() -> None:
    """A map column takes dicts and lists of pairs."""
    pairs = MapType(
        key=Field(id=8, name="key", type=StringType(), required=True),
        value=Field(id=9, name="value", type=Primitive("int64")),
    )
    fields = (Field(id=7, name="m", type=pairs),)
    (table,) = await _all([{"m": {"a": 1}}, {"m": [("b", 2)]}, {"m": None}], fields=fields)
    assert table["m"].to_pylist() == [[("a", 1)], [("b", 2)], None]


@pytest.mark.parametrize(
    ("value", "named"),
    [({"id": "seven"}, "id"), ({"id": 2**70}, "id"), ({"note": 5}, "note"), ({"price": {}}, "price")],
)
async def test_a_value_that_does_not_fit_is_named_with_column_and_row(
    value: dict[str, Any], named: str
) -> None:
    """The row counts from the beginning of the input, whatever the chunks."""
    rows = [{"id": i, "note": "", "price": 1} for i in range(6_000)] + [{"id": 1, **value}]
    with pytest.raises(InvalidInputError, match=f"column '{named}', row 6000: ") as caught:
        await _all(rows)
    assert caught.value.context["row"] == 6_000
    assert caught.value.context["column"] == named


async def test_a_bad_value_of_a_data_frame_is_named_as_well() -> None:
    """Object columns of pandas say column and row."""
    with pytest.raises(InvalidInputError, match="column 'id', row 1: 'b'"):
        await _all(pd.DataFrame({"id": np.array([1, "b"], dtype=object)}))


async def test_values_of_mixed_types_in_an_unknown_column_are_refused() -> None:
    """Where there is no field, the values before tell the type."""
    with pytest.raises(InvalidInputError, match="column 'x', row 2: 'a'"):
        await _all([{"x": None}, {"x": 1}, {"x": "a"}])


async def test_an_unknown_part_of_a_nested_value_is_refused() -> None:
    """A typo inside a struct is an error, not a value lost."""
    point = StructType((Field(id=5, name="x", type=Primitive("double")),))
    fields = (Field(id=4, name="path", type=ListType(Field(id=6, name="element", type=point))),)
    good = {"path": [{"x": 1.0}, None]}
    assert await _all([good], fields=fields)
    with pytest.raises(
        InvalidInputError, match=r"column 'path', row 1: .* there is no part 'X'; there are x"
    ):
        await _all([good, {"path": [{"X": 1.0}]}], fields=fields)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("abc", "a list has its elements in a list"),
        ([1], "a struct is a dict"),
        (7, "no len"),
        ({}, "in a dict"),
    ],
)
async def test_a_nested_value_of_another_shape_is_refused(value: Any, reason: str) -> None:
    """Text is no list of characters, and only a dict is a struct."""
    point = StructType((Field(id=5, name="x", type=Primitive("double")),))
    fields = (Field(id=4, name="path", type=ListType(Field(id=6, name="element", type=point))),)
    with pytest.raises(InvalidInputError, match=f"column 'path', row 1: .*{reason}"):
        await _all([{"path": None}, {"path": value}], fields=fields)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "None .NoneType. holds no rows"),
        (7, "7 .int. holds no rows"),
        ("s3://bucket/file", "holds no rows"),
        ([1, 2], "1 .int. .after row 0. holds no rows"),
        ([{"id": 1}, 2], "2 .int. .after row 1. holds no rows"),
        (pl.LazyFrame({"id": [1]}), "call .collect"),
        (pa.array([1, 2]), "does not hand out rows"),
        ({"id": 1}, "column 'id' is 1 .int., not a list"),
        ({"id": "abc"}, "column 'id' is 'abc'"),
        ({"id": [1], "note": []}, "different numbers of rows"),
        ({1: [1]}, "column names are text, not 1"),
        ([{1: 1}], "column names are text, not 1"),
        ([{}], "row 0 is an empty dict"),
        (pd.DataFrame({0: [1]}), "column names are text, not 0"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns called 'a'"),
    ],
)
async def test_what_is_not_accepted_is_named(data: Any, message: str) -> None:
    """The error says what was given, where, and what would do."""
    with pytest.raises(InvalidInputError, match=message):
        await _all(data)


@settings(deadline=None)
@given(
    values=st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "t": st.datetimes(timezones=st.just(dt.UTC)) | st.none(),
                "b": st.binary(max_size=5) | st.none(),
                "d": st.dates() | st.none(),
            },
        ).filter(bool),
        max_size=30,
    ),
    chunk_rows=st.integers(1, 10),
)
async def test_rows_of_python_values_come_back(values: list[dict[str, Any]], chunk_rows: int) -> None:
    """Dicts go through Arrow unchanged, missing values as None."""
    fields = (
        Field(id=1, name="t", type=Primitive("timestamp")),
        Field(id=2, name="b", type=BinaryType()),
        Field(id=3, name="d", type=Primitive("date")),
    )
    tables = await _all(values, fields=fields, chunk_rows=chunk_rows)
    assert all(table.num_rows <= chunk_rows for table in tables)
    rows = [row for table in tables for row in table.to_pylist()]
    assert [{k: v for k, v in row.items() if v is not None} for row in rows] == [
        {k: v for k, v in row.items() if v is not None} for row in values
    ]
