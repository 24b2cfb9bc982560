"""Real-time order: what was acknowledged before a call is older than it, whatever runs beside."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable

import pytest

from lakehouse.io import ObjectStore
from lakehouse.storage.table import Table
from lakehouse.storage.write.streaming_writer import TableWriter
from tests.kit.streaming import made, opened, rows_of, some, vanish
from tests.kit.table_operations import SCHEMA
from tests.kit.worlds import NAME, StepIn, process, restored, table_of

Act = Callable[[TableWriter, Table], Awaitable[object]]
ROW = (1, "a", 1)
OTHER = (2, "a", 5)


async def _streamed(writer: TableWriter, table: Table) -> object:
    return await (await writer.put(some(ROW)))


async def _upserted(writer: TableWriter, table: Table) -> object:
    return await table.upsert(some(ROW))


PUTS: dict[str, Act] = {"stream": _streamed, "commit": _upserted}


async def _stream_delete(writer: TableWriter, table: Table) -> object:
    return await (await writer.delete([{"id": 1}]))


async def _delete_key(writer: TableWriter, table: Table) -> object:
    return await table.delete(keys=[{"id": 1}])


async def _delete_where(writer: TableWriter, table: Table) -> object:
    return await table.delete("v = 1")


DELETES: dict[str, Act] = {"stream": _stream_delete, "keys": _delete_key, "where": _delete_where}


async def _expired(table: Table) -> object:
    return await table.expire_snapshots(retain=1, grace_s=0)


WORK: dict[str, Callable[[Table], Awaitable[object]]] = {
    "flush": lambda table: table.flush(),
    "compact": lambda table: table.compact(full=True),
    "expire": _expired,
}


async def _is_deleted(store: ObjectStore) -> None:
    """No read shows the row, now or when all of the log is in files."""
    assert await rows_of(store, "wal") == [OTHER]
    await (await table_of(store)).flush()
    assert await rows_of(store) == [OTHER]


@pytest.mark.parametrize("deletes", DELETES)
@pytest.mark.parametrize("puts", PUTS)
async def test_what_was_put_and_then_deleted_stays_deleted(puts: str, deletes: str) -> None:
    """Put acknowledged, delete acknowledged: flush, compaction and expiry in any order leave it deleted."""
    for work in itertools.permutations(WORK):
        store = await made()
        writer = await opened(store)
        await (await writer.put(some(OTHER)))
        await PUTS[puts](writer, await table_of(store))
        await DELETES[deletes](writer, await table_of(store))
        for what in work:
            await WORK[what](await table_of(store))
            assert await rows_of(store, "wal") == [OTHER], work
        await vanish(writer)
        await _is_deleted(store)


@pytest.mark.parametrize("deletes", DELETES)
@pytest.mark.parametrize("work", WORK)
async def test_a_delete_in_the_middle_of_maintenance_stays(work: str, deletes: str) -> None:
    """Whenever a row is deleted while others flush, compact or let snapshots expire, it stays deleted."""
    for puts, number in itertools.product(PUTS, range(60)):
        store = await made()
        writer = await opened(store)
        await (await writer.put(some(OTHER)))
        await PUTS[puts](writer, await table_of(store))
        hooked, met = StepIn(store), list[str]()

        async def delete(
            store: ObjectStore = store, writer: TableWriter = writer, met: list[str] = met
        ) -> None:
            await DELETES[deletes](writer, await table_of(store))
            met.append(deletes)

        table = await table_of(hooked)
        hooked.before(number, "", delete)
        await WORK[work](table)
        if not met:
            await delete()
        await _is_deleted(store)
        await vanish(writer)
        if hooked.act is not None:
            assert number > 2
            break


@pytest.mark.parametrize("reads", ["scan", "get"])
async def test_a_fresh_read_shows_no_put_without_the_commit_before_it(reads: str) -> None:
    """Whenever a commit and then a put of one key come in the middle of a read: it shows neither, the
    commit alone, or both; here they are added up."""
    seen = set()
    for number in range(20):
        store = await restored({})
        lake = process(store)
        await lake.create_database("db")
        options = {"merge_engine": "aggregation", "fields.v.aggregate": "sum"}
        table = await lake.create_table(NAME, SCHEMA, primary_key=["id"], options=options)
        writer = await opened(store)
        await (await writer.put(some((1, "a", 100))))
        hooked = StepIn(store)

        async def act(table: Table = table, writer: TableWriter = writer) -> None:
            await table.upsert(some((1, "a", 10)))
            await (await writer.put(some((1, "a", 1))))

        reader = await table_of(hooked)
        await reader.current_snapshot()
        hooked.before(number, "", act)
        if reads == "scan":
            ((_, _, value),) = await rows_of(reader, "wal")
        else:
            row = await reader.get({"id": 1}, freshness="wal")
            value = row["v"] if row is not None else None
        assert value in (100, 110, 111), f"before request {number}"
        seen.add(value)
        await vanish(writer)
        if hooked.act is not None:
            break
    assert seen >= {100, 111}
