"""Region manifests as GreptimeDB writes them, made from a few words."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

__all__ = [
    "REGION",
    "change",
    "checkpoint",
    "delta",
    "edit",
    "file",
    "file_id",
    "pointer",
    "truncate",
]

REGION = 1024 << 32 | 1
_METADATA = {
    "column_metadatas": [
        {
            "column_schema": {
                "name": "ts",
                "data_type": {"Timestamp": {"Millisecond": None}},
                "is_nullable": False,
                "is_time_index": True,
                "default_constraint": None,
                "metadata": {},
            },
            "semantic_type": "Timestamp",
            "column_id": 1,
        }
    ],
    "primary_key": [],
    "region_id": REGION,
    "schema_version": 0,
    "primary_key_encoding": "dense",
    "partition_expr": "",
}


def file_id(number: int) -> str:
    """The number-th file id."""
    return f"00000000-0000-4000-8000-{number:012}"


def file(
    number: int, *, size: int = 6000, version: int | None = 0, region: int | str = REGION
) -> dict[str, Any]:
    """A ``FileMeta``; without a version, one from before index files had versions."""
    meta: dict[str, Any] = {
        "region_id": region,
        "file_id": file_id(number),
        "time_range": [
            {"value": 1451609210000, "unit": "Millisecond"},
            {"value": 1451609520000, "unit": "Millisecond"},
        ],
        "level": 0,
        "file_size": 100,
        "available_indexes": ["InvertedIndex"] if size else [],
        "index_file_size": size,
        "num_rows": 20,
        "num_row_groups": 1,
        "sequence": 1,
        "partition_expr": None,
    }
    return meta if version is None else meta | {"index_version": version}


def change(region: int | str = REGION) -> dict[str, Any]:
    """The action that says what the region is."""
    metadata = _METADATA | {"region_id": region}
    return {"Change": {"metadata": metadata, "sst_format": "flat", "append_mode": None}}


def edit(add: list[Any] | None = None, remove: list[Any] | None = None) -> dict[str, Any]:
    """The action that adds and removes files."""
    return {
        "Edit": {
            "files_to_add": add or [],
            "files_to_remove": remove or [],
            "timestamp_ms": 1700000000000,
            "compaction_time_window": None,
            "flushed_entry_id": 10,
            "flushed_sequence": 10,
            "committed_sequence": None,
        }
    }


def truncate(remove: list[Any] | None = None) -> dict[str, Any]:
    """The action that removes those files, or all."""
    kind = (
        {"truncated_entry_id": 10, "truncated_sequence": 20}
        if remove is None
        else {"files_to_remove": remove}
    )
    return {"Truncate": {"region_id": REGION, **kind, "timestamp_ms": None}}


def _object(name: str, document: Any, *, gz: bool) -> dict[str, bytes]:
    data = json.dumps(document, separators=(",", ":")).encode()
    return {f"{name}.gz": gzip.compress(data, mtime=0)} if gz else {name: data}


def delta(
    version: int, *actions: dict[str, Any], gz: bool = False, staging: bool = False
) -> dict[str, bytes]:
    """A delta, by its name."""
    folder = "staging/manifest" if staging else "manifest"
    return _object(f"{folder}/{version:020}.json", {"actions": list(actions)}, gz=gz)


def checkpoint(version: int, *files: dict[str, Any], gz: bool = False) -> dict[str, bytes]:
    """A checkpoint, by its name."""
    manifest = {
        "metadata": _METADATA,
        "files": {meta["file_id"]: meta for meta in files},
        "removed_files": {"removed_files": [{"removed_at": 0, "files": [{"File": [file_id(99), None]}]}]},
        "flushed_entry_id": 10,
        "flushed_sequence": 20,
        "committed_sequence": None,
        "manifest_version": version,
        "truncated_entry_id": None,
        "compaction_time_window": "1h",
        "sst_format": "flat",
        "append_mode": None,
    }
    document = {"last_version": version, "compacted_actions": version, "checkpoint": manifest}
    return _object(f"manifest/{version:020}.checkpoint", document, gz=gz)


def pointer(version: int, content: bytes | None) -> bytes:
    """``_last_checkpoint`` of a checkpoint's JSON; without, one from before there were checksums."""
    document = {
        "size": 0 if content is None else len(content),
        "version": version,
        "checksum": None if content is None else zlib.crc32(content),
        "extend_metadata": {},
    }
    return json.dumps(document).encode()
