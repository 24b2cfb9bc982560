"""Schema objects."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import uuid
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError, UnsupportedVersionError
from lakehouse.format.metadata.sealed_json import seal
from lakehouse.format.metadata.snapshot import SchemaRef
from lakehouse.format.schema.schema_object import SchemaObject, decode_schema, encode_schema
from lakehouse.format.schema.table_schema import TableSchema
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
    walk,
)
from tests.kit.blob_samples import flipped, spec_block
from tests.kit.type_strategies import column_sets, values_of

KEY = "sales/orders-0f8fad5b/schema/schema-1"
TEXT = StringType()
EXAMPLE = SchemaObject(
    schema=TableSchema(
        id=1,
        fields=(
            Field(id=1, name="id", type=Primitive("int64"), required=True),
            Field(
                id=2,
                name="tags",
                type=ListType(Field(id=3, name="element", type=StringType(20))),
                comment="free words",
            ),
            Field(
                id=4,
                name="amount",
                type=DecimalType(10, 2),
                initial_default=decimal.Decimal("0.00"),
                write_default=decimal.Decimal("1.50"),
            ),
        ),
        primary_key=("id",),
        buckets=4,
        options={"point_reads": "true"},
        comment="orders",
        highest_field_id=4,
    ),
    table=uuid.UUID("0f8fad5b-d9cb-469f-a165-70867728950e"),
    token="5f0c1d2e3b4a59687786a5b4c3d2e1f0",
    time_ms=1767225600000,
    ancestors=(SchemaRef(id=0, path="schema/schema-7c9e6679-7425-40de-944b-e07fc1f90ae7"),),
)


def test_the_example_of_the_specification() -> None:
    """The object in the specification is what is written and read."""
    data = spec_block("schema.md", "object").replace("\n", "").encode()
    assert encode_schema(EXAMPLE) == data
    assert decode_schema(data, key=KEY) == EXAMPLE


@st.composite
def schema_objects(draw: st.DrawFn) -> SchemaObject:
    """A schema object with any columns and defaults."""
    fields = tuple(
        replace(
            one,
            comment=draw(st.none() | st.text(max_size=5)),
            initial_default=draw(values_of(one.type)),
            write_default=draw(values_of(one.type)),
        )
        for one in draw(column_sets())
    )
    highest = max(one.id for _, one in walk(fields)) + draw(st.integers(0, 3))
    schema = TableSchema(
        id=draw(st.integers(0, 5)),
        fields=fields,
        buckets=draw(st.integers(1, 10_000)),
        options=draw(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2)),
        comment=draw(st.none() | st.text(max_size=5)),
        highest_field_id=highest,
    )
    return replace(EXAMPLE, schema=schema)


@given(schema_objects())
def test_what_is_written_is_read(one: SchemaObject) -> None:
    """Any schema comes back as it was, defaults of every type included."""
    assert decode_schema(encode_schema(one), key=KEY) == one


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Primitive("boolean"), False, "false"),
        (Primitive("int64"), -(2**63), "-9223372036854775808"),
        (Primitive("double"), 0.1, "0.1"),
        (Primitive("double"), -0.0, "-0.0"),
        (Primitive("double"), math.inf, '"inf"'),
        (Primitive("float"), -math.inf, '"-inf"'),
        (DecimalType(38, 2), decimal.Decimal("1.50"), '"1.50"'),
        (DecimalType(38, 30), decimal.Decimal("1E-30"), '"0.000000000000000000000000000001"'),
        (TEXT, "é", '"é"'),
        (BinaryType(), b"\x00\xff", '"00ff"'),
        (Primitive("date"), dt.date(2026, 1, 31), '"2026-01-31"'),
        (Primitive("time"), dt.time(12, 0, 0, 1), '"12:00:00.000001"'),
        (
            Primitive("timestamp"),
            dt.datetime(2026, 1, 31, 13, tzinfo=dt.timezone(dt.timedelta(hours=1))),
            '"2026-01-31T12:00:00.000000Z"',
        ),
        (Primitive("timestamp_ntz"), dt.datetime(2026, 1, 31, 12), '"2026-01-31T12:00:00.000000"'),
        (ListType(Field(id=2, name="element", type=Primitive("int8"))), [1, None], "[1,null]"),
        (
            MapType(
                Field(id=2, name="key", type=TEXT, required=True),
                Field(id=3, name="value", type=BinaryType()),
            ),
            [("a", b"\x01"), ("b", None)],
            '[["a","01"],["b",null]]',
        ),
        (
            StructType((Field(id=2, name="a", type=TEXT), Field(id=3, name="b", type=TEXT))),
            {"a": None, "b": "x"},
            '{"a":null,"b":"x"}',
        ),
    ],
)
def test_defaults(kind: DataType, value: Any, text: str) -> None:
    """A default is written as the specification says for its type, and read as the same value."""
    schema = TableSchema(
        fields=(Field(id=1, name="a", type=kind, initial_default=value),), highest_field_id=3
    )
    data = encode_schema(replace(EXAMPLE, schema=schema))
    assert f'"initial_default":{text}}}'.encode() in data
    found = decode_schema(data, key=KEY).schema.fields[0].initial_default
    assert repr(found) == repr(value) or found == value


def test_a_default_that_is_no_number_is_kept() -> None:
    """NaN is a default like any other."""
    field = Field(id=1, name="a", type=Primitive("double"), write_default=math.nan)
    data = encode_schema(replace(EXAMPLE, schema=TableSchema(fields=(field,), highest_field_id=1)))
    assert math.isnan(decode_schema(data, key=KEY).schema.fields[0].write_default)


def members() -> dict[str, Any]:
    """The members of the example."""
    found: dict[str, Any] = json.loads(encode_schema(EXAMPLE))
    del found["crc32c"]
    return found


def changed(place: str, value: Any) -> bytes:
    """The example with another value, or none, at a place such as ``fields.0.type``."""
    found: Any = members()
    *outer, last = place.split(".")
    holder = found
    for step in outer:
        holder = holder[int(step) if step.isdigit() else step]
    if value is ...:
        del holder[last]
    else:
        holder[int(last) if last.isdigit() else last] = value
    return seal(found)


def test_unknown_members_are_ignored() -> None:
    """Members that a later release adds do not matter."""
    found = {**members(), "later": {"x": 1}}
    found["fields"][0]["later"] = 1
    assert decode_schema(seal(found), key=KEY) == EXAMPLE


@pytest.mark.parametrize("bit", range(0, 8 * len(encode_schema(EXAMPLE)), 61))
def test_a_flipped_bit_is_noticed(bit: int) -> None:
    """An object with one bit turned over is refused."""
    with pytest.raises(FormatError, match=KEY):
        decode_schema(flipped(encode_schema(EXAMPLE), bit), key=KEY)


def test_a_later_format_asks_for_an_upgrade() -> None:
    """An object of a later format is refused with its key and what to do."""
    with pytest.raises(UnsupportedVersionError, match=rf"{KEY} .*format 2.*Upgrade"):
        decode_schema(changed("format", 2), key=KEY)


@pytest.mark.parametrize(
    ("place", "value", "field"),
    [
        ("table", "0f8f", "table"),
        ("table", None, "table"),
        ("token", 5, "token"),
        ("time_ms", -1, "time_ms"),
        ("time_ms", 1.5, "time_ms"),
        ("id", True, "id"),
        ("id", ..., "id"),
        ("fields", {}, "fields"),
        ("fields.0", 1, "fields"),
        ("fields.0.id", "1", "fields[0].id"),
        ("fields.0.name", None, "fields[0].name"),
        ("fields.0.type", "int46", "fields[0].type"),
        ("fields.0.type", "array<int>", "fields[0].type"),
        ("fields.0.type", ["bigint"], "fields[0].type"),
        ("fields.0.type", {"list": 1}, "fields[0].type.list"),
        ("fields.0.type", {"map": []}, "fields[0].type.map"),
        ("fields.0.type", {"union": []}, "fields[0].type.struct"),
        ("fields.0.required", 1, "fields[0].required"),
        ("fields.1.type.list.type", "strinng", "fields[1].type.list.type"),
        ("fields.1.comment", 1, "fields[1].comment"),
        ("fields.2.initial_default", 1.5, "fields[2].initial_default"),
        ("fields.2.initial_default", "1.5", "fields[2].initial_default"),
        ("fields.2.initial_default", "NaN", "fields[2].initial_default"),
        ("fields.2.write_default", "123456789.00", "fields[2].write_default"),
        ("highest_field_id", None, "highest_field_id"),
        ("primary_key", "id", "primary_key"),
        ("primary_key", [1], "primary_key"),
        ("partition_by", ..., "partition_by"),
        ("buckets", "4", "buckets"),
        ("options", {"a": 1}, "options"),
        ("options", [], "options"),
        ("comment", 1, "comment"),
        ("ancestors", None, "ancestors"),
        ("ancestors.0.path", 1, "ancestors[0].path"),
        ("ancestors.0.id", None, "ancestors[0].id"),
    ],
)
def test_what_is_wrong_is_named(place: str, value: Any, field: str) -> None:
    """A member that is missing or not what it should be is named, and so is the object."""
    with pytest.raises(CorruptionError) as caught:
        decode_schema(changed(place, value), key=KEY)
    assert caught.value.message.startswith(f"{KEY}: {field} ")
    assert (caught.value.context["key"], caught.value.context["field"]) == (KEY, field)


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("boolean", 1),
        ("tinyint", 128),
        ("bigint", True),
        ("bigint", 1.0),
        ("double", "1.5"),
        ("double", True),
        ("double", [1]),
        ("date", "2026-02-30"),
        ("date", 5),
        ("timestamp", "2026-01-01T00:00:00"),
        ("timestamp_ntz", "2026-01-01T00:00:00Z"),
        ("time", "25:00"),
        ("binary", "0g"),
        ("string", 5),
        ({"list": {"id": 9, "name": "element", "type": "int"}}, {"a": 1}),
        ({"struct": [{"id": 9, "name": "x", "type": "int"}]}, {"y": 1}),
        ({"struct": [{"id": 9, "name": "x", "type": "int"}]}, [1]),
    ],
)
def test_a_default_of_another_type_is_damage(kind: Any, default: Any) -> None:
    """A default that the column cannot have is refused."""
    found = members()
    found["highest_field_id"] = 9
    found["fields"][2] = {"id": 4, "name": "a", "type": kind, "write_default": default}
    with pytest.raises(CorruptionError, match=r"fields\[2\]\.write_default"):
        decode_schema(seal(found), key=KEY)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("primary_key", ["x"], "primary key column 'x' is not a column"),
        ("buckets", 0, "1 to 10,000 buckets"),
        ("highest_field_id", 3, "field ids must be unique"),
        ("fields.2.name", "ID", "columns 'id' and 'ID'"),
        ("fields", [], "the table has no columns"),
    ],
)
def test_a_schema_that_breaks_a_rule_is_damage(place: str, value: Any, says: str) -> None:
    """An object that says what no table can have is damaged."""
    with pytest.raises(CorruptionError, match=says) as caught:
        decode_schema(changed(place, value), key=KEY)
    assert caught.value.context["key"] == KEY
