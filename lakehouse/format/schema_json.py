"""Schema objects: a table's schema as an object of the store, and where the schemas before it are.

Invariant: what :func:`decode_schema` returns is what :func:`encode_schema` was given, defaults of
every type included; bytes that are anything else are an error that names object and member. The
members are in ``docs/spec/v1/schema.md``.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.index_json import index_from_json, index_to_json
from lakehouse.format.sealed_json import seal, unseal
from lakehouse.format.snapshot import SchemaRef
from lakehouse.format.table_schema import TableSchema, check_schema
from lakehouse.format.type_text import parse_type, type_text
from lakehouse.format.types import (
    BinaryType,
    DataType,
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
    children,
)

__all__ = ["SchemaObject", "decode_schema", "encode_schema"]

_FORMAT = 1
_T = TypeVar("_T")
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaObject:
    """What a schema object holds."""

    schema: TableSchema
    table: uuid.UUID
    """The table it belongs to."""
    token: str
    """Of the write that made it."""
    time_ms: int
    """When it was made: milliseconds since 1970."""
    ancestors: tuple[SchemaRef, ...] = ()
    """Every schema before this one, oldest first: files were written with them."""


def encode_schema(one: SchemaObject) -> bytes:
    """The bytes of the object."""
    schema = one.schema
    members: dict[str, Any] = {
        "format": _FORMAT,
        "table": str(one.table),
        "token": one.token,
        "time_ms": one.time_ms,
        "id": schema.id,
        "fields": [_field_to_json(field) for field in schema.fields],
        "highest_field_id": schema.highest_field_id,
        "primary_key": list(schema.primary_key),
        "partition_by": list(schema.partition_by),
        "buckets": schema.buckets,
        "options": dict(schema.options),
        "ancestors": [{"id": ref.id, "path": ref.path} for ref in one.ancestors],
    }
    if schema.comment is not None:
        members["comment"] = schema.comment
    if schema.highest_index_id:
        members["indexes"] = [index_to_json(index) for index in schema.indexes]
        members["highest_index_id"] = schema.highest_index_id
    return seal(members)


def decode_schema(data: bytes, *, key: str) -> SchemaObject:
    """The schema in an object; ``key`` is named in errors."""
    found = _Members(unseal(data, key=key, what="schema", newest=_FORMAT), key, "")
    schema = TableSchema(
        id=found.number("id"),
        fields=tuple(_field_from_json(member) for member in found.objects("fields")),
        primary_key=tuple(found.texts("primary_key")),
        partition_by=tuple(found.texts("partition_by")),
        buckets=found.number("buckets"),
        options=found.text_mapping("options"),
        comment=found.text_or_none("comment"),
        highest_field_id=found.number("highest_field_id"),
        indexes=found.read("indexes", lambda value: tuple(map(index_from_json, value or ()))),
        highest_index_id=found.number("highest_index_id") if "highest_index_id" in found.members else 0,
    )
    try:
        check_schema(schema)
    except InvalidInputError as error:
        raise CorruptionError(f"{key}: {error.message}", key=key, **error.context) from error
    return SchemaObject(
        schema=schema,
        table=found.read("table", _uuid),
        token=found.text("token"),
        time_ms=found.number("time_ms"),
        ancestors=tuple(
            SchemaRef(id=ref.number("id"), path=ref.text("path")) for ref in found.objects("ancestors")
        ),
    )


def _field_to_json(field: Field) -> dict[str, Any]:
    members: dict[str, Any] = {"id": field.id, "name": field.name, "type": _type_to_json(field.type)}
    if field.required:
        members["required"] = True
    if field.comment is not None:
        members["comment"] = field.comment
    for name in ("initial_default", "write_default"):
        if getattr(field, name) is not None:
            members[name] = _value_to_json(getattr(field, name), field.type)
    return members


def _type_to_json(kind: DataType) -> Any:
    match kind:
        case ListType(element):
            return {"list": _field_to_json(element)}
        case MapType(key, value):
            return {"map": [_field_to_json(key), _field_to_json(value)]}
        case StructType(fields):
            return {"struct": [_field_to_json(field) for field in fields]}
    return type_text(kind)


def _field_from_json(found: _Members) -> Field:
    kind = _type_from_json(found)
    return Field(
        id=found.number("id"),
        name=found.text("name"),
        type=kind,
        required=found.flag("required"),
        comment=found.text_or_none("comment"),
        initial_default=found.default("initial_default", kind),
        write_default=found.default("write_default", kind),
    )


def _type_from_json(found: _Members) -> DataType:
    value = found.members.get("type")
    if isinstance(value, str):
        return found.read("type", _leaf_type)
    inner = found.inner("type")
    if "list" in inner.members:
        return ListType(_field_from_json(inner.inner("list")))
    if "map" in inner.members:
        fields = [_field_from_json(part) for part in inner.objects("map")]
        if len(fields) != 2:
            raise inner.wrong("map", "a key and a value", fields)
        return MapType(*fields)
    return StructType(tuple(_field_from_json(part) for part in inner.objects("struct")))


def _leaf_type(value: Any) -> DataType:
    kind = parse_type(value)
    if children(kind):
        raise ValueError(f"fields of {value} have no ids")
    return kind


def _uuid(value: Any) -> uuid.UUID:
    return uuid.UUID(value)


class _Members:
    """The members of a JSON object, and errors that say where it stands."""

    def __init__(self, members: Any, key: str, place: str) -> None:
        self.members: Mapping[str, Any] = members
        self._key = key
        self._place = place

    def wrong(self, name: str, wanted: str, got: object) -> CorruptionError:
        place = f"{self._place}{name}"
        return CorruptionError(
            f"{self._key}: {place} must be {wanted}, not {got!r:.100}", key=self._key, field=place, got=got
        )

    def read(self, name: str, reader: Callable[[Any], _T]) -> _T:
        value = self.members.get(name)
        try:
            return reader(value)
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
            place = f"{self._place}{name}"
            raise CorruptionError(
                f"{self._key}: {place} is {value!r:.100}: {error}", key=self._key, field=place, got=value
            ) from error

    def number(self, name: str) -> int:
        value = self.members.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _INT64_MAX:
            raise self.wrong(name, "a whole number", value)
        return value

    def text(self, name: str) -> str:
        value = self.members.get(name)
        if not isinstance(value, str):
            raise self.wrong(name, "text", value)
        return value

    def text_or_none(self, name: str) -> str | None:
        return None if self.members.get(name) is None else self.text(name)

    def flag(self, name: str) -> bool:
        value = self.members.get(name, False)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false", value)
        return value

    def texts(self, name: str) -> list[str]:
        value = self.members.get(name)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.wrong(name, "a list of texts", value)
        return value

    def text_mapping(self, name: str) -> dict[str, str]:
        value = self.members.get(name)
        if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
            raise self.wrong(name, "an object of texts", value)
        return value

    def inner(self, name: str) -> _Members:
        value = self.members.get(name)
        if not isinstance(value, dict):
            raise self.wrong(name, "an object", value)
        return _Members(value, self._key, f"{self._place}{name}.")

    def objects(self, name: str) -> list[_Members]:
        value = self.members.get(name)
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.wrong(name, "a list of objects", value)
        return [_Members(one, self._key, f"{self._place}{name}[{at}].") for at, one in enumerate(value)]

    def default(self, name: str, kind: DataType) -> Any:
        if self.members.get(name) is None:
            return None
        return self.read(name, lambda value: _value_from_json(value, kind))


def _value_to_json(value: Any, kind: DataType) -> Any:
    """A default as JSON; see the table in the specification."""
    if value is None:
        return None
    match kind:
        case Primitive("float" | "double"):
            return value if math.isfinite(value) else str(value)
        case Primitive("timestamp"):
            return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        case Primitive("timestamp_ntz" | "time"):
            return value.isoformat(timespec="microseconds")
        case Primitive("date"):
            return value.isoformat()
        case DecimalType():
            return f"{value:f}"
        case BinaryType():
            return value.hex()
        case ListType(element):
            return [_value_to_json(one, element.type) for one in value]
        case MapType(key, item):
            return [[_value_to_json(k, key.type), _value_to_json(v, item.type)] for k, v in value]
        case StructType(fields):
            return {field.name: _value_to_json(value.get(field.name), field.type) for field in fields}
    return value


def _value_from_json(value: Any, kind: DataType) -> Any:
    """The default; ValueError, TypeError, KeyError or ArithmeticError when the JSON is none."""
    if value is None:
        return None
    match kind:
        case Primitive("boolean"):
            return _exactly(bool, value)
        case Primitive("int8" | "int16" | "int32" | "int64" as name):
            bits = int(name[3:]) - 1
            if not -(2**bits) <= _exactly(int, value) < 2**bits:
                raise ValueError(f"out of the range of {name}")
            return value
        case Primitive("float" | "double"):
            return _float(value)
        case Primitive("timestamp" | "timestamp_ntz" as name):
            found = dt.datetime.fromisoformat(value)
            if (found.tzinfo is None) != (name == "timestamp_ntz"):
                raise ValueError("a timestamp ends with Z, a timestamp_ntz does not")
            return found
        case Primitive("time"):
            return dt.time.fromisoformat(value)
        case Primitive("date"):
            return dt.date.fromisoformat(value)
        case DecimalType(precision, scale):
            return _decimal(value, precision, scale)
        case StringType():
            return _exactly(str, value)
        case BinaryType():
            return bytes.fromhex(value)
        case ListType(element):
            return [_value_from_json(one, element.type) for one in _exactly(list, value)]
        case MapType(key, item):
            return [
                (_value_from_json(k, key.type), _value_from_json(v, item.type))
                for k, v in _exactly(list, value)
            ]
        case StructType(fields):
            return {
                field.name: _value_from_json(_exactly(dict, value)[field.name], field.type)
                for field in fields
            }
    raise TypeError(f"{type_text(kind)} has no defaults")


def _exactly(wanted: type[_T], value: Any) -> _T:
    if type(value) is not wanted:
        raise TypeError(f"this is no {wanted.__name__}")
    return value


def _float(value: Any) -> float:
    if isinstance(value, bool) or (isinstance(value, str) and value not in ("nan", "inf", "-inf")):
        raise ValueError("this is no number")
    return float(value)


def _decimal(value: Any, precision: int, scale: int) -> decimal.Decimal:
    found = decimal.Decimal(_exactly(str, value))
    if found.as_tuple().exponent != -scale or len(found.as_tuple().digits) > precision:
        raise ValueError(f"not a number of decimal({precision},{scale})")
    return found
