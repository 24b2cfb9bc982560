"""Manifests: the live files of a snapshot, with their positions, or an error that names what is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import google_crc32c
import pytest

from lakehouse.cache import CacheBudget
from lakehouse.errors import CorruptionError
from lakehouse.format.metadata import FileEntry, ManifestRef, Snapshot, encode_manifest
from lakehouse.io import ObjectStore
from lakehouse.storage.metadata.caches import TableCaches
from lakehouse.storage.metadata.manifests import Manifests, with_position
from lakehouse.testing import RecordingStore, memory_store
from tests.kit.table_logs import HEAD, ROOT
from tests.kit.table_samples import TABLE


def file(path: str, **about: Any) -> FileEntry:
    """Returns the entry of a file that says nothing of its time."""
    return FileEntry(path=path, size=10, rows=1, **about)


async def stored(store: ObjectStore, path: str, *entries: FileEntry, at: int | None = None) -> ManifestRef:
    """Stores a manifest of these entries; returns the reference to it."""
    data = encode_manifest(entries, table=TABLE)
    await store.put(f"{ROOT}/{path}", data)
    return ManifestRef(
        path=path,
        size=len(data),
        entries=len(entries),
        rows=len(entries),
        checksum=google_crc32c.value(data),
        at=at,
    )


def snapshot_of(*manifests: ManifestRef, **about: Any) -> Snapshot:
    """Returns snapshot 9, which refers to these manifests."""
    return dataclasses.replace(HEAD, id=9, manifests=manifests, **about)


def manifests_on(store: ObjectStore) -> Manifests:
    """Returns the manifests as a process reads them that has read none."""
    return Manifests(store, ROOT, TABLE, TableCaches(CacheBudget()).manifests)


def times(entries: Sequence[FileEntry]) -> list[tuple[str, Any, Any, Any]]:
    """Returns the paths of entries and when they were added."""
    return [(one.path, one.at, one.lo, one.hi) for one in entries]


@pytest.mark.parametrize(
    ("about", "filled"),
    [
        ({"run": 2}, (7, (7, 1, 2), (7, 1, 2))),
        ({"at": 3}, (3, (3, 1, 0), (3, 1, 0))),
        ({"lo": (0, 0, 4), "hi": (0, 0, 6)}, (7, (7, 0, 4), (7, 0, 6))),
        ({"lo": (2, 1, 0), "hi": (0, 1, 5), "at": 3}, (3, (2, 1, 0), (3, 1, 5))),
    ],
)
def test_open_positions_are_filled_in(about: dict[str, Any], filled: tuple[Any, ...]) -> None:
    """An entry without a snapshot gets the given one, and a position of snapshot 0 is of its own commit."""
    found = with_position(file("a", **about), 7)
    assert (found.at, found.lo, found.hi) == filled


def test_known_positions_stay() -> None:
    """An entry that says everything is the same for every snapshot that lists it."""
    entry = file("a", at=3, lo=(1, 1, 0), hi=(2, 1, 0))
    assert with_position(entry, 7) is entry


async def test_the_files_of_a_snapshot_are_listed_and_added_and_not_removed() -> None:
    """Live files are those of all manifests without the removed ones, then those that the snapshot adds."""
    store = memory_store()
    snapshot = snapshot_of(
        await stored(store, "manifest/one", file("a"), file("b", at=2), file("b2"), at=4),
        await stored(store, "manifest/two", file("c")),
        added=(file("d"), file("e", at=8)),
        removed=("a",),
    )
    assert times(await manifests_on(store).entries(snapshot)) == [
        ("b", 2, (2, 1, 0), (2, 1, 0)),
        ("b2", 4, (4, 1, 0), (4, 1, 0)),
        ("c", 9, (9, 1, 0), (9, 1, 0)),
        ("d", 9, (9, 1, 0), (9, 1, 0)),
        ("e", 8, (8, 1, 0), (8, 1, 0)),
    ]


async def test_listed_entries_are_there_live_or_not() -> None:
    """Entries of single manifests come with those that the snapshot has removed."""
    store = memory_store()
    one = await stored(store, "manifest/one", file("a"), file("b"))
    two = await stored(store, "manifest/two", file("c"))
    found = await manifests_on(store).listed(snapshot_of(one, two, removed=("a",)), [two, one])
    assert [[entry.path for entry in entries] for entries in found] == [["c"], ["a", "b"]]


async def test_a_manifest_is_read_once() -> None:
    """A manifest never changes, so that later snapshots that refer to it cost no request."""
    store = RecordingStore(memory_store())
    ref = await stored(store, "manifest/one", file("a"), file("b"), at=4)
    manifests = manifests_on(store)
    store.clear()
    assert len(await manifests.entries(snapshot_of(ref))) == 2
    assert store.kinds() == {"get": 1}
    later = dataclasses.replace(snapshot_of(ref, removed=("a",)), id=10)
    assert [one.path for one in await manifests.entries(later)] == ["b"]
    assert store.kinds() == {"get": 1}


async def test_a_large_manifest_is_read_as_a_small_one() -> None:
    """Entries by the thousand, whose manifest is decoded beside the event loop, come in their order."""
    store = memory_store()
    files = [file(f"data/{number * 7919 % 10_007:05}-{number**5:x}") for number in range(6_000)]
    ref = await stored(store, "manifest/one", *files)
    assert ref.size > 64 * 1024
    found = await manifests_on(store).entries(snapshot_of(ref))
    assert [one.path for one in found] == [one.path for one in files]


async def test_a_missing_manifest_is_damage() -> None:
    """A manifest that is gone is an error with its key and the snapshot that refers to it."""
    store = memory_store()
    ref = await stored(store, "manifest/one", file("a"))
    await store.delete(f"{ROOT}/manifest/one")
    said = rf"manifest {ROOT}/manifest/one is missing; snapshot 9 refers to it"
    with pytest.raises(CorruptionError, match=said) as caught:
        await manifests_on(store).entries(snapshot_of(ref))
    assert caught.value.context["snapshot"] == 9


async def test_a_manifest_of_other_files_is_damage() -> None:
    """A manifest that lists more or fewer files than its reference says is an error with both numbers."""
    store = memory_store()
    ref = dataclasses.replace(await stored(store, "manifest/one", file("a")), entries=2)
    with pytest.raises(CorruptionError, match="lists 1 files; snapshot 9 says 2") as caught:
        await manifests_on(store).entries(snapshot_of(ref))
    assert (caught.value.context["expected"], caught.value.context["got"]) == (2, 1)
