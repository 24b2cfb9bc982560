"""Columns of the relations of a table, those of ours and those of Iceberg.

Invariant: columns keep their names and types; more may be added at the end.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lakehouse.sql.system.json_values import JSON

__all__ = [
    "CHANGELOG", "FILES", "MANIFESTS", "OPTIONS", "PARTITIONS", "SCHEMAS", "SNAPSHOTS", "TAGS",
]  # fmt: skip

_Columns = Mapping[str, pa.DataType]

_TEXT, _I32, _I64, _TIME = pa.string(), pa.int32(), pa.int64(), pa.timestamp("ms", tz="UTC")
_TEXTS = pa.list_(_TEXT)
_COLUMN = pa.struct({"id": _I32, "name": _TEXT, "type": _TEXT, "required": pa.bool_()})

SNAPSHOTS: _Columns = {
    "snapshot": _I64, "parent": _I64, "kind": _TEXT, "time": _TIME, "schema": _I32,
    "files": _I64, "rows": _I64, "bytes": _I64, "added_files": _I64, "added_rows": _I64,
    "removed_files": _I64, "removed_rows": _I64, "tags": _TEXTS, "message": _TEXT, "token": _TEXT,
    "stored_rows": _I64, "sequence": _I64, "manifest_list": _TEXT, "summary": JSON,
}  # fmt: skip
"""A row for each snapshot; the last three are Iceberg's."""
SCHEMAS: _Columns = {
    "schema": _I32, "time": _TIME, "columns": pa.list_(_COLUMN), "primary_key": _TEXTS,
    "partition_by": _TEXTS, "buckets": _I32, "options": pa.map_(_TEXT, _TEXT), "comment": _TEXT,
}  # fmt: skip
"""A row for each schema."""
FILES: _Columns = {
    "path": _TEXT, "bucket": _I32, "level": pa.int8(), "format": _TEXT, "bytes": _I64, "rows": _I64,
    "deletes": _I64, "schema": _I32, "snapshot": _I64, "partition": JSON, "min_key": JSON, "max_key": JSON,
    "index_bytes": _I64, "index_path": _TEXT, "indexes": pa.list_(_I32), "stored_rows": _I64,
    "spec_id": _I32, "sequence": _I64, "first_row_id": _I64, "delete_files": _TEXTS,
}  # fmt: skip
"""A row for each live data file; the last four are Iceberg's."""
MANIFESTS: _Columns = {
    "path": _TEXT, "bytes": _I64, "files": _I64, "rows": _I64, "snapshot": _I64, "stored_rows": _I64,
    "spec_id": _I32, "content": _TEXT, "sequence": _I64,
    "added_files": _I64, "existing_files": _I64, "deleted_files": _I64,
    "added_rows": _I64, "existing_rows": _I64, "deleted_rows": _I64,
}  # fmt: skip
"""A row for each manifest; those behind ``stored_rows`` are Iceberg's."""
PARTITIONS: _Columns = {
    "partition": JSON, "files": _I64, "rows": _I64, "bytes": _I64, "last_snapshot": _I64,
    "stored_rows": _I64, "spec_id": _I32, "delete_files": _I64,
}  # fmt: skip
"""A row for each partition that has files; the last two are Iceberg's."""
TAGS: _Columns = {
    "name": _TEXT, "snapshot": _I64, "kind": _TEXT, "expires": _TIME,
    "max_ref_age_ms": _I64, "max_snapshot_age_ms": _I64, "min_snapshots_to_keep": _I64,
}  # fmt: skip
"""A row for each tag, pin and branch; the last three are Iceberg's."""
OPTIONS: _Columns = {"name": _TEXT, "value": _TEXT}
"""A row for each option that is set."""
CHANGELOG: _Columns = {"snapshot": _I64, "time": _TIME, "change": _TEXT, "row": JSON}
"""A row for each change of a row, as ``table.changes`` counts them from each snapshot to the next."""
