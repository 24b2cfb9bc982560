"""Expiry: what stays readable, what is deleted, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    InvalidInputError,
    NotFoundError,
)
from lakehouse.io import ObjectStore
from lakehouse.io.work.progress import Progress
from lakehouse.storage.commit import spilled_manifest
from lakehouse.storage.table import Table
from lakehouse.testing import ManualClock, RecordingStore
from tests.kit.timed_store import HOUR_S, TimedStore
from tests.kit.worlds import NAME, Row, StepIn, process, restored, table_of

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.int64()})


async def made(store: ObjectStore, *, commits: int = 4, **how: Any) -> Table:
    """A table whose every commit replaces all rows: snapshot n + 1 has the row n."""
    lake = process(store, clock=ManualClock())
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key="id", **how)
    for number in range(1, commits + 1):
        await table.overwrite([{"id": number, "v": number}])
    return table


async def timed() -> TimedStore:
    """An empty store with a clock of its own."""
    return TimedStore(await restored({}))


async def objects(store: ObjectStore, kind: str = "") -> list[str]:
    """Keys of a table's objects of some directory."""
    found = [one.key async for one in store.list("db/t-")]
    return [key for key in found if f"/{kind}" in key and "LATEST" not in key]


async def rows(table: Table, snapshot: int | None = None, **at: Any) -> list[Row]:
    """What a snapshot holds."""
    return await table.scan(snapshot=snapshot, **at).to_pylist()


async def test_expired_snapshots_are_gone_for_readers_at_once() -> None:
    """The commit alone makes older snapshots unreadable; the newest so many stay."""
    store = await timed()
    table = await made(store)
    done = await table.expire_snapshots(retain=2)
    assert (done.earliest, done.expired, done.snapshot) == (4, 3, 6)
    for reader in (table, await table_of(store)):
        assert await rows(reader, 4) == [{"id": 3, "v": 3}]
        assert await rows(reader) == [{"id": 4, "v": 4}]
        with pytest.raises(NotFoundError, match="it has 4 to 6"):
            await rows(reader, 3)


async def test_objects_go_when_the_grace_is_over() -> None:
    """Nothing is deleted before ``delete_grace_s`` has passed since the commit, and all of it then."""
    store = await timed()
    table = await made(store)
    before = await objects(store)
    done = await table.expire_snapshots(retain=1)
    assert (done.waiting, done.snapshots, done.files) == (4, 0, 0)
    store.advance(HOUR_S - 1)
    done = await table.expire_snapshots()
    assert (done.waiting, done.snapshots, done.files) == (4, 0, 0)
    assert set(before) <= set(await objects(store))
    store.advance(1)
    done = await table.expire_snapshots()
    assert (done.waiting, done.snapshots, done.files) == (0, 4, 3)
    assert len(await objects(store, "data/")) == 1
    assert len(await objects(store, "snapshot/")) == 2
    assert done.bytes > 0
    assert await rows(await table_of(store)) == [{"id": 4, "v": 4}]


async def test_the_grace_counts_from_the_commit_that_made_them_unreachable() -> None:
    """What expired an hour ago goes; what a later commit let expire waits its own hour."""
    store = await timed()
    table = await made(store, commits=6)
    await table.expire_snapshots(retain=5)
    store.advance(HOUR_S / 2)
    await table.expire_snapshots(retain=2)
    store.advance(HOUR_S / 2)
    done = await table.expire_snapshots()
    assert (done.snapshots, done.waiting) == (2, 4)
    store.advance(HOUR_S / 2)
    done = await table.expire_snapshots()
    assert (done.snapshots, done.waiting) == (4, 0)


async def test_the_option_sets_the_grace() -> None:
    """A table with another ``delete_grace_s`` waits so long."""
    store = await timed()
    table = await made(store, options={"delete_grace_s": 1800})
    await table.expire_snapshots(retain=1)
    store.advance(1799)
    assert (await table.expire_snapshots()).snapshots == 0
    store.advance(1)
    assert (await table.expire_snapshots()).snapshots == 4


async def test_without_grace_everything_goes_in_one_call() -> None:
    """``grace_s=0`` lets snapshots expire and deletes their objects."""
    store = await timed()
    table = await made(store)
    done = await table.expire_snapshots(retain=1, grace_s=0)
    assert (done.expired, done.snapshots, done.files, done.waiting) == (4, 4, 3, 0)


async def test_snapshots_expire_by_age() -> None:
    """Snapshots older than a moment expire, the newest one never."""
    store = await timed()
    clock = ManualClock(skip=True)
    lake = process(store, clock=clock)
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key="id")
    for number in range(4):
        await clock.sleep(60)
        store.advance(60)
        await table.append([{"id": number, "v": 0}])
    times = {one["snapshot"]: one["time"] for one in (await table.snapshots()).to_pylist()}
    assert (await table.expire_snapshots(older_than=times[1])).expired == 0
    assert (await table.expire_snapshots(older_than=times[3])).earliest == 3
    assert (await table.expire_snapshots(older_than=times[4], retain=100)).earliest == 3
    assert (await table.expire_snapshots(older_than="2100-01-01", retain=3)).earliest == 4
    assert (await table.expire_snapshots(older_than="2100-01-01")).earliest == 7
    assert len(await rows(table)) == 4


async def test_tagged_and_pinned_snapshots_stay() -> None:
    """A tag keeps its snapshot readable and its objects there; dropping it gives them an hour more."""
    store = await timed()
    table = await made(store)
    await table.create_tag("two", snapshot=2)
    async with table.pin(3):
        await table.expire_snapshots(retain=1)
        store.advance(HOUR_S)
        done = await table.expire_snapshots()
        assert (done.snapshots, done.waiting) == (4, 0)
        assert await rows(await table_of(store), tag="two") == [{"id": 1, "v": 1}]
        assert await rows(await table_of(store), 3) == [{"id": 2, "v": 2}]
    await table.delete_tag("two")
    assert (await table.expire_snapshots()).waiting == 2
    store.advance(HOUR_S)
    assert (await table.expire_snapshots()).snapshots == 2
    assert len(await objects(store, "data/")) == 1


async def test_a_pin_that_ended_keeps_its_snapshot_until_a_commit_says_so() -> None:
    """The pin of a process that died keeps its snapshot until its time is over and a commit drops it."""
    store = await timed()
    clock = ManualClock()
    table = await made(store)
    dead = await table_of(store, clock=clock)
    pinned = dead.pin(2, ttl_s=60)
    await pinned.__aenter__()
    await table.expire_snapshots(retain=1, grace_s=0)
    assert await rows(table, 2) == [{"id": 1, "v": 1}]
    clock.set_wall(clock.now_ms() + 61_000)
    store.advance(61)
    assert (await table.expire_snapshots(grace_s=0)).snapshots == 0
    await (await table_of(store)).append([{"id": 9, "v": 9}])
    assert (await table.expire_snapshots(grace_s=0)).snapshots == 1
    await pinned.__aexit__(None, None, None)


async def test_files_that_a_rollback_brought_back_stay() -> None:
    """A file that later snapshots lost stays when a rollback took it up again, in whichever manifest."""
    for inline in (128, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spilled_manifest, "_OWN_ENTRIES_MAX", inline)
            store = await timed()
            table = await made(store)
            await table.rollback(snapshot=2)
            await table.append([{"id": 7, "v": 7}])
            done = await table.expire_snapshots(retain=1, grace_s=0)
            assert done.files == 3
            assert await rows(await table_of(store)) == [{"id": 1, "v": 1}, {"id": 7, "v": 7}]


async def test_manifests_and_files_removed_from_them_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest that newer snapshots still list keeps what lives in it, and nothing else."""
    monkeypatch.setattr(spilled_manifest, "_OWN_ENTRIES_MAX", 1)
    store = await timed()
    lake = process(store, clock=ManualClock())
    await lake.create_database("db")
    layout = {"primary_key": ["id", "v"], "partition_by": "v"}
    table = await lake.create_table(NAME, SCHEMA, **layout)
    await table.append([{"id": n, "v": n % 4} for n in range(8)])
    await table.delete("v = 1")
    await table.expire_snapshots(retain=1, grace_s=0)
    assert len(await objects(store, "data/")) == 3
    assert len(await objects(store, "manifest/")) == 1
    await table.delete("v = 2")
    await table.overwrite([{"id": 0, "v": 0}])
    done = await table.expire_snapshots(retain=1, grace_s=0)
    assert (done.files, done.metadata) == (3, 1)
    assert await objects(store, "manifest/") == []
    assert await rows(table) == [{"id": 0, "v": 0}]


async def test_schemas_that_files_were_written_with_stay() -> None:
    """Schemas before the newest stay, those that a rollback undid go with the snapshots that had them."""
    store = await timed()
    table = await made(store, commits=1)
    await table.add_column("a", "int")
    await table.add_column("b", "int")
    await table.expire_snapshots(retain=1, grace_s=0)
    assert len(await objects(store, "schema/")) == 3
    assert len((await table.schemas()).to_pylist()) == 3
    number = await table.current_snapshot()
    await table.add_column("c", "int")
    await table.rollback(snapshot=number)
    done = await table.expire_snapshots(retain=1, grace_s=0)
    assert done.metadata == 1
    assert len((await (await table_of(store)).schemas()).to_pylist()) == 4


async def test_dry_run_tells_what_would_be_done_and_does_nothing() -> None:
    """A dry run makes no commit, deletes nothing, and says what the same call does then."""
    store = await timed()
    table = await made(store)
    before, head = await objects(store), await table.current_snapshot()
    recorded = RecordingStore(store)
    would = await (await table_of(recorded)).expire_snapshots(retain=2, grace_s=0, dry_run=True)
    assert set(recorded.kinds()) <= {"get", "list", "head"}
    assert (await objects(store), await table.current_snapshot()) == (before, head)
    done = await table.expire_snapshots(retain=2, grace_s=0)
    for name in ("earliest", "expired", "waiting", "snapshots", "files", "metadata", "bytes"):
        assert getattr(would, name) == getattr(done, name), name
    assert (would.dry_run, done.dry_run) == (True, False)
    assert "would be" in str(would)


async def test_requests_of_an_expiry() -> None:
    """A call makes one commit, one listing per thousand snapshots, a read per snapshot, and few deletes."""
    store = RecordingStore(await timed())
    await made(store, commits=12)
    table = await table_of(store)
    await table.current_snapshot()
    store.clear()
    done = await table.expire_snapshots(retain=2, grace_s=0)
    assert (done.snapshots, done.files) == (11, 10)
    # Of 14 snapshots two are known, and there are two looks for a newer one.
    assert store.kinds() == {"head": 1, "put": 1, "list": 1, "get": 12 + 2, "delete": 2}
    assert done.cost.by_kind() == store.kinds()
    store.clear()
    assert (await table.expire_snapshots(retain=2, grace_s=0)).snapshots == 1
    store.clear()
    assert not (await table.expire_snapshots(grace_s=0)).snapshots
    assert store.kinds() == {"head": 1, "list": 1, "get": 1}


async def test_progress_is_told() -> None:
    """The callback hears of every step, with totals where they are known."""
    store = await timed()
    table = await made(store)
    told: list[Progress] = []
    await table.expire_snapshots(retain=1, grace_s=0, progress=told.append)
    assert {one.step for one in told} == {"read snapshots", "delete"}
    assert (told[1].done, told[1].total) == (2, 2)
    assert str(told[1]) == "read snapshots: 2 of 2"


@pytest.mark.parametrize("wrong", [{"retain": 0}, {"retain": 1.5}, {"retain": True}, {"grace_s": -1}])
async def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    """An argument that means nothing is an error that names it."""
    table = await made(await timed(), commits=1)
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        await table.expire_snapshots(**wrong)


# --- others, at the same time ---------------------------------------------------------


async def test_a_tag_and_an_expiry_race_for_the_log() -> None:
    """A tag that comes first is kept to; one that comes second is told that its snapshot expired."""
    for tag_first in (True, False):
        store = await timed()
        await made(store)
        hooked = StepIn(store)
        mine, theirs = await table_of(hooked), await table_of(store)
        await mine.current_snapshot()

        async def tag(table: Table = theirs) -> None:
            await table.create_tag("two", snapshot=2)

        async def expire(table: Table = theirs) -> None:
            await table.expire_snapshots(retain=1, grace_s=0)

        hooked.before(0, "/snapshot/", tag if tag_first else expire, verb="put_if_absent")
        if tag_first:
            await mine.expire_snapshots(retain=1, grace_s=0)
            assert await rows(await table_of(store), tag="two") == [{"id": 1, "v": 1}]
        else:
            with pytest.raises(NotFoundError, match="snapshot 2 cannot be tagged"):
                await mine.create_tag("two", snapshot=2)


async def test_a_snapshot_that_another_name_keeps_may_be_named() -> None:
    """A tag of an expired snapshot holds where another tag keeps it, and goes on when that one is dropped."""
    store = await timed()
    await made(store)
    table = await table_of(store)
    await table.create_tag("two", snapshot=2)
    await table.expire_snapshots(retain=1, grace_s=0)
    await table.create_tag("deux", snapshot=2)
    await table.delete_tag("two")
    await table.expire_snapshots(retain=1, grace_s=0)
    assert await rows(await table_of(store), tag="deux") == [{"id": 1, "v": 1}]


async def test_commits_while_objects_are_deleted_lose_nothing() -> None:
    """Whatever others commit in the middle of a deletion, rollbacks among it, reads as it should."""
    for number in range(40):
        store = await timed()
        await made(store)
        hooked = StepIn(store)
        mine, theirs = await table_of(hooked), await table_of(store)
        acted: list[int] = []

        async def act(table: Table = theirs, acted: list[int] = acted) -> None:
            acted.append((await table.rollback(snapshot=4)).snapshot)
            await table.append([{"id": 50, "v": 50}])

        hooked.before(number, "", act)
        done = await mine.expire_snapshots(retain=2, grace_s=0)
        if not acted:
            break
        assert done.snapshots in (3, 5)
        assert await rows(await table_of(store)) == [{"id": 3, "v": 3}, {"id": 50, "v": 50}]
    assert number > 12


async def test_two_expiries_at_once_do_the_same_work() -> None:
    """Two that delete at the same time both end well, and together have deleted it."""
    store = await timed()
    await made(store, commits=10)
    tables = [await table_of(store) for _ in range(3)]
    await asyncio.gather(*(table.expire_snapshots(retain=1, grace_s=0) for table in tables))
    await tables[0].expire_snapshots(grace_s=0)
    assert len(await objects(store, "data/")) == 1
    assert await rows(await table_of(store)) == [{"id": 10, "v": 10}]


async def test_a_writer_that_slept_through_grace_and_deletion_is_not_believed() -> None:
    """A commit sent on old knowledge after its id was deleted lands where nobody looks, and says so."""
    store = await timed()
    await made(store)
    clock = ManualClock()
    hooked = StepIn(store)
    sleeper = await table_of(hooked, clock=clock)
    await sleeper.current_snapshot()

    async def sleep() -> None:
        table = await table_of(store)
        for number in range(20, 24):
            await table.overwrite([{"id": number, "v": number}])
        await table.expire_snapshots(retain=1)
        store.advance(2 * HOUR_S)
        await table.expire_snapshots()
        await clock.advance(2 * HOUR_S)

    hooked.before(0, "/snapshot/", sleep, verb="put_if_absent")
    with pytest.raises(CommitUnknownError):
        await sleeper.append([{"id": 99, "v": 99}])
    for table in (sleeper, await table_of(store)):
        assert await rows(table) == [{"id": 23, "v": 23}]
    store.advance(HOUR_S)
    table = await table_of(store)
    await table.expire_snapshots()
    assert len(await objects(store, "data/")) == 1


async def test_stalled_readers_and_writers_have_the_grace() -> None:
    """What a scan or a commit began with is there for another hour, whatever expires meanwhile."""
    store = await timed()
    table = await made(store)
    slow = (await table_of(store)).scan(snapshot=2)
    await slow.explain()
    await table.expire_snapshots(retain=1)
    store.advance(HOUR_S - 1)
    await table.expire_snapshots()
    assert await slow.to_pylist() == [{"id": 1, "v": 1}]


@pytest.mark.parametrize("off_s", [-86_400, 86_400])
async def test_clocks_of_machines_delete_nothing_early(off_s: int) -> None:
    """The store's clock alone tells when the grace is over, however wrong the machine's is or becomes."""
    store = await timed()
    await made(store)
    clock = ManualClock()
    table = await table_of(store, clock=clock)
    await table.expire_snapshots(retain=1)
    clock.set_wall(clock.now_ms() + off_s * 1000)
    store.advance(HOUR_S - 1)
    assert (await table.expire_snapshots()).snapshots == 0
    store.advance(1)
    assert (await table.expire_snapshots()).snapshots == 4


async def test_a_commit_by_a_clock_a_day_ahead_holds_nothing_up() -> None:
    """Snapshots whose times are of tomorrow are deleted when the store says that an hour has passed."""
    store = await timed()
    table = await made(store)
    ahead = ManualClock(ManualClock().now_ms() + 86_400_000)
    blind = process(store, clock=ahead)
    await (await blind.table(NAME)).expire_snapshots(retain=1)
    store.advance(HOUR_S)
    assert (await table.expire_snapshots()).snapshots == 4


# --- damage ---------------------------------------------------------------------------


async def test_a_damaged_snapshot_that_stays_stops_deletion() -> None:
    """When it cannot be known what a retained snapshot needs, nothing is deleted and it is named."""
    for damaged in (b"x", None):
        store = await timed()
        await made(store)
        (key,) = [one for one in await objects(store, "snapshot/") if one.endswith("4")]
        data = (await store.get(key)).data
        await (store.put(key, damaged) if damaged else store.delete(key))
        before = await objects(store)
        with pytest.raises(CorruptionError, match=key):
            await (await table_of(store)).expire_snapshots(retain=2, grace_s=0)
        assert set(before) <= set(await objects(store))
        await store.put(key, data)
        assert (await (await table_of(store)).expire_snapshots(grace_s=0)).files == 2


async def test_a_damaged_snapshot_that_expired_holds_nothing_up() -> None:
    """An expired snapshot that cannot be read is deleted and reported; others go with their files."""
    store = await timed()
    table = await made(store)
    (key,) = [one for one in await objects(store, "snapshot/") if one.endswith("3")]
    await store.put(key, b"x")
    done = await table.expire_snapshots(retain=1, grace_s=0)
    assert (done.unreadable, done.snapshots, done.files) == ((3,), 4, 2)
    assert await rows(await table_of(store)) == [{"id": 4, "v": 4}]


async def test_foreign_objects_stay() -> None:
    """Objects that are none of ours are not deleted, wherever they stand."""
    store = await timed()
    table = await made(store)
    root = (await objects(store))[0].split("/data/")[0]
    foreign = [f"{root}/snapshot/snapshot-1", f"{root}/snapshot/x", f"{root}/data/_SUCCESS", f"{root}/README"]
    for key in foreign:
        await store.put(key, b"x")
    await table.expire_snapshots(retain=1, grace_s=0)
    assert set(foreign) <= set(await objects(store))


async def test_old_uploads_of_a_reading_write_are_refused() -> None:
    """A delete that slept between its upload and its commit does not commit files that may be gone."""
    store = await timed()
    table = await made(store)
    clock = ManualClock()
    hooked = StepIn(store)
    sleeper = await table_of(hooked, clock=clock)
    await sleeper.current_snapshot()

    async def sleep() -> None:
        store.advance(26 * HOUR_S)
        await table.remove_orphans()
        await clock.advance(26 * HOUR_S)

    hooked.before(0, "/snapshot/", sleep, verb="put_if_absent")
    with pytest.raises((ConflictError, CommitUnknownError)):
        await sleeper.delete("v = 4")
    assert await rows(await table_of(store)) == [{"id": 4, "v": 4}]


# --- the write-ahead log --------------------------------------------------------------


async def segments(store: ObjectStore) -> list[int]:
    """Numbers of the WAL segments there are."""
    return [int(key[-24:-4]) for key in await objects(store, "wal/")]


async def streamed(store: ObjectStore) -> Table:
    """A table whose streaming writer has flushed four puts, one by one."""
    await made(store, commits=0)
    table = await table_of(store)
    for number in range(4):
        async with table.writer() as writer:
            await (await writer.put([{"id": number, "v": number}]))
    return table


async def test_segments_go_when_no_snapshot_holds_them() -> None:
    """WAL segments in data files go after the grace; the newest stays, and rows are there all the time."""
    store = await timed()
    table = await streamed(store)
    before = await segments(store)
    assert len(before) > 4
    assert not (await table.expire_snapshots(retain=1)).segments
    store.advance(HOUR_S)
    done = await table.expire_snapshots()
    assert done.segments
    assert (await segments(store))[-1] == before[-1]
    assert len(await segments(store)) == len(before) - done.segments < 3
    reader = await table_of(store)
    assert len(await rows(reader)) == 4
    assert (await reader.verify(deep=True)).ok
    async with reader.writer() as writer:
        await (await writer.put([{"id": 9, "v": 9}]))
    assert len(await rows(await table_of(store))) == 5


async def test_segments_that_a_tagged_snapshot_holds_stay() -> None:
    """A snapshot that has covered segments in no file keeps them; all others go."""
    store = await timed()
    await made(store, commits=0)
    table = await table_of(store)
    async with table.writer() as writer:
        await (await writer.put([{"id": 1, "v": 1}]))
        other = await table_of(store)
        covering = await other.append([{"id": 2, "v": 2}])
        await other.create_tag("covering", snapshot=covering.snapshot)
    held = await rows(table, tag="covering")
    assert [row["id"] for row in held] == [1, 2]
    for number in range(3, 5):
        await table.append([{"id": number, "v": number}])
    await table.expire_snapshots(retain=1, grace_s=0)
    assert await rows(await table_of(store), tag="covering") == held
    assert (await (await table_of(store)).verify(deep=True)).ok
