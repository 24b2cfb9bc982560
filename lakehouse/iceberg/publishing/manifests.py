"""Manifests and manifest lists of published tables: entries become bytes, and what is kept of them is read.

Invariant: an entry keeps the snapshot and the sequence number that it was added with, whichever manifest it
is in; those of an added entry are those of the manifest, as Iceberg's rules of inheritance have it.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import CorruptionError, InternalError
from lakehouse.format.avro import encode_avro
from lakehouse.format.metadata import ColumnStats, FileEntry
from lakehouse.format.schema import Field, TableSchema, children
from lakehouse.iceberg.manifests.columns import DATA, ManifestColumns
from lakehouse.iceberg.manifests.compact import UNKNOWN
from lakehouse.iceberg.manifests.manifest import decode_manifest
from lakehouse.iceberg.manifests.manifest_list import ManifestFile, PartitionSummary
from lakehouse.iceberg.publishing.manifest_schemas import entry_schema, list_schema, partition_name
from lakehouse.iceberg.publishing.schemas import partition_spec, published_schema
from lakehouse.iceberg.publishing.values import avro_value, bound
from lakehouse.kernels.arrays import I64

__all__ = [
    "Content",
    "PublishedFile",
    "Status",
    "Vector",
    "decode_entries",
    "encode_list",
    "encode_manifest",
    "listed_of",
    "live_files",
]

_SPEC_ID = 0


class Content(enum.IntEnum):
    """Kind of the files that a manifest lists."""

    DATA = 0
    DELETES = 1


class Status(enum.IntEnum):
    """Fate of a file in the snapshot that wrote its entry."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """The deletion vector of a data file: a blob of a puffin file."""

    path: str
    """URL of the puffin file."""
    size: int
    """Bytes of the puffin file."""
    offset: int
    """Place of the blob's first byte."""
    length: int
    """Bytes of the blob."""
    rows: int
    """Number of rows that it hides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFile:
    """An entry of a manifest: a data file, or the deletion vector of one."""

    data_file: str
    """URL of the data file."""
    entry: FileEntry | None = None
    """Our entry of the data file; None = it is not known, and the entry is not written again."""
    vector: Vector | None = None
    """None = the entry is that of the data file itself."""
    status: Status = Status.ADDED
    snapshot: int | None = None
    """Snapshot that added it, or removed it; None = that of the manifest."""
    sequence: int | None = None
    """Its sequence number; None = that of the manifest."""
    rows: int = 0
    """Rows of the data file, or rows that the vector hides."""
    first_row_id: int | None = None

    def as_existing(self) -> PublishedFile:
        """Returns the entry for a snapshot after the one that added it."""
        return dataclasses.replace(self, status=Status.EXISTING)

    def as_deleted(self, snapshot: int) -> PublishedFile:
        """Returns the entry for the snapshot that removes it."""
        return dataclasses.replace(self, status=Status.DELETED, snapshot=snapshot)


def encode_manifest(
    files: Iterable[PublishedFile], schema: TableSchema, *, version: int, content: Content
) -> bytes:
    """Encodes a manifest; every file's entry is known."""
    spec = partition_spec(schema)
    metadata = {
        "schema": json.dumps(published_schema(schema, version)),
        "schema-id": str(schema.id),
        "partition-spec": json.dumps(spec),
        "partition-spec-id": str(_SPEC_ID),
        "format-version": str(version),
        "content": "deletes" if content is Content.DELETES else "data",
    }
    fields = schema.partition_fields
    names = [partition_name(field) for field in fields]
    plain = [field for field in schema.fields if not children(field.type)]
    records = (_record(file, plain, fields, names) for file in files)
    return encode_avro(entry_schema(schema, version), records, metadata=metadata)


def _record(
    file: PublishedFile, plain: Sequence[Field], fields: Sequence[Field], names: Sequence[str]
) -> dict[str, Any]:
    entry = file.entry
    if entry is None:
        raise InternalError(f"the entry of {file.data_file} is not known, so it cannot be written")
    values = zip(names, entry.partition, fields, strict=False)
    about: dict[str, Any] = {
        "partition": {name: avro_value(data, field.type) for name, data, field in values}
    }
    if file.vector is None:
        about |= {
            "content": 0,
            "file_path": file.data_file,
            "file_format": "PARQUET",
            "record_count": entry.rows,
            "file_size_in_bytes": entry.size,
            "first_row_id": file.first_row_id,
            **_metrics(entry, plain),
        }
    else:
        about |= {
            "content": 1,
            "file_path": file.vector.path,
            "file_format": "PUFFIN",
            "record_count": file.vector.rows,
            "file_size_in_bytes": file.vector.size,
            "referenced_data_file": file.data_file,
            "content_offset": file.vector.offset,
            "content_size_in_bytes": file.vector.length,
        }
    return {
        "status": int(file.status),
        "snapshot_id": file.snapshot,
        "sequence_number": file.sequence,
        "file_sequence_number": file.sequence,
        "data_file": about,
    }


def _metrics(entry: FileEntry, plain: Sequence[Field]) -> dict[str, dict[int, Any]]:
    """Returns the counts and bounds of the columns of plain types whose statistics are known."""
    known = [(field, entry.stats[field.id]) for field in plain if field.id in entry.stats]
    bounds = {
        name: {field.id: made for field, stats in known if (made := _bound(field, stats, is_low)) is not None}
        for name, is_low in (("lower_bounds", True), ("upper_bounds", False))
    }
    return {
        "value_counts": {field.id: entry.rows for field, _ in known},
        # Ours leave rows that delete out; these are hidden, and more values than nulls prune nothing.
        "null_value_counts": {field.id: stats.nulls for field, stats in known},
        **bounds,
    }


def _bound(field: Field, stats: ColumnStats, is_low: bool) -> bytes | None:
    data = stats.low if is_low else stats.high
    return None if data is None else bound(data, field.type, is_low=is_low)


def listed_of(
    path: str,
    size: int,
    files: Sequence[PublishedFile],
    schema: TableSchema,
    *,
    snapshot: int,
    sequence: int,
    content: Content,
) -> ManifestFile:
    """Returns how a manifest that was written for a snapshot is listed."""
    live = [file for file in files if file.status is not Status.DELETED]
    existing, added, deleted = _by_status(files, lambda file: 1)
    existing_rows, added_rows, deleted_rows = _by_status(files, lambda file: file.rows)
    return ManifestFile(
        path=path,
        length=size,
        spec_id=_SPEC_ID,
        content=content,
        sequence=sequence,
        min_sequence=min((file.sequence or sequence for file in live), default=sequence),
        snapshot_id=snapshot,
        existing_files=existing,
        added_files=added,
        deleted_files=deleted,
        existing_rows=existing_rows,
        added_rows=added_rows,
        deleted_rows=deleted_rows,
        summaries=_summaries(files, schema.partition_fields),
    )


def live_files(manifest: ManifestFile) -> int:
    """Returns the number of live files of a manifest that a publication wrote."""
    return (manifest.existing_files or 0) + (manifest.added_files or 0)


def _by_status(files: Iterable[PublishedFile], weight: Any) -> tuple[int, int, int]:
    sums = [0, 0, 0]
    for file in files:
        sums[file.status] += weight(file)
    return sums[0], sums[1], sums[2]


def _summaries(files: Iterable[PublishedFile], fields: Sequence[Field]) -> tuple[PartitionSummary, ...]:
    partitions = [file.entry.partition for file in files if file.entry is not None]
    return tuple(
        PartitionSummary(
            contains_null=False,
            contains_nan=False,
            lower=bound(min(values), field.type, is_low=True),
            upper=bound(max(values), field.type, is_low=False),
        )
        for field, values in zip(fields, zip(*partitions, strict=True), strict=False)
    )


def encode_list(
    manifests: Iterable[ManifestFile], *, version: int, snapshot: int, parent: int | None, sequence: int
) -> bytes:
    """Encodes the manifest list of a snapshot."""
    metadata = {
        "snapshot-id": str(snapshot),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "sequence-number": str(sequence),
        "format-version": str(version),
    }
    return encode_avro(list_schema(version), map(_list_record, manifests), metadata=metadata)


def _list_record(manifest: ManifestFile) -> dict[str, Any]:
    return {
        "manifest_path": manifest.path,
        "manifest_length": manifest.length,
        "partition_spec_id": manifest.spec_id,
        "content": int(manifest.content),
        "sequence_number": manifest.sequence,
        "min_sequence_number": manifest.min_sequence,
        "added_snapshot_id": manifest.snapshot_id,
        "added_files_count": manifest.added_files,
        "existing_files_count": manifest.existing_files,
        "deleted_files_count": manifest.deleted_files,
        "added_rows_count": manifest.added_rows,
        "existing_rows_count": manifest.existing_rows,
        "deleted_rows_count": manifest.deleted_rows,
        "partitions": [
            {
                "contains_null": one.contains_null,
                "contains_nan": one.contains_nan,
                "lower_bound": one.lower,
                "upper_bound": one.upper,
            }
            for one in manifest.summaries or ()
        ],
        "first_row_id": manifest.first_row_id,
    }


def decode_entries(data: bytes, manifest: ManifestFile, *, key: str) -> list[PublishedFile]:
    """Decodes the live entries of a manifest that a publication wrote, with what they inherit filled in.

    Our entries of their data files are not among what a manifest says.

    Raises:
        FormatError: it is none.
    """
    columns = decode_manifest(data, key=key)
    inherited, live = columns.inherited(manifest), columns.live()
    paths = columns.paths(live).to_pylist()
    if any(path is None for path in paths):
        raise CorruptionError(f"{key} lacks paths of files: no publication of this table wrote it", key=key)
    rows, statuses = columns.records.at(live).tolist(), columns.status.at(live).tolist()
    files = zip(paths, _vectors(columns, live, paths, rows), live.tolist(), statuses, rows, strict=True)
    return [
        PublishedFile(
            data_file=path if referenced is None else referenced,
            vector=vector,
            status=Status(status),
            snapshot=int(inherited.snapshot_id[entry]),
            sequence=int(inherited.sequence[entry]),
            rows=count,
            first_row_id=None if (first := int(inherited.first_row_id[entry])) == UNKNOWN else first,
        )
        for path, (vector, referenced), entry, status, count in files
    ]


def _vectors(
    columns: ManifestColumns, live: I64, paths: Sequence[str], rows: Sequence[int]
) -> list[tuple[Vector | None, str | None]]:
    """Returns the deletion vector of each entry and its data file; None for data files themselves."""
    referenced = [None] * len(live) if columns.referenced is None else columns.referenced.at(live).to_pylist()
    described = zip(
        columns.content.at(live).tolist(),
        paths,
        columns.size.at(live).tolist(),
        columns.content_offset.at(live).tolist(),
        columns.content_size.at(live).tolist(),
        rows,
        referenced,
        strict=True,
    )
    return [
        (None, None)
        if content == DATA
        else (Vector(path=path, size=size, offset=offset, length=length, rows=count), data_file)
        for content, path, size, offset, length, count, data_file in described
    ]
