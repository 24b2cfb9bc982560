"""Manifests as columns, beside pyiceberg's reading of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakehouse.iceberg.manifests import UNKNOWN, ManifestColumns, RawBounds, decode_manifest
from tests.kit.iceberg_manifests import FIELD_IDS, entries_of, written_manifest


def _decoded(manifest: Any) -> ManifestColumns:
    return decode_manifest(Path(manifest.manifest_path).read_bytes(), key="m.avro")


def _raw(bounds: RawBounds | None, count: int) -> list[bytes | None]:
    found: list[bytes | None] = [None] * count
    if bounds is not None:
        rows = range(count) if bounds.rows is None else bounds.rows.tolist()
        for row, start, length in zip(rows, *bounds.spans(), strict=True):
            found[row] = bounds.data[start : start + length].tobytes()
    return found


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_entries_are_those_that_pyiceberg_reads(tmp_path: Path, version: int, codec: str) -> None:
    """Every column of a manifest holds what pyiceberg reads of each entry."""
    manifest = written_manifest(tmp_path, 60, version=version, codec=codec)
    columns, entries = _decoded(manifest), entries_of(manifest)
    files = [entry.data_file for entry in entries]
    rows = np.arange(len(entries))

    def known(values: list[int | None]) -> list[int]:
        return [UNKNOWN if value is None else value for value in values]

    assert (columns.count, columns.format_version, columns.spec_id) == (60, version, 3)
    assert columns.status.all().tolist() == [entry.status.value for entry in entries]
    assert columns.content.all().tolist() == [int(file.content) for file in files]
    assert columns.paths().to_pylist() == [file.file_path for file in files]
    assert [columns.formats[at].upper() for at in columns.format.all()] == [
        file.file_format for file in files
    ]
    assert columns.records.all().tolist() == [file.record_count for file in files]
    assert columns.size.all().tolist() == [file.file_size_in_bytes for file in files]
    assert columns.sort_order_id.all().tolist() == known([file.sort_order_id for file in files])
    assert columns.encrypted.all().tolist() == [int(file.key_metadata is not None) for file in files]
    assert columns.split_offsets is not None
    offsets = [None if file.split_offsets is None else tuple(file.split_offsets) for file in files]
    assert columns.split_offsets.at(rows) == offsets
    assert (columns.equality_ids, columns.referenced) == (None, None)
    days, cities = (columns.partition[number].to_pylist() for number in (1000, 1001))
    partitions = [(file.partition[0], file.partition[1]) for file in files]
    assert list(zip(columns.partition[1000].cast("int32").to_pylist(), cities, strict=True)) == partitions
    assert len(days) == len(entries)


@pytest.mark.parametrize("version", [1, 2])
def test_statistics_are_those_that_pyiceberg_reads(tmp_path: Path, version: int) -> None:
    """Counts and bounds of each field are those of each entry's maps, and unknown where a map has none."""
    manifest = written_manifest(tmp_path, 60, version=version)
    columns = _decoded(manifest)
    files = [entry.data_file for entry in entries_of(manifest)]

    def counts(name: str, field: int) -> list[int]:
        return [(getattr(file, name) or {}).get(field, UNKNOWN) for file in files]

    for field in (*FIELD_IDS, 99):
        stats = columns.stats(field)
        assert stats.values.tolist() == counts("value_counts", field)
        assert stats.nulls.tolist() == counts("null_value_counts", field)
        assert stats.nans.tolist() == counts("nan_value_counts", field)
        assert _raw(stats.low, 60) == [(file.lower_bounds or {}).get(field) for file in files]
        assert _raw(stats.high, 60) == [(file.upper_bounds or {}).get(field) for file in files]
    assert columns.stats_fields() == frozenset(FIELD_IDS)


def test_entries_are_counted_by_status(tmp_path: Path) -> None:
    """Counts by status are those that the manifest list has."""
    manifest = written_manifest(tmp_path, 30)
    columns = _decoded(manifest)
    said = (manifest.existing_files_count, manifest.added_files_count, manifest.deleted_files_count)
    assert columns.status_counts() == said
    assert len(columns.live()) == said[0] + said[1]
