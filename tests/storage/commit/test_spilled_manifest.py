"""Manifests that a commit writes: when, how often, and what their references say."""

from __future__ import annotations

import dataclasses

import google_crc32c

from lakehouse.format.metadata import decode_manifest
from lakehouse.storage.commit.spilled_manifest import SpilledManifest, write_manifest
from lakehouse.testing import RecordingStore, memory_store
from tests.kit.committers import ROOT, TestTable, create_table, entry
from tests.kit.table_samples import SNAPSHOT, TABLE

MANY = tuple(entry(f"f{number}") for number in range(129))


async def test_few_entries_stay_in_the_snapshot() -> None:
    """Up to 128 entries of a commit need no manifest, and cost no request."""
    store = RecordingStore(memory_store())
    assert await SpilledManifest(store, ROOT).of(MANY[:128], SNAPSHOT) is None
    assert store.calls == []


async def test_many_entries_are_written_once() -> None:
    """Every attempt at a commit refers to the same manifest; other entries get another."""
    store = RecordingStore(memory_store())
    spilled = SpilledManifest(store, ROOT)
    first = await spilled.of(MANY, SNAPSHOT)
    assert first is not None
    assert await spilled.of(MANY, SNAPSHOT) is first
    assert store.kinds() == {"put": 1}
    split = await spilled.of((*MANY, entry("more")), SNAPSHOT)
    assert split is not None
    assert (first.entries, split.entries) == (129, 130)
    assert first.path != split.path


async def test_a_reference_describes_its_manifest() -> None:
    """It has the size and the checksum of the object, and the sums of its entries."""
    store = memory_store()
    ref = await write_manifest(store, ROOT, SNAPSHOT, MANY)
    data = (await store.get(f"{ROOT}/{ref.path}")).data
    assert (ref.size, ref.checksum) == (len(data), google_crc32c.value(data))
    assert (ref.entries, ref.rows, ref.at) == (129, 129, None)
    found = decode_manifest(data, key=ref.path, table=TABLE, checksum=ref.checksum)
    assert [one.path for one in found] == [one.path for one in MANY]


async def test_a_reference_bounds_the_partitions() -> None:
    """The bounds hold the least and the greatest value of each partition column."""
    values = [(b"a", b"z"), (b"c", b"x"), (b"b", b"y")]
    entries = tuple(dataclasses.replace(entry("f"), partition=value) for value in values)
    ref = await write_manifest(memory_store(), ROOT, SNAPSHOT, entries)
    assert (ref.partition_low, ref.partition_high) == ((b"a", b"x"), (b"c", b"z"))


async def test_deleted_keys_may_be_of_any_partition() -> None:
    """A manifest with a file that says no partition has no bounds, so that no scan passes it over."""
    entries = (dataclasses.replace(entry("a"), partition=(b"a",)), entry("keys"))
    ref = await write_manifest(memory_store(), ROOT, SNAPSHOT, entries)
    assert (ref.partition_low, ref.partition_high) == ((), ())


async def test_a_large_commit_lists_its_files_in_a_manifest() -> None:
    """Files that are too many for a snapshot go into one manifest, written once however often it is tried."""
    inner = memory_store()
    await create_table(inner)
    other = TestTable(inner)
    store = RecordingStore(inner)
    table = TestTable(store)
    await table.snapshots.head()
    await other.add("theirs")
    await table.add(*(f"f{n}" for n in range(500)))
    assert sum(call.verb == "put" for call in store.calls) == 1
    head = (await TestTable(inner).snapshots.head()).snapshot
    assert not [one for one in head.added if one.path != "theirs"]
    entries = await other.manifests.entries(head)
    assert len(entries) == 501
    assert {one.lo for one in entries if one.path != "theirs"} == {(3, 1, 0)}
