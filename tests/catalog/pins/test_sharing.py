"""Shared queries: one object, by which other processes read what one has pinned."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator

import pyarrow as pa
import pytest

import lakehouse
from lakehouse.catalog.nodes import TableNode
from lakehouse.catalog.pins import Queries, SnapshotPin
from lakehouse.errors import CorruptionError, InvalidInputError, NotFoundError
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.testing import ManualClock, RecordingStore, memory_store
from tests.kit.open_nodes import queries_of
from tests.kit.timed_store import TimedStore

_SCHEMA = pa.schema({"id": pa.int64()})


class _World:
    """Two processes over one store, whose clock is theirs."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timed = TimedStore(memory_store(), self.clock.now_ms())
        self.store = RecordingStore(self.timed)

    @contextlib.asynccontextmanager
    async def process(self, account: str = "default") -> AsyncIterator[tuple[Lake, Queries]]:
        """A process with its own caches."""
        async with Lake(stacked(self.store), clock=self.clock) as lake:
            yield lake, queries_of(lake, account=account)

    async def advance(self, seconds: float) -> None:
        """Moves all clocks."""
        self.timed.advance(seconds)
        await self.clock.advance(seconds)

    async def shared(self) -> list[str]:
        """Returns the keys of shared queries."""
        return [meta.key async for meta in self.timed.list("_queries/")]


@contextlib.asynccontextmanager
async def _world() -> AsyncIterator[tuple[_World, lakehouse.Table, Queries, Queries]]:
    world = _World()
    async with world.process() as (lake, one), world.process() as (_, other):
        await lake.create_database("db")
        table = await lake.create_table("db.orders", _SCHEMA)
        await table.append([{"id": 1}])
        yield world, table, one, other


async def test_who_joins_reads_what_was_pinned() -> None:
    """A process that joins reads the snapshots of whoever shared, not what is newest."""
    async with _world() as (_, table, one, other), one.begin() as query:
        await query.pin("db.orders")
        number = await query.share()
        await table.append([{"id": 2}])
        async with other.join(number) as joined:
            assert joined.id == query.id
            assert joined.pins == query.pins
            assert await joined.scan("db.orders").count() == 1
            with pytest.raises(InvalidInputError, match="for snapshot 3"):
                await joined.pin("db.orders", snapshot=3)


async def test_nothing_is_put_otherwise() -> None:
    """A query puts its object when it is shared, and one that is not shared puts none."""
    async with _world() as (world, _, one, _other), one.begin() as query:
        await query.pin("db.orders")
        assert await query.scan("db.orders").count() == 1
        world.store.clear()
        await query.renew()
        assert world.store.kinds() == {}
        await query.share()
        assert world.store.kinds() == {"put": 1, "list": 1}


async def test_a_joined_query_has_the_moment_of_the_shared_one() -> None:
    """Tables that were not touched before are read as of the query's moment by whoever joins."""
    async with _world() as (world, table, one, other):
        await world.advance(10)
        then = world.clock.now_ms()
        await world.advance(10)
        await table.append([{"id": 2}])
        async with one.begin(as_of=then) as query:
            number = await query.share()
            async with other.join(number) as joined:
                assert await joined.scan("db.orders").count() == 1


async def test_a_dropped_and_recreated_table_is_not_read_in_place_of_the_pinned_one() -> None:
    """A pin is found by the table's id: another table that has the name by now is never read."""
    async with _world() as (world, _, one, other), one.begin() as query:
        await query.pin("db.orders")
        number = await query.share()
        async with world.process() as (lake, _queries):
            await lake.drop_table("db.orders")
            fresh = await lake.create_table("db.orders", _SCHEMA)
            await fresh.append([{"id": 7}])
        async with other.join(number) as joined:
            with pytest.raises(NotFoundError):
                await joined.scan("db.orders").to_pylist()


async def test_only_the_account_that_shared_joins() -> None:
    """Another account hears that there is no such query."""
    async with _world() as (world, _, one, _other), one.begin() as query:
        number = await query.share()
        async with world.process("somebody") as (_lake, stranger):
            with pytest.raises(NotFoundError, match="no shared query"):
                async with stranger.join(number):
                    pass


async def test_a_query_that_is_over_cannot_be_joined() -> None:
    """After the lifetime the id is refused, with the reason."""
    async with _world() as (world, _, one, other), one.begin(lifetime_s=60) as query:
        number = await query.share()
        await world.advance(60)
        with pytest.raises(InvalidInputError, match="is over") as caught:
            async with other.join(number):
                pass
        assert caught.value.kind == "query-ended"


async def test_who_joins_lives_as_long_as_the_query() -> None:
    """A joined query ends with the shared one's lifetime, and takes over its renewals."""
    async with _world() as (world, _, one, other), one.begin(lifetime_s=60) as query:
        await query.pin("db.orders")
        async with other.join(await query.share()) as joined:
            await world.advance(50)
            assert joined.remaining_s == 10
            await query.renew(100)
            assert await joined.renew() == 100
            await world.advance(100)
            with pytest.raises(InvalidInputError, match="is over"):
                await joined.scan("db.orders").count()
            with pytest.raises(InvalidInputError, match="is over"):
                await joined.renew()


async def test_the_end_of_who_shared_does_not_end_those_who_joined() -> None:
    """A joined query reads on to its lifetime, by pins that outlive the one who shared."""
    async with _world() as (world, table, one, other):
        await table.append([{"id": 2}])
        query = await one.begin(lifetime_s=3 * 3600).__aenter__()
        await query.pin("db.orders")
        number = await query.share()
        async with other.join(number) as joined:
            await query.aclose()
            await table.overwrite([{"id": 3}])
            await table.expire_snapshots(retain=1)
            await world.advance(2 * 3600)
            await table.expire_snapshots(retain=1)
            assert await joined.scan("db.orders").count() == 2


async def test_a_damaged_query_is_not_joined() -> None:
    """Damage of the object, and a copy under another key, are errors that name the key."""
    async with _world() as (world, _, one, other), one.begin() as query:
        number = await query.share()
        key = f"_queries/{number}"
        data = bytes((await world.timed.get(key)).data)
        elsewhere = str(uuid.uuid4())
        await world.timed.put(f"_queries/{elsewhere}", data)
        with pytest.raises(CorruptionError, match="copied to another key"):
            async with other.join(elsewhere):
                pass
        await world.timed.put(key, data.replace(b"default", b"defaulu"))
        with pytest.raises(CorruptionError, match=key):
            async with other.join(number):
                pass


@pytest.mark.parametrize("bad", ["", "x", "../db/_database", None, 7])
async def test_an_id_that_is_none_is_refused(bad: object) -> None:
    """Only what share() returned is looked for."""
    async with _world() as (_, _table, _one, other):
        with pytest.raises(InvalidInputError, match="id that share"):
            other.join(bad)  # type: ignore[arg-type]


async def test_an_id_that_nobody_shared_is_not_found() -> None:
    """An id without an object is refused."""
    async with _world() as (_, _table, _one, other):
        with pytest.raises(NotFoundError, match="no shared query"):
            async with other.join(str(uuid.uuid4())):
                pass


async def test_queries_that_are_over_are_removed_by_who_shares() -> None:
    """Objects go five minutes after their end, when somebody shares another one; young ones stay."""
    async with _world() as (world, _, one, _other):
        async with one.begin(lifetime_s=60) as query:
            old = await query.share()
        await world.advance(60 + 299)
        async with one.begin() as query:
            young = await query.share()
        assert await world.shared() == sorted([f"_queries/{old}", f"_queries/{young}"])
        await world.advance(30)
        async with one.begin() as query:
            last = await query.share()
            assert await world.shared() == sorted([f"_queries/{young}", f"_queries/{last}"])


async def test_a_query_that_cannot_be_read_does_not_keep_others_from_sharing() -> None:
    """Damage of one object fails nobody else's share."""
    async with _world() as (world, _, one, other):
        await world.timed.put("_queries/0", b"junk")
        await world.advance(1000)
        async with one.begin() as query:
            await query.pin("db.orders")
            async with other.join(await query.share()) as joined:
                assert await joined.scan("db.orders").count() == 1


async def test_shared_queries_are_no_database_and_no_orphans() -> None:
    """Listings of databases, orphan removal and verification leave the objects alone."""
    async with _world() as (world, table, one, _other), one.begin(lifetime_s=80_000) as query:
        await query.share()
        async with world.process() as (lake, _queries):
            assert await lake.databases() == ["db"]
        await world.advance(70_000)
        await table.remove_orphans()
        assert (await table.verify()).ok
        assert len(await world.shared()) == 1


async def test_who_joined_neither_shares_nor_begins_anew() -> None:
    """Sharing is up to whoever began the query."""
    async with (
        _world() as (_, _table, one, other),
        one.begin() as query,
        other.join(await query.share()) as joined,
    ):
        with pytest.raises(InvalidInputError, match="was joined"):
            await joined.share()


async def test_a_table_that_is_touched_late_has_one_snapshot_for_all() -> None:
    """Whoever first touches a table of a shared query pins it for who shared and who joined."""
    async with _world() as (world, table, one, other), one.begin() as query:
        number = await query.share()
        async with other.join(number) as joined, other.join(number) as third:
            assert await joined.scan("db.orders").count() == 1
            await table.append([{"id": 2}])
            world.store.clear()
            assert (await query.pin("db.orders")).snapshot == joined.pins[0].snapshot
            late = f"_queries/{number}.{table.uuid}"
            assert [call.verb for call in world.store.calls if call.key == late] == ["get"]
            assert await third.scan("db.orders").count() == 1
            assert await query.scan("db.orders").count() == 1


@pytest.mark.parametrize("turns", range(14))
async def test_touches_beside_one_another_agree(turns: int) -> None:
    """Wherever a commit falls between two late touches that run beside each other, both read one snapshot."""
    async with (
        _world() as (_, table, one, other),
        one.begin() as query,
        other.join(await query.share()) as joined,
    ):
        first = asyncio.ensure_future(query.pin("db.orders"))
        for _turn in range(turns):
            await asyncio.sleep(0)
        await table.append([{"id": 2}])
        assert (await joined.pin("db.orders")).snapshot == (await first).snapshot


async def test_a_touch_beside_the_share_is_shared() -> None:
    """A share waits for a touch that is under way, so that who joins reads the same snapshot."""
    async with _world() as (_, table, one, other), one.begin() as query:
        begun, goes_on, hold = asyncio.Event(), asyncio.Event(), query._holds.hold

        async def held(node: TableNode, pin: SnapshotPin) -> None:
            begun.set()
            await goes_on.wait()
            await hold(node, pin)

        query._pins._hold = held
        first = asyncio.ensure_future(query.pin("db.orders"))
        await begun.wait()
        sharing = asyncio.ensure_future(query.share())
        await asyncio.sleep(0)
        goes_on.set()
        number = await sharing
        await table.append([{"id": 2}])
        async with other.join(number) as joined:
            assert (await joined.pin("db.orders")).snapshot == (await first).snapshot


async def test_another_snapshot_than_the_agreed_one_is_a_conflict() -> None:
    """An explicit choice that differs from what another process pinned is refused, and changes nothing."""
    async with _world() as (_, table, one, other), one.begin() as query:
        await table.append([{"id": 2}])
        async with other.join(await query.share()) as joined:
            await joined.pin("db.orders", snapshot=2)
            with pytest.raises(InvalidInputError, match="for snapshot 3") as caught:
                await query.pin("db.orders", snapshot=3)
            assert caught.value.kind == "pin-conflict"
            assert await query.scan("db.orders").count() == 1


async def test_a_pin_of_another_table_or_query_is_damage() -> None:
    """An object that was copied to the key of a late pin decides nothing."""
    async with (
        _world() as (world, table, one, other),
        one.begin() as query,
        other.join(await query.share()) as joined,
    ):
        shared = bytes((await world.timed.get(f"_queries/{query.id}")).data)
        await world.timed.put(f"_queries/{query.id}.{table.uuid}", shared)
        with pytest.raises(CorruptionError, match="copied to another key"):
            await joined.pin("db.orders")


async def test_late_pins_last_as_long_as_their_query() -> None:
    """Renewals keep them, whatever their own age, and they go with the query's object."""
    async with _world() as (world, table, one, _other):
        async with one.begin(lifetime_s=60) as query:
            number = await query.share()
            await query.pin("db.orders")
            await query.renew(1000)
            await world.advance(900)
            keys = [f"_queries/{number}", f"_queries/{number}.{table.uuid}"]
            async with one.begin() as young:
                await young.share()
            assert set(keys) < set(await world.shared())
        await world.advance(1000)
        async with one.begin() as last:
            await last.share()
        assert not set(keys) & set(await world.shared())


async def test_what_a_joined_query_pinned_late_outlives_it() -> None:
    """A snapshot that a long joined query pinned is kept for the others when it ends."""
    async with _world() as (world, table, one, other), one.begin(lifetime_s=3 * 3600) as query:
        async with other.join(await query.share()) as joined:
            await joined.pin("db.orders")
        await table.overwrite([{"id": 3}, {"id": 4}])
        await table.expire_snapshots(retain=1)
        await world.advance(2 * 3600)
        await table.expire_snapshots(retain=1)
        assert await query.scan("db.orders").count() == 1
