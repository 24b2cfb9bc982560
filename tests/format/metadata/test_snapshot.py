"""Snapshots, entries, manifests and name pointers: bytes and values."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pickle
import uuid

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError, UnsupportedVersionError
from lakehouse.format.limits.json_object import JsonObject
from lakehouse.format.metadata.entry_json import entry_from_json, entry_to_json
from lakehouse.format.metadata.file_entry import ColumnStats, FileEntry, FileFormat, IndexRef, Level
from lakehouse.format.metadata.manifest import decode_manifest, encode_manifest
from lakehouse.format.metadata.name_pointer import DroppedTable, NameState, decode_pointer, encode_pointer
from lakehouse.format.metadata.sealed_json import seal, unseal
from lakehouse.format.metadata.snapshot import (
    SegmentRange,
    StatisticsRef,
    decode_snapshot,
    encode_snapshot,
)
from tests.kit.blob_samples import ROOT, flipped, spec_block, spec_bytes
from tests.kit.table_samples import COMPACTED, ENTRY, POINTER, SNAPSHOT, TABLE

keys = st.none() | st.binary(max_size=5)
positions = st.none() | st.tuples(st.integers(1, 9), st.integers(0, 1), st.integers(0, 9))
columns = st.builds(ColumnStats, nulls=st.integers(0, 9), low=keys, high=keys, exact=st.booleans()).map(
    lambda one: one if one.low or one.high else ColumnStats(nulls=one.nulls)
)


@st.composite
def index_refs(draw: st.DrawFn) -> IndexRef:
    """Any index file, told of as older releases did or as this one does."""
    plain = IndexRef(path=draw(st.text(min_size=1)), size=draw(st.integers(1, 99)))
    ids = sorted(draw(st.sets(st.integers(1, 2**31 - 1), max_size=3)))
    if not ids:
        return plain
    sizes = st.integers(0, 2**40)
    reach = draw(st.just([]) | st.lists(sizes, min_size=len(ids), max_size=len(ids)).filter(any))
    checksum = draw(st.none() | st.integers(0, 2**32 - 1))
    return dataclasses.replace(
        plain, ids=tuple(ids), footer_bytes=draw(sizes), checksum=checksum, reach=tuple(reach)
    )


@st.composite
def entries(draw: st.DrawFn) -> FileEntry:
    """Any entry."""
    buckets = draw(st.integers(1, 8))
    interval, bounds = draw(positions), draw(st.none() | st.tuples(st.binary(), st.binary()))
    return FileEntry(
        path=draw(st.text(min_size=1)),
        partition=tuple(draw(st.lists(st.binary(max_size=3), max_size=2))),
        bucket=draw(st.integers(0, buckets - 1)),
        total_buckets=buckets,
        run=draw(st.integers(0, 3)),
        at=draw(st.none() | st.integers(1, 99)),
        lo=interval,
        hi=interval,
        level=draw(st.sampled_from(Level)),
        format=draw(st.sampled_from(FileFormat)),
        size=draw(st.integers(0, 2**40)),
        rows=draw(st.integers(0, 2**40)),
        deletes=draw(st.integers(0, 9)),
        updates=draw(st.integers(0, 9)),
        min_key=bounds and bounds[0],
        max_key=bounds and bounds[1],
        stats=draw(st.dictionaries(st.integers(1, 2**31 - 1), columns, max_size=3)),
        schema_id=draw(st.integers(0, 9)),
        checksum=draw(st.none() | st.integers(0, 2**32 - 1)),
        index=draw(st.none() | index_refs()),
    )


def test_the_example_of_the_specification_is_a_snapshot() -> None:
    """The bytes in the specification decode to the snapshot it describes, and encode to the same bytes."""
    data = spec_bytes("snapshot.md", "snapshot")
    assert decode_snapshot(data, key="s") == SNAPSHOT
    assert encode_snapshot(SNAPSHOT) == data


def test_the_example_of_the_specification_is_a_pointer() -> None:
    """The bytes in the specification decode to the pointer it describes, and encode to the same bytes."""
    data = spec_bytes("table.md", "pointer")
    assert decode_pointer(data, key="p") == POINTER
    assert encode_pointer(POINTER) == data


def test_the_example_of_a_purging_pointer_is_one() -> None:
    """The second pointer in the specification decodes to what the page says, and encodes to its bytes."""
    data = spec_bytes("table.md", "pointer-purging")
    found = decode_pointer(data, key="p")
    assert found == dataclasses.replace(
        POINTER,
        state=NameState.PURGING,
        cascade="fedcba9876543210fedcba9876543210",
        before=(
            DroppedTable(
                table=uuid.UUID("11121314-1516-1718-191a-1b1c1d1e1f20"),
                path="sales/orders-11121314",
                state=NameState.DROPPED,
                time_ms=1_750_000_000_000,
            ),
        ),
    )
    assert encode_pointer(found) == data


def test_the_example_of_the_specification_is_a_manifest() -> None:
    """The file that the specification shows decodes to its entry, and is to others what the page says."""
    data = (ROOT / "tests/data/tables/manifest.parquet").read_bytes()
    shown = pq.read_table(pa.BufferReader(data)).to_pylist()
    assert json.loads(spec_block("manifest.md", "manifest")) == json.loads(
        json.dumps(shown[0], default=bytes.hex)
    )
    found = decode_manifest(data, key="m", table=TABLE, checksum=google_crc32c.value(data))
    assert [dataclasses.replace(one, stats=dict(one.stats)) for one in found] == [ENTRY]


@given(entries())
def test_an_entry_survives_json(entry: FileEntry) -> None:
    """An entry comes back from JSON text as it went in."""
    assert entry_from_json(JsonObject(json.loads(json.dumps(entry_to_json(entry))), "s")) == entry


@given(st.lists(entries(), max_size=5))
def test_entries_survive_a_manifest(some: list[FileEntry]) -> None:
    """Entries come back from a manifest as they went in and in their order, also after pickling."""
    data = encode_manifest(some, table=TABLE)
    found = decode_manifest(data, key="m", table=TABLE, checksum=google_crc32c.value(data))
    assert [
        dataclasses.replace(one, stats=dict(one.stats)) for one in pickle.loads(pickle.dumps(found))
    ] == some


def test_what_a_child_carries_says_who_added_it() -> None:
    """Entries and manifests that left it open get the id of their snapshot; others keep theirs."""
    carried = dataclasses.replace(SNAPSHOT, added=(ENTRY, COMPACTED)).with_positions()
    assert [one.at for one in carried.added] == [12, 9]
    assert [one.at for one in carried.manifests] == [10]


def test_a_dropped_pointer_comes_back() -> None:
    """Every member of a pointer survives."""
    moved = dataclasses.replace(POINTER, state=NameState.MOVED, moved_to="sales.old")
    assert decode_pointer(encode_pointer(moved), key="p") == moved


@pytest.mark.parametrize(
    "data", [encode_snapshot(SNAPSHOT), encode_pointer(POINTER)], ids=["snapshot", "pointer"]
)
def test_a_flipped_bit_is_noticed(data: bytes) -> None:
    """Each bit turned over, and each byte cut off, is an error that names the object."""
    decode = decode_snapshot if b"snapshot-" in data or b'"kind"' in data else decode_pointer
    damaged = [flipped(data, bit) for bit in range(len(data) * 8)] + [data[:end] for end in range(len(data))]
    for one in damaged:
        with pytest.raises(CorruptionError, match="the/key"):
            decode(one, key="the/key")


def test_a_damaged_manifest_is_noticed() -> None:
    """Any change of a manifest's bytes is an error that names the object and both checksums."""
    data = encode_manifest([ENTRY], table=TABLE)
    with pytest.raises(CorruptionError, match=r"the/key.*CRC32C"):
        decode_manifest(flipped(data, 99), key="the/key", table=TABLE, checksum=google_crc32c.value(data))


def test_another_tables_manifest_is_refused() -> None:
    """A manifest that stands in another table's directory is an error that names both tables."""
    data = encode_manifest([ENTRY], table=TABLE)
    other = uuid.UUID(int=5)
    with pytest.raises(CorruptionError, match=str(TABLE)):
        decode_manifest(data, key="m", table=other, checksum=google_crc32c.value(data))


def test_a_later_format_asks_for_an_upgrade() -> None:
    """A snapshot of a format this release does not know says so and what to do."""
    members = unseal(encode_snapshot(SNAPSHOT), key="s", what="snapshot", newest=1)
    with pytest.raises(UnsupportedVersionError, match="Upgrade"):
        decode_snapshot(seal({**members, "format": 3}), key="s")


@pytest.mark.parametrize("name", ["id", "token", "kind", "time_ms", "table", "schema", "total"])
def test_a_snapshot_without_a_member_is_refused(name: str) -> None:
    """Sealed JSON that is not a snapshot is an error, not a guess."""
    members = unseal(encode_snapshot(SNAPSHOT), key="s", what="snapshot", newest=1)
    del members[name]
    with pytest.raises(FormatError, match="the/key"):
        decode_snapshot(seal(members), key="the/key")


def test_unknown_members_are_ignored() -> None:
    """A later release may say more without making the snapshot unreadable."""
    members = unseal(encode_snapshot(SNAPSHOT), key="s", what="snapshot", newest=1)
    assert decode_snapshot(seal({**members, "mood": "good"}), key="s") == SNAPSHOT


@given(st.integers(1, 9), st.integers(0, 9), st.sets(st.integers(1, 20)))
def test_a_range_without_numbers_has_the_others(first: int, more: int, away: set[int]) -> None:
    """What is left of a range are the other numbers, in order, with bytes that do not grow."""
    one = SegmentRange(first=first, last=first + more, size=100 * (more + 1), at=5)
    left = one.without(away)
    numbers = [number for part in left for number in range(part.first, part.last + 1)]
    assert numbers == [number for number in range(first, first + more + 1) if number not in away]
    assert sum(part.size for part in left) == 100 * len(numbers)
    assert all(part.at == 5 for part in left)
    assert all(one.last + 1 < other.first for one, other in itertools.pairwise(left))


def test_a_snapshot_refers_to_its_statistics() -> None:
    """The reference comes back; without one the member is left out, as releases without it write."""
    ref = StatisticsRef(snapshot=11, path="statistics/x.puffin", size=99)
    found = dataclasses.replace(SNAPSHOT, statistics=ref)
    data = encode_snapshot(found)
    assert b'"statistics":[11,"statistics/x.puffin",99]' in data
    assert decode_snapshot(data, key="s") == found
    assert b"statistics" not in encode_snapshot(SNAPSHOT)
