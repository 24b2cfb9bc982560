"""Folds: which entries go into manifests, and whether a plan still holds for a newer head."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from lakehouse.format.metadata import CommitKind, FileEntry, IndexRef, ManifestRef, SchemaRef, Snapshot
from lakehouse.storage.commit.fold import fold_is_due, plan_fold
from lakehouse.testing import memory_store
from tests.kit.committers import TestTable, create_table, entry
from tests.kit.table_samples import TABLE, TOKEN


def head_of(
    *, added: Sequence[FileEntry] = (), removed: Sequence[str] = (), manifests: Sequence[ManifestRef] = ()
) -> Snapshot:
    """A snapshot that lists so much."""
    return Snapshot(
        id=9,
        token=TOKEN,
        parent=None,
        kind=CommitKind.APPEND,
        time_ms=1_000,
        table=TABLE,
        schema=SchemaRef(id=0, path="schema/schema-none"),
        added=tuple(added),
        removed=tuple(removed),
        manifests=tuple(manifests),
    )


def manifest(path: str, entries: int = 1) -> ManifestRef:
    """A reference to a manifest."""
    return ManifestRef(path=path, size=1, entries=entries, rows=entries, checksum=0, at=1)


def some(count: int, name: str = "f") -> list[FileEntry]:
    """Files that differ in their paths alone."""
    return [entry(f"{name}{number}") for number in range(count)]


@pytest.mark.parametrize(
    ("fits", "is_more"),
    [
        (head_of(added=some(128)), head_of(added=some(129))),
        (head_of(removed=["x"] * 512), head_of(removed=["x"] * 513)),
        (head_of(manifests=[manifest("m")] * 32), head_of(manifests=[manifest("m")] * 33)),
    ],
    ids=["entries", "removed paths", "manifests"],
)
def test_a_fold_is_due_when_a_snapshot_lists_too_much(fits: Snapshot, is_more: Snapshot) -> None:
    """A snapshot is folded once it has more entries, removed paths or manifests than it should."""
    assert (fold_is_due(fits), fold_is_due(is_more)) == (False, True)


def test_nothing_to_fold_is_no_plan() -> None:
    """A head that lists no file itself, and whose manifests are sound, is left alone."""
    assert plan_fold(head_of(manifests=[manifest("m")]), [], {"m": some(1)}) is None


def test_entries_of_a_partition_stand_side_by_side() -> None:
    """Folded entries are in the order of partition, bucket and position, so that bounds are narrow."""
    places = [(b"b", 0, 1), (b"a", 1, 1), (b"a", 0, 2), (b"a", 0, 1)]
    inline = [
        dataclasses.replace(entry(f"{name!r}"), partition=(name,), bucket=bucket, lo=(at, 1, 0))
        for name, bucket, at in places
    ]
    fold = plan_fold(head_of(added=inline), inline, {})
    assert fold is not None
    assert fold.outputs == (tuple(inline[number] for number in (3, 2, 1, 0)),)
    assert (fold.replaced, fold.forgotten) == (frozenset(), frozenset())


def test_a_manifest_has_so_many_entries_at_most() -> None:
    """More entries than a full manifest has go into several."""
    inline = some(8_193)
    fold = plan_fold(head_of(added=inline), inline, {})
    assert fold is not None
    assert [len(entries) for entries in fold.outputs] == [8_192, 1]


def test_small_manifests_are_merged_when_there_are_many() -> None:
    """Of more manifests than a snapshot should have the small ones become one; full ones stay."""
    refs = [manifest(f"m{number}") for number in range(32)] + [manifest("full", 8_192)]
    listed = {ref.path: [entry(f"of-{ref.path}")] for ref in refs}
    fold = plan_fold(head_of(manifests=refs), [], listed)
    assert fold is not None
    assert fold.replaced == {f"m{number}" for number in range(32)}
    assert [{one.path for one in entries} for entries in fold.outputs] == [
        {f"of-m{number}" for number in range(32)}
    ]
    assert plan_fold(head_of(manifests=refs[1:]), [], listed) is None


def test_removed_paths_are_forgotten_with_the_manifest_that_lists_them() -> None:
    """When a snapshot remembers too many, manifests with removed files are written anew without them."""
    removed = ["dead", *(f"x{number}" for number in range(512))]
    listed = {"worn": [entry("dead"), entry("live")], "sound": some(1)}
    head = head_of(removed=removed, manifests=[manifest("worn", 2), manifest("sound")])
    fold = plan_fold(head, [], listed)
    assert fold is not None
    assert (fold.replaced, fold.forgotten) == ({"worn"}, {"dead"})
    assert fold.outputs == ((entry("live"),),)
    assert plan_fold(dataclasses.replace(head, removed=("dead",)), [], listed) is None


def test_a_file_is_in_one_manifest() -> None:
    """A file whose entry was replaced is listed by its old manifest too, which is written anew without it."""
    again = dataclasses.replace(entry("a"), index=IndexRef(path="i", size=1))
    head = head_of(added=[again], removed=["a"], manifests=[manifest("m", 2)])
    fold = plan_fold(head, [again], {"m": [entry("a"), entry("b")]})
    assert fold is not None
    assert sorted(one.path for entries in fold.outputs for one in entries) == ["a", "b"]
    assert (fold.replaced, fold.forgotten) == ({"m"}, {"a"})


def test_a_fold_fits_while_its_entries_are_as_they_were() -> None:
    """It is used on later heads, and on none where a folded entry, path or manifest is there no more."""
    inline = some(2)
    head = head_of(added=inline, removed=["f1"], manifests=[manifest("m", 2)])
    fold = plan_fold(head, inline, {"m": [entry("f1"), entry("live")]})
    assert fold is not None
    assert fold.fits(head)
    assert fold.fits(dataclasses.replace(head, added=(*inline, entry("new")), removed=("f1", "other")))
    indexed = dataclasses.replace(inline[0], index=IndexRef(path="i", size=1))
    assert not fold.fits(dataclasses.replace(head, added=(indexed, inline[1])))
    assert not fold.fits(dataclasses.replace(head, added=(inline[1],)))
    assert not fold.fits(dataclasses.replace(head, removed=()))
    assert not fold.fits(dataclasses.replace(head, manifests=()))


async def test_many_small_commits_fold_into_manifests() -> None:
    """Snapshots stay short and the files of every snapshot stay the same, over hundreds of commits."""
    store = memory_store()
    await create_table(store)
    table = TestTable(store)
    for number in range(300):
        await table.add(f"f{number}")
    fresh = TestTable(store)
    head = (await fresh.snapshots.head()).snapshot
    assert len(head.added) <= 129
    assert len(head.manifests) == 2
    for number in (1, 100, 131, 200, 301):
        snapshot = await fresh.snapshots.snapshot(number, head)
        entries = await fresh.manifests.entries(snapshot)
        assert sorted(one.path for one in entries) == sorted(f"f{n}" for n in range(number - 1))
        assert all(one.lo == (one.at, 1, 0) and one.path == f"f{one.at - 2}" for one in entries if one.at)
    size = len((await store.get(fresh.snapshots.log.key(head.id))).data)
    assert size < 64 * 1024
