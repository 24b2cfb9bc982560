"""Metadata of a table as Arrow tables: snapshots, schemas, files, manifests, partitions, tags.

Invariant: a relation is made of metadata alone; no data file is opened for it. Column names and types
never change, columns may be added at the end. ``rows`` is the number a scan counts, and null where metadata
does not hold it; ``stored_rows`` is the number that files hold: replaced and deleted rows, and deletes, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from lakehouse.format.keys import RowKeyCodec, decode_value
from lakehouse.format.metadata import FileEntry, Snapshot
from lakehouse.format.schema import SchemaObject, TableSchema, arrow_type, by_id, target_text, type_text

__all__ = [
    "files_relation",
    "indexes_relation",
    "manifests_relation",
    "partitions_relation",
    "schemas_relation",
    "snapshots_relation",
    "tags_relation",
]

_NONE: Mapping[Any, int] = MappingProxyType({})
_TIME = pa.timestamp("ms", tz="UTC")
_SNAPSHOTS = pa.schema(
    {
        "snapshot": pa.int64(),
        "parent": pa.int64(),
        "kind": pa.string(),
        "time": _TIME,
        "schema": pa.int32(),
        "files": pa.int64(),
        "rows": pa.int64(),
        "bytes": pa.int64(),
        "added_files": pa.int64(),
        "added_rows": pa.int64(),
        "removed_files": pa.int64(),
        "removed_rows": pa.int64(),
        "tags": pa.list_(pa.string()),
        "message": pa.string(),
        "token": pa.string(),
        "stored_rows": pa.int64(),
    }
)
_SCHEMAS = pa.schema(
    {
        "schema": pa.int32(),
        "time": _TIME,
        "columns": pa.list_(
            pa.struct({"id": pa.int32(), "name": pa.string(), "type": pa.string(), "required": pa.bool_()})
        ),
        "primary_key": pa.list_(pa.string()),
        "partition_by": pa.list_(pa.string()),
        "buckets": pa.int32(),
        "options": pa.map_(pa.string(), pa.string()),
        "comment": pa.string(),
    }
)
_MANIFESTS = pa.schema(
    {
        "path": pa.string(),
        "bytes": pa.int64(),
        "files": pa.int64(),
        "rows": pa.int64(),
        "snapshot": pa.int64(),
        "stored_rows": pa.int64(),
    }
)
_INDEXES = pa.schema(
    {
        "index": pa.int32(),
        "target": pa.string(),
        "kind": pa.string(),
        "options": pa.map_(pa.string(), pa.string()),
        "target_key": pa.string(),
        "files": pa.int64(),
    }
)
_TAGS = pa.schema({"name": pa.string(), "snapshot": pa.int64(), "kind": pa.string(), "expires": _TIME})


def snapshots_relation(
    snapshots: Iterable[Snapshot], head: Snapshot, rows_of: Mapping[int, int | None] = _NONE
) -> pa.Table:
    """Returns one row per snapshot; ``rows_of`` holds the numbers of rows that are known, by snapshot."""
    tags: dict[int, list[str]] = {}
    for name, ref in sorted(head.refs.items()):
        tags.setdefault(ref.snapshot, []).append(name)
    rows = [
        {
            "snapshot": snapshot.id,
            "parent": snapshot.parent.id if snapshot.parent else None,
            "kind": snapshot.kind.value,
            "time": snapshot.time_ms,
            "schema": snapshot.schema.id,
            "files": snapshot.total.files,
            "rows": rows_of.get(snapshot.id),
            "stored_rows": snapshot.total.rows,
            "bytes": snapshot.total.bytes,
            "added_files": snapshot.plus.files,
            "added_rows": snapshot.plus.rows,
            "removed_files": snapshot.minus.files,
            "removed_rows": snapshot.minus.rows,
            "tags": tags.get(snapshot.id, []),
            "message": snapshot.message,
            "token": snapshot.token,
        }
        for snapshot in snapshots
    ]
    return pa.Table.from_pylist(rows, _SNAPSHOTS)


def schemas_relation(schemas: Iterable[SchemaObject]) -> pa.Table:
    """Returns one row per schema."""
    rows = [
        {
            "schema": schema.schema.id,
            "time": schema.time_ms,
            "columns": [
                {
                    "id": field.id,
                    "name": field.name,
                    "type": type_text(field.type),
                    "required": field.required,
                }
                for field in schema.schema.fields
            ],
            "primary_key": list(schema.schema.primary_key),
            "partition_by": list(schema.schema.partition_by),
            "buckets": schema.schema.buckets,
            "options": list(schema.schema.options.items()),
            "comment": schema.schema.comment,
        }
        for schema in schemas
    ]
    return pa.Table.from_pylist(rows, _SCHEMAS)


def files_relation(
    entries: Sequence[FileEntry], schema: TableSchema, rows_of: Mapping[str, int] = _NONE
) -> pa.Table:
    """Returns one row per live data file; keys and partition values have the table's own types.

    Args:
        entries: the files.
        schema: the table's schema.
        rows_of: numbers of rows that are known, by the file's path.
    """
    partition = _partition_struct(schema)
    keys = pa.struct([pa.field(field.name, arrow_type(field.type)) for field in schema.key_fields])
    codec = RowKeyCodec(schema.key_fields) if schema.primary_key else None

    def key(data: bytes | None) -> dict[str, Any] | None:
        if data is None or codec is None:
            return None
        return dict(zip(schema.primary_key, codec.decode_one(data), strict=True))

    plain = {
        "path": pa.string(),
        "bucket": pa.int32(),
        "level": pa.int8(),
        "format": pa.string(),
        "bytes": pa.int64(),
        "rows": pa.int64(),
        "deletes": pa.int64(),
        "schema": pa.int32(),
        "snapshot": pa.int64(),
    }
    rows = [
        {
            "path": entry.path,
            "bucket": entry.bucket,
            "level": int(entry.level),
            "format": entry.format.value,
            "bytes": entry.size,
            "rows": rows_of.get(entry.path),
            "stored_rows": entry.rows,
            "deletes": entry.deletes,
            "schema": entry.schema_id,
            "snapshot": entry.at,
            "partition": _partition_values(entry.partition, schema),
            "min_key": key(entry.min_key),
            "max_key": key(entry.max_key),
            "index_bytes": entry.index.size if entry.index else None,
            "index_path": entry.index.path if entry.index else None,
            "indexes": list(entry.index.ids) if entry.index else [],
        }
        for entry in entries
    ]
    more = {"partition": partition, "min_key": keys, "max_key": keys, "index_bytes": pa.int64()}
    more |= {"index_path": pa.string(), "indexes": pa.list_(pa.int32()), "stored_rows": pa.int64()}
    return pa.Table.from_pylist(rows, pa.schema({**plain, **more}))


def indexes_relation(entries: Sequence[FileEntry], schema: TableSchema) -> pa.Table:
    """Returns one row per index of the table."""
    names = by_id(schema.fields)
    counts = Counter(number for entry in entries if entry.index for number in entry.index.ids)
    rows = [
        {
            "index": index.id,
            "target": target_text(index.target, names),
            "kind": index.kind.value,
            "options": [(name, str(value)) for name, value in index.options.items()],
            "target_key": index.target.key,
            "files": counts[index.id],
        }
        for index in schema.indexes
    ]
    return pa.Table.from_pylist(rows, _INDEXES)


def _partition_struct(schema: TableSchema) -> pa.StructType:
    """Returns the Arrow type of a partition."""
    return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in schema.partition_fields])


def _partition_values(partition: tuple[bytes, ...], schema: TableSchema) -> Mapping[str, Any] | None:
    """Returns a partition's values by column; None for files that delete keys of any partition."""
    if len(partition) != len(schema.partition_by):
        return None
    fields = schema.partition_fields
    return {
        field.name: decode_value(value, field.type) for field, value in zip(fields, partition, strict=True)
    }


def partitions_relation(
    entries: Sequence[FileEntry],
    schema: TableSchema,
    rows_of: Mapping[str, int] = _NONE,
    *,
    is_all: bool = True,
) -> pa.Table:
    """Returns one row per partition that has files.

    Args:
        entries: the files.
        schema: the table's schema.
        rows_of: numbers of rows that are known, by the file's path.
        is_all: whether every row of the table is in a file, none in the log alone.
    """
    sums: dict[tuple[bytes, ...], list[int]] = {}
    unknown: set[tuple[bytes, ...]] = set() if is_all else {entry.partition for entry in entries}
    known: Counter[tuple[bytes, ...]] = Counter()
    for entry in entries:
        if entry.path in rows_of:
            known[entry.partition] += rows_of[entry.path]
        else:
            unknown.add(entry.partition)
        totals = sums.setdefault(entry.partition, [0, 0, 0, 0])
        for at, value in enumerate((1, entry.rows, entry.size, entry.at or 0)):
            # The last is the newest snapshot; the others are sums.
            totals[at] = max(totals[at], value) if at == 3 else totals[at] + value
    rows = [
        {
            "partition": _partition_values(partition, schema),
            "files": files,
            "rows": None if partition in unknown else known[partition],
            "stored_rows": count,
            "bytes": size,
            "last_snapshot": last,
        }
        for partition, (files, count, size, last) in sorted(sums.items())
    ]
    columns = {
        "partition": _partition_struct(schema),
        "files": pa.int64(),
        "rows": pa.int64(),
        "bytes": pa.int64(),
        "last_snapshot": pa.int64(),
        "stored_rows": pa.int64(),
    }
    return pa.Table.from_pylist(rows, pa.schema(columns))


def manifests_relation(snapshot: Snapshot) -> pa.Table:
    """Returns one row per manifest of a snapshot."""
    rows = [
        {
            "path": manifest.path,
            "bytes": manifest.size,
            "files": manifest.entries,
            "rows": None,
            "stored_rows": manifest.rows,
            "snapshot": manifest.at or snapshot.id,
        }
        for manifest in snapshot.manifests
    ]
    return pa.Table.from_pylist(rows, _MANIFESTS)


def tags_relation(snapshot: Snapshot) -> pa.Table:
    """Returns one row per tag and pin."""
    rows = [
        {"name": name, "snapshot": ref.snapshot, "kind": ref.kind.value, "expires": ref.expires_ms}
        for name, ref in sorted(snapshot.refs.items())
    ]
    return pa.Table.from_pylist(rows, _TAGS)
