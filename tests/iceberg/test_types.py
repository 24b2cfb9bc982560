"""Schemas of Iceberg become fields of ours."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.expr import bind, parse_where
from lakehouse.format.limits import JsonObject
from lakehouse.format.schema import arrow_type, check_schema
from lakehouse.iceberg.types import field_types, parse_schema


def _schema(*types: Any, **members: Any) -> Any:
    fields = [
        {"id": at, "name": f"c{at}", "required": False, "type": kind} for at, kind in enumerate(types, 1)
    ]
    return parse_schema(JsonObject({"type": "struct", "fields": fields, **members}, "v1.json"))


_NESTED = {
    "type": "struct",
    "fields": [
        {"id": 10, "name": "a", "required": True, "type": "int"},
        {
            "id": 11,
            "name": "l",
            "required": False,
            "type": {"type": "list", "element-id": 12, "element-required": False, "element": "string"},
        },
        {
            "id": 13,
            "name": "m",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 14,
                "key": "string",
                "value-id": 15,
                "value-required": True,
                "value": "decimal(9, 2)",
            },
        },
    ],
}


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("decimal(38,10)", pa.decimal128(38, 10)),
        ("date", pa.date32()),
        ("time", pa.time64("us")),
        ("timestamp", pa.timestamp("us")),
        ("timestamptz", pa.timestamp("us", "UTC")),
        ("timestamp_ns", pa.timestamp("ns")),
        ("timestamptz_ns", pa.timestamp("ns", "UTC")),
        ("string", pa.string()),
        ("uuid", pa.binary()),
        ("fixed[7]", pa.binary()),
        ("binary", pa.binary()),
    ],
)
def test_every_primitive_has_an_arrow_type(word: str, kind: pa.DataType) -> None:
    """Each type of the specification that is read has one Arrow type."""
    assert arrow_type(_schema(word).fields[0].type) == kind


def test_nested_fields_keep_their_ids() -> None:
    """Ids of structs, elements, keys and values are those of the metadata."""
    (field,) = _schema(_NESTED).fields
    a, elements, entries = field.type.fields
    assert (field.id, a.id, elements.id, elements.type.element.id) == (1, 10, 11, 12)
    assert (entries.id, entries.type.key.id, entries.type.value.id) == (13, 14, 15)
    assert (a.required, entries.type.key.required, entries.type.value.required) == (True, True, True)


def test_types_of_fields_leave_out_what_has_no_bounds() -> None:
    """Fields in structs have a name with dots; those in lists and maps are left out."""
    assert field_types(_schema(_NESTED, "date")) == {10: ("c1.a", pa.int32()), 2: ("c2", pa.date32())}


@pytest.mark.parametrize("word", ["variant", "geometry(srid:4326)", "geography", "unknown", "int128"])
def test_a_column_of_a_type_that_is_not_read_leaves_the_others(word: str) -> None:
    """Such a column is listed and refused when it is asked for; others are read."""
    inside = {"type": "struct", "fields": [{"id": 20, "name": "v", "required": False, "type": word}]}
    schema = _schema("int", word, inside)
    assert [field.name for field in schema.fields] == ["c1"]
    assert schema.unread == {"c2": word, "c3": word}
    schema.check_read(["c1"])
    with pytest.raises(
        InvalidInputError, match=r"column 'c2' is .* name other columns by columns=; there are c1"
    ):
        schema.check_read(None)


def test_conditions_bind_to_the_columns() -> None:
    """The schema is one that expressions know, nested fields too."""
    schema = _schema(_NESTED, "timestamptz", "uuid").table_schema.arrow()
    bound = bind(parse_where("c1.a > 3 and c2 >= '2024-01-01T00:00:00+08:00'"), schema)
    assert bound.columns() == {"c1.a", "c2"}


def test_our_own_tables_refuse_foreign_types() -> None:
    """A type that only other formats have cannot come into a table of ours."""
    with pytest.raises(InvalidInputError, match="there is no type 'timestamp_ns_ntz'"):
        check_schema(_schema("timestamp_ns").table_schema)


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "decimal(39,2)"},
        {"type": "decimal(2,3)"},
        {"type": "fixed[0]"},
        {"type": 5},
        {"type": {"type": "list", "element": "int"}},
        {"id": None},
        {"id": 1.5},
        {"required": "yes"},
        {"name": 3},
        {"initial-default": "seven"},
    ],
)
def test_a_broken_field_is_corruption(broken: dict[str, Any]) -> None:
    """What cannot be a field is damage, and its place is named."""
    field = {"id": 1, "name": "x", "required": False, "type": "int", **broken}
    with pytest.raises(CorruptionError, match=r"v1.json: fields\[0\]"):
        parse_schema(JsonObject({"fields": [field]}, "v1.json"))


@pytest.mark.parametrize("change", [{"id": 1}, {"name": "c1"}])
def test_ids_and_names_are_unique(change: dict[str, Any]) -> None:
    """Two fields of one id, or two columns of one name, are damage."""
    fields = [
        {"id": 1, "name": "c1", "required": False, "type": "int"},
        {"id": 2, "name": "c2", "required": False, "type": "int", **change},
    ]
    with pytest.raises(CorruptionError, match="of their own"):
        parse_schema(JsonObject({"fields": fields}, "v1.json"))


def test_types_that_nest_too_deep_are_corruption() -> None:
    """Nesting has an end, and no stack overflows before it."""
    kind: Any = "int"
    for at in range(300):
        kind = {"type": "list", "element-id": 100 + at, "element-required": False, "element": kind}
    with pytest.raises(CorruptionError, match="must not nest deeper"):
        _schema(kind)
