"""Rows from outside as a schema has them."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.type_notation import parse_type
from lakehouse.format.schema.types import Field, arrow_schema, arrow_type, walk, with_ids
from lakehouse.storage.rows.fit_to_schema import conform, conform_value, with_columns
from tests.kit.type_strategies import column_sets, values_of

MOMENT = dt.datetime(2026, 1, 31, 12, 0, 0, 5)


def column(kind: str, name: str = "a", **about: Any) -> Field:
    """A column of a type in SQL."""
    return Field(id=1, name=name, type=with_ids(parse_type(kind), itertools.count(100).__next__), **about)


def schema(*fields: Field) -> TableSchema:
    """A schema of these columns."""
    numbered = [
        Field(
            id=number,
            name=one.name,
            type=one.type,
            required=one.required,
            initial_default=one.initial_default,
            write_default=one.write_default,
        )
        for number, one in enumerate(fields, 1)
    ]
    return TableSchema(fields=tuple(numbered), highest_field_id=max(i.id for _, i in walk(tuple(numbered))))


def fitted(array: pa.Array, kind: str, **about: Any) -> list[Any]:
    """The values of one column after it was made to conform."""
    found: list[Any] = conform(pa.table({"a": array}), schema(column(kind, **about))).column(0).to_pylist()
    return found


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[Field, ...], list[dict[str, Any]]]:
    """Columns and rows of them."""
    fields = draw(column_sets())
    rows = st.fixed_dictionaries({one.name: values_of(one.type, required=one.required) for one in fields})
    return fields, draw(st.lists(rows, max_size=5))


def in_other_layouts(array: pa.Array, draw: Any) -> pa.Array:
    """The same values, in a layout that another library might use."""
    kind = array.type
    if pa.types.is_string(kind):
        kind = draw(st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]))
    elif pa.types.is_binary(kind):
        kind = draw(st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]))
    elif pa.types.is_list(kind):
        kind = draw(st.sampled_from([pa.list_, pa.large_list]))(kind.value_type)
    elif pa.types.is_integer(kind):
        kind = draw(st.sampled_from([kind, pa.int64()]))
    elif pa.types.is_decimal(kind):
        kind = draw(st.sampled_from([kind, pa.decimal256(50, kind.scale)]))
    elif pa.types.is_timestamp(kind) and kind.tz:
        kind = pa.timestamp("us", draw(st.sampled_from(["UTC", "Asia/Tokyo"])))
    elif pa.types.is_date32(kind):
        kind = draw(st.sampled_from([kind, pa.date64()]))
    other = pc.cast(array, kind)
    if pa.types.is_large_string(kind) and draw(st.booleans()):
        return other.dictionary_encode()
    return other


@given(tables(), st.data())
def test_any_values_of_the_types_are_kept(
    given_rows: tuple[tuple[Field, ...], list[dict[str, Any]]], data: st.DataObject
) -> None:
    """Values the columns can hold come out as they went in, whatever layout, order and case they came in."""
    fields, rows = given_rows
    arrays = {
        one.name: in_other_layouts(pa.array([row[one.name] for row in rows], arrow_type(one.type)), data.draw)
        for one in fields
    }
    order = data.draw(st.permutations(fields))
    table = pa.table([arrays[one.name] for one in order], names=[one.name for one in order])
    table = pa.concat_tables([table.slice(0, 2), table.slice(2)])
    kept = TableSchema(fields=fields, highest_field_id=max(one.id for _, one in walk(fields)))
    found = conform(table, kept)
    found.validate(full=True)
    assert found.schema.equals(arrow_schema(fields), check_metadata=True)
    assert all(
        one.type.equals(part.type, check_metadata=True)
        for one, part in zip(found.columns, found.schema, strict=True)
    )
    assert found.to_pylist() == rows


def test_rows_that_fit_are_not_copied() -> None:
    """Columns that have the type already are passed on as they are."""
    kept = schema(column("bigint", required=True), column("string", "b"), column("array<int>", "c"))
    arrays = [pa.array([1, 2]), pa.array(["x", "é"]), pa.array([[1], None], kept.arrow().field("c").type)]
    table = pa.table(arrays, schema=kept.arrow())
    found = conform(table, kept)
    for before, after in zip(table.columns, found.columns, strict=True):
        assert [b and b.address for b in after.chunk(0).buffers()] == [
            b and b.address for b in before.chunk(0).buffers()
        ]


def test_missing_columns_have_the_write_default() -> None:
    """A column that is not there has its default for new rows, or null."""
    kept = schema(
        column("int"),
        column("string", "b", initial_default="old", write_default="new", required=True),
        column("double", "c"),
    )
    found = conform(pa.table({"a": [1, 2]}), kept)
    assert found.to_pylist() == [{"a": 1, "b": "new", "c": None}, {"a": 2, "b": "new", "c": None}]


def test_some_columns_are_enough_when_asked_for() -> None:
    """With ``partial`` missing columns are left out, and those that are there are checked."""
    kept = schema(column("int", "x"), column("bigint", "id", required=True), column("string", "day"))
    found = conform(pa.table({"DAY": ["m"], "id": pa.array([7], pa.int8())}), kept, partial=True)
    assert found.to_pylist() == [{"id": 7, "day": "m"}]
    assert found.schema.field("id").metadata == {b"PARQUET:field_id": b"2"}
    with pytest.raises(InvalidInputError, match="column 'id', row 0: null where no null may be"):
        conform(pa.table({"id": pa.array([None], pa.int8())}), kept, partial=True)


LISTS = [[1], None, [], [2, 3]]


@pytest.mark.parametrize(
    ("array", "kind", "values"),
    [
        (pa.array(["abc", "äöü"]), "varchar(3)", ["abc", "äöü"]),
        (pa.array([None, None]), "array<int>", [None, None]),
        (pa.array([None, None], pa.string()), "int", [None, None]),
        (pa.array(["b", None, "b"]).dictionary_encode(), "string", ["b", None, "b"]),
        (pc.run_end_encode(pa.array([1, 1, 2])), "bigint", [1, 1, 2]),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), "array<int>", [[1, 2], None]),
        (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)).slice(1), "array<int>", [None, [3, 4]]),
        *(
            (pa.array([[9], [1], None, [], [2, 3]], layout(pa.int8())).slice(1), "array<int>", LISTS)
            for layout in (pa.large_list, pa.list_view, pa.large_list_view)
        ),
        (
            pa.array([[("k", 1)], None], pa.map_(pa.large_string(), pa.int8())),
            "map<string,int>",
            [[("k", 1)], None],
        ),
        (pa.array([{"Y": 1, "x": "s"}, None]), "struct<x: string, y: int>", [{"x": "s", "y": 1}, None]),
        (pa.array([{"x": "s"}, None]), "struct<x: string, y: int>", [{"x": "s", "y": None}, None]),
        (pa.array([None, {"x": None}]), "struct<x: string not null>", None),
    ],
)
def test_casts(array: pa.Array, kind: str, values: list[Any] | None) -> None:
    """Values in layouts of other libraries are cast, nested ones with what is inside them."""
    if values is None:
        with pytest.raises(InvalidInputError):
            fitted(array, kind)
    else:
        assert fitted(array, kind) == values


REFUSED = [
    (pa.array([1, 128]), "tinyint", 1, 128, "does not fit tinyint: whole numbers from -128 to 127"),
    (pa.array([2**63], pa.uint64()), "bigint", 0, 2**63, "does not fit bigint"),
    (pa.array([1.0, 1.5]), "int", 1, 1.5, "does not fit int: whole numbers"),
    (pa.array([float("inf")]), "int", 0, float("inf"), "does not fit int"),
    (pa.array(["1"]), "int", 0, "1", "'1' is string, and the column int: cast it"),
    (pa.array([None, True]), "int", 1, True, "True is bool, and the column int: cast it"),
    (pa.array([0]), "boolean", 0, 0, "is int64, and the column boolean"),
    (pa.array([1.0, 1e300]), "float", 1, 1e300, "does not fit float"),
    (pa.array([2**53 + 1]), "double", 0, 2**53 + 1, "does not fit double: whole numbers must be held"),
    (pa.array([decimal.Decimal("1.5")]), "double", 0, decimal.Decimal("1.5"), "is decimal128"),
    (pa.array([1.5]), "decimal(4,2)", 0, 1.5, "1.5 is double, and the column decimal(4,2)"),
    (pa.array([5, 100]), "decimal(4,2)", 1, 100, "at most 2 digits before the point and 2 behind"),
    (pa.array([decimal.Decimal("1.234")]), "decimal(4,2)", 0, decimal.Decimal("1.234"), "2 behind it"),
    (pa.array([5]), "string", 0, 5, "is int64, and the column string"),
    (pa.array([b"x"]), "string", 0, b"x", "is binary, and the column string"),
    (pa.array(["x"]), "binary", 0, "x", "is string, and the column binary"),
    (pa.array(["ab", None, "äöüß"]), "varchar(3)", 2, "äöüß", "has 4 characters, and varchar(3) has room"),
    (pa.array([b"ab", b"abcd"]), "binary(3)", 1, b"abcd", "has 4 bytes, and binary(3) has room for 3"),
    (pa.array([MOMENT]), "date", 0, MOMENT, "does not fit date: it is not midnight"),
    (pa.array([MOMENT.replace(tzinfo=dt.UTC)]), "timestamp_ntz", 0, MOMENT.replace(tzinfo=dt.UTC), "cast"),
    (pa.array([MOMENT.date()]), "timestamp", 0, MOMENT.date(), "is date32[day], and the column timestamp"),
    (pa.array([2**55], pa.timestamp("s")), "timestamp", 0, None, "does not fit timestamp"),
    (pa.array([1_001], pa.time64("ns")), "time", 0, None, "it counts microseconds"),
    (pa.array([0, 1_001], pa.timestamp("ns")), "timestamp_ntz", 1, None, "it counts microseconds"),
    (pa.array(["x"]), "array<string>", 0, "x", "is string, and the column array<string>"),
    (pa.array([[1]]), "map<int,int>", 0, [1], "is list<item: int64>, and the column map<int,int>"),
    (pa.array([[1]]), "struct<a: int>", 0, [1], "and the column struct<a: int>"),
]


@pytest.mark.parametrize(("array", "kind", "row", "value", "says"), REFUSED)
def test_what_does_not_fit(array: pa.Array, kind: str, row: int, value: Any, says: str) -> None:
    """A value the type cannot hold is refused with its column, its row and itself."""
    table = pa.table({"a": pa.chunked_array([array.slice(0, 0), array])})
    with pytest.raises(InvalidInputError) as caught:
        conform(table, schema(column(kind)), first_row=1000)
    assert f"column 'a', row {1000 + row}: " in caught.value.message
    assert says in caught.value.message
    context = caught.value.context
    assert (context["column"], context["row"]) == ("a", 1000 + row)
    assert context["value"] == value or value is None


@given(st.integers(0, 300), st.integers(1, 4), st.data())
def test_the_first_misfit_is_found(bad: int, chunks: int, data: st.DataObject) -> None:
    """The row that is named is the first that does not fit, wherever it stands."""
    values = np.zeros(301, np.int64)
    values[[bad, data.draw(st.integers(bad, 300))]] = 1000
    parts = [pa.array(part) for part in np.array_split(values, chunks)]
    with pytest.raises(InvalidInputError) as caught:
        conform(pa.table({"a": pa.chunked_array(parts)}), schema(column("tinyint")))
    assert caught.value.context["row"] == bad


PEOPLE = "struct<name: varchar(3) not null, tags: array<tinyint not null>>"


@pytest.mark.parametrize(
    ("values", "kind", "row", "place", "says"),
    [
        ([1, None], "int not null", 1, "a", "null where no null may be"),
        ([{"name": "x"}, None, {"name": None}], PEOPLE, 2, "a.name", "null where no null may be"),
        ([{"tags": [1]}], PEOPLE, 0, "a.name", "the column is missing and has no default"),
        ([None, {"name": "äöüß"}], PEOPLE, 1, "a.name", "has 4 characters"),
        ([{"name": "x", "tags": [1]}, {"name": "y", "tags": [2, None]}], PEOPLE, 1, "a.tags.element", "null"),
        (
            [{"name": "x", "tags": []}, {"name": "y", "tags": [2, 300]}],
            PEOPLE,
            1,
            "a.tags.element",
            "300 does not fit tinyint",
        ),
        ([[[0]], [[], [0, 999]]], "array<array<tinyint>>", 1, "a.element.element", "999 does not fit"),
    ],
)
def test_nested_values_are_found_by_row(
    values: list[Any], kind: str, row: int, place: str, says: str
) -> None:
    """What is wrong inside a nested value is named by its path and by the row it belongs to."""
    required = kind.endswith(" not null")
    kept = schema(column(kind.removesuffix(" not null"), required=required))
    with pytest.raises(InvalidInputError, match=says) as caught:
        conform(pa.table({"a": pa.array([*values[:1], *values]).slice(1)}), kept, first_row=5)
    assert (caught.value.context["column"], caught.value.context["row"]) == (place, 5 + row)


def test_nulls_under_a_null_struct_do_not_matter() -> None:
    """Nothing is required inside a struct that is null, and what it hides is not looked at."""
    hidden = pa.StructArray.from_arrays(
        [pa.array([5000, None, 1])], names=["x"], mask=pa.array([True, True, False])
    )
    assert fitted(hidden, "struct<x: tinyint not null>") == [None, None, {"x": 1}]


def test_nulls_under_an_exact_null_struct_are_written() -> None:
    """A struct of the right type whose required part is null where it is null can be written to a file."""
    kept = schema(column("struct<x: int not null>"))
    kind = kept.arrow().field("a").type
    hidden = pa.StructArray.from_arrays(
        [pa.array([None, 1], pa.int32())], fields=list(kind), mask=pa.array([True, False])
    )
    found = conform(pa.table([hidden], schema=kept.arrow()), kept).column(0)
    assert found.to_pylist() == [None, {"x": 1}]
    assert found.chunk(0).field(0).null_count == 0


def test_bytes_that_are_not_text() -> None:
    """A string column whose bytes are not UTF-8 is refused where the first such value stands."""
    held = pa.array([b"ok", b"\xc3\xa9", b"bad\xff", b"\xff"])
    text = pa.Array.from_buffers(pa.string(), 4, held.buffers())
    with pytest.raises(InvalidInputError, match=r"column 'a', row 2: b'bad\\xff' is not UTF-8"):
        fitted(text, "string")
    assert fitted(text.slice(0, 2), "string") == ["ok", "é"]


def test_half_characters_side_by_side_are_not_text() -> None:
    """Two values that would be UTF-8 only when joined are refused."""
    held = pa.array([b"a\xc3", b"\xa9"])
    with pytest.raises(InvalidInputError, match="row 0"):
        fitted(pa.Array.from_buffers(pa.string(), 2, held.buffers()), "string")


def test_long_values_are_cut_in_errors() -> None:
    """An error shows the beginning of a long value only."""
    with pytest.raises(InvalidInputError) as caught:
        fitted(pa.array(["é" * 5000]), "varchar(10)")
    assert caught.value.context["value"] == "é" * 40
    assert f"'{'é' * 40}'… has 5,000 characters" in caught.value.message


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["id", "amuont"], "the table has no column 'amuont'; did you mean 'amount'?"),
        (["id", "_VALUE_KIND"], "the table has no column '_VALUE_KIND'"),
        (["id", "ID"], "columns 'id' and 'ID' are both 'id' of the table"),
        (["Id", "ID"], "columns 'Id' and 'ID' are both 'id' of the table"),
        (["id", "id"], "columns 'id' and 'id' are both 'id' of the table"),
        (["amount"], "column 'id', row 0: null where no null may be: the column is missing"),
    ],
)
def test_columns_that_do_not_belong(names: list[str], says: str) -> None:
    """Unknown, doubled and missing columns are refused by name."""
    kept = schema(column("int", "id", required=True), column("int", "amount"))
    with pytest.raises(InvalidInputError, match=says.replace("?", r"\?")):
        conform(pa.table([pa.array([1])] * len(names), names=names), kept)


def test_unknown_fields_of_structs_are_refused() -> None:
    """A struct's fields are matched by name as columns are."""
    with pytest.raises(InvalidInputError, match=r"column 'a' has no column 'xx'; did you mean 'x'\?"):
        fitted(pa.array([{"xx": 1}]), "struct<x: int>")


def test_no_rows_need_no_columns() -> None:
    """A table without rows conforms, whatever is missing."""
    kept = schema(column("int", "id", required=True))
    assert conform(pa.table({}), kept).num_rows == 0


@pytest.mark.parametrize("start", [0, 5])
def test_text_beyond_two_gigabytes_stays_in_chunks(start: int) -> None:
    """One chunk of more text than 32-bit offsets reach becomes several, slices included."""
    offsets = np.arange(2101, dtype=np.int64) << 20
    held = np.zeros(2100 << 20, np.uint8)  # zeros that are only read take no room
    marked = {row: chr(row % 128) for row in (7, 2046, 2047, 2049, 2099)}
    for row, mark in marked.items():
        held[row << 20] = ord(mark)
    valid = pa.py_buffer(np.full(263, 0b1111_1110, np.uint8))
    text = pa.Array.from_buffers(pa.large_string(), 2100, [valid, pa.py_buffer(offsets), pa.py_buffer(held)])
    found = conform(pa.table({"a": text.slice(start)}), schema(column("string"))).column(0)
    assert (found.type, [len(chunk) for chunk in found.chunks]) == (pa.string(), [2047, 53 - start])
    assert pc.binary_length(found).to_pylist() == pc.binary_length(text).to_pylist()[start:]
    begins = pc.utf8_slice_codeunits(found, 0, 1).to_pylist()
    assert {row: begins[row - start] for row in marked} == marked
    assert begins.count("\0") == len(begins) - begins.count(None) - len(marked)


@pytest.mark.parametrize(
    ("value", "kind", "held"),
    [
        (5, "decimal(4,2)", decimal.Decimal("5.00")),
        (10**37, "decimal(38,0)", decimal.Decimal(10**37)),
        (5, "double", 5.0),
        (0.1, "float", float(np.float32(0.1))),
        (MOMENT, "timestamp", MOMENT.replace(tzinfo=dt.UTC)),
        (None, "int", None),
        ((1, 2), "array<int>", [1, 2]),
        ({"k": 1}, "map<string,double>", [("k", 1.0)]),
        ([("k", None)], "map<string,int>", [("k", None)]),
        ({"X": 1}, "struct<x: tinyint, y: string>", {"x": 1, "y": None}),
    ],
)
def test_defaults_as_the_column_holds_them(value: Any, kind: str, held: Any) -> None:
    """A default is kept as the column would give it back."""
    found = conform_value(value, column(kind))
    assert (found, type(found)) == (held, type(held))


@pytest.mark.parametrize(
    ("value", "kind", "says"),
    [
        (300, "tinyint", "the default of column 'a': 300 does not fit tinyint"),
        ("5", "int", "the default of column 'a': '5' is string, and the column int"),
        ("abcd", "varchar(3)", "has 4 characters"),
        (object(), "int", "is no value of int"),
        (2**70, "bigint", "is no value of bigint"),
        ([1, 300], "array<tinyint>", "the default of column 'a.element': 300"),
        ([None], "array<int not null>", "the default of column 'a.element': null where no null may be"),
        ({}, "struct<x: int not null>", "the default of column 'a.x': null where no null may be"),
        ({"z": 1}, "struct<x: int>", "column 'a' has no column 'z'"),
        ("x", "array<int>", "is string, and the column array<int>"),
    ],
)
def test_defaults_that_do_not_fit(value: Any, kind: str, says: str) -> None:
    """A default the column cannot hold is refused."""
    with pytest.raises(InvalidInputError, match=says):
        conform_value(value, column(kind))


def test_missing_columns_are_null_in_their_places() -> None:
    """Columns that rows lack are null, also those that must not be, and stand where they are wanted."""
    wanted = pa.schema([pa.field("a", pa.int8(), nullable=False), ("b", pa.int8()), ("c", pa.string())])
    rows = with_columns(pa.table({"b": pa.array([1], pa.int8())}), wanted)
    assert rows.to_pydict() == {"a": [None], "b": [1], "c": [None]}
    assert with_columns(rows, wanted) is rows
