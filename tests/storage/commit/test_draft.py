"""The next snapshot of a draft: its files, its sums, and what it keeps of the head."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lakehouse.errors import ConflictError
from lakehouse.format.metadata import (
    CommitKind,
    Counts,
    FileEntry,
    IndexRef,
    ManifestRef,
    ParentRef,
    Ref,
    RefKind,
    SchemaRef,
    SegmentRange,
    Snapshot,
    WalRef,
    WriterMark,
)
from lakehouse.storage.commit.draft import Draft, child_of, counts_of
from lakehouse.storage.wal.tail import Tail
from tests.kit.committers import entry
from tests.kit.table_samples import TABLE

DAY_MS = 24 * 3_600_000
LISTED = ManifestRef(path="manifest/m", size=100, entries=2, rows=2, checksum=1, at=3)
HEAD = Snapshot(
    id=5,
    token="head",
    parent=ParentRef(id=4, token="before"),
    kind=CommitKind.APPEND,
    time_ms=1_000,
    table=TABLE,
    schema=SchemaRef(id=0, path="schema/schema-none"),
    manifests=(LISTED,),
    added=(entry("a"), dataclasses.replace(entry("b"), at=4)),
    removed=("gone",),
    total=Counts(files=3, rows=3, bytes=30),
)
"""A snapshot of four entries: it carries ``a`` and ``b``; its manifest lists ``c``, and ``gone`` no more."""


def child(head: Snapshot = HEAD, *, now_ms: int = 2_000, **draft: Any) -> Snapshot:
    """The snapshot after the head with such a draft."""
    return child_of(head, Draft(**{"kind": CommitKind.APPEND, **draft}), token="mine", now_ms=now_ms)


def paths(entries: tuple[FileEntry, ...]) -> list[str]:
    """Paths of files."""
    return [one.path for one in entries]


def test_a_child_names_its_parent() -> None:
    """It has the next number, and the id and token of the head it was decided on."""
    made = child()
    assert (made.id, made.token, made.parent) == (6, "mine", ParentRef(id=5, token="head"))


@pytest.mark.parametrize(("now_ms", "time_ms"), [(10, 1_001), (1_000, 1_001), (5_000, 5_000)])
def test_time_grows_with_numbers(now_ms: int, time_ms: int) -> None:
    """A clock behind the head's time does not turn time back."""
    assert child(now_ms=now_ms).time_ms == time_ms


def test_files_keep_the_snapshot_that_added_them() -> None:
    """Entries of the head get its number where they have none; new ones leave it open."""
    made = child(added=(entry("new"),))
    assert [(one.path, one.at) for one in made.added] == [("a", 5), ("b", 4), ("new", None)]


def test_removed_files_are_left_out_where_they_are_listed() -> None:
    """A file that the head carries is carried no more; one that a manifest lists counts as removed."""
    made = child(removed=(entry("a"), entry("c")))
    assert (paths(made.added), made.removed, made.gone) == (["b"], ("gone", "c"), ("a", "c"))


def test_sums_follow_the_files() -> None:
    """The total is the head's, with what was added and without what was removed."""
    made = child(added=(dataclasses.replace(entry("new"), rows=7, size=70),), removed=(entry("a"),))
    assert made.plus == Counts(files=1, rows=7, bytes=70)
    assert made.minus == Counts(files=1, rows=1, bytes=10)
    assert made.total == Counts(files=3, rows=9, bytes=90)


def test_entries_are_summed() -> None:
    """Files, rows and bytes of no entries are none."""
    assert counts_of([]) == Counts()
    assert counts_of([entry("a"), entry("b")]) == Counts(files=2, rows=2, bytes=20)


def test_a_replaced_entry_stands_for_its_file() -> None:
    """A file with another index is listed once, changes no sum, and is not gone."""
    again = dataclasses.replace(entry("c"), at=3, index=IndexRef(path="i", size=1))
    made = child(replaced=(again,))
    assert (made.added[-1], made.removed) == (again, ("gone", "c"))
    assert (made.total, made.gone) == (HEAD.total, ())


def test_a_file_is_removed_once() -> None:
    """A draft that removes what is removed already was decided on another head."""
    with pytest.raises(ConflictError, match="no longer live"):
        child(removed=(entry("gone"),))


@pytest.mark.parametrize(("count", "is_named"), [(256, True), (257, False)])
def test_few_removed_paths_are_named(count: int, is_named: bool) -> None:
    """A snapshot names up to 256 paths that it removed; more are found by comparing it with its parent."""
    files = tuple(entry(f"f{number}") for number in range(count))
    made = child(dataclasses.replace(HEAD, added=files), removed=files)
    assert made.gone == (tuple(paths(files)) if is_named else None)


def test_a_clear_leaves_the_new_files_alone() -> None:
    """Every file and every covered segment of the head is removed, without being read."""
    head = dataclasses.replace(
        HEAD, wal=WalRef(epoch=0, upto=2), segments=(SegmentRange(first=1, last=2, size=9),)
    )
    made = child(head, added=(entry("new"),), clears=True)
    assert (paths(made.added), made.manifests, made.removed, made.segments) == (["new"], (), (), ())
    assert (made.gone, made.minus, made.total) == (None, head.total, counts_of([entry("new")]))


def test_files_of_a_manifest_are_not_listed_again() -> None:
    """New files that have a manifest of their own count, and are not in the snapshot itself."""
    own = ManifestRef(path="manifest/own", size=1, entries=1, rows=1, checksum=2)
    draft = Draft(kind=CommitKind.APPEND, added=(entry("new"),))
    made = child_of(HEAD, draft, token="mine", now_ms=2_000, manifest=own)
    assert (paths(made.added), made.manifests) == (["a", "b"], (LISTED, own))
    assert made.plus == counts_of([entry("new")])


def test_a_rollback_has_the_files_of_its_target_alone() -> None:
    """Files and their sum are the target's; tags and writers are the head's."""
    target = dataclasses.replace(
        HEAD, id=2, manifests=(), added=(entry("old"),), removed=(), total=counts_of([entry("old")])
    )
    head = dataclasses.replace(
        HEAD,
        refs={"v1": Ref(snapshot=3)},
        writers={"w": WriterMark(sequence=1, snapshot=4, time_ms=900)},
    )
    made = child(head, kind=CommitKind.ROLLBACK, files=target)
    assert [(one.path, one.at) for one in made.added] == [("old", 2)]
    assert (made.total, made.plus, made.minus) == (target.total, target.total, HEAD.total)
    assert (made.refs, made.writers) == (head.refs, head.writers)


def test_writers_are_forgotten_after_a_week() -> None:
    """A writer that committed seven days ago is remembered; a moment later it is not."""
    mark = WriterMark(sequence=1, snapshot=5, time_ms=1_000)
    head = dataclasses.replace(HEAD, writers={"w": mark})
    assert child(head, now_ms=1_000 + 7 * DAY_MS).writers == {"w": mark}
    assert child(head, now_ms=1_001 + 7 * DAY_MS).writers == {}


def test_a_sequence_is_recorded_with_its_snapshot() -> None:
    """The last sequence of a writer stands in the snapshot that committed it."""
    made = child_of(HEAD, Draft(kind=CommitKind.APPEND), token="mine", now_ms=2_000, writer=("w", 8))
    assert made.writers == {"w": WriterMark(sequence=8, snapshot=6, time_ms=2_000)}


def test_the_newest_writers_are_remembered() -> None:
    """Of more than a thousand writers the one that is idle longest is forgotten."""
    marks = {f"w{n}": WriterMark(sequence=1, snapshot=5, time_ms=n) for n in range(1_000)}
    head = dataclasses.replace(HEAD, writers=marks)
    made = child_of(head, Draft(kind=CommitKind.APPEND), token="mine", now_ms=2_000, writer=("new", 1))
    assert len(made.writers) == 1_000
    assert marks.keys() - made.writers.keys() == {"w0"}


def test_pins_go_when_their_time_is_over() -> None:
    """A pin that has ended is left out by the next commit; tags and later pins stay."""
    refs = {
        "tag": Ref(snapshot=1),
        "ended": Ref(snapshot=2, kind=RefKind.PIN, expires_ms=2_000),
        "pin": Ref(snapshot=3, kind=RefKind.PIN, expires_ms=2_001),
    }
    assert child(dataclasses.replace(HEAD, refs=refs)).refs.keys() == {"tag", "pin"}


def test_refs_are_made_and_dropped() -> None:
    """A draft names the tags that it makes, and with None those that it drops."""
    head = dataclasses.replace(HEAD, refs={"a": Ref(snapshot=1), "b": Ref(snapshot=2)})
    made = child(head, refs={"a": None, "c": Ref(snapshot=5)})
    assert made.refs == {"b": Ref(snapshot=2), "c": Ref(snapshot=5)}


def test_expiry_and_horizon_never_go_back() -> None:
    """Of the head's and the draft's limit the later one holds."""
    head = dataclasses.replace(HEAD, earliest=3, orphan_horizon_ms=500)
    early = child(head, earliest=2, orphan_horizon_ms=400)
    late = child(head, earliest=4, orphan_horizon_ms=600)
    assert (early.earliest, early.orphan_horizon_ms) == (3, 500)
    assert (late.earliest, late.orphan_horizon_ms) == (4, 600)


def test_flushed_segments_are_covered_no_more() -> None:
    """The rows of a flushed segment are in a file; the others stay where they were covered."""
    segments = SegmentRange(first=1, last=3, size=30, at=4)
    head = dataclasses.replace(HEAD, wal=WalRef(epoch=0, upto=3), segments=(segments,))
    made = child(head, kind=CommitKind.FLUSH, flushed=frozenset({2}))
    assert [(one.first, one.last, one.at) for one in made.segments] == [(1, 1, 4), (3, 3, 4)]
    assert made.wal == head.wal


def test_a_commit_covers_the_tail_of_the_log() -> None:
    """Segments above those that the head covers are covered by the child."""
    head = dataclasses.replace(HEAD, wal=WalRef(epoch=7, upto=3))
    tail = Tail(after=3, sizes=(10, 20))
    made = child_of(head, Draft(kind=CommitKind.APPEND), token="mine", now_ms=2_000, tail=tail)
    assert made.segments == (SegmentRange(first=4, last=5, size=30),)
    assert made.wal == WalRef(epoch=7, upto=5)


def test_a_log_begins_once() -> None:
    """A draft that begins the log leaves one that is there as it is."""
    assert child(begins_log=True).wal == WalRef(epoch=0, upto=0)
    known = WalRef(epoch=3, upto=9)
    assert child(dataclasses.replace(HEAD, wal=known), begins_log=True).wal == known
