"""What a table says about itself, as Arrow tables: snapshots, schemas, files, manifests, partitions, tags.

Invariant: a relation is made of metadata alone; no data file is opened for it. Column names and types
never change, columns may be added at the end. ``rows`` is what a scan counts, and null where metadata does
not tell; ``stored_rows`` counts what files hold: rows that others replace or delete, and deletes, too.
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
    """One row per snapshot; ``rows_of`` says how many rows those have of which it is known."""
    tags: dict[int, list[str]] = {}
    for name, ref in sorted(head.refs.items()):
        tags.setdefault(ref.snapshot, []).append(name)
    rows = [
        {
            "snapshot": one.id,
            "parent": one.parent.id if one.parent else None,
            "kind": one.kind.value,
            "time": one.time_ms,
            "schema": one.schema.id,
            "files": one.total.files,
            "rows": rows_of.get(one.id),
            "stored_rows": one.total.rows,
            "bytes": one.total.bytes,
            "added_files": one.plus.files,
            "added_rows": one.plus.rows,
            "removed_files": one.minus.files,
            "removed_rows": one.minus.rows,
            "tags": tags.get(one.id, []),
            "message": one.message,
            "token": one.token,
        }
        for one in snapshots
    ]
    return pa.Table.from_pylist(rows, _SNAPSHOTS)


def schemas_relation(schemas: Iterable[SchemaObject]) -> pa.Table:
    """One row per schema."""
    rows = [
        {
            "schema": one.schema.id,
            "time": one.time_ms,
            "columns": [
                {
                    "id": field.id,
                    "name": field.name,
                    "type": type_text(field.type),
                    "required": field.required,
                }
                for field in one.schema.fields
            ],
            "primary_key": list(one.schema.primary_key),
            "partition_by": list(one.schema.partition_by),
            "buckets": one.schema.buckets,
            "options": list(one.schema.options.items()),
            "comment": one.schema.comment,
        }
        for one in schemas
    ]
    return pa.Table.from_pylist(rows, _SCHEMAS)


def files_relation(
    entries: Sequence[FileEntry], schema: TableSchema, rows_of: Mapping[str, int] = _NONE
) -> pa.Table:
    """One row per live data file; keys and partition values as the table's own types.

    Args:
        entries: the files.
        schema: of the table.
        rows_of: how many rows of the table those have, by path, of which it is known.
    """
    partition = _partition_struct(schema)
    keys = pa.struct([pa.field(one.name, arrow_type(one.type)) for one in schema.key_fields])
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
            "path": one.path,
            "bucket": one.bucket,
            "level": int(one.level),
            "format": one.format.value,
            "bytes": one.size,
            "rows": rows_of.get(one.path),
            "stored_rows": one.rows,
            "deletes": one.deletes,
            "schema": one.schema_id,
            "snapshot": one.at,
            "partition": _partition_values(one.partition, schema),
            "min_key": key(one.min_key),
            "max_key": key(one.max_key),
            "index_bytes": one.index.size if one.index else None,
            "index_path": one.index.path if one.index else None,
            "indexes": list(one.index.ids) if one.index else [],
        }
        for one in entries
    ]
    more = {"partition": partition, "min_key": keys, "max_key": keys, "index_bytes": pa.int64()}
    more |= {"index_path": pa.string(), "indexes": pa.list_(pa.int32()), "stored_rows": pa.int64()}
    return pa.Table.from_pylist(rows, pa.schema({**plain, **more}))


def indexes_relation(entries: Sequence[FileEntry], schema: TableSchema) -> pa.Table:
    """One row per index that the table has."""
    names = by_id(schema.fields)
    counts = Counter(number for one in entries if one.index for number in one.index.ids)
    rows = [
        {
            "index": one.id,
            "target": target_text(one.target, names),
            "kind": one.kind.value,
            "options": [(name, str(value)) for name, value in one.options.items()],
            "target_key": one.target.key,
            "files": counts[one.id],
        }
        for one in schema.indexes
    ]
    return pa.Table.from_pylist(rows, _INDEXES)


def _partition_struct(schema: TableSchema) -> pa.StructType:
    """The Arrow type of a partition."""
    return pa.struct([pa.field(one.name, arrow_type(one.type)) for one in schema.partition_fields])


def _partition_values(partition: tuple[bytes, ...], schema: TableSchema) -> Mapping[str, Any] | None:
    """A partition's values by column; None for rows that delete keys of any partition."""
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
    """One row per partition that has files.

    Args:
        entries: the files.
        schema: of the table.
        rows_of: how many rows of the table those have, by path, of which it is known.
        is_all: no row of the table is elsewhere than in files.
    """
    sums: dict[tuple[bytes, ...], list[int]] = {}
    unknown: set[tuple[bytes, ...]] = set() if is_all else {one.partition for one in entries}
    known: Counter[tuple[bytes, ...]] = Counter()
    for one in entries:
        if one.path in rows_of:
            known[one.partition] += rows_of[one.path]
        else:
            unknown.add(one.partition)
        found = sums.setdefault(one.partition, [0, 0, 0, 0])
        for at, value in enumerate((1, one.rows, one.size, one.at or 0)):
            found[at] = max(found[at], value) if at == 3 else found[at] + value
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
    """One row per manifest of a snapshot."""
    rows = [
        {
            "path": one.path,
            "bytes": one.size,
            "files": one.entries,
            "rows": None,
            "stored_rows": one.rows,
            "snapshot": one.at or snapshot.id,
        }
        for one in snapshot.manifests
    ]
    return pa.Table.from_pylist(rows, _MANIFESTS)


def tags_relation(snapshot: Snapshot) -> pa.Table:
    """One row per tag and pin."""
    rows = [
        {"name": name, "snapshot": ref.snapshot, "kind": ref.kind.value, "expires": ref.expires_ms}
        for name, ref in sorted(snapshot.refs.items())
    ]
    return pa.Table.from_pylist(rows, _TAGS)
