"""Decoding of manifests: one walk over an Avro file, and its streams put into columns.

Invariant: columns that are handed out are sound: every status, content and size is one that can be, texts are
UTF-8, and no bound or count is of an entry that the manifest does not have.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakehouse.errors import CorruptionError, FormatError
from lakehouse.format.avro import AvroField, AvroFile, Keep, Slot, Streams, slot_array, spans_array
from lakehouse.iceberg.manifests.columns import ManifestColumns
from lakehouse.iceberg.manifests.compact import UNKNOWN, NumberLists, Numbers, Texts
from lakehouse.iceberg.manifests.keyed import KeyedBytes, KeyedCounts
from lakehouse.iceberg.manifests.records import RecordColumns, RecordNames, name_of, record_program
from lakehouse.kernels.arrays import I64

__all__ = ["decode_manifest", "decode_manifests"]

_ENTRY: RecordNames = {
    0: ("status", "status"),
    1: ("snapshot_id", "snapshot_id"),
    2: ("file", "data_file"),
    3: ("sequence", "sequence_number"),
    4: ("file_sequence", "file_sequence_number"),
}
_FILE: RecordNames = {
    134: ("content", "content"),
    100: ("path", "file_path"),
    101: ("format", "file_format"),
    102: ("partition", "partition"),
    103: ("records", "record_count"),
    104: ("size", "file_size_in_bytes"),
    109: ("value_counts", "value_counts"),
    110: ("null_counts", "null_value_counts"),
    137: ("nan_counts", "nan_value_counts"),
    125: ("lower_bounds", "lower_bounds"),
    128: ("upper_bounds", "upper_bounds"),
    131: ("key_metadata", "key_metadata"),
    132: ("split_offsets", "split_offsets"),
    135: ("equality_ids", "equality_ids"),
    140: ("sort_order_id", "sort_order_id"),
    142: ("first_row_id", "first_row_id"),
    143: ("referenced", "referenced_data_file"),
    144: ("content_offset", "content_offset"),
    145: ("content_size", "content_size_in_bytes"),
}
_CONTENTS = {b"data": 0, b"deletes": 1}
_FIRST_PARTITION_ID = 1_000
_DIGITS_MAX = 38
"""Maximum digits of a decimal in Arrow's 128 bits."""


def decode_manifest(data: bytes | memoryview, *, key: str) -> ManifestColumns:
    """Decodes a manifest of any version; ``key`` names it in errors.

    Callers compare :meth:`~ManifestColumns.status_counts` with the manifest list.

    Raises:
        FormatError: it is no Avro file, or of a schema that cannot be read.
        CorruptionError: it is damaged, or lacks what every entry has.
    """
    file = AvroFile.parse(data, key=key)
    try:
        program = record_program(file.schema, _keep)
        return _columns(file, program.root, file.streams(program))
    except (ValueError, pa.ArrowException) as error:
        raise CorruptionError(f"manifest {key} cannot be read: {error}", key=key) from error


def decode_manifests(files: Sequence[tuple[bytes, str]]) -> list[ManifestColumns]:
    """Decodes several manifests, each given with its key, as :func:`decode_manifest` does one.

    Those with the same header are read as one file and cut apart: most of what a small manifest costs is the
    same for a large one.
    """
    parsed: list[AvroFile] = []
    for data, key in files:
        parsed.append(AvroFile.parse(data, key=key, like=parsed[-1] if parsed else None))
    found: list[ManifestColumns] = []
    for _, group in itertools.groupby(parsed, lambda file: file.header):
        alike = tuple(group)
        found += _together(alike) or [decode_manifest(file.data, key=file.key) for file in alike]
    return found


def _together(files: Sequence[AvroFile]) -> list[ManifestColumns] | None:
    """Decodes manifests with the same header by one walk; None = that is not possible."""
    if len(files) == 1:
        return None
    first, *others = files
    try:
        program = record_program(first.schema, _keep)
        every = _columns(first, program.root, first.streams_with(others, program))
    except (ValueError, pa.ArrowException, FormatError):
        return None  # decoded alone, the manifest that is damaged is named
    return every.cut([file.entries for file in files], [file.key for file in files])


def _keep(field: AvroField) -> bool | Keep:
    name = name_of(field, _ENTRY)
    return _keep_of_file if name == "file" else name is not None


def _keep_of_file(field: AvroField) -> bool:
    return name_of(field, _FILE) is not None


def _columns(file: AvroFile, root: Slot, streams: Streams) -> ManifestColumns:
    entry = RecordColumns(root, streams, _ENTRY)
    slot = entry.slot("file", "record")
    if slot is None or slot.validity >= 0:
        raise ValueError("its entries have no data_file")
    files = RecordColumns(slot, streams, _FILE)
    entry.check_needed("status")
    files.check_needed("path", "format", "records", "size")
    # Manifests of version 1 have no sequence numbers: all are 0.
    unsaid = UNKNOWN if "sequence" in entry else 0
    formats, codes = _formats(files)
    records = _amounts(files, "records")
    return ManifestColumns(
        key=file.key,
        count=streams.entries,
        format_version=_header_number(file.metadata, "format-version") or 1,
        spec_id=_header_number(file.metadata, "partition-spec-id"),
        header_content=_CONTENTS.get(file.metadata.get("content", b"")),
        status=Numbers.of(_code(entry.numbers("status"), "status")),
        snapshot_id=Numbers.of(entry.numbers("snapshot_id")),
        sequence=_amounts(entry, "sequence", unsaid),
        file_sequence=_amounts(entry, "file_sequence", unsaid),
        content=Numbers.of(_code(files.numbers("content", 0), "content")),
        formats=formats,
        format=codes,
        path=_paths(files),
        partition=_partition(files),
        records=records,
        size=_amounts(files, "size"),
        split_offsets=_lists(files, "split_offsets"),
        equality_ids=_lists(files, "equality_ids"),
        sort_order_id=_amounts(files, "sort_order_id"),
        first_row_id=_amounts(files, "first_row_id"),
        referenced=_texts(files, "referenced"),
        content_offset=_amounts(files, "content_offset"),
        content_size=_amounts(files, "content_size"),
        encrypted=_encrypted(files),
        value_counts=_counts(files, "value_counts", records),
        null_counts=_counts(files, "null_counts", records),
        nan_counts=_counts(files, "nan_counts", records),
        lower_bounds=_bounds(files, "lower_bounds"),
        upper_bounds=_bounds(files, "upper_bounds"),
    )


def _header_number(metadata: Mapping[str, bytes], name: str) -> int | None:
    text = metadata.get(name, b"")
    return int(text) if text.isdigit() and len(text) < 10 else None


def _code(values: I64, name: str) -> I64:
    """Refuses a status or content that there is not."""
    if len(values) and not (int(values.min()) >= 0 and int(values.max()) <= 2):
        worst = next(value for value in values.tolist() if not 0 <= value <= 2)
        raise ValueError(f"an entry has {name} {worst}: it must be from 0 to 2")
    return values


def _amounts(columns: RecordColumns, name: str, missing: int = UNKNOWN) -> Numbers:
    if name not in columns:
        return Numbers.same(missing, columns.count)
    # Files that were imported from elsewhere have -1 for what was not counted.
    return Numbers.of(np.maximum(columns.numbers(name, missing), UNKNOWN))


def _formats(files: RecordColumns) -> tuple[tuple[str, ...], Numbers]:
    """Formats of the files, each once, and which of them each file has."""
    spans = files.spans("format")
    if spans is None or (spans[2] is not None and not bool(spans[2].all())):
        raise ValueError("an entry has no file format")
    starts, lengths, _ = spans
    coded = spans_array(pa.binary(), files.streams.data, starts, lengths, None).dictionary_encode()
    words = tuple(word.decode().lower() for word in coded.dictionary.to_pylist())
    formats = tuple(dict.fromkeys(words))
    places = np.array([formats.index(word) for word in words], np.int64)
    return formats, Numbers.of(places[coded.indices.to_numpy()])


def _paths(files: RecordColumns) -> Texts:
    paths = _texts(files, "path")
    if paths is None or paths.middles.null_count:
        raise ValueError("an entry has no path")
    return paths


def _texts(files: RecordColumns, name: str) -> Texts | None:
    spans = files.spans(name)
    if spans is None or (spans[2] is not None and not bool(spans[2].any())):
        return None
    starts, lengths, valid = spans
    return Texts.of(files.streams.data, starts, lengths, None if valid is None or valid.all() else valid)


def _lists(files: RecordColumns, name: str) -> NumberLists | None:
    found = files.lists(name)
    if found is None:
        return None
    lengths, values, valid = found
    if valid is not None and not bool(valid.any()):
        return None
    known = lengths if valid is None else np.where(valid, lengths, UNKNOWN)
    return NumberLists(lengths=Numbers.of(known), values=Numbers.of(values))


def _encrypted(files: RecordColumns) -> Numbers:
    spans = files.spans("key_metadata")
    if spans is None:
        return Numbers.same(0, files.count)
    valid = spans[2]
    return Numbers.same(1, files.count) if valid is None else Numbers.of(valid.astype(np.int64))


def _partition(files: RecordColumns) -> Mapping[int, pa.Array]:
    slot = files.slot("partition", "record")
    if slot is None:
        return {}
    found = {}
    for place, (field, inner) in enumerate(slot.fields):
        if inner.type.kind in ("record", "array", "map"):
            raise ValueError(f"its partition field {field.name} is of type {inner.type.kind}")
        # The first version gave no ids: they are counted from 1,000.
        number = _FIRST_PARTITION_ID + place if field.field_id is None else field.field_id
        found[number] = _partition_values(inner, files)
    return found


def _partition_values(slot: Slot, files: RecordColumns) -> pa.Array:
    try:
        return slot_array(slot, files.streams, files.count)
    except ValueError:
        if not slot.type.precision:
            raise
        # The least decimals, truncated, have a digit more than their type.
        wide = replace(slot, type=replace(slot.type, precision=_DIGITS_MAX))
        return slot_array(wide, files.streams, files.count)


def _counts(files: RecordColumns, name: str, records: Numbers) -> KeyedCounts | None:
    items = files.map_items(name, "int", "long")
    if items is None or not len(items.keys):
        return None
    values = files.streams.numbers(items.values)
    if items.present is not None:
        values = np.where(items.present, values, UNKNOWN)
    return KeyedCounts.of(items.keys, values, items.lengths, records.all())


def _bounds(files: RecordColumns, name: str) -> KeyedBytes | None:
    items = files.map_items(name, "bytes", "string")
    if items is None or not len(items.keys):
        return None
    starts, sizes = files.streams.numbers(items.values), files.streams.lengths(items.values)
    if items.present is None:
        return KeyedBytes.of(items.keys, files.streams.data, starts, sizes, items.lengths)
    there = items.present
    rows = np.repeat(np.arange(files.count), items.lengths)[there]
    lengths = np.bincount(rows, minlength=files.count).astype(np.int64)
    return KeyedBytes.of(items.keys[there], files.streams.data, starts[there], sizes[there], lengths)
