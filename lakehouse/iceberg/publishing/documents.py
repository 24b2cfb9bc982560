"""Table metadata of published tables: the JSON that follows another, and what was published before.

Invariant: every snapshot that is listed was made by a publication and keeps its id, which is that of our
snapshot; ids ascend.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

from lakehouse.errors import ConflictError
from lakehouse.format.metadata import RefKind, Snapshot
from lakehouse.format.schema import TableSchema
from lakehouse.iceberg.metadata_json import decode_metadata
from lakehouse.iceberg.publishing.holds import hold_name
from lakehouse.iceberg.publishing.schemas import PARTITION_ID, partition_spec, published_schema

__all__ = ["COVERAGE", "OURS", "Document", "Published", "encode_document", "next_document", "read_document"]

OURS = "lakehouse.snapshot"
"""Member of a snapshot's summary that says which of our snapshots it is."""
COVERAGE = "lakehouse.coverage"
"""Member of a snapshot's summary that has a digest of what it shows."""
_ROW_IDS_VERSION = 3

Document = dict[str, Any]
"""Table metadata, as JSON has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The newest published metadata of a table."""

    version: int = 0
    """Number of the metadata file; 0 = nothing was published yet."""
    url: str = ""
    """URL of the metadata file."""
    document: Document = dataclass_field(default_factory=dict, hash=False)

    def left_behind(self) -> Published:
        """Returns what metadata of the table at another URL continue: its counts alone."""
        kept = ("format-version", "last-sequence-number", "last-updated-ms", "next-row-id")
        document = {name: value for name, value in self.document.items() if name in kept}
        return Published(version=self.version, document=document)

    @property
    def snapshots(self) -> list[dict[str, Any]]:
        """The snapshots that it lists, oldest first."""
        return list(self.document.get("snapshots", ()))

    @property
    def statistics(self) -> list[dict[str, Any]]:
        """The statistics files that it names."""
        return list(self.document.get("statistics", ()))

    @property
    def current(self) -> dict[str, Any] | None:
        """The snapshot that readers see; None = there is none."""
        return self.snapshots[-1] if self.document.get("snapshots") else None

    @property
    def current_id(self) -> int:
        """Id of that snapshot; 0 = there is none."""
        return self.current["snapshot-id"] if self.current is not None else 0

    @property
    def format_version(self) -> int:
        """Version of the format; 0 = nothing was published yet."""
        return int(self.document.get("format-version", 0))

    @property
    def sequence(self) -> int:
        """Highest sequence number so far."""
        return int(self.document.get("last-sequence-number", 0))

    @property
    def next_row_id(self) -> int:
        """Id of the next row that is added."""
        return int(self.document.get("next-row-id", 0))

    @property
    def changed_ms(self) -> int:
        """Time of the publication."""
        return int(self.document.get("last-updated-ms", 0))


def read_document(data: bytes, url: str, version: int, table: str) -> Published:
    """Reads metadata that a publication of this table wrote.

    Raises:
        CorruptionError: they are damaged.
        ConflictError: another program has written them.
    """
    decoded = decode_metadata(data, url)
    document: Document = json.loads(data)
    foreign = [number for number, one in decoded.snapshots.items() if OURS not in one.summary]
    if decoded.uuid != table or foreign:
        what = f"snapshot {foreign[0]}" if foreign else f"table {decoded.uuid}"
        raise ConflictError(
            f"{url} has {what}, which no publication of this table made: a published table is for reading. "
            f"Delete {url}, and publish again.",
            key=url,
        )
    document["snapshots"] = sorted(document.get("snapshots", ()), key=lambda one: one["snapshot-id"])
    return Published(version=version, url=url, document=document)


def encode_document(document: Document) -> bytes:
    """Encodes metadata."""
    return json.dumps(document, separators=(",", ":")).encode()


def next_document(
    before: Published,
    schema: TableSchema,
    *,
    table: str,
    location: str,
    data: str,
    version: int,
    now_ms: int,
    made: Mapping[str, Any],
    statistics: Mapping[str, Any] | None,
    head: Snapshot,
    retain: int,
    log_from_ms: int,
    token: str,
) -> Document:
    """Returns the metadata that follow others.

    Args:
        before: the metadata so far.
        schema: the schema that readers see from now on.
        table: uuid of the table.
        location: URL of the published table.
        data: URL of the directory of the data files.
        version: version of the format.
        now_ms: the store's time.
        made: the snapshot to add.
        statistics: its statistics file; None = it has none. Those of listed snapshots stay.
        head: our newest snapshot, whose tags are published where their snapshots are.
        retain: maximum number of snapshots that stay listed.
        log_from_ms: earlier metadata that were replaced before are not mentioned any more.
        token: of the write, by which its writer knows its own.
    """
    snapshots = [*before.snapshots, dict(made)][-retain:]
    kept = {one["snapshot-id"] for one in snapshots}
    schemas = {one["schema-id"]: one for one in before.document.get("schemas", ())}
    schemas[schema.id] = published_schema(schema, version)
    used = {one["schema-id"] for one in snapshots}
    log = [one for one in before.document.get("snapshot-log", ()) if one["snapshot-id"] in kept]
    log.append({"timestamp-ms": made["timestamp-ms"], "snapshot-id": made["snapshot-id"]})
    document: Document = {
        "format-version": version,
        "table-uuid": table,
        "location": location,
        "last-sequence-number": made["sequence-number"],
        "last-updated-ms": max(now_ms, before.changed_ms),
        "last-column-id": schema.highest_field_id,
        "current-schema-id": schema.id,
        "schemas": [schemas[number] for number in sorted(schemas) if number in used],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": partition_spec(schema)}],
        "last-partition-id": PARTITION_ID - 1 + len(schema.partition_by),
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": _properties(data, token),
        "current-snapshot-id": made["snapshot-id"],
        "snapshots": snapshots,
        "snapshot-log": log,
        "metadata-log": _metadata_log(before, log_from_ms),
        "refs": _refs(made["snapshot-id"], kept, head),
        "statistics": [
            one for one in [*before.statistics, statistics] if one is not None and one["snapshot-id"] in kept
        ],
        "partition-statistics": [],
    }
    if version >= _ROW_IDS_VERSION:
        document["next-row-id"] = before.next_row_id + made["added-rows"]
    return document


def _properties(data: str, token: str) -> dict[str, str]:
    return {
        # Another client's maintenance would delete files that our snapshots need.
        "gc.enabled": "false",
        # Readers that stay below a table's own places learn so where its files are.
        "write.data.path": data,
        "write.format.default": "parquet",
        "lakehouse.token": token,
    }


def _metadata_log(before: Published, from_ms: int) -> list[dict[str, Any]]:
    """Returns the earlier metadata that are still mentioned: those that were current at a moment or later."""
    if not before.url:
        return []
    log = [
        *before.document.get("metadata-log", ()),
        {"timestamp-ms": before.changed_ms, "metadata-file": before.url},
    ]
    replaced = [one["timestamp-ms"] for one in log[1:]]
    return [one for one, at in zip(log[:-1], replaced, strict=True) if at >= from_ms] + log[-1:]


def _refs(current: int, kept: set[int], head: Snapshot) -> dict[str, Any]:
    tags = {
        name: {"snapshot-id": ref.snapshot, "type": "tag"}
        for name, ref in head.refs.items()
        if ref.kind is RefKind.TAG and ref.snapshot in kept and name not in ("main", hold_name(ref.snapshot))
    }
    return {"main": {"snapshot-id": current, "type": "branch"}, **tags}
