"""Metadata of an Iceberg table as Arrow tables: snapshots, references, history, manifests, partitions.

Words are those of our own tables' relations where both have the thing.

Invariant: a relation is made of metadata alone; no data file is opened for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.iceberg.manifests import ManifestFile
from lakehouse.iceberg.metadata import TableMetadata

__all__ = [
    "history_relation",
    "manifests_relation",
    "partitions_relation",
    "refs_relation",
    "snapshots_relation",
]

_TIME = pa.timestamp("ms", tz="UTC")
_SNAPSHOTS = pa.schema(
    {
        "snapshot": pa.int64(),
        "parent": pa.int64(),
        "kind": pa.string(),
        "time": _TIME,
        "schema": pa.int32(),
        "sequence": pa.int64(),
        "refs": pa.list_(pa.string()),
        "manifest_list": pa.string(),
        "summary": pa.map_(pa.string(), pa.string()),
    }
)
_REFS = pa.schema(
    {
        "name": pa.string(),
        "kind": pa.string(),
        "snapshot": pa.int64(),
        "max_ref_age_ms": pa.int64(),
        "max_snapshot_age_ms": pa.int64(),
        "min_snapshots_to_keep": pa.int64(),
    }
)
_HISTORY = pa.schema({"time": _TIME, "snapshot": pa.int64(), "is_current_ancestor": pa.bool_()})
_MANIFESTS = pa.schema(
    {
        "path": pa.string(),
        "bytes": pa.int64(),
        "spec_id": pa.int32(),
        "content": pa.string(),
        "snapshot": pa.int64(),
        "sequence": pa.int64(),
        "added_files": pa.int64(),
        "existing_files": pa.int64(),
        "deleted_files": pa.int64(),
        "added_rows": pa.int64(),
        "existing_rows": pa.int64(),
        "deleted_rows": pa.int64(),
    }
)


def snapshots_relation(metadata: TableMetadata) -> pa.Table:
    """Returns one row per snapshot, in the order of the metadata."""
    refs: dict[int, list[str]] = {}
    for name, ref in sorted(metadata.refs.items()):
        refs.setdefault(ref.snapshot_id, []).append(name)
    rows = [
        {
            "snapshot": snapshot.id,
            "parent": snapshot.parent_id,
            "kind": snapshot.operation or None,
            "time": snapshot.timestamp_ms,
            "schema": snapshot.schema_id,
            "sequence": snapshot.sequence,
            "refs": refs.get(snapshot.id, []),
            "manifest_list": snapshot.manifest_list,
            "summary": list(snapshot.summary.items()),
        }
        for snapshot in metadata.snapshots.values()
    ]
    return pa.Table.from_pylist(rows, _SNAPSHOTS)


def refs_relation(metadata: TableMetadata) -> pa.Table:
    """Returns one row per branch and tag, by name."""
    rows = [
        {
            "name": ref.name,
            "kind": ref.kind,
            "snapshot": ref.snapshot_id,
            "max_ref_age_ms": ref.max_ref_age_ms,
            "max_snapshot_age_ms": ref.max_snapshot_age_ms,
            "min_snapshots_to_keep": ref.min_snapshots_to_keep,
        }
        for _, ref in sorted(metadata.refs.items())
    ]
    return pa.Table.from_pylist(rows, _REFS)


def history_relation(metadata: TableMetadata) -> pa.Table:
    """Returns one row per change of the current snapshot, oldest first."""
    ancestors = {snapshot.id for snapshot in metadata.ancestors(metadata.current_snapshot)}
    rows = [
        {
            "time": entry.timestamp_ms,
            "snapshot": entry.snapshot_id,
            "is_current_ancestor": entry.snapshot_id in ancestors,
        }
        for entry in metadata.snapshot_log
    ]
    return pa.Table.from_pylist(rows, _HISTORY)


def manifests_relation(manifests: Sequence[ManifestFile]) -> pa.Table:
    """Returns one row per manifest."""
    rows = [
        {
            "path": manifest.path,
            "bytes": manifest.length,
            "spec_id": manifest.spec_id,
            "content": "deletes" if manifest.content else "data",
            "snapshot": manifest.snapshot_id,
            "sequence": manifest.sequence,
            "added_files": manifest.added_files,
            "existing_files": manifest.existing_files,
            "deleted_files": manifest.deleted_files,
            "added_rows": manifest.added_rows,
            "existing_rows": manifest.existing_rows,
            "deleted_rows": manifest.deleted_rows,
        }
        for manifest in manifests
    ]
    return pa.Table.from_pylist(rows, _MANIFESTS)


def partitions_relation(files: pa.Table) -> pa.Table:
    """Returns one row per spec and partition, given the files of a plan: files, rows, bytes, delete files."""
    sums: dict[tuple[int, str], list[Any]] = {}
    deletes = pc.list_value_length(files["deletes"]).to_pylist()
    columns = (files[name].to_pylist() for name in ("spec_id", "partition", "rows", "size"))
    for spec, partition, rows, size, applied in zip(*columns, deletes, strict=True):
        found = sums.setdefault((spec, repr(partition)), [spec, partition, 0, 0, 0, 0])
        for at, more in enumerate((1, rows, size, applied), 2):
            found[at] += more
    names = ("spec_id", "partition", "files", "stored_rows", "bytes", "delete_files")
    kinds = [pa.int32(), files.schema.field("partition").type, *[pa.int64()] * 4]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    return pa.Table.from_pylist([dict(zip(names, one, strict=True)) for one in sums.values()], schema)
