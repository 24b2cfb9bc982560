"""Metadata of Iceberg tables as JSON documents, for tests that change a member of one."""

from __future__ import annotations

import copy
import gzip
import json
from typing import Any

__all__ = ["FIRST", "SECOND", "document", "encoded"]

FIRST, SECOND = 3051729675574597004, 3055729675574597004
"""Ids of the snapshots of :func:`document`."""

_FIELDS = [
    {"id": 1, "name": "x", "required": True, "type": "long", "doc": "the key"},
    {"id": 2, "name": "y", "required": False, "type": "string"},
]
_SPEC_FIELDS = [{"name": "x_bucket", "transform": "bucket[4]", "source-id": 1, "field-id": 1000}]
_DOCUMENT: dict[str, Any] = {
    "format-version": 2,
    "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "location": "s3://bucket/wh/t",
    "last-sequence-number": 34,
    "last-updated-ms": 1602638573590,
    "last-column-id": 2,
    "current-schema-id": 1,
    "schemas": [
        {"type": "struct", "schema-id": 0, "fields": _FIELDS[:1]},
        {"type": "struct", "schema-id": 1, "identifier-field-ids": [1], "fields": _FIELDS},
    ],
    "default-spec-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": _SPEC_FIELDS}],
    "last-partition-id": 1000,
    "default-sort-order-id": 3,
    "sort-orders": [
        {
            "order-id": 3,
            "fields": [
                {"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"}
            ],
        }
    ],
    "properties": {"read.split.target.size": "134217728"},
    "current-snapshot-id": SECOND,
    "snapshots": [
        {
            "snapshot-id": FIRST,
            "timestamp-ms": 1515100955770,
            "sequence-number": 0,
            "summary": {"operation": "append"},
            "manifest-list": "s3://bucket/wh/t/metadata/snap-1.avro",
        },
        {
            "snapshot-id": SECOND,
            "parent-snapshot-id": FIRST,
            "timestamp-ms": 1555100955770,
            "sequence-number": 1,
            "summary": {"operation": "append"},
            "manifest-list": "s3://bucket/wh/t/metadata/snap-2.avro",
            "schema-id": 1,
        },
    ],
    "snapshot-log": [
        {"snapshot-id": FIRST, "timestamp-ms": 1515100955770},
        {"snapshot-id": SECOND, "timestamp-ms": 1555100955770},
    ],
    "metadata-log": [{"metadata-file": "s3://bucket/wh/t/metadata/v1.json", "timestamp-ms": 1515100}],
    "refs": {
        "main": {"snapshot-id": SECOND, "type": "branch"},
        "old": {"snapshot-id": FIRST, "type": "tag", "max-ref-age-ms": 10},
    },
}


def document(version: int = 2, *, without: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    """A table of two snapshots; ``changes`` replace members, with ``_`` for ``-`` in their names."""
    made = copy.deepcopy(_DOCUMENT)
    made["format-version"] = version
    if version == 1:
        schema = made.pop("schemas")[1]
        made |= {"schema": {name: schema[name] for name in ("type", "fields")}}
        made |= {"partition-spec": made.pop("partition-specs")[0]["fields"]}
        for name in ("current-schema-id", "default-spec-id", "last-sequence-number", "refs", "table-uuid"):
            del made[name]
        for name in ("sort-orders", "default-sort-order-id", "last-partition-id"):
            del made[name]
        for snapshot in made["snapshots"]:
            del snapshot["sequence-number"]
    if version == 3:
        made["next-row-id"] = 20
    made |= {name.replace("_", "-"): value for name, value in changes.items()}
    return {name: value for name, value in made.items() if name not in without}


def encoded(made: dict[str, Any], *, compressed: bool = False) -> bytes:
    """The bytes of a metadata file."""
    data = json.dumps(made).encode()
    return gzip.compress(data) if compressed else data
