"""Leaf columns: exactly those that the fields asked for need."""

from __future__ import annotations

import pytest

from lakehouse.format.parquet.leaf_columns import LeafColumns, leaf_count
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import (
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
    arrow_type,
)

INT = Primitive("int32")


def field(number: int, kind: object = INT, name: str = "") -> Field:
    """A field of that id."""
    return Field(id=number, name=name or f"f{number}", type=kind)  # type: ignore[arg-type]


PAIR = StructType((field(11), field(12, StructType((field(13), field(14))))))
MAP = MapType(Field(id=21, name="key", type=StringType(), required=True), field(22, PAIR, "value"))
FILE = (field(1), field(10, PAIR), field(20, MAP), field(30, ListType(field(31, PAIR, "element"))), field(40))
COLUMNS = LeafColumns(TableSchema(fields=FILE, highest_field_id=40).arrow())
# leaves: 1 → 0; 10 → 1, 2, 3; 20 → 4 (keys), 5, 6, 7; 30 → 8, 9, 10; 40 → 11


@pytest.mark.parametrize(
    ("asked", "leaves"),
    [
        ((), ()),
        ((field(1), field(40)), (0, 11)),
        ((field(40), field(1)), (0, 11)),
        ((field(10, PAIR),), (1, 2, 3)),
        ((field(10, StructType((field(12, StructType((field(14),))),))),), (3,)),
        ((field(10, StructType((field(99),))),), (1,)),
        ((field(10, StructType((field(12, StructType((field(99),))),))),), (2,)),
        ((field(20, MAP),), (4, 5, 6, 7)),
        ((field(20, MapType(field(21, StringType()), field(22, StructType((field(11),))))),), (4, 5)),
        ((field(30, ListType(field(31, StructType((field(11),))))),), (8,)),
        ((field(99), field(40)), (11,)),
    ],
    ids=repr,
)
def test_needed_leaves(asked: tuple[Field, ...], leaves: tuple[int, ...]) -> None:
    """The leaves of the fields by id; of a struct without any field asked for, one that tells its nulls."""
    assert COLUMNS.needed(asked) == leaves


def test_leaves_are_counted() -> None:
    """A type has as many leaf columns as Parquet stores for it."""
    assert [leaf_count(arrow_type(one.type)) for one in FILE] == [1, 3, 4, 3, 1]


def test_flat_columns_have_a_place() -> None:
    """Columns that are not nested are known by leaf and type."""
    assert {number: leaf for number, (leaf, _) in COLUMNS.flat.items()} == {1: 0, 40: 11}
