"""Objects of dropped tables: when they go, and what stays."""

from __future__ import annotations

import pyarrow as pa

from lakehouse.io import ObjectStore
from lakehouse.lake import Lake
from lakehouse.testing import Fault, FaultKind, FaultyStore, ManualClock, PowerCut
from tests.kit.timed_store import HOUR_S, TimedStore
from tests.kit.worlds import process, restored, saved

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.int64()})


async def made(store: ObjectStore) -> Lake:
    """Tables t and u in the database db, and one in another that is dropped with it."""
    lake = process(store, clock=ManualClock())
    for name in ("db.t", "db.u", "gone.t"):
        await lake.create_database(name.partition(".")[0], if_not_exists=True)
        table = await lake.create_table(name, SCHEMA, primary_key="id")
        await table.append([{"id": 1, "v": 1}])
        await table.add_column("c", "int")
    await lake.drop_table("db.t")
    await lake.drop_database("gone", cascade=True)
    return lake


async def directories(store: ObjectStore) -> set[str]:
    """Directories that have objects, without those of pointers and of markers."""
    keys = [one.key async for one in store.list("")]
    return {key.split("/")[1].rpartition("-")[0] or key.split("/")[1] for key in keys}


async def test_objects_go_when_the_grace_since_the_drop_is_over() -> None:
    """Tables dropped less than an hour ago wait; then all their objects go, live tables keep theirs."""
    store = TimedStore(await restored({}))
    lake = await made(store)
    store.advance(HOUR_S - 1)
    done = await lake.purge_dropped()
    assert (len(done.waiting), done.tables, done.objects) == (2, (), 0)
    store.advance(1)
    done = await lake.purge_dropped()
    assert {one.rpartition("-")[0] for one in done.tables} == {"db/t", "gone/t"}
    assert (done.waiting, done.objects) == ((), 14)
    left = {one.key.rpartition("-")[0] for one in [one async for one in store.list("")] if "-" in one.key}
    assert all(one.startswith("db/u-") for one in left)
    assert await (await process(store).table("db.u")).scan().count() == 1
    await lake.create_table("db.t", SCHEMA)
    assert (await lake.purge_dropped(grace_s=0)).tables == ()


async def test_one_database_can_be_purged() -> None:
    """With a database only its tables are looked at."""
    store = TimedStore(await restored({}))
    lake = await made(store)
    done = await lake.purge_dropped("gone", grace_s=0)
    assert [one.rpartition("-")[0] for one in done.tables] == ["gone/t"]


async def test_foreign_objects_and_pointers_stay() -> None:
    """What is none of ours stays in the directory, and the pointer says that the table was dropped."""
    store = TimedStore(await restored({}))
    lake = await made(store)
    (root,) = [one for one in (await lake.purge_dropped(grace_s=0, dry_run=True)).tables if "db/" in one]
    await store.put(f"{root}/README", b"x")
    done = await lake.purge_dropped(grace_s=0)
    assert done.foreign == 1
    keys = {one.key async for one in store.list("db/")}
    assert {f"{root}/README", "db/_tables/t"} <= keys
    assert (await lake.purge_dropped(grace_s=0)).tables == ()


async def test_dry_run_tells_and_does_nothing() -> None:
    """A dry run deletes nothing and says what the same call does then."""
    store = TimedStore(await restored({}))
    lake = await made(store)
    before = await saved(store)
    would = await lake.purge_dropped(grace_s=0, dry_run=True)
    assert await saved(store) == before
    done = await lake.purge_dropped(grace_s=0)
    assert (would.tables, would.objects, would.bytes) == (done.tables, done.objects, done.bytes)
    assert would.dry_run


async def test_a_purge_that_ended_anywhere_is_gone_on_with() -> None:
    """Wherever the process ends, the next purge finds what is left and deletes it."""
    first = TimedStore(await restored({}))
    await made(first)
    world = await saved(first)
    for number in range(100):
        store = await restored(world)
        faulty = FaultyStore(store, [Fault(kind=FaultKind.POWER_CUT_AFTER, at=number)])
        try:
            await process(faulty).purge_dropped(grace_s=0)
        except PowerCut:
            await process(store).purge_dropped(grace_s=0)
        left = {one.key async for one in store.list("") if "/t-" in one.key}
        assert left == set(), number
        if not faulty.injected:
            break
    assert number > 8


async def test_a_directory_with_a_damaged_head_is_left_alone() -> None:
    """A table whose newest snapshot cannot be read may be alive, and is reported."""
    store = TimedStore(await restored({}))
    lake = await made(store)
    (root,) = [one for one in (await lake.purge_dropped(grace_s=0, dry_run=True)).tables if "db/" in one]
    newest = max([one.key async for one in store.list(f"{root}/snapshot/snapshot-")])
    await store.put(newest, b"x")
    done = await lake.purge_dropped(grace_s=0)
    assert done.unreadable == (root,)
    assert newest in {one.key async for one in store.list("db/")}
