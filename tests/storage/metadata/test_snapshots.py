"""The newest snapshot: found by whoever stalls, also past expiry and deletion; missed when it is lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from lakehouse.errors import CorruptionError, UnavailableError
from lakehouse.format.metadata.hint import encode_hint
from lakehouse.ids import new_uuid
from lakehouse.io import ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.protocols import ListPage
from lakehouse.storage.metadata.paths import LATEST, join, snapshot_path
from lakehouse.storage.table import Table
from lakehouse.testing import ManualClock, RecordingStore
from tests.kit.streaming import made, opened, rows_of, some, vanish
from tests.kit.worlds import NAME, StepIn, process, table_of

R = TypeVar("R")
STALL_S = 3_600
SNAPSHOTS = "/snapshot/snapshot-"


async def an_hour_of_others(store: StoreDecorator, clock: ManualClock, *, tag: bool = False) -> None:
    """Others commit two rows, and delete all but the newest snapshot."""
    table = await table_of(store.inner)
    if tag:
        await table.create_tag("kept", snapshot=await table.current_snapshot() - 1)
    for number in (1, 2):
        await table.upsert(some((number, "b", number)))
    for _ in range(2):
        await table.expire_snapshots(retain=1, grace_s=0)
    await clock.advance(STALL_S)


THEIRS = [(1, "b", 1), (2, "b", 2)]


async def test_a_late_answer_that_nothing_is_newer_is_not_believed() -> None:
    """A reader held up past the deadline while it asks for the next snapshot sees all that was committed."""
    store, clock = StepIn(await made()), ManualClock(skip=True)
    table = await table_of(store, clock=clock)
    await table.current_snapshot()
    store.before(0, SNAPSHOTS, lambda: an_hour_of_others(store, clock), verb="get")
    assert await rows_of(table) == THEIRS
    assert store.act is None


async def test_an_answer_in_time_is_believed() -> None:
    """That there is no next snapshot takes one request to know when its answer comes within the deadline."""
    store, clock = StepIn(await made()), ManualClock(skip=True)
    table = await table_of(store, clock=clock)
    known = await table.current_snapshot()

    async def a_while() -> None:
        await clock.advance(200)

    store.before(0, SNAPSHOTS, a_while, verb="get")
    store.list_page = None  # type: ignore[method-assign, assignment]
    assert await table.current_snapshot() == known


@pytest.mark.parametrize("tag", [False, True], ids=["", "tagged"])
async def test_a_snapshot_that_expired_since_it_was_listed_is_not_taken_for_one_that_never_was(
    tag: bool,
) -> None:
    """A reader held up past the deadline between listing and reading the newest snapshot finds the newest."""
    store, clock = StepIn(await made()), ManualClock(skip=True)
    await (await table_of(store)).upsert(some((1, "a", 0)))
    table = await table_of(store, clock=clock)
    await (await table_of(store.inner)).upsert(some((9, "a", 9)))
    store.before(0, SNAPSHOTS, lambda: an_hour_of_others(store, clock, tag=tag), verb="get")
    assert (1, "b", 1) in await rows_of(table)
    assert await table.current_snapshot() == await (await table_of(store.inner)).current_snapshot()


async def test_a_writer_held_up_while_it_looks_for_the_head_overwrites_nothing() -> None:
    """A write that reads decides from what was committed while it was held up."""
    store, clock = StepIn(await made()), ManualClock(skip=True)
    await (await table_of(store)).upsert(some((0, "a", 0)))
    table = await table_of(store, clock=clock)
    await table.current_snapshot()
    store.before(0, SNAPSHOTS, lambda: an_hour_of_others(store, clock), verb="get")
    await table.delete("v = 2")
    assert await rows_of(await table_of(store.inner)) == [(0, "a", 0), (1, "b", 1)]


class AlwaysLate(StoreDecorator):
    """Every read of a snapshot waits until that snapshot is gone."""

    clock: ManualClock

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        if verb == "get" and SNAPSHOTS in key:
            await an_hour_of_others(self, self.clock)
        return await request()


async def test_a_store_that_is_always_late_is_said_to_be() -> None:
    """A head that is gone whenever it is read is an error that asks to try again, after three looks."""
    store = AlwaysLate(await made())
    store.clock = ManualClock(skip=True)
    table = await table_of(store, clock=store.clock)
    with pytest.raises(UnavailableError, match="3 times, an answer took longer than") as told:
        await table.current_snapshot()
    assert told.value.kind == "timeout"


async def test_a_fresh_reader_that_is_late_sees_what_was_put_before() -> None:
    """A reader of the log held up past the deadline while it looks for the head misses nothing."""
    store, clock = StepIn(await made()), ManualClock(skip=True)
    writer = await opened(store.inner)
    await (await writer.put(some((5, "a", 5))))
    await vanish(writer)
    table = await table_of(store, clock=clock)
    await table.current_snapshot()

    async def flushed() -> None:
        await (await table_of(store.inner)).flush()
        await an_hour_of_others(store, clock)

    store.before(0, SNAPSHOTS, flushed, verb="get")
    assert await rows_of(table, "wal") == [*THEIRS, (5, "a", 5)]


# --- a snapshot that LATEST names -------------------------------------------------------------


async def hinted() -> tuple[ObjectStore, str, int]:
    """A store with a table of two rows, its directory, and its newest snapshot, which LATEST names."""
    store = await made()
    async with process(store) as lake:
        table = await lake.table(NAME)
        await table.upsert(some((1, "a", 1)))
        newest = (await table.upsert(some((2, "a", 2)))).snapshot
        core = table._table
        await store.put(join(core.root, LATEST), encode_hint(newest, await _token(table, newest), table.uuid))
    return store, core.root, newest


async def _token(table: Table, number: int) -> str:
    head = (await table._table.snapshots.head()).snapshot
    return (await table._table.snapshots.snapshot(number, head)).token


WRITES: dict[str, Callable[[Table], Awaitable[object]]] = {
    "scan": lambda table: table.scan().to_arrow(),
    "upsert": lambda table: table.upsert(some((3, "a", 3))),
    "delete": lambda table: table.delete("id = 1"),
    "tag": lambda table: table.create_tag("t"),
}


@pytest.mark.parametrize("what", WRITES)
async def test_a_lost_snapshot_that_the_hint_names_is_damage(what: str) -> None:
    """Without the newest snapshot, which LATEST says there was, nothing is read or made in its place."""
    store, root, newest = await hinted()
    await store.delete(join(root, snapshot_path(newest)))
    before = [one.key async for one in store.list(join(root, "snapshot/"))]
    table = await table_of(store)
    with pytest.raises(CorruptionError, match=rf"snapshot {newest} of .* was committed.* repair") as told:
        await WRITES[what](table)
    assert told.value.context["newest"] == newest - 1
    assert [one.key async for one in store.list(join(root, "snapshot/"))] == before
    older = await table.scan(snapshot=newest - 1).to_pylist()
    assert [one["id"] for one in older] == [1]


class Lagging(StoreDecorator):
    """Listings do not show an object, or not yet."""

    def __init__(self, inner: ObjectStore, key: str, listings: int) -> None:
        super().__init__(inner)
        self.key, self.listings = key, listings

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        found = await request()
        if isinstance(found, ListPage) and self.listings:
            self.listings -= 1
            left = tuple(one for one in found.objects if one.key != self.key)
            return dataclasses.replace(found, objects=left)  # type: ignore[return-value]
        return found


@pytest.mark.parametrize("listings", [2, 100])
async def test_a_snapshot_that_listings_do_not_show_yet_is_looked_at_again(listings: int) -> None:
    """Where a listing lags behind, the snapshot that LATEST names is found by its own key."""
    store, root, newest = await hinted()
    lagging = Lagging(store, join(root, snapshot_path(newest)), listings)
    assert await (await table_of(lagging)).current_snapshot() == newest


async def test_a_sound_table_takes_no_second_look() -> None:
    """A process that knows nothing finds the head with the hint, one listing, and one read."""
    store, _, newest = await hinted()
    recording = RecordingStore(store)
    table = await table_of(recording)
    recording.clear()
    assert await table.current_snapshot() == newest
    assert recording.kinds() == {"get": 3, "list": 1}  # the hint, the snapshot, its schema


@pytest.mark.parametrize("above", [1, 5, 10**15])
async def test_a_hint_without_proof_blocks_nobody(above: int) -> None:
    """Where digits or another table's hint name a snapshot that never was, the newest there is is read."""
    store, root, newest = await hinted()
    for data in (str(newest + above).encode(), encode_hint(newest + above, "0" * 32, new_uuid())):
        await store.put(join(root, LATEST), data)
        assert await (await table_of(store)).current_snapshot() == newest


async def test_repair_goes_on_above_lost_snapshots_and_gives_no_id_out_again() -> None:
    """Repair names what is lost, takes the ids that are free, and goes on above the one that LATEST names."""
    store, root, newest = await hinted()
    lost = (newest, newest - 1)
    for number in lost:
        await store.delete(join(root, snapshot_path(number)))
    table = await table_of(store)
    told = await table.repair(dry_run=True)
    done = await table.repair()
    assert sorted(one.object for one in done.losses) == sorted(map(snapshot_path, lost))
    assert done.losses == told.losses
    assert (done.base, done.snapshot) == (newest - 2, newest + 1)
    assert await rows_of(table) == []
    kinds = (await table.snapshots()).column("kind").to_pylist()
    assert kinds[-3:] == ["repair"] * 3
    report = await (await table_of(store)).verify(deep=True)
    assert report.ok, str(report)
    await table.upsert(some((7, "b", 7)))
    assert await rows_of(await table_of(store)) == [(7, "b", 7)]


async def table_before(table: Table, number: int) -> Table:
    """The table, whose process has known this snapshot as the newest since a moment ago."""
    snapshots = table._table.snapshots
    fetched = await snapshots.log.find(number)
    assert fetched is not None
    snapshots.note(snapshots.decoded(fetched), table._table.env.clock.steady())
    return table


async def test_a_writer_that_knows_of_nothing_newer_is_not_overlooked_after_a_repair() -> None:
    """A process that knew the snapshot before the lost one commits behind the repair, not in its place."""
    store, root, newest = await hinted()
    await store.delete(join(root, snapshot_path(newest)))
    knows = await table_before(await table_of(store), newest - 1)
    await (await table_of(store)).repair()
    await knows.upsert(some((7, "b", 7)))
    assert await rows_of(await table_of(store)) == [(1, "a", 1), (7, "b", 7)]


async def test_repair_does_not_believe_a_hint_that_is_far_off() -> None:
    """A hint that names more lost snapshots than there may be is an error that asks for a look."""
    store, root, newest = await hinted()
    table = await table_of(store)
    await store.put(join(root, LATEST), encode_hint(newest + 10**6, "0" * 32, table.uuid))
    with pytest.raises(CorruptionError, match="delete snapshot/LATEST and repair again"):
        await table.repair()
