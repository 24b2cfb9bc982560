"""Facts of Iceberg tables: what one metadata file says, in the words of the catalog. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakehouse.catalog.nodes import NO_SUMMARY, TableSummary
from lakehouse.catalog.sources.source import SnapshotFacts, TableFacts
from lakehouse.iceberg import IcebergSchema, IcebergSnapshot, PartitionField, TableMetadata

__all__ = ["snapshot_facts", "table_facts"]

_NO_PARTITION = "void"
_DIGITS_MAX = 19


def table_facts(
    metadata: TableMetadata, schema: IcebergSchema, snapshot: IcebergSnapshot | None
) -> TableFacts:
    """Returns what metadata say of a table that has a schema at a snapshot."""
    columns = [column for column in schema.document.get("fields", ()) if isinstance(column, Mapping)]
    names = {column["id"]: column["name"] for column in columns}
    return TableFacts(
        format="iceberg",
        schema_id=schema.id,
        schema_json=json.dumps(schema.document, separators=(",", ":"), ensure_ascii=False),
        field_ids={name: number for number, name in names.items()},
        primary_key=tuple([names[one] for one in schema.identifier_ids if one in names]),
        not_null=tuple([column["name"] for column in columns if column.get("required")]),
        partition_keys=_partition_keys(metadata, schema),
        current_snapshot=None if snapshot is None else snapshot.id,
        previous_snapshot=None if snapshot is None else snapshot.parent_id,
        references={name: ref.snapshot_id for name, ref in metadata.refs.items()},
        summary=_summary(snapshot),
        updated_ms=metadata.last_updated_ms,
    )


def snapshot_facts(metadata: TableMetadata, snapshot: IcebergSnapshot) -> SnapshotFacts:
    """Returns what metadata say of a snapshot."""
    return SnapshotFacts(
        id=snapshot.id,
        parent=snapshot.parent_id,
        time_ms=snapshot.timestamp_ms,
        schema_id=metadata.schema_of(snapshot).id,
        operation=snapshot.operation,
        summary=_summary(snapshot),
    )


def _partition_keys(metadata: TableMetadata, schema: IcebergSchema) -> tuple[str, ...]:
    names = dict(_names(schema.document))
    return tuple(
        [_shown(field, names) for field in metadata.default_spec.fields if field.transform != _NO_PARTITION]
    )


def _names(struct: Mapping[str, Any], before: str = "") -> list[tuple[int, str]]:
    """Returns id and name of every field that a partition may be made of; those in structs have dots."""
    found: list[tuple[int, str]] = []
    for column in struct.get("fields", ()):
        name = f"{before}{column['name']}"
        found.append((column["id"], name))
        if isinstance(column["type"], Mapping) and column["type"].get("type") == "struct":
            found.extend(_names(column["type"], f"{name}."))
    return found


def _shown(field: PartitionField, names: Mapping[int, str]) -> str:
    columns = ", ".join(names.get(number, f"field {number}") for number in field.source_ids)
    if field.transform == "identity":
        return columns
    transform, bracket, width = field.transform.partition("[")
    return f"{transform}({width.rstrip(']')}, {columns})" if bracket else f"{transform}({columns})"


def _summary(snapshot: IcebergSnapshot | None) -> TableSummary:
    if snapshot is None:
        return TableSummary(rows=0, bytes=0, files=0)
    told = snapshot.summary
    rows, size, files = (
        _count(told.get(name)) for name in ("total-records", "total-files-size", "total-data-files")
    )
    return NO_SUMMARY if rows is size is files is None else TableSummary(rows=rows, bytes=size, files=files)


def _count(text: str | None) -> int | None:
    """Reads a number of a summary, which writers may fill with anything."""
    return (
        int(text)
        if text is not None and text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
        else None
    )
