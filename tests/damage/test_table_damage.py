"""Tables whose objects were damaged: what does not use the object reads right, what does says which it is.

Every object of a small table is taken away, cut off, changed and exchanged, one at a time. Every snapshot
is then read by a process that opens the table afresh.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
from collections.abc import Awaitable, Iterator, Mapping
from typing import TypeVar

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import (
    FormatError,
    NotFoundError,
    UnsupportedVersionError,
)
from lakehouse.format.metadata.hint import encode_hint
from lakehouse.format.metadata.name_pointer import decode_pointer, encode_pointer
from lakehouse.format.metadata.sealed_json import seal
from lakehouse.format.metadata.snapshot import decode_snapshot, encode_snapshot
from lakehouse.storage.commit import spilled_manifest
from lakehouse.storage.table import Table
from lakehouse.testing import ManualClock
from tests.kit.blob_samples import flipped
from tests.kit.table_samples import POINTER, SNAPSHOT
from tests.kit.worlds import NAME, Row, World, process, restored, saved, table_of

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.float64()})
T = TypeVar("T")
Rows = list[tuple[int, str, float | None]]


def some(*numbers: int, value: float | None = None) -> list[Row]:
    """Rows of these numbers, in two partitions."""
    return [{"id": n, "part": "ab"[n % 2], "v": n / 2 if value is None else value} for n in numbers]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A table, what each of its snapshots holds, and which objects each of them needs."""

    world: World
    rows: Mapping[int, Rows]
    needs: Mapping[int, frozenset[str]]
    """Keys of data files, manifests and schema objects."""
    root: str

    @property
    def head(self) -> int:
        """The newest snapshot."""
        return max(self.rows)

    def snapshot(self, number: int) -> str:
        """Key of a snapshot's object."""
        return f"{self.root}/snapshot/snapshot-{number:020}"

    def kind(self, key: str) -> str:
        """What sort of object it is."""
        return key.removeprefix(self.root + "/").partition("/")[0] if key.startswith(self.root) else key

    def objects(self) -> list[str]:
        """The objects of the table and of its database."""
        return [key for key in self.world if not key.startswith(("db/other-", "db/_tables/other"))]


async def rows_in(table: Table, number: int | None = None) -> Rows:
    """What a snapshot holds."""
    found = await table.scan(snapshot=number).to_pylist()
    return sorted((one["id"], one["part"], one["v"]) for one in found)


async def _known() -> Known:
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    layout = {"primary_key": ["id", "part"], "partition_by": "part"}
    for name, value in (("db.other", 0.25), (NAME, None)):
        table = await lake.create_table(name, SCHEMA, **layout)
        await table.append(some(*range(40), value=value))
        await table.set_option("file.format.level0", "sst")
        await table.upsert(some(1, 2, 50, value=0.5))
        await table.add_column("c", "int", default=3)
        await table.create_tag("here", snapshot=2)
        await table.delete(keys=[{"id": 3, "part": "b"}, {"id": 4, "part": "a"}])
        await table.append([{"id": 60, "part": "a", "v": 6.0, "c": 1}])
    core = table._table
    head = (await core.snapshots.head()).snapshot
    hinted = (await core.snapshots.snapshot(5, (await core.snapshots.head()).snapshot)).token
    await store.put(f"{core.root}/snapshot/LATEST", encode_hint(5, hinted, core.uuid))
    rows, needs = {}, {}
    for number in range(1, head.id + 1):
        one = await core.snapshots.snapshot(number, head)
        rows[number] = await rows_in(table, number)
        paths = {entry.path for entry in await core.manifests.entries(one)}
        paths |= {ref.path for ref in one.manifests} | {one.schema.path}
        needs[number] = frozenset(f"{core.root}/{path}" for path in paths)
    return Known(world=await saved(store), rows=rows, needs=needs, root=core.root)


@pytest.fixture(scope="module")
async def known() -> Known:
    """Two tables of the same history, with manifests of their own and files of both formats."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spilled_manifest, "_OWN_ENTRIES_MAX", 1)
        found = await _known()
    kinds = {found.kind(key) for key in found.objects()}
    assert {"snapshot", "schema", "manifest", "data", "db/_tables/t", "db/_database"} == kinds
    assert {key.rpartition(".")[2] for key in found.world if "/data/" in key} == {"parquet", "sst"}
    return found


async def outcome(call: Awaitable[T]) -> tuple[FormatError | None, T | None]:
    """What a call said of damage, or what it returned."""
    try:
        return None, await call
    except FormatError as error:
        return error, None


async def check(known: Known, key: str, data: bytes | None, what: str) -> None:
    """Snapshots that need the object are an error that names it; all others read right."""
    world = {**known.world, key: data} if data is not None else dict(known.world)
    if data is None:
        del world[key]
    table = await table_of(await restored(world))
    for number in known.rows:
        needed = key in known.needs[number] or key == known.snapshot(number)
        wanted = known.rows[number]
        if not needed:
            assert await rows_in(table, number) == wanted, (what, number)
            continue
        with pytest.raises(FormatError) as caught:
            pytest.fail(f"{what} of {key}: {await rows_in(table, number)}")
        assert key in str(caught.value), (what, number, caught.value)
        assert isinstance(caught.value, UnsupportedVersionError) == (what == "future")
    if key in known.needs[known.head] or key == known.snapshot(known.head):
        with pytest.raises(FormatError, match=key):
            await rows_in(table, None)


def damages(known: Known, key: str) -> Iterator[tuple[str, bytes | None]]:
    """What may become of an object, other than that it is of a newer format."""
    data, chance = known.world[key], random.Random(key)
    yield "missing", None
    yield "empty", b""
    for end in sorted({1, len(data) // 3, len(data) - 22, len(data) - 1}):
        yield f"cut off at {end}", data[:end]
    yield "longer", data + b"\0"
    yield "garbage", chance.randbytes(len(data))
    yield "zeros", bytes(len(data))
    for bit in sorted(chance.sample(range(len(data) * 8), 6)):
        yield f"bit {bit}", flipped(data, bit)
    alike = [other for other in known.world if other.split("/")[-2:-1] == key.split("/")[-2:-1]]
    for other in sorted(chance.sample(alike, min(5, len(alike)))):
        if other != key and known.world[other] != data:
            yield f"exchanged for {other}", known.world[other]


@pytest.mark.parametrize("sort", ["snapshot", "schema", "manifest", "data"])
async def test_damage_is_noticed_by_those_who_need_the_object(known: Known, sort: str) -> None:
    """A damaged object is named by every read that needs it, and does nothing to any other."""
    keys = [key for key in known.objects() if known.kind(key) == sort and "LATEST" not in key]
    assert len(keys) > 2
    for key in keys:
        for what, data in damages(known, key):
            if data is None and key == known.snapshot(known.head):
                continue
            await check(known, key, data, what)


@pytest.mark.parametrize("sort", ["snapshot", "schema", "manifest", "data"])
async def test_lookups_notice_what_scans_notice(known: Known, sort: str) -> None:
    """A damaged object is named by lookups that need it; a lookup in another snapshot finds its row."""
    for key in known.objects():
        if known.kind(key) != sort or "LATEST" in key:
            continue
        table = await table_of(await restored({**known.world, key: b"x"}))
        for number in range(2, known.head + 1):
            needed = key in known.needs[number] or key == known.snapshot(number)
            for identity, part, value in known.rows[number][::7]:
                error, found = await outcome(table.get({"id": identity, "part": part}, snapshot=number))
                if error is None:
                    assert sort == "data" or not needed
                    assert found is not None
                    assert found["v"] == value
                else:
                    assert needed
                    assert key in str(error)


async def test_a_lost_head_is_a_commit_that_was_not_made(known: Known) -> None:
    """Without the newest snapshot's object the one before is the newest; its id is named when asked for."""
    world = dict(known.world)
    del world[known.snapshot(known.head)]
    table = await table_of(await restored(world))
    assert await rows_in(table) == known.rows[known.head - 1]
    with pytest.raises(NotFoundError, match=f"no snapshot {known.head}: it has 1 to {known.head - 1}"):
        await rows_in(table, known.head)


async def test_a_damaged_pointer_is_named(known: Known) -> None:
    """A table whose name pointer is damaged cannot be opened, and the error names the pointer."""
    key = "db/_tables/t"
    for what, data in damages(known, key):
        if data is None:
            continue
        with pytest.raises(FormatError, match=key):
            await table_of(await restored({**known.world, key: data}))
        assert what
    world = dict(known.world)
    del world[key]
    with pytest.raises(NotFoundError, match=r"no table 'db\.t'"):
        await table_of(await restored(world))


async def test_a_damaged_marker_does_no_harm_to_tables(known: Known) -> None:
    """A database's marker is needed by who asks for the database, not by who reads a table in it."""
    for _, data in damages(known, "db/_database"):
        world = {**known.world, "db/_database": data or b""}
        store = await restored(world)
        assert await rows_in(await table_of(store)) == known.rows[known.head]
        with pytest.raises(FormatError, match="db/_database"):
            await process(store).database_exists("db")


async def test_the_hint_is_never_needed(known: Known) -> None:
    """Whatever became of LATEST, every snapshot reads right."""
    key = f"{known.root}/snapshot/LATEST"
    for what, data in damages(known, key):
        world = {**known.world, key: data or b""}
        if data is None:
            del world[key]
        table = await table_of(await restored(world))
        assert await rows_in(table) == known.rows[known.head], what
        assert await rows_in(table, 2) == known.rows[2], what


async def test_newer_formats_ask_for_an_upgrade(known: Known) -> None:
    """An object of a later format is an error that says so, and what does not need it reads right."""
    for key, data in known.world.items():
        if known.kind(key) in ("snapshot", "schema") and "LATEST" not in key:
            members = json.loads(data)
            del members["crc32c"]
            await check(known, key, seal({**members, "format": 9, "news": []}), "future")
    members = json.loads(known.world["db/_tables/t"])
    del members["crc32c"]
    with pytest.raises(UnsupportedVersionError, match="Upgrade"):
        await table_of(await restored({**known.world, "db/_tables/t": seal({**members, "format": 9})}))


async def test_a_manifest_of_a_newer_format_asks_for_an_upgrade(known: Known) -> None:
    """A sound manifest of a later format is an error that says so."""
    key = known.snapshot(2)
    snapshot = decode_snapshot(known.world[key], key=key)
    (ref,) = snapshot.manifests
    path = f"{known.root}/{ref.path}"
    table = pq.read_table(pa.BufferReader(known.world[path]))
    newer = table.replace_schema_metadata({**table.schema.metadata, b"lakehouse.format": b"2"})
    sink = pa.BufferOutputStream()
    pq.write_table(newer, sink)
    data = sink.getvalue().to_pybytes()
    ref = dataclasses.replace(ref, checksum=google_crc32c.value(data), size=len(data))
    world = {
        **known.world,
        path: data,
        key: encode_snapshot(dataclasses.replace(snapshot, manifests=(ref,))),
    }
    reader = await table_of(await restored(world))
    with pytest.raises(UnsupportedVersionError, match=ref.path):
        await rows_in(reader, 2)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=3), some, max_size=3),
    max_leaves=4,
)
SEALED = {
    "snapshot": (encode_snapshot(SNAPSHOT), decode_snapshot),
    "pointer": (encode_pointer(POINTER), decode_pointer),
}


@pytest.mark.parametrize("sort", SEALED)
@given(data=st.data())
def test_sound_objects_with_other_members_are_judged(sort: str, data: st.DataObject) -> None:
    """An object with a good checksum whose members are something else is read, or is a format error."""
    whole, decode = SEALED[sort]
    members = json.loads(whole)
    del members["crc32c"]
    name = data.draw(st.sampled_from(sorted(members)))
    value = data.draw(json_values)
    with contextlib.suppress(FormatError):
        decode(seal({**members, name: value}), key="k")


@pytest.mark.parametrize("sort", ["snapshot", "schema", "manifest"])
async def test_a_write_to_a_damaged_table_makes_nothing_worse(known: Known, sort: str) -> None:
    """A write to a damaged table is done or names the object; with that one back all reads right."""
    for key in known.objects():
        if known.kind(key) != sort or "LATEST" in key:
            continue
        store = await restored({**known.world, key: known.world[key][:-1]})
        error, _ = await outcome((await table_of(store)).upsert(some(100)))
        assert error is None or key in str(error)
        await store.put(key, known.world[key])
        table = await table_of(store)
        for number, rows in known.rows.items():
            assert await rows_in(table, number) == rows
        assert await rows_in(table) == known.rows[known.head] + [(100, "a", 50.0)] * (error is None)


async def test_foreign_objects_are_ignored(known: Known) -> None:
    """Objects that are none of a table's change nothing, wherever they stand."""
    root = known.root
    foreign = [
        f"{root}/snapshot/snapshot-{known.head + 1}",
        f"{root}/snapshot/snapshot-{known.head + 1:020}.tmp",
        f"{root}/snapshot/snapshot-{known.head + 1:020}/x",
        f"{root}/snapshot/.nfs0001",
        f"{root}/schema/schema-x",
        f"{root}/manifest/.crc",
        f"{root}/data/part=a/bucket-0/_SUCCESS",
        f"{root}/README",
        "db/_tables/_temporary/0",
        "db/_tables/.hidden",
        "db/stray",
        "stray/file",
        "README.md",
    ]
    store = await restored({**known.world, **dict.fromkeys(foreign, b"x")})
    lake = process(store)
    assert await lake.databases() == ["db"]
    assert [name async for name in lake.tables("db")] == ["db.other", "db.t"]
    table = await lake.table(NAME)
    for number, rows in known.rows.items():
        assert await rows_in(table, number) == rows
    done = await table.append(some(100))
    assert done.snapshot == known.head + 1


@pytest.mark.parametrize("off_ms", [-86_400_000, 86_400_000, -3_000, 1_000])
async def test_clocks_that_are_wrong_do_no_harm(off_ms: int) -> None:
    """Processes whose clocks are off write times of the store, ascending, and are found by them."""
    store = await restored({})
    now = (await store.put("time", b"")).store_time_ms
    assert now is not None
    right = process(store)
    await right.create_database("db")
    await right.create_table(NAME, SCHEMA, primary_key="id")
    for number in range(6):
        clock = ManualClock(now + off_ms, skip=True) if number % 2 else None
        table = await table_of(store, clock=clock)
        await table.append(some(number))
    table = await table_of(store)
    found = (await table.snapshots()).to_pylist()
    times = [int(one["time"].timestamp() * 1000) for one in found]
    assert times == sorted(set(times))
    assert max(times) - now < 60_000
    for one, time_ms in zip(found, times, strict=True):
        assert len(await table.scan(timestamp=time_ms).to_pylist()) == one["rows"]


async def test_a_clock_that_jumps_while_a_table_is_open_does_no_harm() -> None:
    """Times ascend also when one process's clock goes back a day between two commits."""
    store = await restored({})
    clock = ManualClock(skip=True)
    lake = process(store, clock=clock)
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key="id")
    for number in range(5):
        await table.append(some(number))
        clock.set_wall(clock.now_ms() - 86_400_000 * (1 if number % 2 else -2))
    times = [one["time"] for one in (await table.snapshots()).to_pylist()]
    assert times == sorted(set(times))
    assert len(await rows_in(table)) == 5
