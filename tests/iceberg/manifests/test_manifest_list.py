"""Manifest lists, beside pyiceberg's reading of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import read_manifest_list

from lakehouse.iceberg.manifests import decode_manifest_list
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
