"""Avro's types as Arrow's."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import CorruptionError
from lakehouse.format.avro import AvroFile
from tests.kit.avro_files import SYNC, avro_file

_ID = b"PARQUET:field_id"


def _column(schema: Any, values: list[Any]) -> pa.ChunkedArray:
    record = {"type": "record", "name": "r", "fields": [{"name": "x", "type": schema}]}
    return AvroFile.parse(avro_file(record, [[{"x": value} for value in values]]), key="a.avro").to_arrow()[
        "x"
    ]


def _long(logical: str, **more: Any) -> dict[str, Any]:
    return {"type": "long", "logicalType": logical, **more}


_MOMENT = dt.datetime(1970, 1, 1, 0, 0, 1)
_INSTANT = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes
_WORDS = pa.dictionary(pa.int32(), pa.string())
_FIXED = {"type": "fixed", "name": "f"}
_WIDE = {"logicalType": "decimal", "precision": 40}
_DECIMAL = {"logicalType": "decimal", "precision": 5, "scale": 2}


@pytest.mark.parametrize(
    ("schema", "stored", "kind", "value"),
    [
        ({"type": "int", "logicalType": "date"}, -1, pa.date32(), dt.date(1969, 12, 31)),
        ({"type": "int", "logicalType": "time-millis"}, 1, pa.time32("ms"), dt.time(0, 0, 0, 1000)),
        (_long("time-micros"), 1, pa.time64("us"), dt.time(0, 0, 0, 1)),
        (_long("timestamp-millis"), 1000, pa.timestamp("ms", "UTC"), _INSTANT),
        (_long("timestamp-micros"), 10**6, pa.timestamp("us", "UTC"), _INSTANT),
        (_long("timestamp-micros", **{"adjust-to-utc": True}), 10**6, pa.timestamp("us", "UTC"), _INSTANT),
        (_long("timestamp-micros", **{"adjust-to-utc": False}), 10**6, pa.timestamp("us"), _MOMENT),
        (_long("local-timestamp-millis"), 1000, pa.timestamp("ms"), _MOMENT),
        (_long("local-timestamp-micros"), 10**6, pa.timestamp("us"), _MOMENT),
        ({"type": "bytes", **_DECIMAL}, b"\xff\x85", pa.decimal128(5, 2), decimal.Decimal("-1.23")),
        ({**_FIXED, "size": 3, **_DECIMAL}, b"\xff\xff\x85", pa.decimal128(5, 2), decimal.Decimal("-1.23")),
        ({**_FIXED, "size": 17, **_WIDE}, bytes(16) + b"\x07", pa.decimal256(40, 0), decimal.Decimal(7)),
        ({**_FIXED, "size": 16, "logicalType": "uuid"}, _UUID, pa.binary(16), _UUID),
        ({"type": "string", "logicalType": "uuid"}, "0-0", pa.string(), "0-0"),
        ({"type": "int", "logicalType": "unheard-of"}, 5, pa.int32(), 5),
        ({"type": "int", "logicalType": "timestamp-micros"}, 5, pa.int32(), 5),
        ({"type": "enum", "name": "e", "symbols": ["a", "ü"]}, "ü", _WORDS, "ü"),
    ],
)  # fmt: skip
def test_logical_types_become_arrows(schema: Any, stored: Any, kind: pa.DataType, value: Any) -> None:
    """A logical type is read as Arrow's of that meaning, null or not, and an unknown one as it is stored."""
    for wanted in (schema, ["null", schema], [schema, "null"]):
        column = _column(wanted, [stored, stored] if wanted is schema else [stored, None])
        assert column.type == kind
        assert column.to_pylist() == ([value, value] if wanted is schema else [value, None])


def test_nanoseconds_are_kept() -> None:
    """Timestamps with nanoseconds are Arrow's, local ones too."""
    for logical, kind in (
        ("timestamp-nanos", pa.timestamp("ns", "UTC")),
        ("local-timestamp-nanos", pa.timestamp("ns")),
    ):
        column = _column(_long(logical), [123])
        assert (column.type, column.cast(pa.int64()).to_pylist()) == (kind, [123])


def test_arrays_of_keys_and_values_are_maps() -> None:
    """An array whose logical type is map is a map of any keys, with the ids of its fields."""
    fields = [
        {"name": "key", "type": "int", "field-id": 7},
        {"name": "value", "type": ["null", "long"], "field-id": 8},
    ]
    items = {"type": "record", "name": "k7_v8", "fields": fields}
    column = _column(["null", {"type": "array", "logicalType": "map", "items": items}], [None])
    kind = column.type
    assert (kind.key_type, kind.item_type) == (pa.int32(), pa.int64())
    assert (kind.key_field.metadata, kind.item_field.metadata) == ({_ID: b"7"}, {_ID: b"8"})
    pairs = [{"key": 1, "value": None}, {"key": 2, "value": 3}]
    column = _column(["null", {"type": "array", "logicalType": "map", "items": items}], [pairs, None, []])
    assert column.to_pylist() == [[(1, None), (2, 3)], None, []]


def test_arrays_that_cannot_be_maps_are_lists() -> None:
    """An array that says that it is a map, and is none, is a list of records."""
    fields = [{"name": "key", "type": ["null", "int"]}, {"name": "value", "type": "long"}]
    items = {"type": "record", "name": "r2", "fields": fields}
    column = _column({"type": "array", "logicalType": "map", "items": items}, [[{"key": None, "value": 1}]])
    assert column.to_pylist() == [[{"key": None, "value": 1}]]


def test_ids_of_fields_are_metadata() -> None:
    """Ids of fields, items, keys and values are where readers of Parquet look for them."""
    entries = {"type": "map", "values": "int", "key-id": 4, "value-id": 5}
    fields = [{"name": "x", "type": {"type": "array", "items": entries, "element-id": 3}, "field-id": 2}]
    schema = {"type": "record", "name": "r", "fields": fields}
    (field,) = AvroFile.parse(avro_file(schema, [[{"x": [[("a", 1)]]}]]), key="a.avro").to_arrow().schema
    assert field.metadata == {_ID: b"2"}
    assert field.type.value_field.metadata == {_ID: b"3"}
    inner = field.type.value_type
    assert (inner.key_field.metadata, inner.item_field.metadata) == ({_ID: b"4"}, {_ID: b"5"})


def test_columns_are_nullable_where_the_schema_says_so() -> None:
    """A union with null is nullable, any other field is not."""
    fields = [
        {"name": "a", "type": "int"},
        {"name": "b", "type": ["null", "int"]},
        {"name": "c", "type": "null"},
    ]
    schema = {"type": "record", "name": "r", "fields": fields}
    found = AvroFile.parse(avro_file(schema, []), key="a.avro").to_arrow().schema
    assert [field.nullable for field in found] == [False, True, True]


@pytest.mark.parametrize("schema", [{"type": "bytes", **_DECIMAL}, ["null", {"type": "bytes", **_DECIMAL}]])
@pytest.mark.parametrize("stored", [b"", b"\x01\x86\xa0", bytes(70), b"\xff" + bytes(16)])
def test_decimals_that_do_not_fit_are_damage(schema: Any, stored: bytes) -> None:
    """A decimal of no bytes or of too many digits is a CorruptionError."""
    with pytest.raises(CorruptionError, match="more than 5 digits"):
        _column(schema, [stored])


def test_text_that_is_not_utf8_is_damage() -> None:
    """A string must be UTF-8."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "string"}]}
    damaged = avro_file(schema, [], "null") + b"\x02\x04\x02\xff" + SYNC
    with pytest.raises(CorruptionError, match="UTF8"):
        AvroFile.parse(damaged, key="a.avro").to_arrow()
