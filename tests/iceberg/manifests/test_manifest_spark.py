"""Manifests and lists that Spark wrote, of all versions, beside pyiceberg's reading of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestEntryStatus, read_manifest_list

from lakehouse.iceberg.manifests import UNKNOWN, decode_manifest, decode_manifest_list
from tests.kit.field_stats import field_stats
from tests.kit.iceberg_manifests import entries_of

_FOLDER = Path(__file__).parents[2] / "data" / "iceberg"
_LISTS = sorted(_FOLDER.glob("*/metadata/snap-*.avro"))


def test_there_are_lists_of_all_versions() -> None:
    """Spark's tables have manifest lists of version 3 with row ids, and older ones without."""
    lists = [decode_manifest_list(path.read_bytes(), key=path.name) for path in _LISTS]
    numbered = [manifest.first_row_id is not None for one in lists for manifest in one]
    assert any(numbered)
    assert not all(numbered)


@pytest.mark.parametrize("path", _LISTS, ids=lambda path: f"{path.parts[-3]}-{path.stem[:12]}")
def test_spark_s_manifests_are_read_as_pyiceberg_reads_them(path: Path) -> None:
    """Lines of lists and entries of manifests are the same, what they inherit too."""
    ours = decode_manifest_list(path.read_bytes(), key=path.name)
    theirs = list(read_manifest_list(PyArrowFileIO().new_input(str(path))))
    assert len(ours) == len(theirs)
    for line, other in zip(ours, theirs, strict=True):
        assert (line.path, line.length, line.spec_id) == (
            other.manifest_path,
            other.manifest_length,
            other.partition_spec_id,
        )
        assert (line.sequence, line.snapshot_id) == (other.sequence_number, other.added_snapshot_id)
        file = path.parent / line.path.rpartition("/")[2]
        columns = decode_manifest(file.read_bytes(), key=file.name)
        assert columns.status_counts() == (line.existing_files, line.added_files, line.deleted_files)
        other._data[0] = str(file)
        entries = entries_of(other)
        files = [entry.data_file for entry in entries]
        found = columns.inherited(line)
        live = [at for at, entry in enumerate(entries) if entry.status != ManifestEntryStatus.DELETED]
        assert found.snapshot_id.tolist() == [entry.snapshot_id for entry in entries]
        assert found.sequence[live].tolist() == [entries[at].sequence_number for at in live]
        assert columns.paths().to_pylist() == [one.file_path for one in files]
        assert columns.content.all().tolist() == [int(one.content) for one in files]
        assert columns.records.all().tolist() == [one.record_count for one in files]
        partitions = [values.to_pylist() for values in columns.partition.values()]
        assert len(partitions) == len(files[0].partition) if files else True
        for field in columns.stats_fields():
            stats = field_stats(columns, field)
            assert stats.nulls.tolist() == [
                (one.null_value_counts or {}).get(field, UNKNOWN) for one in files
            ]
            raw = stats.low
            stored = [(one.lower_bounds or {}).get(field) for one in files]
            rows = [] if raw is None else np.arange(len(files)) if raw.rows is None else raw.rows
            assert [at for at, bound in enumerate(stored) if bound is not None] == list(rows)
            if raw is not None:
                spans = zip(*raw.spans(), strict=True)
                bounds = [raw.data[start : start + length].tobytes() for start, length in spans]
                assert bounds == [bound for bound in stored if bound is not None]
