"""Manifest lists: the manifests of a snapshot, and what is known of each before it is read.

Fields are known by their ids, for their names have changed: lists of version 1 say ``added_data_files_count``
for what later ones call ``added_files_count``. What a version does not have yet has the value that its
successor gives to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakehouse.errors import CorruptionError
from lakehouse.format.avro import AvroField, AvroFile
from lakehouse.iceberg.manifests.records import RecordColumns, RecordNames, name_of, record_program

__all__ = ["ManifestFile", "PartitionSummary", "decode_manifest_list"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """Summary of the values of one partition field in a manifest."""

    contains_null: bool
    """True if a value is null."""
    contains_nan: bool | None
    """True if a value is NaN; None = not known."""
    lower: bytes | None
    """Lower bound of the values that are neither, as stored; None = not known, or there is none."""
    upper: bytes | None
    """Upper bound likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A manifest as a list knows it."""

    path: str
    """As the list has it."""
    length: int
    """Bytes of the manifest."""
    spec_id: int
    """Partition spec of all its entries."""
    content: int = 0
    """0 = data files, 1 = delete files."""
    sequence: int = 0
    """Sequence number of the commit that added the manifest."""
    min_sequence: int = 0
    """Least data sequence number of its live entries."""
    snapshot_id: int
    """Snapshot that added the manifest."""
    added_files: int | None = None
    """Entries that were added; None = not known, here and below."""
    existing_files: int | None = None
    """Entries that were there before."""
    deleted_files: int | None = None
    """Entries that were deleted."""
    added_rows: int | None = None
    """Rows of the files added."""
    existing_rows: int | None = None
    """Rows of the files that were there before."""
    deleted_rows: int | None = None
    """Rows of the files deleted."""
    summaries: tuple[PartitionSummary, ...] | None = None
    """For each field of the spec what is known of it; None = nothing."""
    key_metadata: bytes | None = None
    """Key of an encrypted manifest."""
    first_row_id: int | None = None
    """Row id from which on rows of its files are numbered, from version 3 on."""


def decode_manifest_list(data: bytes | memoryview, *, key: str) -> tuple[ManifestFile, ...]:
    """Decodes a manifest list; ``key`` names it in errors.

    Raises:
        FormatError: it is no Avro file, or of a schema that cannot be read.
        CorruptionError: it is damaged, or lacks what every manifest has.
    """
    file = AvroFile.parse(data, key=key)
    try:
        program = record_program(file.schema, _keep)
        streams = file.streams(program)
        rows = _rows(RecordColumns(program.root, streams, _NAMES))
        return tuple([ManifestFile(**row) for row in rows])
    except ValueError as error:
        raise CorruptionError(f"manifest list {key} cannot be read: {error}", key=key) from error


_NAMES: RecordNames = {
    500: ("path", "manifest_path"),
    501: ("length", "manifest_length"),
    502: ("spec_id", "partition_spec_id"),
    517: ("content", "content"),
    515: ("sequence", "sequence_number"),
    516: ("min_sequence", "min_sequence_number"),
    503: ("snapshot_id", "added_snapshot_id"),
    504: ("added_files", "added_files_count", "added_data_files_count"),
    505: ("existing_files", "existing_files_count", "existing_data_files_count"),
    506: ("deleted_files", "deleted_files_count", "deleted_data_files_count"),
    512: ("added_rows", "added_rows_count"),
    513: ("existing_rows", "existing_rows_count"),
    514: ("deleted_rows", "deleted_rows_count"),
    507: ("summaries", "partitions"),
    519: ("key_metadata", "key_metadata"),
    520: ("first_row_id", "first_row_id"),
}
_SUMMARY: RecordNames = {
    509: ("contains_null", "contains_null"),
    518: ("contains_nan", "contains_nan"),
    510: ("lower", "lower_bound"),
    511: ("upper", "upper_bound"),
}
_NEEDED = ("length", "spec_id")
_DEFAULTS: Mapping[str, int] = {"content": 0, "sequence": 0, "min_sequence": 0}
_OPTIONAL = (
    *("added_files", "existing_files", "deleted_files", "added_rows", "existing_rows", "deleted_rows"),
    "first_row_id",
)


def _keep(field: AvroField) -> bool:
    return name_of(field, _NAMES) is not None


def _rows(columns: RecordColumns) -> list[dict[str, Any]]:
    """Returns the fields of each manifest by name."""
    found: dict[str, list[Any]] = {}
    paths = _bytes(columns, "path")
    columns.check_needed("path", "snapshot_id", *_NEEDED)
    if None in paths:
        raise ValueError("a manifest has no path")
    found["path"] = [path.decode() for path in paths if path is not None]
    found["snapshot_id"] = columns.numbers("snapshot_id").tolist()
    for name in _NEEDED:
        found[name] = _whole(columns.numbers(name).tolist(), name)
    for name, default in _DEFAULTS.items():
        found[name] = _whole(columns.numbers(name, default).tolist(), name)
    for name in _OPTIONAL:
        found[name] = [None if value < 0 else value for value in columns.numbers(name).tolist()]
    found["key_metadata"] = _bytes(columns, "key_metadata")
    found["summaries"] = _summaries(columns)
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


def _whole(values: list[int], name: str) -> list[int]:
    """Refuses what is below zero, as nothing that every manifest has is."""
    if min(values, default=0) < 0:
        raise ValueError(f"a manifest has {name} {min(values)}")
    if name == "content" and max(values, default=0) > 1:
        raise ValueError(f"a manifest has content {max(values)}, which is neither data nor deletes")
    return values


def _bytes(columns: RecordColumns, name: str) -> list[bytes | None]:
    spans = columns.spans(name)
    if spans is None:
        return [None] * columns.count
    starts, lengths, valid = spans
    data = columns.streams.data.data
    known = [True] * len(starts) if valid is None else valid.tolist()
    pieces = zip(starts.tolist(), lengths.tolist(), known, strict=True)
    return [bytes(data[start : start + length]) if there else None for start, length, there in pieces]


def _summaries(columns: RecordColumns) -> list[tuple[PartitionSummary, ...] | None]:
    slot = columns.slot("summaries", "array")
    if slot is None:
        return [None] * columns.count
    streams = columns.streams
    lengths, valid, there = streams.numbers(slot), streams.valid(slot), streams.valid(slot.inner[0])
    if there is not None and not bool(there.all()):
        raise ValueError("a manifest has no summary for one of its partition fields")
    inner = RecordColumns(slot.inner[0], streams, _SUMMARY, count=int(lengths.sum()))
    nulls = inner.flags("contains_null")
    nans, lower, upper = inner.flags("contains_nan"), _bytes(inner, "lower"), _bytes(inner, "upper")
    # A writer that does not say whether there are nulls leaves them possible.
    made = [
        PartitionSummary(contains_null=null is not False, contains_nan=nan, lower=low, upper=high)
        for null, nan, low, high in zip(nulls, nans, lower, upper, strict=True)
    ]
    ends = np.cumsum(lengths).tolist()
    known = [True] * len(ends) if valid is None else valid.tolist()
    return [
        tuple(made[end - length : end]) if there else None
        for end, length, there in zip(ends, lengths.tolist(), known, strict=True)
    ]
