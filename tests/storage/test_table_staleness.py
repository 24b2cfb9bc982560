"""What reads pay to know the newest snapshot: nothing when pinned or within a bound, one shared look else."""

from __future__ import annotations

import asyncio
import datetime as dt
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError, NotFoundError, UnavailableError
from lakehouse.io import ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.storage.metadata.snapshots import KEPT_S
from lakehouse.storage.table import Table
from lakehouse.testing import ManualClock, RecordingStore
from tests.kit.worlds import NAME, process, restored, table_of

R = TypeVar("R")

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.int64()})
GRACE_S = 1_800.0
"""The least ``delete_grace_s`` that a table can have."""
BOUND_S = 10.0


@dataclass(frozen=True, slots=True)
class World:
    """A table as this process has it, a handle of another process, and what this one asks for."""

    table: Table
    other: Table
    store: RecordingStore
    clock: ManualClock

    async def value(self, key: int = 1, **how: Any) -> int | None:
        """The value of a row, as this process reads it."""
        row = await self.table.get({"id": key}, **how)
        return None if row is None else row["v"]

    def requests(self) -> int:
        """Requests since this was last asked."""
        count = len(self.store.calls)
        self.store.clear()
        return count

    async def settled(self) -> int:
        """Requests that were made in the background by now."""
        for _ in range(50):
            await asyncio.sleep(0)
        return self.requests()


async def made(clock: ManualClock, **options: Any) -> ObjectStore:
    """A store with a table of one row."""
    store = await restored({})
    lake = process(store, clock=clock)
    await lake.create_database("db")
    options = {"file.format.level0": "sst", "compaction.auto": "off", **options}
    table = await lake.create_table(NAME, SCHEMA, primary_key="id", options=options)
    await table.upsert([{"id": 1, "v": 10}])
    return store


@asynccontextmanager
async def world(
    wrap: Callable[[ObjectStore], ObjectStore] = lambda store: store, **options: Any
) -> AsyncIterator[World]:
    """This process has read the table once, so that it knows all of it."""
    clock = ManualClock()
    inner = await made(clock, **options)
    store = RecordingStore(wrap(inner))
    async with process(store, clock=clock) as lake:
        table = await lake.table(NAME)
        assert await table.get({"id": 1}) == {"id": 1, "v": 10}
        store.clear()
        yield World(table, await table_of(inner, clock=clock), store, clock)


# --- exact ------------------------------------------------------------------------------------


async def test_an_exact_get_of_a_cached_block_is_one_request() -> None:
    """A get without a bound asks for the next snapshot and for nothing else."""
    async with world() as here:
        for _ in range(5):
            assert await here.value() == 10
        assert here.store.kinds() == {"get": 5}


async def test_a_thousand_concurrent_exact_gets_share_a_look() -> None:
    """Gets of cached blocks that run together cost five requests at most."""
    async with world() as here:
        assert await asyncio.gather(*(here.value() for _ in range(1_000))) == [10] * 1_000
        assert here.requests() <= 5


class AfterAnswer(StoreDecorator):
    """Lets somebody act between an answer about a snapshot and its arrival."""

    act: Callable[[], Awaitable[None]] | None = None

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        try:
            return await request()
        finally:
            act, self.act = (self.act, None) if "/snapshot/" in key else (None, self.act)
            if act is not None:
                await act()


async def test_a_get_sees_what_was_acknowledged_before_it_though_a_look_is_under_way() -> None:
    """A get that begins after a write is not given the answer that an earlier look had before the write."""
    stores: list[AfterAnswer] = []

    def wrap(store: ObjectStore) -> AfterAnswer:
        stores.append(AfterAnswer(store))
        return stores[0]

    async with world(wrap) as here:
        later: list[asyncio.Task[int | None]] = []

        async def write_and_read() -> None:
            await here.other.upsert([{"id": 1, "v": 11}])
            later.append(asyncio.ensure_future(here.value()))
            await asyncio.sleep(0)

        stores[0].act = write_and_read
        assert await here.value() == 10
        assert await later[0] == 11


# --- pinned -----------------------------------------------------------------------------------

PINNED: dict[str, Callable[[World], Awaitable[object]]] = {
    "get": lambda here: here.table.get({"id": 1}, snapshot=2),
    "get_many": lambda here: here.table.get_many([{"id": 1}], snapshot=2),
    "scan": lambda here: here.table.scan("id = 1", snapshot=2).to_arrow(),
    "schema": lambda here: here.table.schema(snapshot=2),
    "files": lambda here: here.table.files(snapshot=2),
    "manifests": lambda here: here.table.manifests(snapshot=2),
    "partitions": lambda here: here.table.partitions(snapshot=2),
    "indexes": lambda here: here.table.indexes(snapshot=2),
    "changes": lambda here: _all(here.table.changes(1, 2)),
}


async def _all(tables: AsyncIterator[pa.Table]) -> list[pa.Table]:
    return [table async for table in tables]


@pytest.mark.parametrize("read", PINNED.values(), ids=PINNED)
@pytest.mark.parametrize("moved", [False, True], ids=["", "not the newest"])
async def test_pinned_reads_make_no_request_once_warm(
    read: Callable[[World], Awaitable[object]], moved: bool
) -> None:
    """A read of a snapshot that is known asks for nothing, also after others have committed newer ones."""
    async with world() as here:
        if moved:
            await here.other.upsert([{"id": 1, "v": 11}])
            assert await here.value() == 11
        first = await read(here)
        here.store.clear()
        again = await read(here)
        assert again == first
        assert here.requests() == 0


async def test_a_snapshot_that_was_pinned_stays_known_when_it_is_the_newest_no_more() -> None:
    """Commits of others do not cost the reader of a pinned snapshot a request."""
    async with world() as here:
        assert await here.value(snapshot=2) == 10
        await here.other.upsert([{"id": 1, "v": 11}])
        assert await here.value() == 11
        here.requests()
        assert await here.value(snapshot=2) == 10
        assert here.requests() == 0


async def test_a_time_before_the_newest_snapshot_is_pinned() -> None:
    """A read as of a moment that no later commit can change costs nothing once warm; others look."""
    async with world() as here:
        await here.other.upsert([{"id": 1, "v": 11}])
        assert await here.value() == 11
        _, before, newest = (await here.table.snapshots())["time"].to_pylist()
        assert await here.value(timestamp=before) == 10
        here.requests()
        assert await here.value(timestamp=before) == 10
        assert here.requests() == 0
        soon = newest + dt.timedelta(minutes=1)
        assert await here.value(timestamp=soon) == 11
        assert here.requests() == 1
        await here.other.upsert([{"id": 1, "v": 12}])
        assert await here.value(timestamp=soon, max_staleness=BOUND_S) == 11
        assert here.requests() == 0
        assert await here.value(timestamp=soon) == 12


async def test_a_snapshot_above_the_newest_one_known_is_looked_for() -> None:
    """A pinned read of a snapshot that another process has just made finds it."""
    async with world() as here:
        done = await here.other.upsert([{"id": 1, "v": 11}])
        assert await here.value(snapshot=done.snapshot) == 11


async def test_a_snapshot_that_never_was_is_said_not_to_be() -> None:
    """A pinned read of no snapshot at all is an error that names those there are."""
    async with world() as here:
        with pytest.raises(NotFoundError, match="has no snapshot 99: it has 1 to 2"):
            await here.value(snapshot=99)


async def test_an_expired_snapshot_is_answered_for_a_quarter_of_the_grace_and_no_longer() -> None:
    """A pinned read trusts a look for a quarter of the least grace; then it looks again, on the call."""
    async with world(delete_grace_s=GRACE_S) as here:
        assert await here.value(snapshot=2) == 10
        await here.other.upsert([{"id": 1, "v": 11}])
        await here.other.expire_snapshots(retain=1)
        here.requests()
        await here.clock.advance(KEPT_S / 2)
        assert await here.value(snapshot=2) == 10
        assert here.requests() == 0
        await here.clock.advance(KEPT_S / 2 + 1)
        with pytest.raises(NotFoundError, match="has no snapshot 2"):
            await here.value(snapshot=2)


async def test_a_busy_pinned_reader_looks_again_in_the_background() -> None:
    """From an eighth of the grace on, a pinned read has somebody look; the next one knows of the expiry."""
    async with world(delete_grace_s=GRACE_S) as here:
        assert await here.value(snapshot=2) == 10
        await here.other.upsert([{"id": 1, "v": 11}])
        await here.other.expire_snapshots(retain=1)
        here.requests()
        await here.clock.advance(KEPT_S / 2 + 1)
        assert await here.value(snapshot=2) == 10  # and nobody waited
        assert here.requests() == 0
        assert await here.settled() > 0
        with pytest.raises(NotFoundError, match="has no snapshot 2"):
            await here.value(snapshot=2)


async def test_nothing_that_a_look_vouches_for_is_deleted_while_it_does() -> None:
    """Three quarters of the least grace are left to a pinned read that relies on the oldest look it may."""
    assert 4 * KEPT_S <= GRACE_S
    async with world(delete_grace_s=GRACE_S) as here:
        await here.table.current_snapshot()
        await here.other.upsert([{"id": 1, "v": 11}])
        await here.other.expire_snapshots(retain=1)
        await here.clock.advance(KEPT_S)
        await here.other.expire_snapshots(retain=1)  # deletes what is due
        fresh = await table_of(here.store.inner, clock=here.clock)
        assert await here.value(snapshot=2) == 10
        with pytest.raises(NotFoundError):
            await fresh.get({"id": 1}, snapshot=2)


async def test_objects_deleted_before_the_grace_are_an_expiry_and_no_damage() -> None:
    """A pinned read whose objects somebody deleted without a grace says that the snapshot expired."""
    async with world() as here:
        await here.other.upsert([{"id": 1, "v": 11}])
        await here.other.compact(full=True)
        for _ in range(2):
            await here.other.expire_snapshots(retain=1, grace_s=0)
        here.table.core.env.caches.forget(here.table.uuid)
        here.table.core.env.caches.runs.blocks.invalidate_all()
        here.table.core.env.caches.runs.metadata.invalidate_all()
        with pytest.raises(NotFoundError, match=r"snapshot 2 .* expired"):
            await here.value(snapshot=2)


async def test_own_expiry_is_known_at_once() -> None:
    """A process that expires a snapshot does not read it on."""
    async with world() as here:
        await here.table.upsert([{"id": 1, "v": 11}])
        await here.table.expire_snapshots(retain=1)
        with pytest.raises(NotFoundError, match="has no snapshot 2"):
            await here.value(snapshot=2)


async def test_a_table_dropped_elsewhere_is_found_dropped_within_the_bound() -> None:
    """Pinned reads of a table that another process drops go on for a quarter of the grace at most."""
    async with world() as here:
        await process(here.store.inner, clock=here.clock).drop_table(NAME)
        assert await here.value(snapshot=2) == 10
        await here.clock.advance(KEPT_S + 1)
        with pytest.raises(NotFoundError, match="was dropped"):
            await here.value(snapshot=2)
        with pytest.raises(NotFoundError, match="was dropped"):
            await here.value(snapshot=2)


async def test_a_table_brought_back_elsewhere_is_read_at_once() -> None:
    """A drop that this process has seen is not believed for any time."""
    async with world() as here:
        await process(here.store.inner, clock=here.clock).drop_table(NAME)
        with pytest.raises(NotFoundError, match="was dropped"):
            await here.value()
        await process(here.store.inner, clock=here.clock).undrop_table(NAME)
        assert await here.value(snapshot=2, timestamp=None) == 10
        assert await here.value(max_staleness=BOUND_S) == 10


# --- within a bound ---------------------------------------------------------------------------


async def test_reads_within_their_bound_make_no_request() -> None:
    """What was the newest snapshot no longer ago than the bound is read without asking for another."""
    async with world() as here:
        reads: list[Callable[[], Awaitable[object]]] = [
            lambda: here.value(max_staleness=BOUND_S),
            lambda: here.table.get_many([{"id": 1}], max_staleness=BOUND_S),
            lambda: here.table.scan("id = 1", max_staleness=BOUND_S).to_arrow(),
            lambda: here.table.schema(max_staleness=BOUND_S),
            lambda: here.table.current_snapshot(max_staleness=BOUND_S),
        ]
        for read in reads:
            await read()
        here.requests()
        for read in reads * 3:
            await read()
        assert here.requests() == 0


async def test_a_commit_elsewhere_is_seen_when_the_bound_is_over() -> None:
    """A read sees the old row up to its bound, and the new one from then on."""
    async with world() as here:
        await here.other.upsert([{"id": 1, "v": 11}])
        await here.clock.advance(BOUND_S / 2)
        assert await here.value(max_staleness=BOUND_S) == 10
        assert here.requests() == 0
        await here.clock.advance(BOUND_S / 2 + 0.001)
        assert await here.value(max_staleness=BOUND_S) == 11


async def test_a_bound_of_another_read_does_not_matter() -> None:
    """A read with a shorter bound looks where one with a longer bound does not."""
    async with world() as here:
        await here.other.upsert([{"id": 1, "v": 11}])
        await here.clock.advance(4)
        assert await here.value(max_staleness=BOUND_S) == 10
        assert await here.value(max_staleness=3) == 11


async def test_a_busy_table_never_waits() -> None:
    """From half of the bound on one look is made in the background, however many reads there are."""
    async with world() as here:
        await here.other.upsert([{"id": 1, "v": 11}])
        await here.clock.advance(BOUND_S / 2 + 1)
        for _ in range(20):
            assert await here.value(max_staleness=BOUND_S) == 10
        assert here.requests() == 0
        assert await here.settled() == 2  # what is newer, and that nothing is newer still
        assert await here.value(max_staleness=BOUND_S) == 11
        here.requests()
        for _ in range(8):
            await here.clock.advance(BOUND_S / 2 + 1)
            await here.value(max_staleness=BOUND_S)
            assert here.requests() == 0
            assert await here.settled() == 1


async def test_own_commits_are_seen_at_once() -> None:
    """A read within any bound sees what this process has committed."""
    async with world() as here:
        for value in (11, 12):
            await here.table.upsert([{"id": 1, "v": value}])
            assert await here.value(max_staleness=3_600) == value
        await here.table.add_column("w", "int64")
        assert "w" in (await here.table.schema(max_staleness=3_600)).arrow().names


class Away(StoreDecorator):
    """A store that may be away."""

    is_away = False

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        if self.is_away:
            raise UnavailableError("the store is away")
        return await request()


async def test_a_store_that_is_away_is_noticed_when_the_bound_is_over() -> None:
    """Stale answers are given within the bound while looks in the background fail; then there is an error."""
    stores: list[Away] = []

    def wrap(store: ObjectStore) -> Away:
        stores.append(Away(store))
        return stores[0]

    async with world(wrap) as here:
        stores[0].is_away = True
        await here.clock.advance(BOUND_S - 1)
        for _ in range(20):
            assert await here.value(max_staleness=BOUND_S) == 10
        assert await here.settled() == 3  # one look, which is tried three times
        await here.clock.advance(2)
        with pytest.raises(UnavailableError, match="away"):
            await here.value(max_staleness=BOUND_S)
        stores[0].is_away = False
        assert await here.value(max_staleness=BOUND_S) == 10


async def test_no_bound_is_longer_than_what_a_look_vouches_for() -> None:
    """However stale a read may be, the newest snapshot is looked for before its files can be deleted."""
    async with world() as here:
        await here.other.upsert([{"id": 1, "v": 11}])
        await here.clock.advance(KEPT_S + 1)
        assert await here.value(max_staleness=86_400) == 11


async def test_a_tag_is_a_pointer() -> None:
    """A tag is looked up anew by an exact read, and within the bound by others, unless it is not there."""
    async with world() as here:
        await here.table.create_tag("t", snapshot=2)
        assert await here.value(tag="t") == 10
        here.requests()
        assert await here.value(tag="t") == 10
        assert here.requests() == 1
        assert await here.value(tag="t", max_staleness=BOUND_S) == 10
        assert here.requests() == 0
        newest = (await here.other.upsert([{"id": 1, "v": 11}])).snapshot
        await here.other.create_tag("t", snapshot=newest, replace=True)
        await here.other.create_tag("u", snapshot=newest)
        assert await here.value(tag="t", max_staleness=BOUND_S) == 10
        assert await here.value(tag="u", max_staleness=BOUND_S) == 11
        assert await here.value(tag="t") == 11


async def test_the_call_goes_before_the_handle_and_that_before_the_option() -> None:
    """The bound of a read is its own, or the handle's, or the table's option, or none."""
    async with world(**{"read.max_staleness_s": 20}) as here:
        await here.other.upsert([{"id": 1, "v": 11}])
        await here.clock.advance(11)
        handle = here.table.with_staleness(BOUND_S)
        assert await here.value() == 10  # the option's 20 s
        assert await handle.with_staleness(None).get({"id": 1}) == {"id": 1, "v": 10}
        assert await handle.get({"id": 1}, max_staleness=15) == {"id": 1, "v": 10}
        assert here.requests() == 0
        assert await handle.get({"id": 1}) == {"id": 1, "v": 11}
        await here.other.upsert([{"id": 1, "v": 12}])
        assert await here.value() == 11
        assert await here.table.with_staleness(0).get({"id": 1}) == {"id": 1, "v": 12}
        await here.other.upsert([{"id": 1, "v": 13}])
        assert await handle.get({"id": 1}, max_staleness=0) == {"id": 1, "v": 13}


async def test_the_option_can_be_set_and_unset() -> None:
    """A table that gets a bound stops asking, and asks again when it is taken away; relations follow it."""
    async with world() as here:
        await here.table.set_option("read.max_staleness_s", 5)
        await here.value()
        here.requests()
        await here.value()
        await here.table.files()
        await here.table.tags()
        assert here.requests() == 0
        await here.table.unset_option("read.max_staleness_s")
        await here.value()
        here.requests()
        await here.value()
        assert here.requests() == 1


async def test_relations_follow_the_handle() -> None:
    """Relations of metadata are as old as the handle allows, and cost nothing within that."""
    async with world() as here:
        handle = here.table.with_staleness(BOUND_S)
        calls: list[Callable[[], Awaitable[object]]] = [
            handle.files, handle.manifests, handle.partitions, handle.tags, handle.indexes, handle.schemas,
            handle.snapshots, handle.current_snapshot, handle.schema,
        ]  # fmt: skip
        for call in calls:
            await call()
        here.requests()
        for call in calls:
            await call()
        assert here.requests() == 0


async def test_a_bound_travels_with_the_handle() -> None:
    """A handle that is pickled keeps its bound."""
    async with world() as here:
        there = pickle.loads(pickle.dumps(here.table.with_staleness(3)))
        assert there._max_staleness == 3


async def test_reads_of_the_log_ignore_the_bound_of_handle_and_option() -> None:
    """freshness="wal" reads every acknowledged row, whatever else the table may be read with."""
    async with world(**{"read.max_staleness_s": 20}) as here:
        await here.other.upsert([{"id": 1, "v": 11}])
        assert await here.value() == 10
        assert await here.value(freshness="wal") == 11


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), True, "2", -0.001])
async def test_a_bound_that_is_none_is_refused(bad: Any) -> None:
    """A bound is a number of seconds from 0, wherever it is given."""
    async with world() as here:
        for call in (
            lambda: here.value(max_staleness=bad),
            lambda: here.table.get_many([{"id": 1}], max_staleness=bad),
            lambda: here.table.scan(max_staleness=bad).to_arrow(),
            lambda: here.table.schema(max_staleness=bad),
            lambda: here.table.current_snapshot(max_staleness=bad),
            lambda: here.table.with_staleness(bad).schema(),
        ):
            with pytest.raises(InvalidInputError, match="number of seconds from 0"):
                await call()
        assert here.requests() == 0


async def test_an_option_that_is_no_bound_is_refused() -> None:
    """The table's option has a bound of its own, and a negative one is refused when it is set."""
    async with world() as here:
        for bad in (-1, "nan", 1e9):
            with pytest.raises(InvalidInputError, match=r"read\.max_staleness_s"):
                await here.table.set_option("read.max_staleness_s", bad)


async def test_a_bound_is_refused_where_it_means_nothing() -> None:
    """What is the same for ever has no bound, nor has the log, which is read whole."""
    async with world() as here:
        with pytest.raises(InvalidInputError, match="leave out max_staleness, or the snapshot"):
            await here.value(snapshot=2, max_staleness=1)
        with pytest.raises(InvalidInputError, match="leave out max_staleness, or the snapshot"):
            await here.table.schema(snapshot=2, max_staleness=1)
        with pytest.raises(InvalidInputError, match="freshness='snapshot'"):
            await here.value(freshness="wal", max_staleness=1)
        assert here.requests() == 0
