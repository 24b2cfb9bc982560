"""Queries: one state of every table, for as long as the query lives."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse
from lakehouse.catalog.pins import PinKind, Queries
from lakehouse.config import CatalogSettings, Settings
from lakehouse.errors import InvalidInputError, NotFoundError, UnavailableError
from lakehouse.io import measure
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.testing import ManualClock, memory_store
from tests.kit.iceberg_plans import DAY, data_file, manifest, on_disk, three_days
from tests.kit.open_nodes import queries_of
from tests.kit.timed_store import TimedStore
from tests.kit.worlds import StepIn

_SCHEMA = pa.schema({"id": pa.int64(), "amount": pa.int64()})
_HALF_S = 1800.0
"""Half of the grace that tables have by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _World:
    """A lake with a table of one row, queries over it, and the time of its process and of its store."""

    lake: Lake
    queries: Queries
    table: lakehouse.Table
    clock: ManualClock
    store: TimedStore

    async def advance(self, seconds: float) -> None:
        """Moves both clocks."""
        self.store.advance(seconds)
        await self.clock.advance(seconds)

    async def pins(self, name: str = "db.orders") -> list[str]:
        """Returns the names of the pins that a table has."""
        refs = await (await self.lake.table(name)).tags()
        return [str(one) for one in refs["name"].to_pylist()]


@contextlib.asynccontextmanager
async def _world(**settings: object) -> AsyncIterator[_World]:
    clock = ManualClock()
    store = TimedStore(memory_store(), clock.now_ms())
    async with Lake(store, clock=clock, settings=Settings.resolve({"cache.max_bytes": 0})) as lake:
        await lake.create_database("db")
        table = await lake.create_table("db.orders", _SCHEMA, primary_key="id")
        await table.append([{"id": 1, "amount": 10}])
        queries = queries_of(lake, CatalogSettings(**settings))  # type: ignore[arg-type]
        yield _World(lake=lake, queries=queries, table=table, clock=clock, store=store)


async def test_all_reads_of_a_query_show_one_snapshot() -> None:
    """Scans, gets and counts of a query agree, whatever others commit between them."""
    async with _world() as world, world.queries.begin() as query:
        assert await query.get("db.orders", {"id": 1}) == {"id": 1, "amount": 10}
        await world.table.append([{"id": 1, "amount": 11}, {"id": 2, "amount": 20}])
        assert await query.get("db.orders", {"id": 1}) == {"id": 1, "amount": 10}
        assert await query.get("db.orders", {"id": 2}) is None
        assert (await query.get_many("db.orders", [{"id": 1}, {"id": 2}])).num_rows == 1
        assert await query.scan("db.orders").to_pylist() == [{"id": 1, "amount": 10}]
        assert await query.scan("db.orders", "amount > 10").count() == 0
        assert await world.table.scan().count() == 2


async def test_a_new_query_sees_what_was_committed() -> None:
    """What one query pinned is nothing to the next."""
    async with _world() as world:
        async with world.queries.begin() as query:
            await query.pin("db.orders")
        await world.table.append([{"id": 2, "amount": 20}])
        async with world.queries.begin() as query:
            assert await query.scan("db.orders").count() == 2


async def test_a_scan_reads_nothing_before_it_is_asked_and_then_the_pin() -> None:
    """A scan is pinned at its first reading, and every later reading of it shows the same rows."""
    async with _world() as world, world.queries.begin() as query:
        scan = query.scan("db.orders", columns=["id"], limit=10)
        assert query.pins == ()
        assert (await scan.to_arrow()).to_pydict() == {"id": [1]}
        await world.table.append([{"id": 2, "amount": 20}])
        assert await scan.count() == 1
        assert scan.report.cost.requests == 0
        assert [pin.kind for pin in query.pins] == [PinKind.CURRENT]


async def test_several_tables_are_read_as_of_one_moment() -> None:
    """A moment given to the query goes for each of its tables."""
    async with _world() as world:
        items = await world.lake.create_table("db.items", _SCHEMA)
        await items.append([{"id": 1, "amount": 1}])
        await world.advance(60)
        then = world.clock.now_ms()
        await world.advance(60)
        for each in (world.table, items):
            await each.append([{"id": 9, "amount": 9}])
        async with world.queries.begin(as_of=then) as query:
            assert await query.scan("db.orders").count() == 1
            assert await query.scan("db.items").count() == 1
            assert {pin.kind for pin in query.pins} == {PinKind.AS_OF}


async def test_a_scan_may_choose_a_snapshot_once() -> None:
    """An explicit snapshot pins the table; another one later is a conflict."""
    async with _world() as world:
        first = await world.table.current_snapshot()
        await world.table.append([{"id": 2, "amount": 20}])
        async with world.queries.begin() as query:
            assert await query.scan("db.orders", snapshot=first).count() == 1
            assert await query.scan("db.orders").count() == 1
            with pytest.raises(InvalidInputError) as caught:
                await query.scan("db.orders", snapshot=first + 1).count()
            assert caught.value.kind == "pin-conflict"


async def test_a_short_query_writes_nothing() -> None:
    """A query that ends within half of the grace makes no commit, renewed or not, and puts no object."""
    async with _world() as world, world.queries.begin(lifetime_s=600) as query:
        await query.pin("db.orders")
        await world.advance(590)
        with measure() as cost:
            assert await query.renew() == 600
        assert cost.requests == 0
        assert await query.scan("db.orders").count() == 1
        assert await world.pins() == []


async def test_a_long_query_pins_with_one_commit_a_table() -> None:
    """A query that may outlive half of the grace commits one pin, at the touch, and drops it at its end."""
    async with _world() as world:
        before = await world.table.current_snapshot()
        async with world.queries.begin(lifetime_s=_HALF_S + 1) as query:
            await query.pin("db.orders")
            await query.pin("db.orders")
            await query.scan("db.orders").count()
            (name,) = await world.pins()
            assert name.startswith(f"query-{uuid.UUID(query.id).hex}-")
            assert await world.table.current_snapshot() == before + 1
        assert await world.pins() == []


async def test_a_renewal_past_half_of_the_grace_pins_each_table_once() -> None:
    """Renewals cost nothing while the grace covers them, then one commit a table, then nothing again."""
    async with _world() as world:
        await world.lake.create_table("db.items", _SCHEMA)
        async with world.queries.begin(lifetime_s=1000) as query:
            await query.pin("db.orders")
            await query.pin("db.items")
            before = await world.table.current_snapshot()
            await world.advance(700)
            await query.renew(1000)
            assert await world.table.current_snapshot() == before
            await world.advance(900)
            await query.renew(1000)
            assert await world.table.current_snapshot() == before + 1
            assert len(await world.pins("db.items")) == 1
            await world.advance(900)
            await query.renew(1000)
            assert await world.table.current_snapshot() == before + 1


@pytest.mark.parametrize("lifetime_s", [60, 4 * _HALF_S])
async def test_what_a_query_pinned_before_an_expiry_stays_readable(lifetime_s: float) -> None:
    """A snapshot that expires under a query is read on to its end, by the grace or by the query's pin."""
    async with _world() as world:
        await world.table.append([{"id": 2, "amount": 20}])
        async with world.queries.begin(lifetime_s=lifetime_s) as query:
            assert await query.scan("db.orders").count() == 2
            await world.table.overwrite([{"id": 3, "amount": 30}])
            await world.table.expire_snapshots(retain=1)
            await world.advance(lifetime_s - 1)
            await world.table.expire_snapshots(retain=1)
            ids = await query.scan("db.orders", columns=["id"]).to_pylist()
            assert sorted(row["id"] for row in ids) == [1, 2]


async def test_an_ended_query_refuses_use() -> None:
    """What is asked of a query behind its block is an error that says so, of its scans too."""
    async with _world() as world:
        async with world.queries.begin() as query:
            scan = query.scan("db.orders")
        for use in (
            scan.to_arrow(),
            query.get("db.orders", {"id": 1}),
            query.pin("db.orders"),
            query.renew(),
            query.share(),
        ):
            with pytest.raises(InvalidInputError, match="has ended") as caught:
                await use
            assert caught.value.kind == "query-ended"
        with pytest.raises(InvalidInputError, match="entered already"):
            async with query:
                pass


async def test_a_query_whose_lifetime_is_over_refuses_use() -> None:
    """Neither reads nor renewals bring a query back whose time has run out."""
    async with _world() as world, world.queries.begin(lifetime_s=60) as query:
        await world.advance(59.9)
        await query.scan("db.orders").count()
        await world.advance(0.1)
        for use in (query.scan("db.orders").count(), query.renew()):
            with pytest.raises(InvalidInputError, match=r"lifetime of query .* is over") as caught:
                await use
            assert caught.value.kind == "query-ended"
        assert query.remaining_s == 0


async def test_a_query_that_was_not_entered_refuses_use() -> None:
    """A query begins when its block is entered, not before."""
    async with _world() as world:
        with pytest.raises(InvalidInputError, match="has not begun"):
            await world.queries.begin().pin("db.orders")
        assert len(world.queries.open) == 0


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), 90_000, True, "60"])
async def test_a_lifetime_is_a_bounded_number_of_seconds(bad: object) -> None:
    """A lifetime below or at zero, beyond the greatest age, or no number is refused."""
    async with _world() as world:
        with pytest.raises(InvalidInputError, match="lifetime_s is a number of seconds"):
            world.queries.begin(lifetime_s=bad)  # type: ignore[arg-type]


async def test_a_query_gets_no_older_than_the_setting_allows() -> None:
    """Renewals end at the greatest age, so that no pin is needed longer than it holds."""
    async with _world(query_age_max_s=100.0) as world, world.queries.begin(lifetime_s=60) as query:
        await world.advance(50)
        assert await query.renew(50) == 50
        with pytest.raises(InvalidInputError, match=r"catalog\.query_age_max_s"):
            await query.renew(60)
        assert query.remaining_s == 50


async def test_the_number_of_open_queries_is_bounded() -> None:
    """With too many open a new one is refused, until one ends or is over."""
    async with _world(queries_max=2) as world:
        async with world.queries.begin(lifetime_s=10) as first, world.queries.begin(lifetime_s=60):
            with pytest.raises(UnavailableError, match=r"2 queries are open.*catalog\.queries_max"):
                async with world.queries.begin():
                    pass
            await world.advance(10)
            async with world.queries.begin() as third:
                assert await third.scan("db.orders").count() == 1
            with pytest.raises(InvalidInputError, match="has ended"):
                await first.pin("db.orders")
        assert len(world.queries.open) == 0


async def test_queries_end_with_their_lake() -> None:
    """Closing all queries drops the pins that they hold."""
    async with _world() as world:
        query = await world.queries.begin(lifetime_s=2 * _HALF_S).__aenter__()
        await query.pin("db.orders")
        await world.queries.open.aclose()
        assert await world.pins() == []
        with pytest.raises(InvalidInputError, match="has ended"):
            await query.pin("db.orders")


# --- Iceberg tables -----------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _with_iceberg(directory: Path) -> AsyncIterator[tuple[Lake, Queries]]:
    on_disk(three_days(), directory / "web" / "events")
    async with Lake(memory_store()) as lake:
        await lake.create_database("db")
        await (await lake.create_table("db.orders", _SCHEMA)).append([{"id": 1, "amount": 1}])
        await lake.attach_catalog("ice", {"type": "directory", "warehouse": f"file://{directory}"})
        yield lake, queries_of(lake)


async def test_plans_of_a_query_show_its_snapshot(tmp_path: Path) -> None:
    """Plans of an Iceberg table in a query stay at its pin when the table moves on."""
    async with _with_iceberg(tmp_path) as (_, queries), queries.begin() as query:
        assert (await query.plan("ice.web.events")).files().num_rows == 30
        more = manifest("m9", [data_file(DAY + 9, 99)])
        on_disk(three_days(more), tmp_path / "web" / "events")
        assert (await query.plan("ice.web.events", "id < 10")).files().num_rows == 1
        assert (await query.plan("ice.web.events")).files().num_rows == 30


async def test_an_iceberg_table_has_no_get_and_ours_no_plan(tmp_path: Path) -> None:
    """A call that a table's format does not have is an error that names another one."""
    async with _with_iceberg(tmp_path) as (_, queries), queries.begin() as query:
        with pytest.raises(InvalidInputError, match="no get"):
            await query.get("ice.web.events", {"id": 1})
        with pytest.raises(InvalidInputError, match=r"scan\(\) it"):
            await query.plan("db.orders")


def _files(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


async def test_a_long_query_writes_nothing_into_tables_of_others(tmp_path: Path) -> None:
    """Iceberg tables are never written: a long life of a query is no reason to."""
    async with _with_iceberg(tmp_path) as (_, queries):
        before = _files(tmp_path)
        async with queries.begin(lifetime_s=4 * _HALF_S) as query:
            await query.plan("ice.web.events")
        assert _files(tmp_path) == before


# --- interleavings ------------------------------------------------------------------------


async def test_an_end_never_leaves_a_pin_that_is_committed_meanwhile() -> None:
    """A query that ends while its pin is being committed takes that pin away, too."""
    async with _world() as world:
        query = await world.queries.begin(lifetime_s=4 * _HALF_S).__aenter__()
        touching = asyncio.ensure_future(query.pin("db.orders"))
        for _turn in range(3):
            await asyncio.sleep(0)
        await query.aclose()
        with contextlib.suppress(InvalidInputError):
            await touching
        assert await world.pins() == []


@pytest.mark.parametrize("turns", range(0, 60, 4))
async def test_an_expiry_transition_never_clobbers_a_concurrent_pin_commit(turns: int) -> None:
    """Wherever the end of a query falls into the commit of its pin, nothing is left and nobody gets a pin."""
    async with _world() as world:
        query = await world.queries.begin(lifetime_s=4 * _HALF_S).__aenter__()
        touching = asyncio.ensure_future(query.pin("db.orders"))
        for _turn in range(turns):
            await asyncio.sleep(0)
        was_done = touching.done()
        await query.aclose()
        if not was_done:
            with pytest.raises(InvalidInputError, match="has ended"):
                await touching
        assert await world.pins() == []


async def test_a_cancelled_touch_leaves_no_pin_behind() -> None:
    """A touch that is cancelled during its commit is finished by the end of the query."""
    async with _world() as world:
        async with world.queries.begin(lifetime_s=4 * _HALF_S) as query:
            touching = asyncio.ensure_future(query.pin("db.orders"))
            for _turn in range(30):
                await asyncio.sleep(0)
            touching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await touching
        assert await world.pins() == []


@pytest.mark.parametrize("number", range(6))
async def test_an_expiry_beside_a_pin_commit_loses_the_snapshot_or_is_told(number: int) -> None:
    """Wherever an expiry comes between the requests of a pin's commit, the pin holds or the touch fails."""
    clock = ManualClock()
    timed = TimedStore(memory_store(), clock.now_ms())
    store = StepIn(timed)
    async with Lake(stacked(store), clock=clock) as lake, Lake(stacked(timed), clock=clock) as other:
        await lake.create_database("db")
        table = await lake.create_table("db.orders", _SCHEMA, primary_key="id")
        await table.append([{"id": 1, "amount": 10}])

        async def expire() -> None:
            theirs = await other.table("db.orders")
            await theirs.overwrite([{"id": 2, "amount": 20}])
            await theirs.expire_snapshots(retain=1)

        async with queries_of(lake).begin(lifetime_s=4 * _HALF_S) as query:
            node = await query.relation("db.orders")
            store.before(number, f"{table.core.root}/", expire)
            try:
                pin = await query.pin("db.orders")
            except NotFoundError:
                assert query.pins == ()
                return
            assert pin.table == node.id
            if store.act is not None:
                store.act = None
                await expire()
            timed.advance(3 * _HALF_S)
            await clock.advance(3 * _HALF_S)
            await (await other.table("db.orders")).expire_snapshots(retain=1)
            assert await query.scan("db.orders").to_pylist() == [{"id": 1, "amount": 10}]


async def test_a_missing_table_is_an_error_and_no_pin() -> None:
    """A name that nothing has leaves the query as it was."""
    async with _world() as world, world.queries.begin() as query:
        with pytest.raises(NotFoundError):
            await query.scan("db.none").to_arrow()
        assert query.pins == ()
