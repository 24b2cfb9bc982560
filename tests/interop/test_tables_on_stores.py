"""Tables live and lose nothing on every store that the engine commits on."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest

import lakehouse
from lakehouse.errors import AlreadyExistsError, NotFoundError
from lakehouse.lake import Lake
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from tests.interop.real_stores import Place
from tests.processes.test_table_processes import (
    Place as ProcessPlace,
)
from tests.processes.test_table_processes import (
    test_commits_of_four_processes_are_there_once as four_processes,
)
from tests.processes.test_table_processes import (
    test_killed_processes_lose_nothing_that_was_acknowledged as killed_processes,
)

SCHEMA = pa.schema({"id": pa.int64(), "n": pa.int64(), "note": pa.string()})
Rows = dict[int, int]


def at(place: Place, **how: Any) -> Lake:
    """A process that has connected to the place."""
    return lakehouse.connect(place.url, storage_options=place.options, **how)


def rows(ids: range, n: int) -> list[dict[str, Any]]:
    """A row for each id."""
    return [{"id": number, "n": n, "note": f"note {number}"} for number in ids]


async def shown(table: lakehouse.Table, **how: Any) -> Rows:
    """The rows of a scan."""
    found = await table.scan(columns=["id", "n"], **how).to_pylist()
    seen = {row["id"]: row["n"] for row in found}
    assert len(seen) == len(found)
    return seen


async def test_a_table_is_written_kept_in_order_and_dropped(place: Place) -> None:
    """Every kind of write shows, at once and after upkeep, to a process that remembers nothing."""
    wanted: Rows = {number: 2 if number < 50 else 1 for number in range(10, 200)}
    async with at(place, check=True) as lake:
        await lake.create_database("sales")
        orders = await lake.create_table(
            "sales.orders", SCHEMA, primary_key="id", bucket=2, indexes={"note": "inverted"}
        )
        first = await orders.append(rows(range(200), 1))
        await orders.upsert(rows(range(50), 2))
        await orders.delete(where="id < 10")
        async with orders.writer() as writer:
            await (await writer.put(rows(range(300, 303), 3)))
            assert await shown(orders, freshness="wal") == {**wanted, 300: 3, 301: 3, 302: 3}
        wanted |= {300: 3, 301: 3, 302: 3}
    async with at(place) as lake:
        orders = await lake.table("sales.orders")
        assert await shown(orders) == wanted
        assert await shown(orders, snapshot=first.snapshot) == dict.fromkeys(range(200), 1)
        assert [row["id"] for row in await orders.scan(where="note = 'note 77'").to_pylist()] == [77]
        await orders.compact(full=True)
        assert (await orders.expire_snapshots(retain=1, grace_s=0)).expired
        await orders.remove_orphans(dry_run=True)
        assert (await orders.verify(deep=True)).ok
        assert await shown(orders) == wanted
        await lake.rename_table("sales.orders", "sales.old_orders")
        assert [name async for name in lake.tables("sales")] == ["sales.old_orders"]
    async with at(place) as lake:
        assert await shown(await lake.table("sales.old_orders")) == wanted
        await lake.drop_table("sales.old_orders")
        with pytest.raises(NotFoundError):
            await lake.table("sales.old_orders")
        await lake.purge_dropped(grace_s=0)


async def test_commits_that_meet_are_there_once(place: Place) -> None:
    """Eight processes commit five times each to one table at once: forty snapshots, no row is lost."""
    async with at(place) as lake:
        await lake.create_database("db")
        table = await lake.create_table("db.t", SCHEMA, primary_key="id")

        async def commit(who: int) -> None:
            async with at(place) as other:
                mine = await other.table("db.t")
                for turn in range(5):
                    await mine.upsert(rows(range(who * 5 + turn, who * 5 + turn + 1), who))

        async with asyncio.TaskGroup() as group:
            for who in range(8):
                group.create_task(commit(who))
        assert await shown(table) == {who * 5 + turn: who for who in range(8) for turn in range(5)}
        assert await table.current_snapshot() == 1 + 40


async def test_one_of_those_who_create_a_table_at_once_makes_it(place: Place) -> None:
    """Of eight processes that create the same name one succeeds, and all others are told of it."""

    async def create(who: int) -> bool:
        async with at(place) as other:
            try:
                await other.create_table("db.t", SCHEMA, comment=str(who))
            except AlreadyExistsError:
                return False
        return True

    async with at(place) as lake:
        await lake.create_database("db")
        made = await asyncio.gather(*map(create, range(8)))
        assert made.count(True) == 1
        schema = await (await lake.table("db.t")).schema()
        assert schema.comment == str(made.index(True))


# ------------------------------------------------------------------ processes on versitygw


@pytest.fixture
def shared(versitygw: ServerInfo) -> Any:
    """A bucket of versitygw for several processes."""
    with fresh_bucket(versitygw) as bucket:
        yield ProcessPlace(f"s3://{bucket}/warehouse", versitygw.storage_options)


async def test_processes_on_versitygw_lose_nothing(shared: ProcessPlace) -> None:
    """Commits of four processes are there once."""
    await four_processes(shared, {})


async def test_killed_processes_on_versitygw_lose_nothing(shared: ProcessPlace) -> None:
    """Whenever processes are killed, what was answered is there, once and in order."""
    await killed_processes(shared)
