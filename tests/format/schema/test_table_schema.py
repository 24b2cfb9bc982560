"""Schemas of tables: made from Arrow, and the rules they keep."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema.table_schema import TableSchema, check_schema, schema_from_arrow
from lakehouse.format.schema.types import (
    DataType,
    DecimalType,
    Field,
    Primitive,
    StringType,
    arrow_schema,
    walk,
)
from tests.kit.type_strategies import column_sets

ARROW = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("day", pa.date32()),
        pa.field("who", pa.struct([pa.field("first", pa.string()), pa.field("last", pa.string())])),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("amount", pa.float64(), nullable=False),
    ]
)


def made(**about: Any) -> TableSchema:
    """The schema of a table with these columns."""
    return schema_from_arrow(ARROW, **about)


def test_ids_count_depth_first() -> None:
    """Fields are numbered from 1, a field before its own fields and those before its neighbour."""
    schema = made()
    assert [(".".join(path), one.id) for path, one in walk(schema.fields)] == [
        ("id", 1),
        ("day", 2),
        ("who", 3),
        ("who.first", 4),
        ("who.last", 5),
        ("tags", 6),
        ("tags.element", 7),
        ("amount", 8),
    ]
    assert schema.highest_field_id == 8


def test_keys_are_required() -> None:
    """Key and partition columns are never null, whatever Arrow says of them."""
    schema = made(primary_key=["id"], partition_by=["day"])
    assert [one.name for one in schema.fields if one.required] == ["id", "day", "amount"]
    assert (schema.key_fields, schema.partition_fields) == (schema.fields[:1], schema.fields[1:2])


def test_the_schema_of_the_key_has_its_columns_alone() -> None:
    """The schema of the key has the key's columns in key order, with their ids, and no partition."""
    keys = made(primary_key=["day", "id"], partition_by="day").key_schema()
    assert (keys.fields, keys.primary_key, keys.partition_by) == (keys.key_fields, ("day", "id"), ())
    assert [one.id for one in keys.fields] == [2, 1]


def test_one_column_needs_no_list() -> None:
    """A key of one column may be given as its name."""
    assert made(primary_key="id", partition_by="day") == made(primary_key=["id"], partition_by=("day",))


@pytest.mark.parametrize(
    ("key", "partitions", "holds"),
    [(["id"], ["day"], False), (["id", "day"], ["day"], True), (["id"], [], True)],
)
def test_whether_the_key_tells_the_partition(key: list[str], partitions: list[str], holds: bool) -> None:
    """The key holds the partition when all partition columns are part of it."""
    assert made(primary_key=key, partition_by=partitions).key_holds_partition is holds


def test_options_are_kept_as_text() -> None:
    """A schema keeps its options as text, buckets and comment as they are."""
    schema = made(primary_key="id", buckets=4, comment="orders", options={"point_reads": True})
    assert (schema.buckets, schema.comment, dict(schema.options)) == (4, "orders", {"point_reads": "true"})


def test_a_schema_travels() -> None:
    """A schema survives pickle and has a hash."""
    schema = made(primary_key="id", options={"point_reads": True})
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert hash(schema) == hash(made(primary_key="id", options={"point_reads": True}))


def test_the_arrow_schema_has_ids() -> None:
    """The Arrow schema of a table is that of its columns, with ids."""
    assert made().arrow().field("amount").metadata == {b"PARQUET:field_id": b"8"}


@given(column_sets())
def test_every_set_of_columns_makes_a_table(fields: tuple[Field, ...]) -> None:
    """Columns of any types with unique names pass every rule, from their Arrow schema too."""
    highest = max(one.id for _, one in walk(fields))
    check_schema(TableSchema(fields=fields, highest_field_id=highest))
    assert schema_from_arrow(arrow_schema(fields)).highest_field_id == highest


def arrow(*parts: tuple[str, pa.DataType]) -> pa.Schema:
    """An Arrow schema."""
    return pa.schema(list(parts))


INT, PAIR = pa.int64(), pa.struct([("a", pa.int64())])


@pytest.mark.parametrize(
    ("schema", "about", "says"),
    [
        (ARROW, {"primary_key": ["idd"]}, "primary key column 'idd' is not .*; did you mean 'id'?"),
        (ARROW, {"primary_key": ["ID"]}, "primary key column 'ID' is not .*; did you mean 'id'?"),
        (ARROW, {"partition_by": ["dya"]}, "partition column 'dya' is not .*; did you mean 'day'?"),
        (ARROW, {"primary_key": ["who"]}, "primary key column 'who' is struct<.*: nested types"),
        (ARROW, {"partition_by": ["tags"]}, "partition column 'tags' is array<string>: nested types"),
        (ARROW, {"primary_key": ["amount"]}, "primary key column 'amount' is double: floating-point"),
        (ARROW, {"partition_by": ["amount"]}, "partition column 'amount' is double: floating-point"),
        (ARROW, {"primary_key": ["id", "id"]}, "primary key: a column is named twice in id, id"),
        (ARROW, {"buckets": 0}, "1 to 10,000 buckets, not 0"),
        (ARROW, {"buckets": 10_001}, "1 to 10,000 buckets, not 10,001"),
        (ARROW, {"buckets": "4"}, "buckets must be a whole number, not '4'"),
        (ARROW, {"buckets": True}, "buckets must be a whole number, not True"),
        (ARROW, {"options": {"file.formatt": "sst"}}, "did you mean 'file.format'?"),
        (ARROW, {"options": {"file.format": "orc"}}, "must be one of parquet, sst"),
        (arrow(), {}, "the table has no columns"),
        (arrow(("a", pa.struct([]))), {}, "the struct 'a' has no columns"),
        (arrow(("a", INT), ("A", INT)), {}, "the table has columns 'a' and 'A'"),
        (arrow(("a", INT), ("a", INT)), {}, "the table has columns 'a' and 'a'"),
        (arrow(("straße", INT), ("STRASSE", INT)), {}, "'straße' and 'STRASSE'"),
        (arrow(("s", pa.struct([("x", INT), ("X", INT)]))), {}, "the struct 's' has columns 'x' and 'X'"),
        (arrow(("l", pa.list_(pa.struct([("x", INT), ("X", INT)])))), {}, "the struct 'l.element' has"),
        (arrow(("", INT)), {}, "a column's name is empty"),
        (arrow((" ", INT)), {}, "a column's name is empty"),
        (arrow(("a\nb", INT)), {}, "no control characters"),
        (arrow(("a\u2028b", INT)), {}, "no control characters"),
        (arrow(("s", pa.struct([("x\x00", INT)]))), {}, "column 's.x.*no control characters"),
        (arrow(("_VALUE_KIND", INT)), {}, "begin with _VALUE_KIND or _SEQUENCE_NUMBER are reserved"),
        (arrow(("_sequence_number_2", INT)), {}, "are reserved"),
        (arrow(("n", pa.null())), {}, "column 'n': no column type holds all values of Arrow's null"),
        (arrow(("n", pa.list_(pa.uint64()))), {}, "column 'n': .*uint64.*decimal128"),
    ],
)
def test_what_no_table_can_have(schema: pa.Schema, about: dict[str, Any], says: str) -> None:
    """A schema that breaks a rule is refused with the name of what breaks it."""
    with pytest.raises(InvalidInputError, match=says.replace("?", r"\?")):
        schema_from_arrow(schema, **about)


def one_field(kind: DataType = Primitive("int64"), **about: Any) -> TableSchema:  # noqa: B008  a value
    """A table of one column."""
    return TableSchema(fields=(Field(id=1, name="a", type=kind, **about),), highest_field_id=1)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (one_field(Primitive("int46")), "there is no type 'int46'; did you mean 'int64'?"),
        (one_field(DecimalType(39, 0)), r"decimal\(39,0\): a decimal has 1 to 38 digits"),
        (one_field(DecimalType(4, 5)), r"decimal\(4,5\): a decimal has 1 to 38 digits"),
        (one_field(StringType(0)), "a length must be 1 or more, not 0"),
        (replace(one_field(), primary_key=("a",)), "primary key column 'a' may be null; make it not null"),
        (replace(one_field(), partition_by=("a",)), "partition column 'a' may be null; make it not null"),
        (replace(one_field(), highest_field_id=0), r"field ids must be unique and from 1 to 0, not \[1\]"),
        (
            replace(one_field(), fields=(*one_field().fields, Field(id=1, name="b", type=StringType()))),
            r"field ids must be unique and from 1 to 1, not \[1, 1\]",
        ),
    ],
)
def test_what_no_schema_may_say(schema: TableSchema, says: str) -> None:
    """A schema put together by hand keeps the same rules."""
    with pytest.raises(InvalidInputError, match=says.replace("?", r"\?")):
        check_schema(schema)
