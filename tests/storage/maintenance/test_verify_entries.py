"""Checks of entries alone: those that scans, lookups and compactions read alike have no problem."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lakehouse.format.metadata import FileEntry, Level
from lakehouse.format.schema import TableSchema
from lakehouse.storage.maintenance.verify_entries import entry_problems
from lakehouse.storage.maintenance.verify_report import Problem
from tests.kit.written_files import schema_of

SCHEMA = schema_of()
SNAPSHOT = 9


def entry(path: str, at: int = 2, **about: Any) -> FileEntry:
    """A file of ten rows that a commit added."""
    own = (at, 1, 0)
    known = {"at": at, "lo": own, "hi": own, "size": 100, "rows": 10, "min_key": b"a", "max_key": b"m"}
    return FileEntry(path=path, **{**known, **about})


def problems(*entries: FileEntry, schema: TableSchema = SCHEMA) -> list[tuple[str, Problem]]:
    """Paths and problems of the live files of snapshot 9."""
    return [(path, problem) for path, problem, _ in entry_problems(entries, schema, SNAPSHOT)]


def test_sound_entries_have_no_problem() -> None:
    """Runs above a bottom run, files of one run side by side, deletions above."""
    assert not problems(
        entry("bottom", 2, level=Level.BOTTOM),
        entry("merged", 5, lo=(3, 1, 0), hi=(5, 1, 0), level=Level.COMPACTED, deletes=3),
        entry("first", 9),
        entry("second", 9, min_key=b"n", max_key=b"z"),
    )


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "interval backwards": ({"lo": (4, 1, 0), "hi": (3, 1, 0)}, "is none of snapshot 9"),
    "interval of the future": ({"hi": (10, 1, 0)}, "is none of snapshot 9"),
    "added in the future": ({"at": 10}, "is none of snapshot 9"),
    "bucket": ({"bucket": 1}, "bucket 1 of 1"),
    "negative bucket": ({"bucket": -1}, "bucket -1 of 1"),
    "more deletions than rows": ({"deletes": 6, "updates": 5}, "6 deletions and 5 updates among 10 rows"),
    "negative size": ({"size": -1}, "-1 bytes"),
    "keys backwards": ({"min_key": b"z"}, "least to a greatest"),
    "no key": ({"max_key": None}, "least to a greatest"),
    "deletions at the bottom": ({"level": Level.BOTTOM, "deletes": 1}, "at the bottom"),
    "partition": ({"partition": (b"a",)}, "1 partition values; the table has 0"),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_entry_that_cannot_be_true_is_named(what: str) -> None:
    """It is one problem of one file, and says what cannot be."""
    changes, said = WRONG[what]
    ((path, problem, detail),) = entry_problems([entry("f", **changes)], SCHEMA, SNAPSHOT)
    assert (path, problem) == ("f", Problem.ENTRY)
    assert said in detail


def test_a_file_is_listed_once() -> None:
    """Without a key files may stand anywhere, and none stands there twice."""
    plain = schema_of(primary_key=())
    twice = [entry("a", min_key=None, max_key=None)] * 2
    assert problems(*twice, schema=plain) == [("a", Problem.ENTRY)]


def test_deleted_keys_need_no_partition() -> None:
    """A file of deleted keys alone may say no partition; one with rows must."""
    parted = schema_of(partition_by=("day",))
    assert not problems(entry("keys", deletes=10), schema=parted)
    assert problems(entry("rows", deletes=9), schema=parted) == [("rows", Problem.ENTRY)]


def test_intervals_of_runs_do_not_overlap() -> None:
    """A run that begins before the one below it ends is named; in another unit it is none of its business."""
    below, above = entry("below", 4, lo=(2, 1, 0), hi=(4, 1, 0)), entry("above", 5, lo=(3, 1, 0))
    assert problems(below, above) == [("above", Problem.INTERVAL)]
    buckets = schema_of(buckets=2)
    apart = [dataclasses.replace(one, bucket=n, total_buckets=2) for n, one in enumerate((below, above))]
    assert not problems(*apart, schema=buckets)


def test_only_the_oldest_run_is_at_the_bottom() -> None:
    """A bottom run with an older one below it would bring back rows that it has forgotten were deleted."""
    assert problems(entry("old", 2), entry("bottom", 3, level=Level.BOTTOM)) == [("bottom", Problem.INTERVAL)]


def test_files_of_a_run_share_no_key() -> None:
    """The second of two that do is named."""
    assert problems(entry("one"), entry("two", min_key=b"m", max_key=b"z")) == [("two", Problem.INTERVAL)]


def test_files_of_a_run_in_several_partitions_may_overlap() -> None:
    """Where a key may move between partitions, files of one run lie in several, and have other keys."""
    parted = schema_of(partition_by=("day",))
    files = [entry(name, partition=(name.encode(),)) for name in ("one", "two")]
    assert not problems(*files, schema=parted)
