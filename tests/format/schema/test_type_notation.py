"""Types as SQL text and from Arrow."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema.type_notation import from_arrow, parse_type, type_text
from lakehouse.format.schema.types import (
    BinaryType,
    DataType,
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
    arrow_type,
    children,
    walk,
    with_ids,
)
from tests.kit.type_strategies import nested_types


@given(nested_types)
def test_text_says_the_type(kind: DataType) -> None:
    """What a type is written as is read as that type."""
    assert parse_type(type_text(kind)) == kind


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("BOOL", "boolean"),
        ("int8", "tinyint"),
        ("byte", "tinyint"),
        ("int16", "smallint"),
        ("integer", "int"),
        ("int32", "int"),
        ("long", "bigint"),
        ("int64", "bigint"),
        ("real", "float"),
        ("float64", "double"),
        ("text", "string"),
        ("varchar", "string"),
        ("char(3)", "varchar(3)"),
        ("VarChar ( 20 )", "varchar(20)"),
        ("bytes", "binary"),
        ("varbinary(4)", "binary(4)"),
        ("decimal", "decimal(10,0)"),
        ("numeric(5)", "decimal(5,0)"),
        ("Decimal(38, 38)", "decimal(38,38)"),
        ("timestamptz", "timestamp"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("array < int not null >", "array<int not null>"),
        ("map<string not null,int>", "map<string,int>"),
        ("struct<a int, b: array<string>>", "struct<a: int, b: array<string>>"),
        ("struct<`a b`: int comment 'it''s'>", "struct<`a b`: int comment 'it''s'>"),
        ("struct<`a``b''c`: int>", "struct<`a``b''c`: int>"),
        ("struct<not: int not null, comment: date>", "struct<not: int not null, comment: date>"),
    ],
)
def test_spellings(text: str, written: str) -> None:
    """Usual names of types are understood, whatever their case, and one is written."""
    assert type_text(parse_type(text)) == written


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("arrayy<int>", 1, "there is no type 'arrayy'; did you mean 'array'?"),
        ("array<strinng>", 7, "did you mean 'string'?"),
        ("", 1, "a type is missing"),
        ("array<int", 10, "'>' is missing"),
        ("array int", 7, "'<' is missing before 'int'"),
        ("map<int>", 8, "',' is missing before '>'"),
        ("struct<>", 8, "a field's name is missing"),
        ("struct<a>", 9, "a type is missing"),
        ("struct<a: int comment b>", 23, "a comment stands in single quotes"),
        ("int int", 5, "'int' follows the end of the type"),
        ("int(3)", 4, "'(' follows the end of the type"),
        ("int$", 4, "'$' has no place in a type"),
        ("char", 1, "char needs a length"),
        ("varchar(0)", 9, "a length from 1 to 2147483647, not 0"),
        ("varchar(" + "9" * 5000 + ")", 9, "a length from 1 to 2147483647"),
        ("binary(x)", 8, "a length"),
        ("decimal(39,2)", 9, "1 to 38, not 39"),
        ("decimal(4,5)", 11, "0 to 4, not 5"),
        ("array<" * 70 + "int" + ">" * 70, 391, "nest at most 64 deep"),
    ],
)
def test_errors_say_where(text: str, position: int, says: str) -> None:
    """Text that is no type is refused with the position of what is wrong."""
    with pytest.raises(InvalidInputError) as caught:
        parse_type(text)
    assert says in caught.value.message
    assert caught.value.context["position"] == position


@given(st.text(max_size=30) | st.text("ardeciml<>(),:1 `'", max_size=30))
def test_no_text_breaks_the_parser(text: str) -> None:
    """Any text is a type or is refused with a position inside it or right behind it."""
    position = 1
    try:
        parse_type(text)
    except InvalidInputError as error:
        position = error.context["position"]
    assert 1 <= position <= len(text) + 1


def test_ids_are_given_while_reading() -> None:
    """Fields inside get ids depth first, or 0 when there is no source of ids."""
    text = "struct<a: array<int>, b: map<int,int>>"
    numbered = parse_type(text, itertools.count(5).__next__)
    assert [one.id for _, one in walk(children(numbered))] == [5, 6, 7, 8, 9]
    assert {one.id for _, one in walk(children(parse_type(text)))} == {0}


INT8 = Field(id=1, name="element", type=Primitive("int8"))
DAY = dt.datetime(2026, 1, 1, 12, 30, 15, 250_000)


@pytest.mark.parametrize(
    ("arrow", "kind", "values"),
    [
        (pa.bool_(), Primitive("boolean"), [True]),
        (pa.int8(), Primitive("int8"), [-128]),
        (pa.uint8(), Primitive("int16"), [255]),
        (pa.uint16(), Primitive("int32"), [65535]),
        (pa.uint32(), Primitive("int64"), [2**32 - 1]),
        (pa.int64(), Primitive("int64"), [-(2**63)]),
        (pa.float16(), Primitive("float"), [1.5]),
        (pa.float32(), Primitive("float"), [1.5]),
        (pa.float64(), Primitive("double"), [0.1]),
        (pa.large_string(), StringType(), ["é"]),
        (pa.string_view(), StringType(), ["é"]),
        (pa.dictionary(pa.int8(), pa.string()), StringType(), ["é"]),
        (pa.run_end_encoded(pa.int32(), pa.string()), StringType(), ["é"]),
        (pa.json_(pa.string()), StringType(), ["1"]),
        (pa.large_binary(), BinaryType(), [b"\xff"]),
        (pa.binary_view(), BinaryType(), [b"\xff"]),
        (pa.binary(3), BinaryType(3), [b"abc"]),
        (pa.uuid(), BinaryType(16), [bytes(16)]),
        (pa.date32(), Primitive("date"), [DAY.date()]),
        (pa.date64(), Primitive("date"), [DAY.date()]),
        (pa.time32("s"), Primitive("time"), [dt.time(1)]),
        (pa.time32("ms"), Primitive("time"), [dt.time(1)]),
        (pa.time64("us"), Primitive("time"), [dt.time(1)]),
        (pa.timestamp("s"), Primitive("timestamp_ntz"), [DAY.replace(microsecond=0)]),
        (pa.timestamp("ms", "Europe/Berlin"), Primitive("timestamp"), [DAY.replace(tzinfo=dt.UTC)]),
        (pa.decimal32(5, 2), DecimalType(5, 2), [decimal.Decimal("1.25")]),
        (pa.decimal256(38, 2), DecimalType(38, 2), [decimal.Decimal("1.25")]),
        (pa.list_(pa.int8()), ListType(INT8), [[1]]),
        (pa.large_list(pa.int8()), ListType(INT8), [[1]]),
        (pa.list_view(pa.int8()), ListType(INT8), [[1]]),
        (pa.list_(pa.int8(), 2), ListType(INT8), [[1, 2]]),
        (
            pa.map_(pa.string(), pa.field("v", pa.int8(), nullable=False)),
            MapType(
                Field(id=1, name="key", type=StringType(), required=True),
                Field(id=2, name="value", type=Primitive("int8"), required=True),
            ),
            [[("a", 1)]],
        ),
        (
            pa.struct([pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.large_string())]),
            StructType(
                (
                    Field(id=1, name="a", type=Primitive("int8"), required=True),
                    Field(id=2, name="b", type=StringType()),
                )
            ),
            [{"a": 1, "b": "x"}],
        ),
    ],
)
def test_from_arrow(arrow: pa.DataType, kind: DataType, values: list[Any]) -> None:
    """An Arrow type becomes the type whose Arrow type holds the same values."""
    assert from_arrow(arrow, itertools.count(1).__next__) == kind
    assert pa.array(values, arrow_type(kind)).to_pylist() == values


@pytest.mark.parametrize(
    ("arrow", "advice"),
    [
        (pa.null(), "give it a type"),
        (pa.uint64(), "pa.decimal128(20, 0)"),
        (pa.timestamp("ns"), "pa.timestamp('us')"),
        (pa.timestamp("ns", "UTC"), "pa.timestamp('us')"),
        (pa.time64("ns"), "pa.time64('us')"),
        (pa.duration("s"), "pa.int64()"),
        (pa.decimal256(39, 0), "1 to 38 digits"),
        (pa.decimal128(5, -2), "0 or more behind the point"),
        (pa.month_day_nano_interval(), "cast it to a type that tables have"),
        (pa.sparse_union([pa.field("a", pa.int8())]), "cast it to a type that tables have"),
        (pa.list_(pa.list_(pa.uint64())), "pa.decimal128(20, 0)"),
        (pa.dictionary(pa.int8(), pa.uint64()), "pa.decimal128(20, 0)"),
    ],
)
def test_arrow_types_that_do_not_fit(arrow: pa.DataType, advice: str) -> None:
    """An Arrow type that no type holds is refused with what to cast it to."""
    with pytest.raises(InvalidInputError) as caught:
        from_arrow(arrow, itertools.count(1).__next__)
    assert advice in caught.value.message


@given(nested_types)
def test_arrow_and_back(kind: DataType) -> None:
    """A type comes back from its Arrow type, but for lengths, which Arrow does not know."""
    numbered = with_ids(kind, itertools.count(1).__next__)
    back = from_arrow(arrow_type(numbered), itertools.count(1).__next__)
    assert arrow_type(back).equals(arrow_type(numbered), check_metadata=True)
