"""Our schemas as Iceberg's: columns with the same ids, partition columns as an identity spec.

``tinyint`` and ``smallint`` become ``int``, which Iceberg's readers widen them to; lengths of text and
bytes are rules for writers and are left out. Defaults of rows that are in files without a column need
version 3, and are told there for columns of plain types.

Invariant: a file that :func:`misses_default` does not name reads by Iceberg's rules as it does by ours.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Mapping
from typing import Any

from lakehouse.format.schema import (
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
    children,
    walk,
)

__all__ = ["DEFAULTS_VERSION", "PARTITION_ID", "misses_default", "partition_spec", "published_schema"]

DEFAULTS_VERSION = 3
"""First version of the format in which columns have defaults."""
PARTITION_ID = 1000
"""Field id of the first partition column's value in manifests."""
_NAMES: Mapping[str, str] = {
    "boolean": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "date": "date",
    "time": "time",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}


def published_schema(schema: TableSchema, version: int) -> dict[str, Any]:
    """Returns a schema as table metadata of a version of the format have it."""
    return {
        "type": "struct",
        "schema-id": schema.id,
        "identifier-field-ids": [field.id for field in schema.key_fields],
        "fields": [_field(field, version) for field in schema.fields],
    }


def partition_spec(schema: TableSchema) -> list[dict[str, Any]]:
    """Returns the fields of the one partition spec that a table has."""
    return [
        {"name": field.name, "transform": "identity", "source-id": field.id, "field-id": PARTITION_ID + at}
        for at, field in enumerate(schema.partition_fields)
    ]


def misses_default(schema: TableSchema, written: TableSchema, version: int) -> bool:
    """Returns whether rows of files of an older schema have defaults that Iceberg's readers do not learn of.

    Args:
        schema: the schema that is published.
        written: the schema of the files.
        version: of the format.
    """
    known = {field.id for _, field in walk(written.fields)}
    return any(
        field.initial_default is not None and field.id not in known and not _tells_default(field, version)
        for _, field in walk(schema.fields)
    )


def _tells_default(field: Field, version: int) -> bool:
    return version >= DEFAULTS_VERSION and not children(field.type)


def _field(field: Field, version: int) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": field.id,
        "name": field.name,
        "required": field.required,
        "type": _type(field.type, version),
    }
    if field.comment is not None:
        told["doc"] = field.comment
    if _tells_default(field, version):
        for name, value in (
            ("initial-default", field.initial_default),
            ("write-default", field.write_default),
        ):
            if value is not None:
                told[name] = _default(value, field.type)
    return told


def _type(kind: DataType, version: int) -> Any:
    match kind:
        case Primitive(name):
            return _NAMES[name]
        case DecimalType(precision, scale):
            return f"decimal({precision}, {scale})"
        case StringType():
            return "string"
        case BinaryType():
            return "binary"
        case ListType(element):
            return {
                "type": "list",
                "element-id": element.id,
                "element": _type(element.type, version),
                "element-required": element.required,
            }
        case MapType(key, value):
            return {
                "type": "map",
                "key-id": key.id,
                "key": _type(key.type, version),
                "value-id": value.id,
                "value": _type(value.type, version),
                "value-required": value.required,
            }
        case StructType(fields):
            return {"type": "struct", "fields": [_field(field, version) for field in fields]}


def _default(value: Any, kind: DataType) -> Any:
    """Returns a default of a plain type as JSON has single values."""
    match value:
        case bytes():
            return value.hex()
        case decimal.Decimal() if isinstance(kind, DecimalType):
            return format(value.quantize(decimal.Decimal(1).scaleb(-kind.scale)), "f")
        case dt.datetime():
            return _moment(value, kind)
        case dt.time():
            return value.isoformat(timespec="microseconds")
        case dt.date():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return value


def _moment(value: dt.datetime, kind: DataType) -> str:
    local = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    text = local.isoformat(timespec="microseconds")
    return f"{text}+00:00" if kind == Primitive("timestamp") else text
