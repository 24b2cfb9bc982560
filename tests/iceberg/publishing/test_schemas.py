"""Published schemas: what pyiceberg makes of them, and which defaults are told."""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import replace

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema

from lakehouse.format.schema import Field, Primitive, TableSchema, schema_from_arrow
from lakehouse.iceberg.publishing.schemas import misses_default, partition_spec, published_schema

ARROW = pa.schema(
    {
        "id": pa.int64(),
        "tiny": pa.int8(),
        "price": pa.decimal128(9, 2),
        "moment": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "tags": pa.list_(pa.string()),
        "at": pa.struct({"x": pa.int32()}),
        "pairs": pa.map_(pa.string(), pa.float64()),
        "part": pa.string(),
    }
)
OURS = schema_from_arrow(ARROW, primary_key=["id"], partition_by=["part"])


def with_default(kind: str, value: object) -> TableSchema:
    """A schema with one more column, which has a default."""
    field = Field(id=50, name="more", type=Primitive(kind), initial_default=value, write_default=value)
    return replace(OURS, id=1, fields=(*OURS.fields, field), highest_field_id=50)


def test_pyiceberg_reads_the_schema() -> None:
    """Types are Iceberg's, small ints as int, and ids and keys are ours."""
    theirs = Schema.model_validate(published_schema(OURS, 2))
    assert [(field.name, str(field.field_type)) for field in theirs.fields] == [
        ("id", "long"),
        ("tiny", "int"),
        ("price", "decimal(9, 2)"),
        ("moment", "timestamptz"),
        ("local", "timestamp"),
        ("tags", "list<string>"),
        ("at", "struct<9: x: optional int>"),
        ("pairs", "map<string, double>"),
        ("part", "string"),
    ]
    assert [field.field_id for field in theirs.fields] == [field.id for field in OURS.fields]
    assert theirs.identifier_field_names() == {"id"}


def test_partition_columns_are_an_identity_spec() -> None:
    """Each partition column is a field of the spec, with an id from 1000."""
    part = OURS.field("part")
    assert partition_spec(OURS) == [
        {"name": "part", "transform": "identity", "source-id": part.id, "field-id": 1000}
    ]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("int32", 7, 7),
        ("double", float("inf"), "Infinity"),
        ("date", dt.date(2026, 1, 2), "2026-01-02"),
        ("time", dt.time(1, 2), "01:02:00.000000"),
        ("timestamp", dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC), "2026-01-02T03:00:00.000000+00:00"),
        ("timestamp_ntz", dt.datetime(2026, 1, 2, 3), "2026-01-02T03:00:00.000000"),
    ],
)
def test_defaults_are_told_from_version_3_on(kind: str, value: object, told: object) -> None:
    """Version 2 has no defaults; version 3 has them as JSON single values."""
    newer = with_default(kind, value)
    assert "initial-default" not in published_schema(newer, 2)["fields"][-1]
    field = published_schema(newer, 3)["fields"][-1]
    assert (field["initial-default"], field["write-default"]) == (told, told)


def test_decimals_are_told_with_their_digits() -> None:
    """A default of a decimal has as many digits behind the point as its type."""
    price = replace(OURS.field("price"), initial_default=decimal.Decimal("1.5"))
    fields = tuple(price if field.name == "price" else field for field in OURS.fields)
    told = published_schema(replace(OURS, fields=fields), 3)["fields"][2]
    assert told["initial-default"] == "1.50"


def test_files_without_a_column_miss_a_default_that_is_not_told() -> None:
    """Files of the older schema miss it in version 2; those of the newer one have the column."""
    newer = with_default("int32", 7)
    assert misses_default(newer, OURS, 2)
    assert not misses_default(newer, OURS, 3)
    assert not misses_default(newer, newer, 2)
    assert not misses_default(with_default("int32", None), OURS, 2)
