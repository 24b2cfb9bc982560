"""Manifest lists, beside pyiceberg's reading of them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import read_manifest_list

from lakehouse.errors import CorruptionError, FormatError
from lakehouse.format.avro import AvroFile
from lakehouse.iceberg.manifests import decode_manifest_list
from tests.kit.avro_files import avro_file
from tests.kit.iceberg_manifests import SNAPSHOT, written_list, written_manifest


@pytest.mark.parametrize("version", [1, 2])
def test_manifests_are_those_that_pyiceberg_reads(tmp_path: Path, version: int) -> None:
    """Every field of every manifest is what pyiceberg reads of it."""
    manifests = [written_manifest(tmp_path, count, version=version, seed=count) for count in (1, 20)]
    path = written_list(tmp_path, manifests, version=version)
    found = decode_manifest_list(Path(path).read_bytes(), key="snap.avro")
    expected = list(read_manifest_list(PyArrowFileIO().new_input(path)))
    assert len(found) == len(expected) == 2
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.path, ours.length) == (theirs.manifest_path, theirs.manifest_length)
        assert (ours.spec_id, ours.content) == (theirs.partition_spec_id, int(theirs.content))
        assert (ours.sequence, ours.min_sequence) == (theirs.sequence_number, theirs.min_sequence_number)
        assert ours.snapshot_id == theirs.added_snapshot_id == SNAPSHOT
        assert (ours.added_files, ours.added_rows) == (theirs.added_files_count, theirs.added_rows_count)
        assert (ours.existing_files, ours.existing_rows) == (
            theirs.existing_files_count,
            theirs.existing_rows_count,
        )
        assert (ours.deleted_files, ours.deleted_rows) == (
            theirs.deleted_files_count,
            theirs.deleted_rows_count,
        )
        assert (ours.key_metadata, ours.first_row_id) == (None, None)
        assert ours.summaries is not None
        assert [(one.contains_null, one.contains_nan, one.lower, one.upper) for one in ours.summaries] == [
            (one.contains_null, one.contains_nan, one.lower_bound, one.upper_bound)
            for one in theirs.partitions or ()
        ]


_NAMES = {
    "manifest_path": (500, "string"),
    "manifest_length": (501, "long"),
    "partition_spec_id": (502, "int"),
    "added_snapshot_id": (503, ["null", "long"]),
    "added_data_files_count": (504, ["null", "int"]),
}


def _schema(**changed: Any) -> Any:
    """The schema of an old list, in which some fields are of other types, or none."""
    fields = [{"name": name, "type": kind, "field-id": number} for name, (number, kind) in _NAMES.items()]
    kept = [{**field, "type": changed.get(field["name"], field["type"])} for field in fields]
    return {"type": "record", "name": "manifest_file", "fields": [field for field in kept if field["type"]]}


_LINE = {
    "manifest_path": "s3://b/m.avro",
    "manifest_length": 5,
    "partition_spec_id": 0,
    "added_snapshot_id": -7,
    "added_data_files_count": 3,
}


def test_old_lists_are_known_by_ids_and_have_what_was_not_there_yet_by_default() -> None:
    """A list of version 1, whose names were others, is read by ids; content and sequence numbers are 0."""
    (found,) = decode_manifest_list(avro_file(_schema(), [[_LINE]]), key="snap.avro")
    assert (found.path, found.length, found.snapshot_id, found.added_files) == ("s3://b/m.avro", 5, -7, 3)
    assert (found.content, found.sequence, found.min_sequence) == (0, 0, 0)
    assert (found.existing_files, found.added_rows, found.summaries, found.key_metadata) == (None,) * 4


def test_lists_without_ids_are_known_by_names() -> None:
    """A list whose schema has no ids is read by the names of all versions."""
    schema = _schema()
    for field in schema["fields"]:
        del field["field-id"]
    (found,) = decode_manifest_list(avro_file(schema, [[_LINE]]), key="snap.avro")
    assert (found.path, found.added_files) == ("s3://b/m.avro", 3)


@pytest.mark.parametrize(
    "name", ["manifest_path", "manifest_length", "partition_spec_id", "added_snapshot_id"]
)
def test_lists_without_what_each_manifest_has_are_refused(name: str) -> None:
    """A list without paths, lengths, specs or snapshots, or with others than those, is an error."""
    for kind in (None, "double"):
        with pytest.raises(CorruptionError, match=r"manifest list snap\.avro cannot be read: its"):
            decode_manifest_list(avro_file(_schema(**{name: kind}), []), key="snap.avro")


@pytest.mark.parametrize("changed", [{"manifest_length": -1}, {"partition_spec_id": -1}])
def test_numbers_that_cannot_be_are_refused(changed: dict[str, int]) -> None:
    """A manifest of a negative length or spec is damage."""
    with pytest.raises(CorruptionError, match=r"a manifest has (length|spec_id) -1"):
        decode_manifest_list(avro_file(_schema(), [[{**_LINE, **changed}]]), key="snap.avro")


def test_damage_ends_in_an_error_or_in_manifests(tmp_path: Path) -> None:
    """Whatever byte of a list is another, it is an error of the format that names the key, or manifests."""
    path = written_list(tmp_path, [written_manifest(tmp_path, 5)] * 3)
    schema = json.loads(AvroFile.parse(Path(path).read_bytes(), key="x").metadata["avro.schema"])
    rows = AvroFile.parse(Path(path).read_bytes(), key="x").to_arrow().to_pylist()
    data = avro_file(schema, [rows], "null")
    dice = random.Random(5)
    refused = 0
    for at in range(AvroFile.parse(data, key="x").blocks[0], len(data)):
        damaged = bytearray(data)
        damaged[at] = dice.choice([0, 1, 127, 128, 255, damaged[at] ^ 1 << dice.randrange(8)])
        try:
            decode_manifest_list(bytes(damaged), key="snap.avro")
        except FormatError as error:
            assert "snap.avro" in error.message  # noqa: PT017
            refused += 1
    assert refused > 50
