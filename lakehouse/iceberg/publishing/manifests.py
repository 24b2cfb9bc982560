"""Manifests and manifest lists of published tables: entries become bytes, and what is kept of them is read.

Invariant: an entry keeps the snapshot and the sequence number that it was added with, whichever manifest it
is in; those of an added entry are those of the manifest, as Iceberg's rules of inheritance have it.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import CorruptionError, InternalError
from lakehouse.format.avro import AvroFile, encode_avro
from lakehouse.format.metadata import ColumnStats, FileEntry
from lakehouse.format.schema import Field, TableSchema, children
from lakehouse.iceberg.publishing.manifest_schemas import entry_schema, list_schema, partition_name
from lakehouse.iceberg.publishing.schemas import partition_spec, published_schema
from lakehouse.iceberg.publishing.values import avro_value, bound

__all__ = [
    "Content",
    "Listed",
    "PublishedFile",
    "Status",
    "Vector",
    "decode_entries",
    "decode_list",
    "encode_list",
    "encode_manifest",
    "listed_of",
]

_SPEC_ID = 0
_ABOUT = frozenset(
    {"content", "file_path", "record_count", "file_size_in_bytes", "first_row_id"}
    | {"referenced_data_file", "content_offset", "content_size_in_bytes"}
)
"""Members of an entry that later publications need."""
_LIST_NUMBERS = (
    "manifest_length",
    "content",
    "sequence_number",
    "min_sequence_number",
    "added_snapshot_id",
    "added_files_count",
    "existing_files_count",
    "deleted_files_count",
    "added_rows_count",
    "existing_rows_count",
    "deleted_rows_count",
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A manifest as a manifest list has it."""

    path: str
    """URL of the manifest."""
    size: int
    content: Content
    sequence: int
    min_sequence: int
    """Least sequence number of its entries that are live."""
    snapshot: int
    """Snapshot that wrote it."""
    files: tuple[int, int, int]
    """Number of files by :class:`Status`."""
    rows: tuple[int, int, int]
    """Number of rows by :class:`Status`."""
    partitions: tuple[Mapping[str, Any], ...] = ()
    """Bounds of each partition column's values."""
    first_row_id: int | None = None

    @property
    def live(self) -> int:
        """Number of files that are live."""
        return self.files[Status.EXISTING] + self.files[Status.ADDED]


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
) -> Listed:
    """Returns how a manifest that was written for a snapshot is listed."""
    live = [file for file in files if file.status is not Status.DELETED]
    return Listed(
        path=path,
        size=size,
        content=content,
        sequence=sequence,
        min_sequence=min((file.sequence or sequence for file in live), default=sequence),
        snapshot=snapshot,
        files=_by_status(files, lambda file: 1),
        rows=_by_status(files, lambda file: file.rows),
        partitions=_summaries(files, schema.partition_fields),
    )


def _by_status(files: Iterable[PublishedFile], weight: Any) -> tuple[int, int, int]:
    sums = [0, 0, 0]
    for file in files:
        sums[file.status] += weight(file)
    return sums[0], sums[1], sums[2]


def _summaries(files: Iterable[PublishedFile], fields: Sequence[Field]) -> tuple[Mapping[str, Any], ...]:
    partitions = [file.entry.partition for file in files if file.entry is not None]
    summaries = []
    for field, values in zip(fields, zip(*partitions, strict=True), strict=False):
        summaries.append(
            {
                "contains_null": False,
                "contains_nan": False,
                "lower_bound": bound(min(values), field.type, is_low=True),
                "upper_bound": bound(max(values), field.type, is_low=False),
            }
        )
    return tuple(summaries)


def encode_list(
    manifests: Iterable[Listed], *, version: int, snapshot: int, parent: int | None, sequence: int
) -> bytes:
    """Encodes the manifest list of a snapshot."""
    metadata = {
        "snapshot-id": str(snapshot),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "sequence-number": str(sequence),
        "format-version": str(version),
    }
    return encode_avro(list_schema(version), map(_list_record, manifests), metadata=metadata)


def _list_record(listed: Listed) -> dict[str, Any]:
    existing, added, deleted = listed.files
    rows_existing, rows_added, rows_deleted = listed.rows
    return {
        "manifest_path": listed.path,
        "manifest_length": listed.size,
        "partition_spec_id": _SPEC_ID,
        "content": int(listed.content),
        "sequence_number": listed.sequence,
        "min_sequence_number": listed.min_sequence,
        "added_snapshot_id": listed.snapshot,
        "added_files_count": added,
        "existing_files_count": existing,
        "deleted_files_count": deleted,
        "added_rows_count": rows_added,
        "existing_rows_count": rows_existing,
        "deleted_rows_count": rows_deleted,
        "partitions": list(listed.partitions),
        "first_row_id": listed.first_row_id,
    }


def decode_list(data: bytes, *, key: str) -> list[Listed]:
    """Decodes a manifest list that a publication wrote.

    Raises:
        FormatError: it is none.
    """
    file = AvroFile.parse(data, key=key)
    _check_columns(file, ("manifest_path", "partitions", *_LIST_NUMBERS))
    return [_listed(record) for record in file.to_arrow().to_pylist()]


def _listed(record: Mapping[str, Any]) -> Listed:
    return Listed(
        path=record["manifest_path"],
        size=record["manifest_length"],
        content=Content(record["content"]),
        sequence=record["sequence_number"],
        min_sequence=record["min_sequence_number"],
        snapshot=record["added_snapshot_id"],
        files=(record["existing_files_count"], record["added_files_count"], record["deleted_files_count"]),
        rows=(record["existing_rows_count"], record["added_rows_count"], record["deleted_rows_count"]),
        partitions=tuple(record["partitions"] or ()),
        first_row_id=record.get("first_row_id"),
    )


def decode_entries(data: bytes, listed: Listed, *, key: str) -> list[PublishedFile]:
    """Decodes the live entries of a manifest that a publication wrote, with what they inherit filled in.

    Our entries of their data files are not among what a manifest says.

    Raises:
        FormatError: it is none.
    """
    file = AvroFile.parse(data, key=key)
    _check_columns(file, ("status", "snapshot_id", "sequence_number", "data_file"))
    table = file.to_arrow(["status", "snapshot_id", "sequence_number", "data_file"])
    first_row = listed.first_row_id
    found = []
    for status, snapshot, sequence, one in zip(
        table.column("status").to_pylist(),
        table.column("snapshot_id").to_pylist(),
        table.column("sequence_number").to_pylist(),
        _data_files(table.column("data_file")),
        strict=True,
    ):
        if status == Status.DELETED:
            continue
        vector = _vector(one)
        url = one["referenced_data_file"] if vector is not None else one["file_path"]
        row_id = one.get("first_row_id")
        if vector is None and row_id is None and first_row is not None:
            # Rows are numbered through the files of a manifest that have no number yet, in their order.
            row_id, first_row = first_row, first_row + one["record_count"]
        found.append(
            PublishedFile(
                data_file=url,
                vector=vector,
                status=Status(status),
                snapshot=listed.snapshot if snapshot is None else snapshot,
                sequence=listed.sequence if sequence is None else sequence,
                rows=one["record_count"],
                first_row_id=row_id,
            )
        )
    return found


def _data_files(column: pa.ChunkedArray) -> list[dict[str, Any]]:
    """Returns what entries say of their files, partitions and statistics left out."""
    names = [field.name for field in column.type if field.name in _ABOUT]
    columns = (pc.struct_field(column, name).to_pylist() for name in names)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _vector(about: Mapping[str, Any]) -> Vector | None:
    if about["content"] == 0:
        return None
    return Vector(
        path=about["file_path"],
        size=about["file_size_in_bytes"],
        offset=about["content_offset"],
        length=about["content_size_in_bytes"],
        rows=about["record_count"],
    )


def _check_columns(file: AvroFile, names: Iterable[str]) -> None:
    there = {field.name for field in file.schema.fields}
    missing = sorted(set(names) - there)
    if missing:
        raise CorruptionError(
            f"{file.key} lacks {', '.join(missing)}: no publication of this table wrote it",
            key=file.key,
            field=missing[0],
        )
