"""Manifests that Iceberg's own runtime wrote: we read what pyiceberg reads, and make the same values."""

from __future__ import annotations

import datetime as dt
import decimal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import ManifestEntry
from pyiceberg.table import StaticTable

from lakehouse.expr.transforms import Transform
from lakehouse.iceberg.manifests import (
    ManifestColumns,
    ManifestFile,
    decode_manifest,
    decode_manifest_list,
    decoded_bounds,
)
from lakehouse.iceberg.metadata import TableMetadata
from lakehouse.iceberg.metadata_json import decode_metadata
from lakehouse.iceberg.types import field_types
from tests.interop.iceberg.answers import plain
from tests.kit.field_stats import field_stats
from tests.kit.spark_answers import expected_of, relative

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.xdist_group("iceberg-spark")]

_EPOCH = dt.date(1970, 1, 1)


def _metadata(directory: Path) -> TableMetadata:
    path = directory / expected_of(directory)["metadata"]
    return decode_metadata(path.read_bytes(), str(path))


def _manifests(metadata: TableMetadata, snapshot: int) -> Iterator[tuple[ManifestFile, ManifestColumns]]:
    path = Path(metadata.snapshots[snapshot].manifest_list or "")
    for manifest in decode_manifest_list(path.read_bytes(), key=path.name):
        yield manifest, decode_manifest(Path(manifest.path).read_bytes(), key=manifest.path)


def _number(value: Any) -> Any:
    """A date or time as the number that Iceberg stores; NaN as a text, which is equal to itself."""
    if isinstance(value, dt.datetime):
        return pa.scalar(value.replace(tzinfo=None), pa.timestamp("us")).value
    if isinstance(value, dt.date):
        return (value - _EPOCH).days
    return str(value) if value != value else value


def test_manifests_are_those_that_pyiceberg_reads(iceberg_directory: Path) -> None:
    """Of every snapshot's manifests, what the list says of them and what each entry says is the same."""
    metadata = _metadata(iceberg_directory)
    table = StaticTable.from_metadata(str(iceberg_directory / expected_of(iceberg_directory)["metadata"]))
    for snapshot in metadata.snapshots:
        theirs = table.snapshot_by_id(snapshot).manifests(table.io)
        for (manifest, columns), other in zip(_manifests(metadata, snapshot), theirs, strict=True):
            assert _listed(manifest) == _listed_by_pyiceberg(other)
            entries = other.fetch_manifest_entry(table.io, discard_deleted=False)
            assert _entries(metadata, manifest, columns) == [_entry(entry) for entry in entries]
            _same_statistics(metadata, table, columns, entries)


def _listed(one: ManifestFile) -> tuple[Any, ...]:
    counts = (one.added_files, one.existing_files, one.deleted_files)
    rows = (one.added_rows, one.existing_rows, one.deleted_rows)
    fields = [(f.contains_null, f.contains_nan, f.lower, f.upper) for f in one.summaries or ()]
    numbers = (one.length, one.spec_id, one.content, one.sequence, one.min_sequence, one.snapshot_id)
    return one.path, *numbers, *counts, *rows, fields


def _listed_by_pyiceberg(one: Any) -> tuple[Any, ...]:
    numbers = (one.manifest_length, one.partition_spec_id, int(one.content))
    numbers += (one.sequence_number, one.min_sequence_number, one.added_snapshot_id)
    counts = (one.added_files_count, one.existing_files_count, one.deleted_files_count)
    rows = (one.added_rows_count, one.existing_rows_count, one.deleted_rows_count)
    fields = [(f.contains_null, f.contains_nan, f.lower_bound, f.upper_bound) for f in one.partitions or ()]
    return one.manifest_path, *numbers, *counts, *rows, fields


def _entries(metadata: TableMetadata, manifest: ManifestFile, columns: ManifestColumns) -> list[Any]:
    taken_over = columns.inherited(manifest)
    fields = metadata.specs[manifest.spec_id].fields
    partition = [[_number(v) for v in columns.partition[one.field_id].to_pylist()] for one in fields]
    formats = [columns.formats[place] for place in columns.format.all().tolist()]
    parts = zip(*partition, strict=True) if partition else [()] * columns.count
    numbers = (columns.status, columns.content, columns.records, columns.size)
    inherited = (taken_over.snapshot_id, taken_over.sequence)
    lists = (*(one.all().tolist() for one in numbers), *(one.tolist() for one in inherited))
    return list(zip(columns.paths().to_pylist(), formats, parts, *lists, strict=True))


def _entry(entry: ManifestEntry) -> tuple[Any, ...]:
    file = entry.data_file
    values = tuple(_number(file.partition[place]) for place in range(len(file.partition)))
    numbers = (int(entry.status), int(file.content), file.record_count, file.file_size_in_bytes)
    kind = file.file_format.value.lower()
    return file.file_path, kind, values, *numbers, entry.snapshot_id, entry.sequence_number


def _same_statistics(
    metadata: TableMetadata, table: Any, columns: ManifestColumns, entries: list[ManifestEntry]
) -> None:
    for field_id, (_, kind) in field_types(metadata.current_schema).items():
        stats, other = field_stats(columns, field_id), table.schema().find_field(field_id).field_type
        for ours, name in ((stats.low, "lower_bounds"), (stats.high, "upper_bounds")):
            stored = [(getattr(entry.data_file, name) or {}).get(field_id) for entry in entries]
            values = [None if one is None else _number(from_bytes(other, one)) for one in stored]
            found = decoded_bounds(ours, kind, count=columns.count).to_pylist()
            assert [_number(value) for value in found] == values
        counted = ((stats.values, "value_counts"), (stats.nulls, "null_value_counts"))
        for numbers, name in (*counted, (stats.nans, "nan_value_counts")):
            said = [(getattr(entry.data_file, name) or {}).get(field_id) for entry in entries]
            pairs = zip(numbers.tolist(), said, strict=True)
            assert [number for number, one in pairs if one is not None] == [n for n in said if n is not None]


def test_partition_values_are_made_as_iceberg_makes_them(iceberg_directory: Path) -> None:
    """Our transform of each row's source value is the partition value of the row's file."""
    metadata, expected = _metadata(iceberg_directory), expected_of(iceberg_directory)
    types = field_types(metadata.current_schema)
    for snapshot, answer in _answers(metadata, expected):
        rows = _rows_by_file(answer)
        for manifest, columns in _manifests(metadata, snapshot):
            paths = columns.paths().to_pylist()
            for place in columns.live().tolist():
                found = rows.get(relative(paths[place]), [])
                for field in metadata.specs[manifest.spec_id].fields:
                    name, kind = types[field.source_ids[0]]
                    values = pa.array([_value(row[name], kind) for row in found], kind)
                    made = Transform.parse(field.transform).apply(values).to_pylist()
                    value = _number(columns.partition[field.field_id][place].as_py())
                    assert {_number(one) for one in made} <= {value}, (field, paths[place])


def _answers(metadata: TableMetadata, expected: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    if metadata.current_snapshot_id is not None:
        yield metadata.current_snapshot_id, expected["current"]
    yield from ((one["snapshot"], one) for one in expected["versions"] if one["ids"])


def _rows_by_file(answer: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    made = defaultdict(list)
    for row, file in zip(answer["rows"], answer["file_of"], strict=True):
        made[answer["files"][file]].append(dict(zip(answer["columns"], row, strict=True)))
    return made


def _value(value: Any, kind: pa.DataType) -> Any:
    """A value of an answer as Arrow takes it."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        moment = value if isinstance(value, int) else dt.datetime.fromisoformat(value)
        return pa.scalar(moment, pa.timestamp("us", kind.tz))
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(value)
    if pa.types.is_decimal(kind):
        return decimal.Decimal(value)
    if pa.types.is_floating(kind):
        return float(value)
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return bytes.fromhex(value) if is_bytes else value


def test_values_of_answers_come_back() -> None:
    """Values of answers are read as those that they were written from."""
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
    for kind, value in (
        (pa.timestamp("us"), moment),
        (pa.timestamp("us", "UTC"), moment.replace(tzinfo=dt.UTC)),
        (pa.date32(), dt.date(1900, 3, 1)),
        (pa.decimal128(9, 2), decimal.Decimal("-0.01")),
        (pa.binary(), b"\x00\xff"),
        (pa.float32(), float("-inf")),
    ):
        assert pa.array([_value(plain(value), kind)], kind).to_pylist() == [value]
