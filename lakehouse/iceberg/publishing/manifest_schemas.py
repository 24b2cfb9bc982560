"""Avro schemas of manifests and manifest lists, with the field ids of Iceberg's specification."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lakehouse.format.schema import Field, TableSchema
from lakehouse.iceberg.publishing.schemas import PARTITION_ID
from lakehouse.iceberg.publishing.values import avro_type

__all__ = ["entry_schema", "list_schema", "partition_name"]

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def entry_schema(schema: TableSchema, version: int) -> dict[str, Any]:
    """Returns the schema of manifest entries."""
    data_file = [
        _needed("content", 134, "int"),
        _needed("file_path", 100, "string"),
        _needed("file_format", 101, "string"),
        _needed("partition", 102, _partition(schema)),
        _needed("record_count", 103, "long"),
        _needed("file_size_in_bytes", 104, "long"),
        _optional("value_counts", 109, _map(119, 120, "long")),
        _optional("null_value_counts", 110, _map(121, 122, "long")),
        _optional("nan_value_counts", 137, _map(138, 139, "long")),
        _optional("lower_bounds", 125, _map(126, 127, "bytes")),
        _optional("upper_bounds", 128, _map(129, 130, "bytes")),
    ]
    if version >= 3:
        data_file += [
            _optional("first_row_id", 142, "long"),
            _optional("referenced_data_file", 143, "string"),
            _optional("content_offset", 144, "long"),
            _optional("content_size_in_bytes", 145, "long"),
        ]
    return _record(
        "manifest_entry",
        [
            _needed("status", 0, "int"),
            _optional("snapshot_id", 1, "long"),
            _optional("sequence_number", 3, "long"),
            _optional("file_sequence_number", 4, "long"),
            _needed("data_file", 2, _record("r2", data_file)),
        ],
    )


def list_schema(version: int) -> dict[str, Any]:
    """Returns the schema of manifest lists."""
    summary = [
        _needed("contains_null", 509, "boolean"),
        _optional("contains_nan", 518, "boolean"),
        _optional("lower_bound", 510, "bytes"),
        _optional("upper_bound", 511, "bytes"),
    ]
    fields = [
        _needed("manifest_path", 500, "string"),
        _needed("manifest_length", 501, "long"),
        _needed("partition_spec_id", 502, "int"),
        _needed("content", 517, "int"),
        _needed("sequence_number", 515, "long"),
        _needed("min_sequence_number", 516, "long"),
        _needed("added_snapshot_id", 503, "long"),
        _needed("added_files_count", 504, "int"),
        _needed("existing_files_count", 505, "int"),
        _needed("deleted_files_count", 506, "int"),
        _needed("added_rows_count", 512, "long"),
        _needed("existing_rows_count", 513, "long"),
        _needed("deleted_rows_count", 514, "long"),
        _optional("partitions", 507, {"type": "array", "items": _record("r508", summary), "element-id": 508}),
    ]
    if version >= 3:
        fields.append(_optional("first_row_id", 520, "long"))
    return _record("manifest_file", fields)


def partition_name(field: Field) -> str:
    """Returns the name of a partition value in Avro, which takes letters, digits and underscores alone."""
    if _WORD.fullmatch(field.name):
        return field.name
    # As Iceberg's Java library spells such names.
    letters = [letter if _WORD.fullmatch(f"_{letter}") else f"_x{ord(letter):X}" for letter in field.name]
    first = f"_{letters[0]}" if letters[0].isdigit() else letters[0]
    return "".join([first, *letters[1:]])


def _partition(schema: TableSchema) -> dict[str, Any]:
    fields = []
    for at, field in enumerate(schema.partition_fields):
        name = partition_name(field)
        told = _optional(name, PARTITION_ID + at, avro_type(field.type))
        fields.append(told if name == field.name else {**told, "iceberg-field-name": field.name})
    return _record("r102", fields)


def _record(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def _needed(name: str, number: int, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": number}


def _optional(name: str, number: int, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def _map(key: int, value: int, kind: str) -> Mapping[str, Any]:
    """Returns the type of a map by field id: an array of pairs, since Avro's maps have keys of text."""
    fields = [_needed("key", key, "int"), _needed("value", value, kind)]
    return {"type": "array", "logicalType": "map", "items": _record(f"k{key}_v{value}", fields)}
