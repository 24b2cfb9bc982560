"""Drops of tables and databases: what is reported, and how a drop that ended midway is ended."""

from __future__ import annotations

import asyncio
import datetime as dt

import pyarrow as pa
import pytest

from lakehouse.errors import CommitUnknownError, InvalidInputError, NotFoundError
from lakehouse.io import ObjectStore
from lakehouse.testing import Fault, FaultKind, FaultyStore
from tests.kit.worlds import NAME, StepIn, process, restored, table_of

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.int64()})


async def made() -> ObjectStore:
    """A table of one row, in snapshot 2."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    await (await lake.create_table(NAME, SCHEMA, primary_key="id")).append([{"id": 1, "v": 1}])
    return store


async def kinds_of(store: ObjectStore) -> list[str]:
    """The kinds of all commits to the table, once it is back."""
    table = await process(store).undrop_table(NAME)
    return [str(kind) for kind in (await table.snapshots())["kind"].to_pylist()]


async def test_a_dropped_table_is_gone_for_everybody() -> None:
    """Its name is free and not listed, and handles from before the drop neither read nor write."""
    store = await made()
    table = await table_of(store)
    assert await table.scan().count() == 1
    done = await process(store).drop_table(NAME)
    assert done is not None
    assert (done.table, done.uuid, done.snapshot) == (NAME, table.uuid, 3)
    assert [one async for one in process(store).tables("db")] == []
    with pytest.raises(NotFoundError):
        await process(store).table(NAME)
    for use in (table.append([{"id": 2, "v": 2}]), table.scan().count(), table.compact(full=True)):
        with pytest.raises(NotFoundError):
            await use


async def test_a_drop_says_until_when_it_can_be_undone() -> None:
    """The result names the moment at which the grace of the table's own option ends."""
    lake = process(await restored({}))
    await lake.create_database("db")
    await lake.create_table(NAME, SCHEMA, options={"delete_grace_s": 7200})
    done = await lake.drop_table(NAME)
    assert done is not None
    assert done.until is not None
    times = (await (await lake.undrop_table(NAME)).snapshots())["time"].to_pylist()
    assert done.until == times[1] + dt.timedelta(hours=2)
    await lake.drop_table(NAME)
    assert f"not before {done.until:%Y-%m-%d %H:%M:%S} UTC" in str(done)
    assert await lake.drop_table(NAME, if_exists=True) is None


async def test_a_drop_that_ended_midway_is_ended_by_the_next() -> None:
    """With the last commit made and the name not free, dropping again frees it and commits nothing."""
    store = await made()
    halted = StepIn(store)

    async def ends() -> None:
        raise asyncio.CancelledError

    halted.before(0, "/_tables/", ends, verb="put_if_match")
    with pytest.raises(asyncio.CancelledError):
        await process(halted).drop_table(NAME)
    assert await process(store).table_exists(NAME)
    done = await process(store).drop_table(NAME)
    assert done is not None
    assert done.snapshot == 3
    assert not await process(store).table_exists(NAME)
    assert await kinds_of(store) == ["create", "append", "drop", "undrop"]


async def test_a_name_that_may_not_be_free_is_said() -> None:
    """When the name cannot be given back the error says that the table is dropped; a second drop frees it."""
    store = FaultyStore(await made())
    store.planned = [Fault(kind=FaultKind.THROTTLE, verb="put_if_match", key="/_tables/")] * 100
    with pytest.raises(CommitUnknownError, match=r"'db\.t' is dropped, but .* Drop it again"):
        await process(store).drop_table(NAME)
    store.planned = []
    with pytest.raises(NotFoundError, match="dropped"):
        await (await process(store).table(NAME)).scan().count()
    done = await process(store).drop_table(NAME)
    assert done is not None
    assert not await process(store).table_exists(NAME)


async def test_of_a_table_without_objects_the_name_is_released() -> None:
    """When nothing is left of a table but its name, that is free then, and no time is told."""
    store = await made()
    for key in [one.key async for one in store.list("db/t-")]:
        await store.delete(key)
    done = await process(store).drop_table(NAME)
    assert done is not None
    assert (done.snapshot, done.until, str(done)) == (None, None, "db.t is dropped")
    assert not await process(store).table_exists(NAME)


async def test_a_database_with_tables_is_dropped_by_cascade_only() -> None:
    """Without it the database and its tables stay."""
    store = await made()
    with pytest.raises(InvalidInputError):
        await process(store).drop_database("db")
    assert await (await table_of(store)).scan().count() == 1


async def test_a_cascade_reports_each_table_and_the_earliest_end() -> None:
    """All tables can be brought back until the first of their graces is over."""
    lake = process(await restored({}))
    await lake.create_database("db")
    for name, grace_s in (("db.a", 7_200), ("db.b", 3_600)):
        await lake.create_table(name, SCHEMA, options={"delete_grace_s": grace_s})
    done = await lake.drop_database("db", cascade=True)
    assert done is not None
    assert [one.table for one in done.tables] == ["db.a", "db.b"]
    first, second = (one.until for one in done.tables)
    assert first is not None
    assert second is not None
    assert done.until == second < first
    assert str(done).startswith("db is dropped, with 2 tables; undrop brings them back until")
    assert await lake.databases() == []


async def test_a_database_without_tables_has_no_end_to_tell() -> None:
    """A cascade over nothing reports no table and no time."""
    lake = process(await restored({}))
    await lake.create_database("db")
    done = await lake.drop_database("db", cascade=True)
    assert done is not None
    assert (done.tables, done.until, str(done)) == ((), None, "db is dropped, with 0 tables")


async def test_tables_that_others_drop_meanwhile_hold_no_cascade_up() -> None:
    """A table that is gone when the cascade comes to it is passed over."""
    store = await made()
    hooked = StepIn(store)

    async def drop() -> None:
        await process(store).drop_table(NAME)

    hooked.before(1, "/_tables/", drop, verb="get")
    done = await process(hooked).drop_database("db", cascade=True)
    assert done is not None
    assert hooked.act is None
    assert done.tables == ()
    assert not await process(store).database_exists("db")
