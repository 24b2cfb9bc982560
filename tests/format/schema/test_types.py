"""Types and fields: what is inside them, their ids, and their Arrow types."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given

from lakehouse.format.schema.types import (
    FIELD_ID,
    PRIMITIVES,
    DataType,
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
    arrow_schema,
    arrow_type,
    children,
    walk,
    with_children,
    with_ids,
)
from tests.kit.type_strategies import column_sets, nested_types

INT, TEXT = Primitive("int32"), StringType()


def field(number: int, name: str, kind: DataType, **about: object) -> Field:
    """A field."""
    return Field(id=number, name=name, type=kind, **about)  # type: ignore[arg-type]


NESTED = StructType(
    (
        field(0, "a", ListType(field(0, "element", StructType((field(0, "b", INT),))))),
        field(0, "c", MapType(field(0, "key", TEXT, required=True), field(0, "value", INT))),
    )
)


def test_ids_count_depth_first() -> None:
    """A field is numbered before its own fields, and those before its neighbour."""
    numbered = with_ids(NESTED, itertools.count(7).__next__)
    assert [(".".join(path), one.id) for path, one in walk(children(numbered))] == [
        ("a", 7),
        ("a.element", 8),
        ("a.element.b", 9),
        ("c", 10),
        ("c.key", 11),
        ("c.value", 12),
    ]


@given(nested_types)
def test_a_type_is_its_children_put_back(kind: DataType) -> None:
    """Taking out what is inside a type and putting it back changes nothing."""
    assert with_children(kind, children(kind)) == kind


def test_types_with_defaults_have_a_hash() -> None:
    """A default that is a list does not keep a field from being a key of a dict."""
    assert len({field(1, "a", INT, initial_default=[1]), field(1, "a", INT, initial_default=[1])}) == 1


@given(column_sets())
def test_every_field_has_its_id_in_arrow(fields: tuple[Field, ...]) -> None:
    """The Arrow schema tells the id, the name and the nullability of every field at any depth."""

    def arrow_walk(parts: list[pa.Field]) -> list[tuple[int, bool]]:
        found = []
        for part in parts:
            found.append((int(part.metadata[FIELD_ID]), part.nullable))
            inside = part.type
            if pa.types.is_map(inside):
                found += arrow_walk([inside.key_field, inside.item_field])
            elif pa.types.is_nested(inside):
                found += arrow_walk([inside.field(number) for number in range(inside.num_fields)])
        return found

    assert arrow_walk(list(arrow_schema(fields))) == [(one.id, not one.required) for _, one in walk(fields)]


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        *((Primitive(name), kind) for name, kind in PRIMITIVES.items()),
        (DecimalType(38, 10), pa.decimal128(38, 10)),
        (StringType(5), pa.string()),
        (ListType(field(2, "element", INT)), pa.list_(pa.field("element", pa.int32()))),
    ],
)
def test_arrow_types(kind: DataType, arrow: pa.DataType) -> None:
    """Every type has one Arrow type; lengths are no part of it."""
    assert arrow_type(kind) == arrow
