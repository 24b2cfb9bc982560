"""Metadata files of Iceberg tables, versions 1 to 3: JSON, plain or compressed by gzip.

Invariant: what is decoded is whole, or a CorruptionError names the file and the member that is missing or
wrong. Ids that refer to nothing are found here and not where they are used.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Protocol, TypeVar

from lakehouse.errors import CorruptionError, FormatError, UnsupportedVersionError
from lakehouse.excerpt import short
from lakehouse.format.limits import (
    INT64_MAX,
    JsonObject,
    each,
    members,
    moment,
    number,
    optional,
    parse_json,
    text,
    whole,
)
from lakehouse.format.puffin import THETA_SKETCH, number_of_properties
from lakehouse.iceberg.metadata import (
    MAIN,
    IcebergRef,
    IcebergSnapshot,
    LogEntry,
    PartitionField,
    PartitionSpec,
    SnapshotStatistics,
    SortField,
    SortOrder,
    TableMetadata,
)
from lakehouse.iceberg.types import IcebergSchema, parse_schema

__all__ = ["FORMAT_VERSION_MAX", "METADATA_BYTES_MAX", "decode_metadata"]

FORMAT_VERSION_MAX = 3
"""Maximum version of Iceberg's table format that is read."""
METADATA_BYTES_MAX = 1 << 30
"""Maximum bytes of a metadata file once it is decompressed."""
_VALUES_MAX = 20_000_000
"""Maximum JSON values of a metadata file: those of some 500,000 snapshots."""
_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31
_ADVICE = ": restore the file, or open an earlier one of the table's metadata directory"
_FIRST_PARTITION_ID = 1000
"""Id of the first partition field where version 1 does not tell ids."""


class _Numbered(Protocol):
    @property
    def id(self) -> int: ...


_N = TypeVar("_N", bound=_Numbered)


def decode_metadata(data: bytes, path: str) -> TableMetadata:
    """Decodes a metadata file.

    Args:
        data: its bytes; compressed ones are known by their first two.
        path: where they were read, for messages.

    Raises:
        CorruptionError: it is cut off or damaged, a member is missing, of a wrong type or refers to nothing.
        UnsupportedVersionError: it is of version 4 or later.
    """
    try:
        document = members(parse_json(_plain(data), values_max=_VALUES_MAX))
    except (ValueError, zlib.error) as error:
        raise CorruptionError(
            f"{path}: no metadata of an Iceberg table can be read: {error}{_ADVICE}", key=path, offset=0
        ) from error
    file = JsonObject(document, path, advice=_ADVICE)
    version = file.read("format-version", number)
    if version > FORMAT_VERSION_MAX:
        raise UnsupportedVersionError(
            f"{path}: the table is of Iceberg's format version {version}, and versions 1 to "
            f"{FORMAT_VERSION_MAX} are read: upgrade lakehouse, or have the table written by one of these",
            key=path,
            got=version,
        )
    if not version:
        raise file.wrong("format-version", f"from 1 to {FORMAT_VERSION_MAX}", version)
    return _table(file, version, path)


def _plain(data: bytes) -> bytes:
    """Returns the bytes of the JSON text; of several compressed members the texts of all."""
    parts, size = [], 0
    while data[:2] == _GZIP:
        stream = zlib.decompressobj(_GZIP_WINDOW)
        parts.append(stream.decompress(data, METADATA_BYTES_MAX - size + 1))
        size += len(parts[-1])
        if size > METADATA_BYTES_MAX:
            raise ValueError(f"it is compressed and has more than {METADATA_BYTES_MAX:,} bytes")
        if not stream.eof:
            raise ValueError("it is compressed by gzip and cut off")
        data = stream.unused_data
    return b"".join(parts) if parts else data


def _table(file: JsonObject, version: int, path: str) -> TableMetadata:
    current = file.read("current-snapshot-id", optional(_id), None)
    if current == -1:  # as writers say "none" that had to say something
        current = None
    schemas, schema_id = _schemas(file)
    specs, spec_id = _specs(file)
    orders, order_id = _orders(file)
    snapshots = _by_id(file, "snapshots", [_snapshot(one) for one in file.objects("snapshots", [])])
    if current is not None and current not in snapshots:
        raise file.wrong("current-snapshot-id", "the id of a snapshot", current)
    return TableMetadata(
        path=path,
        format_version=version,
        uuid=file.read("table-uuid", text) if version > 1 else file.read("table-uuid", optional(text), None),
        location=file.read("location", text).rstrip("/"),
        last_sequence_number=_since(2, version, file, "last-sequence-number", whole, 0),
        last_updated_ms=file.read("last-updated-ms", moment),
        last_column_id=file.read("last-column-id", number),
        schemas=schemas,
        current_schema_id=schema_id,
        specs=specs,
        default_spec_id=spec_id,
        sort_orders=orders,
        default_sort_order_id=order_id,
        properties=file.read("properties", _texts, {}),
        current_snapshot_id=current,
        snapshots=snapshots,
        snapshot_log=tuple(
            LogEntry(
                timestamp_ms=entry.read("timestamp-ms", moment), snapshot_id=entry.read("snapshot-id", _id)
            )
            for entry in file.objects("snapshot-log", [])
        ),
        metadata_log=tuple(
            (entry.read("timestamp-ms", moment), entry.read("metadata-file", text))
            for entry in file.objects("metadata-log", [])
        ),
        refs=_refs(file, snapshots, current),
        statistics=tuple(_statistics(file)),
        next_row_id=_since(3, version, file, "next-row-id", whole, None),
    )


def _since(
    first: int, version: int, file: JsonObject, name: str, reader: Callable[[Any], Any], default: Any
) -> Any:
    """Reads a member that files have from a version on."""
    return file.read(name, reader) if version >= first else default


def _id(value: Any) -> int:
    return whole(value, -INT64_MAX - 1, INT64_MAX)


def _texts(value: Any) -> dict[str, str]:
    """Reads an object of texts, null = none; other values, which some writers leave, are shown as JSON."""
    given = {} if value is None else members(value)
    return {
        name: one if isinstance(one, str) else json.dumps(one)
        for name, one in given.items()
        if one is not None
    }


def _by_id(file: JsonObject, name: str, found: list[_N]) -> dict[int, _N]:
    values = {one.id: one for one in found}
    if len(values) < len(found):
        raise file.wrong(name, "objects with an id of their own each", sorted(one.id for one in found))
    return values


def _referred(file: JsonObject, name: str, number_: int, known: Mapping[int, object]) -> int:
    if number_ not in known:
        raise file.wrong(name, f"one of the ids {short(sorted(known))}", number_)
    return number_


def _schemas(file: JsonObject) -> tuple[dict[int, IcebergSchema], int]:
    if "schemas" in file or "schema" not in file:
        found = [parse_schema(one) for one in file.objects("schemas")]
        known, current = _by_id(file, "schemas", found), file.read("current-schema-id", number)
    else:
        schema = parse_schema(file.inner("schema"))
        known, current = {schema.id: schema}, schema.id
    return known, _referred(file, "current-schema-id", current, known)


def _specs(file: JsonObject) -> tuple[dict[int, PartitionSpec], int]:
    if "partition-specs" in file or "partition-spec" not in file:
        found = [
            PartitionSpec(id=one.read("spec-id", number), fields=_partition_fields(one, "fields"))
            for one in file.objects("partition-specs")
        ]
        known, default = _by_id(file, "partition-specs", found), file.read("default-spec-id", number)
    else:
        known, default = {0: PartitionSpec(id=0, fields=_partition_fields(file, "partition-spec"))}, 0
    return known, _referred(file, "default-spec-id", default, known)


def _partition_fields(spec: JsonObject, name: str) -> tuple[PartitionField, ...]:
    return tuple(
        PartitionField(
            source_ids=_source_ids(field),
            field_id=field.read("field-id", number, _FIRST_PARTITION_ID + at),
            name=field.read("name", text),
            transform=field.read("transform", text),
        )
        for at, field in enumerate(spec.objects(name))
    )


def _source_ids(field: JsonObject) -> tuple[int, ...]:
    if "source-ids" in field:
        found = field.read("source-ids", each(number))
        if not found:
            raise field.wrong("source-ids", "one id or more", [])
        return found
    return (field.read("source-id", number),)


def _orders(file: JsonObject) -> tuple[dict[int, SortOrder], int]:
    found = [
        SortOrder(
            id=one.read("order-id", number), fields=tuple(_sort_field(f) for f in one.objects("fields"))
        )
        for one in file.objects("sort-orders", [])
    ]
    known = _by_id(file, "sort-orders", found) or {0: SortOrder(id=0)}
    return known, _referred(
        file, "default-sort-order-id", file.read("default-sort-order-id", number, 0), known
    )


def _sort_field(field: JsonObject) -> SortField:
    return SortField(
        source_ids=_source_ids(field),
        transform=field.read("transform", text),
        direction=field.read("direction", text),
        null_order=field.read("null-order", text),
    )


def _snapshot(one: JsonObject) -> IcebergSnapshot:
    manifest_list = one.read("manifest-list", optional(text), None)
    if manifest_list is None and "manifests" not in one:
        raise one.wrong("manifest-list", "the path of the list of manifests", None)
    return IcebergSnapshot(
        id=one.read("snapshot-id", _id),
        parent_id=one.read("parent-snapshot-id", optional(_id), None),
        sequence=one.read("sequence-number", whole, 0),
        timestamp_ms=one.read("timestamp-ms", moment),
        manifest_list=manifest_list,
        manifests=one.read("manifests", each(text)) if manifest_list is None else (),
        summary=one.read("summary", _texts, {}),
        schema_id=one.read("schema-id", optional(number), None),
        first_row_id=one.read("first-row-id", optional(whole), None),
    )


def _statistics(file: JsonObject) -> Iterator[SnapshotStatistics]:
    """Yields the statistics files that can be made out."""
    try:
        listed = file.objects("statistics", [])
    except FormatError:
        return
    for one in listed:
        # A planner does without them, and nobody should be kept from reading rows.
        with contextlib.suppress(FormatError):
            sketches = _sketches(one)
            yield SnapshotStatistics(
                snapshot_id=one.read("snapshot-id", _id),
                path=one.read("statistics-path", text),
                size=one.read("file-size-in-bytes", whole),
                ndv={field: ndv for field, ndv in (sketches or {}).items() if ndv is not None},
                sketched=None if sketches is None else frozenset(sketches),
            )


def _sketches(file: JsonObject) -> dict[int, int | None] | None:
    """Returns the columns with a sketch, and their distinct values if told; None = nothing is listed."""
    try:
        listed = [
            (
                blob.read("type", text),
                blob.read("fields", each(number), ()),
                blob.read("properties", _texts, {}),
            )
            for blob in file.objects("blob-metadata", [])
        ]
    except FormatError:
        return None
    sketches = {
        fields[0]: number_of_properties(properties)
        for kind, fields, properties in listed
        if kind == THETA_SKETCH and len(fields) == 1
    }
    return sketches if listed else None


def _refs(
    file: JsonObject, snapshots: Mapping[int, IcebergSnapshot], current: int | None
) -> dict[str, IcebergRef]:
    refs = {}
    if "refs" in file and file.values["refs"] is not None:
        inner = file.inner("refs")
        refs = {name: _ref(inner.inner(name), name, snapshots) for name in inner.values}
    main = refs.get(MAIN)
    if main is None and current is not None:
        refs[MAIN] = IcebergRef(name=MAIN, snapshot_id=current, kind="branch")
    elif main is not None and main.snapshot_id != current:
        raise file.wrong("refs.main", f"the current snapshot, {current}", main.snapshot_id)
    return refs


def _ref(ref: JsonObject, name: str, snapshots: Mapping[int, IcebergSnapshot]) -> IcebergRef:
    return IcebergRef(
        name=name,
        snapshot_id=_referred(ref, "snapshot-id", ref.read("snapshot-id", _id), snapshots),
        kind=ref.read("type", _kind),
        max_ref_age_ms=ref.read("max-ref-age-ms", optional(whole), None),
        max_snapshot_age_ms=ref.read("max-snapshot-age-ms", optional(whole), None),
        min_snapshots_to_keep=ref.read("min-snapshots-to-keep", optional(number), None),
    )


def _kind(value: Any) -> Literal["branch", "tag"]:
    word = text(value)
    if word not in ("branch", "tag"):
        raise ValueError(f"must be 'branch' or 'tag', not {short(value)}")
    return "branch" if word == "branch" else "tag"
