"""Coverage: which runs of a merge unit readers may see, and why others wait."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from lakehouse.format.metadata import CommitKind, FileEntry, FileFormat, SchemaRef, SegmentRange, Snapshot
from lakehouse.format.schema import Field, Primitive, TableSchema
from lakehouse.iceberg.publishing.coverage import Coverage, cover

FIELDS = (Field(id=1, name="id", type=Primitive("int64"), required=True),)


def schema(*, key: bool = True, **options: str) -> TableSchema:
    """A schema of one column."""
    return TableSchema(fields=FIELDS, primary_key=("id",) if key else (), options=options, highest_field_id=1)


def run(at: int, **about: Any) -> FileEntry:
    """A file that is a run of its own, added by that snapshot."""
    return FileEntry(path=f"run-{at}", at=at, size=10, rows=5, min_key=b"a", max_key=b"z", **about)


def covered(
    *entries: FileEntry,
    version: int = 2,
    of: TableSchema | None = None,
    waiting: int | None = None,
    gaps: tuple[str, ...] = (),
) -> tuple[list[str], dict[str, str]]:
    """Paths of published files, and reasons of the others."""
    segments = () if waiting is None else (SegmentRange(first=1, last=1, size=1, at=waiting),)
    snapshot = Snapshot(
        id=99,
        token="t",
        parent=None,
        kind=CommitKind.UPSERT,
        time_ms=1,
        table=uuid.UUID(int=1),
        schema=SchemaRef(id=0, path="s"),
        segments=segments,
    )
    found: Coverage = cover(
        entries,
        snapshot,
        of or schema(),
        version=version,
        misses_default=lambda entry: entry.path in gaps,
    )
    return sorted(entry.path for entry in found.files), {entry.path: why.value for entry, why in found.left}


def test_version_2_has_the_oldest_run() -> None:
    """Runs above the oldest one wait for a compaction."""
    assert covered(run(3), run(5)) == (["run-3"], {"run-5": "above-bottom"})


def test_version_3_has_the_runs_above_it_too() -> None:
    """Where the newest row stays, deletion vectors make every run one that readers may see."""
    assert covered(run(3), run(5, deletes=2), version=3) == (["run-3", "run-5"], {})


@pytest.mark.parametrize(
    "options", [{"merge_engine": "first-row"}, {"sequence.field": "id"}, {"merge_engine": "partial-update"}]
)
def test_where_another_row_stays_version_3_is_as_version_2(options: dict[str, str]) -> None:
    """Vectors hide all but the newest row, which is wrong where the newest does not stay as it is."""
    assert covered(run(3), run(5), version=3, of=schema(**options)) == (["run-3"], {"run-5": "above-bottom"})


@pytest.mark.parametrize(
    ("about", "version"), [({"deletes": 1}, 2), ({"updates": 1}, 2), ({"updates": 1}, 3)]
)
def test_rows_that_are_no_inserts_wait(about: dict[str, int], version: int) -> None:
    """An oldest run with rows that delete or are merged is not what a scan shows."""
    assert covered(run(3, **about), version=version) == ([], {"run-3": "not-only-inserts"})


def test_runs_end_at_the_first_sstable() -> None:
    """What is above a file that cannot be published would hide nothing in it: it waits as well."""
    entries = run(3), run(5, format=FileFormat.SSTABLE), run(7)
    assert covered(*entries, version=3) == (["run-3"], {"run-5": "sstable", "run-7": "sstable"})


def test_runs_end_at_rows_of_the_log() -> None:
    """A run above rows that are in no file may hide some of them, or be the oldest only as it seems."""
    assert covered(run(3), run(7), version=3, waiting=5) == (["run-3"], {"run-7": "log"})
    assert covered(run(7), waiting=5) == ([], {"run-7": "log"})


def test_runs_end_at_a_default_that_is_not_told() -> None:
    """Rows that readers would show with null instead of a default wait."""
    assert covered(run(3), run(5), version=3, gaps=("run-5",)) == (["run-3"], {"run-5": "default"})


def test_without_a_key_every_parquet_file_counts() -> None:
    """Rows of such tables hide nothing, so files have no order."""
    entries = run(3), run(5, format=FileFormat.SSTABLE), run(7), run(8)
    assert covered(*entries, of=schema(key=False), gaps=("run-8",)) == (
        ["run-3", "run-7"],
        {"run-5": "sstable", "run-8": "default"},
    )


def test_buckets_are_judged_apart() -> None:
    """A bucket that waits keeps no other from being published."""
    entries = run(3, total_buckets=2), run(4, bucket=1, total_buckets=2), run(5, total_buckets=2)
    assert covered(*entries) == (["run-3", "run-4"], {"run-5": "above-bottom"})


def test_files_that_only_delete_are_not_shown() -> None:
    """They hide rows of others, and have nothing to show."""
    snapshot_files = (run(3),), (run(5, deletes=5),)
    found = Coverage(units=(snapshot_files,), left=())
    assert [entry.path for entry in found.shown] == ["run-3"]
    assert len(found.files) == 2
    assert found.hiding == [snapshot_files]
