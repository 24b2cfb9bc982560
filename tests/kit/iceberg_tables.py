"""Iceberg tables made of metadata alone: what planning reads, without the data files it names.

:func:`table_files` gives the bytes of every file of a table, so that they can be put anywhere. Manifests are
written as the table says, also against the specification: tests of bad input need that.
"""

from __future__ import annotations

import decimal
import json
import math
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType
from pyiceberg.utils.decimal import decimal_required_bytes
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from tests.kit.avro_files import avro_file

__all__ = [
    "ADDED",
    "DATA",
    "DELETED",
    "EQUALITY",
    "EXISTING",
    "FILE_PATH_ID",
    "POSITION",
    "Item",
    "Manifest",
    "Snapshot",
    "Table",
    "bound_bytes",
    "on_disk",
    "table_files",
    "with_line",
]

EXISTING, ADDED, DELETED = 0, 1, 2
"""Status of an entry."""
DATA, POSITION, EQUALITY = 0, 1, 2
"""Content of a file."""
FILE_PATH_ID = 2147483546
"""Field id of the path in position delete files."""

_MAPS = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One entry of a manifest: a file, with its statistics as Iceberg stores them."""

    path: str
    """Absolute, or below the table's location."""
    content: int = DATA
    partition: tuple[Any, ...] = ()
    """A value for each field of the spec: days, months … as numbers."""
    rows: int = 1
    size: int = 1_000
    format: str = "PARQUET"
    metrics: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    """Maps of field ids, by name; those that are missing are null."""
    equality_ids: Sequence[int] | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size: int | None = None
    split_offsets: Sequence[int] | None = None
    status: int = ADDED
    snapshot: int | None = None
    """None is inherited from the manifest."""
    sequence: int | None = None
    """None is inherited from the manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest and its line in the manifest list."""

    name: str
    schema: Schema
    spec: PartitionSpec
    items: Sequence[Item]
    version: int = 2
    snapshot: int = 1
    sequence: int = 1
    delete: bool = False
    """Whether it lists delete files."""
    fields_of: int | None = None
    """The format version whose fields the entries have; None = that of the manifest."""
    left_out: Collection[str] = ()
    """Optional fields that entries have no place for."""
    summaries: bool = True
    codec: str = "deflate"
    block_records: int = 1_000
    line: Mapping[str, Any] = field(default_factory=dict)
    """What the manifest list says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A state of the table."""

    id: int
    sequence: int
    manifests: Sequence[Manifest]
    parent: int | None = None
    list_version: int | None = None
    """Format version of the manifest list; None = that of the table."""
    operation: str = "append"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Everything a metadata file says."""

    schemas: Sequence[Schema]
    """The last one is current."""
    specs: Sequence[PartitionSpec]
    """The last one is the default."""
    snapshots: Sequence[Snapshot]
    """The last one is current."""
    version: int = 2
    changed: Mapping[str, Any] = field(default_factory=dict)
    """What the metadata says otherwise."""


def on_disk(table: Table, directory: Path) -> str:
    """Writes the table, and returns the path of its metadata file."""
    metadata, files = table_files(table, f"file://{directory}")
    for key, content in files.items():
        path = directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return str(directory / metadata)


def table_files(table: Table, location: str) -> tuple[str, dict[str, bytes]]:
    """The key of the metadata file, and the content of every file by key, for a table at this place."""
    files: dict[str, bytes] = {}
    for snapshot in table.snapshots:
        lines = []
        for manifest in snapshot.manifests:
            key = f"metadata/{manifest.name}.avro"
            if key not in files:
                files[key] = _manifest_bytes(manifest, location)
            lines.append(_line(manifest, f"{location}/{key}", len(files[key]), snapshot))
        version = snapshot.list_version or table.version
        files[_list_key(snapshot)] = avro_file(
            _avro_schema(MANIFEST_LIST_FILE_SCHEMAS[version], "manifest_file"),
            [lines],
            metadata={"snapshot-id": b"%d" % snapshot.id, "format-version": b"%d" % version},
        )
    key = f"metadata/{len(table.snapshots):05}-{uuid.uuid5(uuid.NAMESPACE_URL, location)}.metadata.json"
    files[key] = json.dumps({**_metadata(table, location), **table.changed}).encode()
    return key, files


def _list_key(snapshot: Snapshot) -> str:
    return f"metadata/snap-{snapshot.id}-1.avro"


# --- manifests --------------------------------------------------------------------------


def _manifest_bytes(manifest: Manifest, location: str) -> bytes:
    # As Java writes it: pyiceberg has fields of required columns required, which a void field cannot be.
    fields = [field.model_copy(update={"required": False}) for field in _kinds(manifest)]
    kind: Any = StructType(*fields)
    fields_of: Any = manifest.fields_of or manifest.version
    data_file = data_file_with_partition(partition_type=kind, format_version=fields_of)
    schema = _avro_schema(manifest_entry_schema_with_data_file(fields_of, data_file), "manifest_entry")
    _leave_out(schema, manifest.left_out)
    metadata = {
        "schema": manifest.schema.model_dump_json(),
        "partition-spec": json.dumps([field.model_dump(by_alias=True) for field in manifest.spec.fields]),
        "partition-spec-id": str(manifest.spec.spec_id),
        "format-version": str(manifest.version),
        "content": "deletes" if manifest.delete else "data",
    }
    entries = [_entry(item, manifest, location) for item in manifest.items]
    return avro_file(
        schema,
        [entries[at : at + manifest.block_records] for at in range(0, len(entries), manifest.block_records)],
        manifest.codec,
        metadata={name: text.encode() for name, text in metadata.items()},
    )


def _avro_schema(schema: Schema, name: str) -> Any:
    return AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name)


def _kinds(manifest: Manifest) -> Sequence[NestedField]:
    """The fields of a manifest's partitions, as the schema that it was written with has them."""
    return manifest.spec.partition_type(manifest.schema).fields


def _leave_out(schema: Any, names: Collection[str]) -> None:
    (data_file,) = (each["type"] for each in schema["fields"] if each["name"] == "data_file")
    data_file["fields"] = [each for each in data_file["fields"] if each["name"] not in names]


def _entry(item: Item, manifest: Manifest, location: str) -> dict[str, Any]:
    kinds = _kinds(manifest)
    partition = {
        kind.name: _stored(value, kind.field_type) for kind, value in zip(kinds, item.partition, strict=True)
    }
    data_file = {
        "content": item.content,
        "file_path": _absolute(item.path, location),
        "file_format": item.format,
        "partition": partition,
        "record_count": item.rows,
        "file_size_in_bytes": item.size,
        "block_size_in_bytes": 1 << 26,
        **{name: _pairs(item.metrics.get(name), location) for name in _MAPS},
        "key_metadata": None,
        "sort_order_id": None,
        "first_row_id": None,
        "split_offsets": item.split_offsets,
        "equality_ids": item.equality_ids,
        "referenced_data_file": item.referenced_data_file and _absolute(item.referenced_data_file, location),
        "content_offset": item.content_offset,
        "content_size_in_bytes": item.content_size,
    }
    return {
        "status": item.status,
        "snapshot_id": item.snapshot if item.snapshot or manifest.version > 1 else manifest.snapshot,
        "sequence_number": item.sequence,
        "file_sequence_number": item.sequence,
        "data_file": data_file,
    }


def _pairs(values: Mapping[int, Any] | None, location: str) -> list[dict[str, Any]] | None:
    """A map of statistics, as Avro has it; bounds are bytes, or a path below the table's location."""
    if values is None:
        return None
    return [
        {"key": key, "value": _absolute(value, location).encode() if isinstance(value, str) else value}
        for key, value in values.items()
    ]


def _absolute(path: str, location: str) -> str:
    return path if "://" in path else f"{location}/{path}"


def _stored(value: Any, kind: Any) -> Any:
    """A partition value as Avro has it."""
    if isinstance(value, decimal.Decimal):
        size = decimal_required_bytes(kind.precision)
        return _unscaled(value, kind).to_bytes(size, "big", signed=True)
    return value.bytes if isinstance(value, uuid.UUID) else value


# --- manifest lists ---------------------------------------------------------------------


def _line(manifest: Manifest, path: str, length: int, snapshot: Snapshot) -> dict[str, Any]:
    def of(status: int) -> list[Item]:
        return [item for item in manifest.items if item.status == status]

    live = [*of(ADDED), *of(EXISTING)]
    sequences = [manifest.sequence if item.sequence is None else item.sequence for item in live]
    return {
        "manifest_path": path,
        "manifest_length": length,
        "partition_spec_id": manifest.spec.spec_id,
        "content": int(manifest.delete),
        "sequence_number": manifest.sequence,
        "min_sequence_number": min(sequences, default=manifest.sequence),
        "added_snapshot_id": manifest.snapshot,
        "added_files_count": len(of(ADDED)),
        "existing_files_count": len(of(EXISTING)),
        "deleted_files_count": len(of(DELETED)),
        "added_rows_count": sum(item.rows for item in of(ADDED)),
        "existing_rows_count": sum(item.rows for item in of(EXISTING)),
        "deleted_rows_count": sum(item.rows for item in of(DELETED)),
        "partitions": _summaries(manifest) if manifest.summaries else None,
        "key_metadata": None,
        "first_row_id": None,
        **manifest.line,
    }


def _summaries(manifest: Manifest) -> list[dict[str, Any]]:
    kinds = _kinds(manifest)
    return [
        _summary([item.partition[place] for item in manifest.items], kind.field_type)
        for place, kind in enumerate(kinds)
    ]


def _summary(values: Sequence[Any], kind: Any) -> dict[str, Any]:
    nan = any(isinstance(value, float) and math.isnan(value) for value in values)
    known = [value for value in values if value is not None and value == value]
    ends = (min(known), max(known)) if known else (None, None)
    lower, upper = (None if end is None else bound_bytes(kind, end) for end in ends)
    return {
        "contains_null": None in values,
        "contains_nan": nan,
        "lower_bound": lower,
        "upper_bound": upper,
    }


def bound_bytes(kind: Any, value: Any) -> bytes:
    """A value as bounds have it (Iceberg's appendix D)."""
    if isinstance(value, decimal.Decimal):  # truncated, it may have a digit more than its type
        unscaled = _unscaled(value, kind)
        bits = (unscaled + (unscaled < 0)).bit_length()
        return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)
    return to_bytes(kind, value)


def _unscaled(value: decimal.Decimal, kind: Any) -> int:
    return int(value.scaleb(kind.scale, decimal.Context(prec=60)))


# --- metadata ---------------------------------------------------------------------------


def _metadata(table: Table, location: str) -> dict[str, Any]:
    schemas = [json.loads(schema.model_dump_json()) for schema in table.schemas]
    specs = [json.loads(spec.model_dump_json()) for spec in table.specs]
    current = table.snapshots[-1].id if table.snapshots else None
    found = {
        "format-version": table.version,
        "table-uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, location)),
        "location": location,
        "last-updated-ms": 1_700_000_000_000 + len(table.snapshots),
        "last-column-id": max(schema.highest_field_id for schema in table.schemas),
        "schemas": schemas,
        "current-schema-id": table.schemas[-1].schema_id,
        "partition-specs": specs,
        "default-spec-id": table.specs[-1].spec_id,
        "last-partition-id": max([999, *(spec.last_assigned_field_id for spec in table.specs)]),
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "snapshots": [_snapshot(snapshot, table, location) for snapshot in table.snapshots],
        "refs": {} if current is None else {"main": {"snapshot-id": current, "type": "branch"}},
    }
    if current is not None:
        found["current-snapshot-id"] = current
    if table.version == 1:
        found |= {"schema": schemas[-1], "partition-spec": specs[-1]["fields"]}
    else:
        found["last-sequence-number"] = max((each.sequence for each in table.snapshots), default=0)
    if table.version >= 3:
        found["next-row-id"] = 0
    return found


def _snapshot(snapshot: Snapshot, table: Table, location: str) -> dict[str, Any]:
    found = {
        "snapshot-id": snapshot.id,
        "parent-snapshot-id": snapshot.parent,
        "timestamp-ms": 1_700_000_000_000 + snapshot.sequence,
        "summary": {"operation": snapshot.operation},
        "manifest-list": f"{location}/{_list_key(snapshot)}",
        "schema-id": table.schemas[-1].schema_id,
    }
    if snapshot.parent is None:
        del found["parent-snapshot-id"]
    if table.version > 1:
        found["sequence-number"] = snapshot.sequence
    if table.version >= 3:
        found |= {"first-row-id": 0, "added-rows": 0}
    return found


def with_line(manifest: Manifest, **line: Any) -> Manifest:
    """The manifest, about which the manifest list says something else."""
    return replace(manifest, line={**manifest.line, **line})
