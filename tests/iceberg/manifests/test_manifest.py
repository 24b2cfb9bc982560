"""Manifests as columns, beside pyiceberg's reading of them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakehouse.errors import CorruptionError, FormatError
from lakehouse.format.avro import AvroFile
from lakehouse.iceberg.manifests import UNKNOWN, ManifestColumns, RawBounds, decode_manifest
from tests.kit.avro_files import avro_file
from tests.kit.field_stats import field_stats
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
        stats = field_stats(columns, field)
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


def _used(columns: ManifestColumns) -> None:
    """Asks for everything that a manifest has."""
    columns.paths().validate(full=True)
    for field in columns.stats_fields():
        stats = field_stats(columns, field)
        _raw(stats.low, columns.count)
        _raw(stats.high, columns.count)
    for values in columns.partition.values():
        values.validate(full=True)
    columns.status_counts()


def test_damage_ends_in_an_error_or_in_columns(tmp_path: Path) -> None:
    """Whatever byte of a manifest is another, it is an error of the format that names the key, or columns."""
    data = Path(written_manifest(tmp_path, 6, codec="null").manifest_path).read_bytes()
    first = AvroFile.parse(data, key="m.avro").blocks[0]
    dice = random.Random(3)
    refused = 0
    for at in range(first, len(data)):
        damaged = bytearray(data)
        damaged[at] = dice.choice([0, 1, 127, 128, 255, damaged[at] ^ 1 << dice.randrange(8)])
        try:
            _used(decode_manifest(bytes(damaged), key="m.avro"))
        except FormatError as error:
            assert "m.avro" in error.message  # noqa: PT017
            refused += 1
    assert refused > (len(data) - first) // 5


def test_a_manifest_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    """A manifest without its end is an error, or has fewer entries, which its list tells."""
    data = Path(written_manifest(tmp_path, 4).manifest_path).read_bytes()
    counts = set()
    for size in range(0, len(data), 3):
        try:
            counts.add(decode_manifest(data[:size], key="m.avro").count)
        except FormatError:
            continue
    assert counts <= {0, 1, 2, 3}


def _schema(tmp_path: Path) -> tuple[Any, list[Any]]:
    """The Avro schema of a manifest, and its fields of a data file, to be changed."""
    data = Path(written_manifest(tmp_path, 1).manifest_path).read_bytes()
    schema = json.loads(AvroFile.parse(data, key="m.avro").metadata["avro.schema"])
    (file,) = (field["type"]["fields"] for field in schema["fields"] if field["name"] == "data_file")
    return schema, file


@pytest.mark.parametrize("name", ["file_path", "file_format", "record_count", "file_size_in_bytes"])
def test_entries_without_what_each_must_have_are_refused(tmp_path: Path, name: str) -> None:
    """A schema without a path, format, number of rows or size is an error that names what is missing."""
    schema, file = _schema(tmp_path)
    file[:] = [field for field in file if field["name"] != name]
    with pytest.raises(CorruptionError, match=r"m\.avro cannot be read: its schema has no"):
        decode_manifest(avro_file(schema, []), key="m.avro")


_CHECKED = (
    *("file_path", "file_format", "record_count", "key_metadata"),
    *("lower_bounds", "value_counts", "split_offsets", "partition"),
)
_ODD = (
    "double",
    {"type": "array", "items": "string"},
    {"type": "array", "items": {"type": "map", "values": "int"}},
)


@pytest.mark.parametrize("name", _CHECKED)
@pytest.mark.parametrize("kind", _ODD, ids=["double", "texts", "maps"])
def test_fields_of_other_types_are_refused(tmp_path: Path, name: str, kind: Any) -> None:
    """A field that is not of its type is an error that says which."""
    schema, file = _schema(tmp_path)
    for field in file:
        if field["name"] == name:
            field["type"] = kind
    with pytest.raises(CorruptionError, match=r"m\.avro cannot be read: its field"):
        decode_manifest(avro_file(schema, []), key="m.avro")


def test_fields_are_known_by_their_ids(tmp_path: Path) -> None:
    """Names mean nothing where there are ids, and are what counts where there are none."""
    data = Path(written_manifest(tmp_path, 5, codec="null").manifest_path).read_bytes()
    said = AvroFile.parse(data, key="m.avro").metadata["avro.schema"]
    begin = data.index(said)
    expected = decode_manifest(data, key="m.avro")
    without = said.replace(b'"field-id": ', b'"field-no": ')
    renamed = said.replace(b'"record_count"', b'"record_CouNt"')
    for text in (without, renamed):
        assert text != said
        found = decode_manifest(data[:begin] + text + data[begin + len(text) :], key="m.avro")
        assert found.records.all().tolist() == expected.records.all().tolist()
        assert field_stats(found, 1).values.tolist() == field_stats(expected, 1).values.tolist()
        assert found.partition.keys() == {1000, 1001}


def test_an_empty_manifest_has_no_entries(tmp_path: Path) -> None:
    """A manifest without entries has empty columns."""
    columns = decode_manifest(avro_file(_schema(tmp_path)[0], []), key="m.avro")
    assert (columns.count, columns.paths().to_pylist(), columns.status_counts()) == (0, [], (0, 0, 0))
    assert field_stats(columns, 1).values.tolist() == []


def test_a_manifest_takes_few_bytes_for_each_entry(tmp_path: Path) -> None:
    """Six columns of statistics and paths of a hundred bytes take at most 250 bytes for an entry."""
    columns = _decoded(written_manifest(tmp_path, 2_000))
    assert columns.nbytes <= 250 * columns.count
