"""Schemas of Iceberg tables in our words: columns become fields with the ids that they have there.

``uuid`` and ``fixed[L]`` are read as binary of 16 and of L bytes, moments with nanoseconds as Arrow's. A
column of a type that is not read (``variant``, ``geometry``, ``geography``, ``unknown``, or one of a later
version) is known by name, and does not keep the other columns from being read.

Invariant: each column of a schema is either a field or listed as not read; ids of fields are unique.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import partial
from typing import Any

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.limits import JsonObject, each, flag, number, text
from lakehouse.format.schema import (
    DECIMAL_DIGITS_MAX,
    BinaryType,
    DataType,
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
    TableSchema,
    arrow_type,
    children,
    walk,
)
from lakehouse.iceberg.single_values import single_value

__all__ = ["IcebergSchema", "field_types", "never_null", "parse_schema"]

_PLAIN: Mapping[str, DataType] = {
    "boolean": Primitive("boolean"),
    "int": Primitive("int32"),
    "long": Primitive("int64"),
    "float": Primitive("float"),
    "double": Primitive("double"),
    "date": Primitive("date"),
    "time": Primitive("time"),
    "timestamp": Primitive("timestamp_ntz"),
    "timestamptz": Primitive("timestamp"),
    "timestamp_ns": Primitive("timestamp_ns_ntz"),
    "timestamptz_ns": Primitive("timestamp_ns"),
    "string": StringType(),
    "binary": BinaryType(),
    "uuid": BinaryType(16),
}
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\)")
_FIXED = re.compile(r"fixed[\[(]\s*(\d{1,9})\s*[\])]")


class _UnreadError(Exception):
    """A type that is not read; its text is the type's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSchema:
    """The columns of an Iceberg table."""

    id: int
    fields: tuple[Field, ...]
    """Columns that can be read, in order."""
    names: tuple[str, ...]
    """Names of all columns, in order."""
    unread: Mapping[str, str] = dataclass_field(default_factory=dict, hash=False)
    """Columns of types that are not read: type by name."""
    identifier_ids: tuple[int, ...] = ()
    """Fields that say which row is which."""
    document: Mapping[str, Any] = dataclass_field(default_factory=dict, hash=False, compare=False, repr=False)
    """Schema as the metadata file has it, with columns of all types."""

    @property
    def table_schema(self) -> TableSchema:
        """The schema that conditions are bound to and scans read with."""
        highest = max((field.id for _, field in walk(self.fields)), default=0)
        return TableSchema(id=self.id, fields=self.fields, highest_field_id=highest)

    def check_read(self, columns: Sequence[str] | None) -> None:
        """Refuses columns of types that are not read; None = all columns."""
        asked = [name for name in (self.names if columns is None else columns) if name in self.unread]
        if asked:
            name = asked[0]
            others = ", ".join(field.name for field in self.fields)
            raise InvalidInputError(
                f"column {name!r} is {self.unread[name]}, a type that is not read: name other columns "
                f"by columns=; there are {others or 'none'}",
                column=name,
            )


def field_types(schema: IcebergSchema) -> dict[int, tuple[str, pa.DataType]]:
    """Returns the name, with dots into structs, and the Arrow type of each field that bounds can be of.

    Fields inside lists and maps, and structs themselves, have no bounds and are left out.
    """
    return {field.id: (".".join(path), arrow_type(field.type)) for path, field in _leaves(schema.fields)}


def never_null(schema: IcebergSchema) -> frozenset[str]:
    """Returns the names, with dots into structs, of the fields that every row has a value of."""
    return frozenset(".".join(path) for path, _ in _leaves(_required(schema.fields)))


def _required(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Returns the required ones of some fields, and of the fields inside them likewise."""
    return tuple(
        replace(field, type=StructType(_required(field.type.fields)))
        if isinstance(field.type, StructType)
        else field
        for field in fields
        if field.required
    )


def _leaves(fields: Sequence[Field], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Field]]:
    for field in fields:
        here = (*path, field.name)
        if isinstance(field.type, StructType):
            yield from _leaves(field.type.fields, here)
        elif not children(field.type):
            yield here, field


def parse_schema(schema: JsonObject) -> IcebergSchema:
    """Reads a schema of table metadata; one without ``schema-id`` is of version 1 and has 0.

    Raises:
        CorruptionError: a member is missing or wrong, or two fields have one id.
    """
    fields, names, unread = [], [], {}
    for member in schema.objects("fields"):
        name = member.read("name", text)
        names.append(name)
        try:
            fields.append(_field(member))
        except _UnreadError as error:
            unread[name] = str(error)
    ids = [field.id for _, field in walk(tuple(fields))]
    if len(set(ids)) != len(ids):
        raise schema.wrong("fields", "fields with an id of their own each", sorted(ids))
    if len(set(names)) != len(names):
        raise schema.wrong("fields", "fields with a name of their own each", names)
    return IcebergSchema(
        id=schema.read("schema-id", number, 0),
        fields=tuple(fields),
        names=tuple(names),
        unread=unread,
        identifier_ids=schema.read("identifier-field-ids", each(number), ()),
        document=schema.values,
    )


def _field(member: JsonObject) -> Field:
    kind = _type(member, "type")
    value = partial(single_value, kind)
    return Field(
        id=member.read("id", number),
        name=member.read("name", text),
        type=kind,
        required=member.read("required", flag),
        comment=member.read("doc", lambda doc: None if doc is None else text(doc), None),
        initial_default=member.read("initial-default", value, None),
        write_default=member.read("write-default", value, None),
    )


def _type(member: JsonObject, name: str) -> DataType:
    if not isinstance(member.values.get(name), dict):
        return member.read(name, _primitive)
    kind = member.inner(name)
    match kind.read("type", text):
        case "struct":
            return StructType(tuple(_field(field) for field in kind.objects("fields")))
        case "list":
            return ListType(_part(kind, "element", required=kind.read("element-required", flag)))
        case "map":
            value = _part(kind, "value", required=kind.read("value-required", flag))
            return MapType(_part(kind, "key", required=True), value)
        case other:
            raise _UnreadError(other)


def _part(kind: JsonObject, name: str, *, required: bool) -> Field:
    return Field(id=kind.read(f"{name}-id", number), name=name, type=_type(kind, name), required=required)


def _primitive(value: object) -> DataType:
    word = text(value)
    if word in _PLAIN:
        return _PLAIN[word]
    if found := _DECIMAL.fullmatch(word):
        precision, scale = int(found[1]), int(found[2])
        if not 1 <= precision <= DECIMAL_DIGITS_MAX or scale > precision:
            raise ValueError(f"must be a decimal of up to {DECIMAL_DIGITS_MAX} digits, not {word}")
        return DecimalType(precision, scale)
    if found := _FIXED.fullmatch(word):
        if not int(found[1]):
            raise ValueError(f"must be a type of one byte or more, not {word}")
        return BinaryType(int(found[1]))
    raise _UnreadError(word)
