"""The types of table columns, and fields that carry ids.

Invariant: a field keeps its id for ever; names, positions and comments may change, and files are
read by id. Every type has one Arrow type, so :func:`arrow_type` loses nothing that files need
(lengths of text are rules for writers, not for bytes).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import Any

import pyarrow as pa

from lakehouse.format.metadata.file_entry import KIND_COLUMN, SEQUENCE_COLUMN

__all__ = [
    "DECIMAL_DIGITS_MAX",
    "FIELD_ID",
    "FOREIGN_PRIMITIVES",
    "KIND_FIELD",
    "LENGTH_MAX",
    "PRIMITIVES",
    "SEQUENCE_FIELD",
    "TYPE_DEPTH_MAX",
    "BinaryType",
    "DataType",
    "DecimalType",
    "Field",
    "ListType",
    "MapType",
    "Primitive",
    "StringType",
    "StructType",
    "arrow_field",
    "arrow_schema",
    "arrow_type",
    "children",
    "walk",
    "with_children",
    "with_ids",
]

FIELD_ID = b"PARQUET:field_id"
"""Metadata key of an Arrow field's id; pyarrow writes it to Parquet and reads it back."""

DECIMAL_DIGITS_MAX = 38
"""Maximum digits of a decimal, which 16 bytes hold."""

LENGTH_MAX = 2**31 - 1
"""Maximum length of a text or binary type."""
TYPE_DEPTH_MAX = 64
"""Maximum depth of types within types."""

PRIMITIVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""Arrow type of every type without parameters, by name."""

FOREIGN_PRIMITIVES: dict[str, pa.DataType] = {
    "timestamp_ns": pa.timestamp("ns", tz="UTC"),
    "timestamp_ns_ntz": pa.timestamp("ns"),
}
"""Types that only tables of other formats have: ours refuse them (:func:`check_schema`)."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parameters: boolean, int8 to int64, float, double, date, time, timestamp(_ntz).

    Times and timestamps count microseconds; ``timestamp`` is a moment (UTC), ``timestamp_ntz``
    a local time without a zone, as a clock on a wall shows it.
    """

    name: str


@dataclass(frozen=True, slots=True)
class DecimalType:
    """Exact numbers of up to ``precision`` digits (at most 38), ``scale`` of them behind the point."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class StringType:
    """Text; ``length`` is the maximum number of characters that a writer may store (None = any)."""

    length: int | None = None


@dataclass(frozen=True, slots=True)
class BinaryType:
    """Bytes; ``length`` is the maximum number that a writer may store (None = any)."""

    length: int | None = None


@dataclass(frozen=True, slots=True)
class ListType:
    """A list; its element is a field called ``element``."""

    element: Field


@dataclass(frozen=True, slots=True)
class MapType:
    """A map; its parts are fields called ``key`` (required) and ``value``."""

    key: Field
    value: Field


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct: named fields, in order."""

    fields: tuple[Field, ...]


DataType = Primitive | DecimalType | StringType | BinaryType | ListType | MapType | StructType
"""Any type of a column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column, or a part of one."""

    id: int
    """Number of the field, from 1; never used again for another field of the table."""
    name: str
    type: DataType
    required: bool = False
    """True if nulls are not allowed."""
    comment: str | None = None
    # Values of defaults may be lists and dicts, which have no hash.
    initial_default: Any = dataclass_field(default=None, hash=False)
    """Value of rows in files without this field; fixed when the field is added.

    A value as ``to_pylist`` returns it: a struct is a dict by name, a map a list of pairs.
    """
    write_default: Any = dataclass_field(default=None, hash=False)
    """Value of new rows that are written without this field."""


def children(kind: DataType) -> tuple[Field, ...]:
    """Returns the fields inside a type: a list's element, a map's key and value, a struct's fields."""
    match kind:
        case ListType(element):
            return (element,)
        case MapType(key, value):
            return key, value
        case StructType(fields):
            return fields
    return ()


def with_children(kind: DataType, fields: tuple[Field, ...]) -> DataType:
    """Returns the type with other fields inside, as many as :func:`children` returns for it."""
    match kind:
        case ListType():
            return ListType(*fields)
        case MapType():
            return MapType(*fields)
        case StructType():
            return StructType(fields)
    return kind


def with_ids(kind: DataType, next_id: Callable[[], int]) -> DataType:
    """Returns the type with new ids for all fields inside, depth first: a field before its own fields."""
    numbered = []
    for child in children(kind):
        number = next_id()
        numbered.append(replace(child, id=number, type=with_ids(child.type, next_id)))
    return with_children(kind, tuple(numbered))


def walk(fields: tuple[Field, ...], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Field]]:
    """Yields every field with its path, nested ones after the field that holds them."""
    for field in fields:
        here = (*path, field.name)
        yield here, field
        yield from walk(children(field.type), here)


def arrow_type(kind: DataType) -> pa.DataType:
    """Returns the Arrow type, whose nested fields have their ids as metadata."""
    match kind:
        case Primitive(name):
            return PRIMITIVES.get(name) or FOREIGN_PRIMITIVES[name]
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case StringType():
            return pa.string()
        case BinaryType():
            return pa.binary()
        case ListType(element):
            return pa.list_(arrow_field(element))
        case MapType(key, value):
            return pa.map_(arrow_field(key), arrow_field(value))
        case StructType(fields):
            return pa.struct([arrow_field(field) for field in fields])


def arrow_field(field: Field) -> pa.Field:
    """Returns the Arrow field, with its id as metadata."""
    metadata = {FIELD_ID: str(field.id).encode()}
    return pa.field(field.name, arrow_type(field.type), nullable=not field.required, metadata=metadata)


@functools.lru_cache(maxsize=1024)
def arrow_schema(fields: tuple[Field, ...]) -> pa.Schema:
    """Returns the Arrow schema of these columns, field ids in its metadata."""
    return pa.schema([arrow_field(field) for field in fields])


SEQUENCE_FIELD = Field(id=2_147_483_400, name=SEQUENCE_COLUMN, type=Primitive("int64"))
"""The snapshot a row came with, null = that of the file's first position.

The ids of both columns are below those that Iceberg reserves (2,147,483,447 and up), and above all others.
"""


KIND_FIELD = Field(id=2_147_483_401, name=KIND_COLUMN, type=Primitive("int8"), initial_default=0)
"""The kind of a row; files without the column have inserts alone."""
