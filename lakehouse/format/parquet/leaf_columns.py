"""Selection of the leaf columns of a Parquet file that some fields need, by field id.

Parquet stores the leaves of nested columns apart. A field may ask for less than the file has (a
dropped field of a struct) or for more (an added one); the leaves it needs are read, and enough others to
know how many values there are and which of them are null.

Invariant: no leaf is read that neither holds a value asked for nor tells where values are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakehouse.format.schema.types import FIELD_ID, DataType, Field, ListType, MapType, StructType

__all__ = ["LeafColumns", "leaf_count"]


def leaf_count(kind: pa.DataType) -> int:
    """Returns the number of leaf columns that Parquet stores for a type."""
    if not pa.types.is_nested(kind):
        return 1
    return sum(leaf_count(kind.field(index).type) for index in range(kind.num_fields))


class LeafColumns:
    """The columns of one file by field id.

    Args:
        schema: the file's Arrow schema, with field ids.
    """

    __slots__ = ("_columns", "flat")

    def __init__(self, schema: pa.Schema) -> None:
        self._columns: dict[int, tuple[int, pa.DataType]] = {}
        first = 0
        for column in schema:
            if (number := _id_of(column)) is not None:
                self._columns[number] = (first, column.type)
            first += leaf_count(column.type)
        self.flat = {
            number: place for number, place in self._columns.items() if not pa.types.is_nested(place[1])
        }
        """Number of the leaf and type of each column that is not nested, by field id."""

    def needed(self, fields: Sequence[Field]) -> tuple[int, ...]:
        """Returns the indices of the leaves to read for these fields, ascending; missing fields need none."""
        leaves: set[int] = set()
        for field in fields:
            if field.id in self._columns:
                first, kind = self._columns[field.id]
                leaves.update(_leaves(kind, first, field.type))
        return tuple(sorted(leaves))


def _id_of(field: pa.Field) -> int | None:
    number = (field.metadata or {}).get(FIELD_ID)
    return None if number is None else int(number)


def _leaves(kind: pa.DataType, first: int, wanted: DataType) -> Iterator[int]:
    """Yields the leaves that the wanted type needs of a column of the file, whose first leaf is ``first``."""
    match wanted:
        case StructType(fields) if pa.types.is_struct(kind):
            yield from _struct_leaves(kind, first, fields)
        case ListType(element) if pa.types.is_list(kind):
            yield from _leaves(kind.value_type, first, element.type)
        case MapType(value=value) if pa.types.is_map(kind):
            # Entries cannot be told apart without their keys.
            behind = first + leaf_count(kind.key_type)
            yield from range(first, behind)
            yield from _leaves(kind.item_type, behind, value.type)
        case _:
            yield from range(first, first + leaf_count(kind))


def _struct_leaves(kind: pa.DataType, first: int, fields: Sequence[Field]) -> Iterator[int]:
    asked = {field.id: field.type for field in fields}
    nothing = True
    at = first
    for index in range(kind.num_fields):
        child = kind.field(index)
        number = _id_of(child)
        if number in asked:
            nothing = False
            yield from _leaves(child.type, at, asked[number])
        at += leaf_count(child.type)
    if nothing:
        yield first  # any leaf tells which structs are null
