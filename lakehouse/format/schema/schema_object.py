"""Schema objects: a table's schema as an object of the store, with references to the schemas before it.

Invariant: :func:`decode_schema` returns what :func:`encode_schema` was given, defaults of
every type included; other bytes give an error that names object and member. The
members are in ``docs/spec/v1/schema.md``.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from dataclasses import dataclass
from typing import Any, TypeVar

from lakehouse.format.limits.json_object import (
    JsonObject,
    each,
    flag,
    moment,
    number,
    optional,
    table_of,
    text,
    unique_id,
    whole,
)
from lakehouse.format.metadata.sealed_json import REPAIR_ADVICE, SealedFormat
from lakehouse.format.metadata.snapshot import SchemaRef
from lakehouse.format.schema.index_json import index_from_json, index_to_json
from lakehouse.format.schema.table_schema import TableSchema, check_schema
from lakehouse.format.schema.type_notation import parse_type, type_text
from lakehouse.format.schema.types import (
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

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaObject:
    """Content of a schema object: a schema, its origin and its ancestors."""

    schema: TableSchema
    table: uuid.UUID
    """Id of the table it belongs to."""
    token: str
    """Token of the write that made it."""
    time_ms: int
    """Time of that write, in milliseconds since 1970."""
    ancestors: tuple[SchemaRef, ...] = ()
    """Every schema before this one, oldest first: files were written with them."""


def encode_schema(schema: SchemaObject) -> bytes:
    """Encodes the object."""
    return _SCHEMA.encode(schema)


def decode_schema(data: bytes, *, key: str) -> SchemaObject:
    """Decodes the object; ``key`` is named in errors."""
    return _SCHEMA.decode(data, key=key)


def _to_members(content: SchemaObject) -> dict[str, Any]:
    schema = content.schema
    members: dict[str, Any] = {
        "table": str(content.table),
        "token": content.token,
        "time_ms": content.time_ms,
        "id": schema.id,
        "fields": [_field_to_json(field) for field in schema.fields],
        "highest_field_id": schema.highest_field_id,
        "primary_key": list(schema.primary_key),
        "partition_by": list(schema.partition_by),
        "buckets": schema.buckets,
        "options": dict(schema.options),
        "ancestors": [{"id": ref.id, "path": ref.path} for ref in content.ancestors],
    }
    if schema.comment is not None:
        members["comment"] = schema.comment
    if schema.highest_index_id:
        members["indexes"] = [index_to_json(index) for index in schema.indexes]
        members["highest_index_id"] = schema.highest_index_id
    return members


def _from_members(members: JsonObject) -> SchemaObject:
    schema = TableSchema(
        id=members.read("id", number),
        fields=tuple(_field_from_json(member) for member in members.objects("fields")),
        primary_key=members.read("primary_key", each(text)),
        partition_by=members.read("partition_by", each(text)),
        buckets=members.read("buckets", whole),
        options=members.read("options", table_of(text)),
        comment=members.read("comment", text, None),
        highest_field_id=members.read("highest_field_id", number),
        indexes=tuple(map(index_from_json, members.objects("indexes", []))),
        highest_index_id=members.read("highest_index_id", number, 0),
    )
    check_schema(schema)
    return SchemaObject(
        schema=schema,
        table=members.read("table", unique_id),
        token=members.read("token", text),
        time_ms=members.read("time_ms", moment),
        ancestors=tuple(
            SchemaRef(id=ref.read("id", number), path=ref.read("path", text))
            for ref in members.objects("ancestors")
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


def _field_from_json(members: JsonObject) -> Field:
    kind = _type_from_json(members)

    def default(value: Any) -> Any:
        return _value_from_json(value, kind)

    return Field(
        id=members.read("id", number),
        name=members.read("name", text),
        type=kind,
        required=members.read("required", flag, False),
        comment=members.read("comment", optional(text), None),
        initial_default=members.read("initial_default", default, None),
        write_default=members.read("write_default", default, None),
    )


def _type_from_json(members: JsonObject) -> DataType:
    if isinstance(members.values.get("type"), str):
        return members.read("type", _leaf_type)
    inner = members.inner("type")
    if "list" in inner:
        return ListType(_field_from_json(inner.inner("list")))
    if "map" in inner:
        fields = [_field_from_json(part) for part in inner.objects("map")]
        if len(fields) != 2:
            raise inner.wrong("map", "a key and a value", fields)
        return MapType(*fields)
    return StructType(tuple(_field_from_json(part) for part in inner.objects("struct")))


def _leaf_type(value: Any) -> DataType:
    kind = parse_type(value)
    if children(kind):  # nested types are written as objects, since SQL text has no place for ids
        raise ValueError(f"fields of {value} have no ids")
    return kind


def _value_to_json(value: Any, kind: DataType) -> Any:
    """Returns a default as JSON; see the table in the specification."""
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
            return [_value_to_json(item, element.type) for item in value]
        case MapType(key, item):
            return [[_value_to_json(k, key.type), _value_to_json(v, item.type)] for k, v in value]
        case StructType(fields):
            return {field.name: _value_to_json(value.get(field.name), field.type) for field in fields}
    return value


def _value_from_json(value: Any, kind: DataType) -> Any:
    """Reads a default; ValueError, TypeError, KeyError or ArithmeticError when the JSON is invalid."""
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
            time_ = dt.datetime.fromisoformat(value)
            if (time_.tzinfo is None) != (name == "timestamp_ntz"):
                raise ValueError("a timestamp ends with Z, a timestamp_ntz does not")
            return time_ if time_.tzinfo is None else time_.astimezone(dt.UTC)
        case Primitive("time"):
            if (time := dt.time.fromisoformat(value)).tzinfo is not None:
                raise ValueError("a time has no zone")
            return time
        case Primitive("date"):
            return dt.date.fromisoformat(value)
        case DecimalType(precision, scale):
            return _decimal(value, precision, scale)
        case StringType():
            return _exactly(str, value)
        case BinaryType():
            return bytes.fromhex(value)
        case ListType(element):
            return [_value_from_json(item, element.type) for item in _exactly(list, value)]
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
    number_ = decimal.Decimal(_exactly(str, value))
    if number_.as_tuple().exponent != -scale or len(number_.as_tuple().digits) > precision:
        raise ValueError(f"not a number of decimal({precision},{scale})")
    return number_


_SCHEMA = SealedFormat(what="schema", to_json=_to_members, from_json=_from_members, advice=REPAIR_ADVICE)
