"""Paths of a table's objects: what is built is taken apart again, and what is foreign is not ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.ids import new_uuid
from lakehouse.storage.metadata.paths import (
    LATEST,
    SNAPSHOT_PREFIX,
    UUID_DIRECTORIES,
    WAL_PREFIX,
    WAL_SUFFIX,
    ObjectKind,
    dense_number,
    dense_path,
    index_path,
    join,
    new_data_path,
    new_manifest_path,
    new_probe_path,
    new_schema_path,
    new_statistics_path,
    object_kind,
    relative,
    segment_path,
    snapshot_path,
)

numbers = st.integers(0, 10**20 - 1)
names = st.text("abcxyz=-_0123456789 é", min_size=1, max_size=12)
folders = st.lists(names, max_size=3).map("/".join)


@given(
    number=numbers,
    prefix=st.sampled_from([SNAPSHOT_PREFIX, WAL_PREFIX, "a/b-"]),
    suffix=st.sampled_from(["", WAL_SUFFIX]),
)
def test_a_number_of_a_log_comes_back(number: int, prefix: str, suffix: str) -> None:
    """The number of a path is the number that it was built of."""
    assert dense_number(prefix, dense_path(prefix, number, suffix), suffix) == number


@given(root=folders, path=folders.filter(bool))
def test_a_path_in_a_directory_comes_back(root: str, path: str) -> None:
    """A key taken apart by its directory gives the path that it was built of."""
    assert relative(root, join(root, path)) == path


@given(partition=folders, bucket=st.integers(0, 10_000), extension=st.sampled_from(["parquet", "sst"]))
def test_a_data_file_is_told_by_its_path(partition: str, bucket: int, extension: str) -> None:
    """Whatever its partition and its bucket, the path of a data file is that of a data file."""
    path = new_data_path(partition, bucket, extension)
    assert object_kind(path) is ObjectKind.DATA
    assert path.split("/")[1:-2] == [part for part in partition.split("/") if part]
    assert path.split("/")[-2] == f"bucket-{bucket}"
    assert path.endswith(f".{extension}")


@given(number=numbers)
def test_objects_of_logs_are_told_by_their_paths(number: int) -> None:
    """A snapshot's path and a segment's are told apart."""
    assert object_kind(snapshot_path(number)) is ObjectKind.SNAPSHOT
    assert object_kind(segment_path(number)) is ObjectKind.SEGMENT
    assert dense_number(SNAPSHOT_PREFIX, snapshot_path(number)) == number
    assert dense_number(WAL_PREFIX, segment_path(number), WAL_SUFFIX) == number


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (index_path(str(new_uuid())), ObjectKind.INDEX),
        (new_manifest_path(), ObjectKind.MANIFEST),
        (new_schema_path(), ObjectKind.SCHEMA),
        (new_statistics_path(), ObjectKind.STATISTICS),
        (new_probe_path(), ObjectKind.PROBE),
        (LATEST, ObjectKind.HINT),
    ],
    ids=["index", "manifest", "schema", "statistics", "probe", "hint"],
)
def test_every_path_that_is_built_is_known(path: str, kind: ObjectKind) -> None:
    """What is built as one kind of object is taken for that kind."""
    assert object_kind(path) is kind


def test_objects_named_by_a_uuid_lie_where_orphans_are_sought() -> None:
    """Each object that is uploaded before its commit lies in a directory that a sweep looks at."""
    built = [
        new_data_path("", 0, "sst"),
        index_path(str(new_uuid())),
        new_manifest_path(),
        new_schema_path(),
        new_statistics_path(),
    ]
    assert [path.split("/")[0] + "/" for path in built] == list(UUID_DIRECTORIES)


@pytest.mark.parametrize(
    "path",
    [
        "snapshot/snapshot-1",
        "snapshot/snapshot-000000000000000000001",
        "wal/wal-00000000000000000001",
        "wal/wal-00000000000000000001xlog",
        "data/bucket-0/file.parquet",
        "manifest/manifest-1",
        "snapshot/latest",
        "",
    ],
)
def test_a_foreign_path_is_no_object_of_ours(path: str) -> None:
    """A path that is not exactly as one is built is foreign."""
    assert object_kind(path) is None


@pytest.mark.parametrize(
    "key", ["a-1", "a-0000000000000000000x", "b-00000000000000000001", "a-٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠١"]
)
def test_a_foreign_key_has_no_number(key: str) -> None:
    """A key of another prefix, or with other digits than a log's, has no number."""
    assert dense_number("a-", key) is None
