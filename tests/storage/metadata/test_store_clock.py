"""The store's clock: learnt, asked for where something hangs on it, or told by what is written."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from lakehouse.config import IoSettings
from lakehouse.io import Fetched, ObjectMeta, ObjectStore, Stored, open_backend, open_store
from lakehouse.io.backends.files import FsspecBackend
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.location import Location
from lakehouse.lake import Lake
from lakehouse.log import Logger
from lakehouse.storage.metadata import store_clock as store_time
from lakehouse.storage.metadata.store_clock import StoreTime, ask_store_ms
from lakehouse.storage.table import Table
from lakehouse.testing import ManualClock, RecordingStore
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from tests.kit.streaming import some
from tests.kit.table_operations import SCHEMA
from tests.kit.timed_store import HOUR_S, TimedStore
from tests.kit.worlds import NAME, process, restored, table_of

R = TypeVar("R")
TWO_DAYS_MS = 2 * 86_400_000
OFF = pytest.mark.parametrize("off_s", [-600, 600], ids=["behind", "ahead"])


class AsObstore(StoreDecorator):
    """Reads do not say when they were answered."""

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        found = await request()
        return dataclasses.replace(found, store_time_ms=None) if isinstance(found, Fetched) else found  # type: ignore[return-value]


class Timeless(StoreDecorator):
    """Nothing says when it was answered, as with most of fsspec's file systems."""

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        found = await request()
        if isinstance(found, Fetched | Stored | ObjectMeta):
            return dataclasses.replace(found, store_time_ms=None)  # type: ignore[return-value]
        return found


async def filled(kind: type[StoreDecorator]) -> tuple[TimedStore, StoreDecorator]:
    """A store with a clock of its own that has a table of one row, and how processes see it."""
    store = TimedStore(await restored({}))
    lake = process(store, clock=ManualClock(store.now_ms))
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key="id")
    await table.upsert(some((1, "a", 1)))
    return store, kind(store)


def clock_of(store: TimedStore, off_s: int) -> ManualClock:
    """A machine's clock that is so far off."""
    return ManualClock(store.now_ms + 1_000 * off_s)


async def newest_ms(table: Table) -> int:
    """Time of the newest snapshot."""
    return (await table._table.snapshots.head()).snapshot.time_ms


# --- reads that do not tell the time --------------------------------------------------------------


@OFF
async def test_snapshots_are_stamped_with_the_stores_time(off_s: int) -> None:
    """The first commit of a process whose reads do not tell the time has the store's time all the same."""
    timed, store = await filled(AsObstore)
    timed.advance(HOUR_S)
    table = await table_of(store, clock=clock_of(timed, off_s))
    await table.upsert(some((2, "a", 2)))
    assert abs(await newest_ms(table) - timed.now_ms) < 5_000


@OFF
async def test_tables_are_created_at_the_stores_time(off_s: int) -> None:
    """The first snapshot of a table has the store's time."""
    timed, store = await filled(AsObstore)
    timed.advance(HOUR_S)
    table = await process(store, clock=clock_of(timed, off_s)).create_table("db.u", SCHEMA, primary_key="id")
    assert abs(await newest_ms(table) - timed.now_ms) < 5_000


async def test_the_time_is_asked_for_once() -> None:
    """One HEAD, before a process's first commit to any table, where no answer has told the time before."""
    _, store = await filled(AsObstore)
    recording = RecordingStore(store)
    table = await table_of(recording)
    for number in range(3):
        await table.upsert(some((number, "a", 2)))
        assert recording.kinds().get("head", 0) == 1
    told = RecordingStore(store.inner)
    await (await table_of(told)).upsert(some((9, "a", 2)))
    assert "head" not in told.kinds()


@OFF
async def test_a_pin_lasts_as_long_as_it_says(off_s: int) -> None:
    """A pin of a process whose clock is wrong keeps its snapshot for its seconds by the store's clock."""
    timed, store = await filled(AsObstore)
    right = ManualClock(timed.now_ms)
    theirs = await table_of(timed, clock=right)
    table = await table_of(store, clock=clock_of(timed, off_s))
    async with table.pin(ttl_s=300) as kept:
        timed.advance(290)
        await right.advance(290)
        await theirs.upsert(some((2, "a", 2)))
        await theirs.expire_snapshots(retain=1, grace_s=0)
        assert [row["id"] for row in await theirs.scan(snapshot=kept).to_pylist()] == [1]
        timed.advance(20)
        await right.advance(20)
        await theirs.upsert(some((3, "a", 3)))
        assert (await theirs.tags()).num_rows == 0


async def test_a_commit_by_a_clock_that_is_ahead_ends_no_pin() -> None:
    """A process whose clock is ahead, and whose reads do not tell the time, leaves others' pins alone."""
    timed, store = await filled(AsObstore)
    theirs = await table_of(timed, clock=ManualClock(timed.now_ms))
    async with theirs.pin(ttl_s=300):
        await (await table_of(store, clock=clock_of(timed, 600))).upsert(some((2, "a", 2)))
        assert (await theirs.tags()).num_rows == 1


async def test_snapshots_of_the_future_end_no_pin() -> None:
    """A pin lasts as long as it says also where snapshots have been stamped ahead of the store's clock."""
    timed, _ = await filled(AsObstore)
    await (await table_of(Timeless(timed), clock=clock_of(timed, 600))).upsert(some((2, "a", 2)))
    theirs = await table_of(timed, clock=ManualClock(timed.now_ms))
    assert await newest_ms(theirs) > timed.now_ms + 500_000
    async with theirs.pin(ttl_s=300):
        await theirs.upsert(some((3, "a", 3)))
        assert (await theirs.tags()).num_rows == 1


@pytest.mark.parametrize("fast", ["require", "off"])
async def test_a_wrong_clock_on_a_real_store(minio: ServerInfo, fast: str) -> None:
    """On S3, through obstore or not, snapshots and pins have the store's time."""
    with fresh_bucket(minio) as bucket:
        settings = IoSettings(fast_reads=fast)
        url, options = f"s3://{bucket}/w", minio.storage_options
        ahead = ManualClock(time.time_ns() // 1_000_000 + 600_000, skip=True)
        async with open_store(url, storage_options=options, settings=settings) as store:
            lake = Lake(store)
            await lake.create_database("db")
            await lake.create_table(NAME, SCHEMA, primary_key="id")
            table = await Lake(store, clock=ahead).table(NAME)
            await table.upsert(some((1, "a", 1)))
            now_ms = time.time_ns() // 1_000_000
            assert abs(await newest_ms(table) - now_ms) < 60_000
            async with table.pin(ttl_s=60):
                [pin] = (await table._table.snapshots.head()).snapshot.refs.values()
                assert pin.expires_ms is not None
                assert abs(pin.expires_ms - now_ms - 60_000) < 60_000


# --- stores without a clock -----------------------------------------------------------------------


async def check_ahead(timed: TimedStore, store: ObjectStore) -> None:
    """A process two days ahead stops no commit, and deletes nothing early."""
    ahead = await table_of(store, clock=ManualClock(timed.now_ms + TWO_DAYS_MS))
    await ahead.remove_orphans()
    table = await table_of(store, clock=ManualClock(timed.now_ms))
    await table.upsert(some((2, "a", 2)))
    done = await ahead.expire_snapshots(retain=1)
    assert (done.snapshots, done.waiting) == (0, done.expired)
    timed.advance(HOUR_S - 1)
    assert (await ahead.expire_snapshots()).snapshots == 0
    timed.advance(2)
    assert (await ahead.expire_snapshots()).snapshots > 0


async def test_a_store_without_a_clock_tells_the_time_by_what_is_written() -> None:
    """Where nothing says when it was answered, what is written then does: horizon and grace are right."""
    timed, store = await filled(Timeless)
    await check_ahead(timed, store)
    assert not [one.key async for one in store.list("") if "probe" in one.key]


async def test_an_upload_is_dated_where_receipts_are_not() -> None:
    """A write from before the horizon is refused also where receipts do not say when they were answered."""
    timed, store = await filled(Timeless)
    table = await table_of(store, clock=ManualClock(timed.now_ms))
    view = await table._table.known()
    written = await table._table.write(view, some((5, "a", 5)))
    assert written.first_upload_ms == timed.now_ms


async def test_a_dropped_table_is_purged_where_nothing_tells_the_time() -> None:
    """The grace of a dropped table ends on stores without a clock too."""
    timed, store = await filled(Timeless)
    lake = process(store, clock=ManualClock(timed.now_ms + TWO_DAYS_MS))
    await lake.drop_table(NAME)
    assert len((await lake.purge_dropped()).waiting) == 1
    timed.advance(HOUR_S + 1)
    assert len((await lake.purge_dropped()).tables) == 1


async def test_files_of_a_directory_tell_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On ``file://`` a process two days ahead stops no commit and deletes nothing early."""
    store = open_backend(f"file://{tmp_path}")
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key="id")
    for number in range(3):
        await table.overwrite(some((number, "a", 1)))
    real = time.time_ns
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: real() + TWO_DAYS_MS * 1_000_000)
        ahead = await table_of(store)
        await ahead.remove_orphans()
        await ahead.expire_snapshots(retain=1)
        done = await ahead.expire_snapshots()
        assert (done.snapshots, done.files) == (0, 0)
    await (await table_of(store)).upsert(some((7, "a", 7)))
    head = (await (await table_of(store))._table.snapshots.head()).snapshot
    assert head.orphan_horizon_ms is not None
    assert head.orphan_horizon_ms < real() // 1_000_000


async def test_any_file_system_tells_the_time(tmp_path: Path) -> None:
    """A file system that fsspec knows and we do not is asked by an object, which is gone then."""
    # Not fsspec's memory: the dictionary behind it is one for all tests, and may change while it is listed.
    (tmp_path / "t" / "probe").mkdir(parents=True)
    store = FsspecBackend(Location.parse(tmp_path.as_uri()))
    await store.put("t/x", b"x")
    told = await ask_store_ms(store, "t", "t/x")
    assert told is not None
    assert abs(told - time.time_ns() // 1_000_000) < 60_000
    assert [one.key async for one in store.list("")] == ["t/x"]
    await store.delete("t/x")


# --- the warning ----------------------------------------------------------------------------------


def test_a_clock_that_is_off_by_more_than_a_minute_is_told_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warning says by how much, and at which store; one answer that was held up is no reason for it."""
    monkeypatch.setattr(store_time, "_log", Logger(logging.getLogger("lakehouse.storage")))
    clock = ManualClock()
    time = StoreTime(clock, "s3://b")
    with caplog.at_level(logging.WARNING):
        time.learn(clock.now_ms() - 90_000)
        time.learn(clock.now_ms())
        time.learn(clock.now_ms() - 59_000)
        assert caplog.records == []
        for _ in range(3):
            time.learn(clock.now_ms() - 600_000)
    [record] = caplog.records
    assert record.lakehouse == {"store": "s3://b", "machine_is_ahead_s": 600}  # type: ignore[attr-defined]
