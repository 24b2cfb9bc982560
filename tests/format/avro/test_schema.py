"""Writer's schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakehouse.format.avro import AvroType, parse_avro_schema
from lakehouse.format.avro.schema import DEPTH_MAX


def _parsed(schema: Any) -> AvroType:
    return parse_avro_schema(json.dumps(schema).encode())


def test_a_name_means_what_was_defined_before() -> None:
    """A type that has a name can be used again by it, with its namespace or within it."""
    point = {"type": "record", "name": "point", "namespace": "a.b", "fields": [{"name": "x", "type": "int"}]}
    fields = [{"name": "p", "type": point}, {"name": "q", "type": "a.b.point"}]
    schema = _parsed(
        {
            "type": "record",
            "name": "line",
            "namespace": "a.b",
            "fields": [*fields, {"name": "r", "type": "point"}],
        }
    )
    assert [field.type for field in schema.fields] == [schema.fields[0].type] * 3


def test_ids_are_kept() -> None:
    """Fields, items, keys and values have the ids of their attributes."""
    items = {
        "type": "array",
        "items": {"type": "map", "values": "int", "key-id": 4, "value-id": 5},
        "element-id": 3,
    }
    schema = _parsed({"type": "record", "name": "r", "fields": [{"name": "x", "type": items, "field-id": 2}]})
    (field,) = schema.fields
    (values,) = field.type.inner
    assert (field.field_id, field.type.element_id, values.key_id, values.value_id) == (2, 3, 4, 5)


@pytest.mark.parametrize(
    "attributes",
    [
        {"logicalType": "decimal"},
        {"logicalType": "decimal", "precision": 0},
        {"logicalType": "decimal", "precision": 4, "scale": 5},
        {"logicalType": "decimal", "precision": 77},
        {"logicalType": "decimal", "precision": True},
        {"logicalType": 7},
    ],
)
def test_a_logical_type_that_cannot_be_is_ignored(attributes: dict[str, Any]) -> None:
    """Decimals without proper digits are the bytes that they are stored as."""
    schema = _parsed({"type": "bytes", **attributes})
    assert (schema.kind, schema.precision) == ("bytes", 0)


def test_a_type_within_itself_is_refused() -> None:
    """A recursive type is an error that says so."""
    schema = {"type": "record", "name": "tree", "fields": [{"name": "left", "type": ["null", "tree"]}]}
    with pytest.raises(ValueError, match="'tree' contains itself"):
        _parsed(schema)


def test_deep_types_are_refused() -> None:
    """Types nest so deep and not deeper, whether they are written inside each other or called by name."""
    deep: Any = "int"
    for _ in range(DEPTH_MAX - 1):
        deep = {"type": "array", "items": deep}
    assert _parsed(deep).depth == DEPTH_MAX
    with pytest.raises(ValueError, match="nest more than"):
        _parsed({"type": "array", "items": deep})
    record = {"type": "record", "name": "r", "fields": [{"name": "x", "type": deep["items"]}]}
    fields = [{"name": "a", "type": record}, {"name": "b", "type": {"type": "array", "items": "r"}}]
    with pytest.raises(ValueError, match="nest more than"):
        _parsed({"type": "record", "name": "s", "fields": fields})


@pytest.mark.parametrize(
    "schema",
    [
        "unknown",
        7,
        None,
        [],
        [["int"]],
        {},
        {"type": "array"},
        {"type": "map", "values": "x"},
        {"type": "fixed", "name": "f"},
        {"type": "fixed", "name": "f", "size": -1},
        {"type": "fixed", "size": 1},
        {"type": "enum", "name": "e", "symbols": "ab"},
        {"type": "enum", "name": "e", "symbols": [1]},
        {"type": "record", "name": "r"},
        {"type": "record", "name": "r", "fields": [1]},
        {"type": "record", "name": "r", "fields": [{"name": "x"}]},
        {"type": "record", "fields": []},
    ],
)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    """Everything that is no schema is a ValueError."""
    with pytest.raises(ValueError, match=r"."):
        _parsed(schema)


def test_damaged_text_is_refused() -> None:
    """A schema that is cut off is a ValueError, wherever it is cut."""
    text = json.dumps(
        {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", "int"]}]}
    ).encode()
    for size in range(len(text)):
        with pytest.raises(ValueError, match=r"."):
            parse_avro_schema(text[:size])
