"""Tables that are made and opened: what a new table is, in which order it comes to be, and who shares it."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from lakehouse.errors import AlreadyExistsError, NotFoundError
from lakehouse.io import ObjectStore
from lakehouse.lake import Lake
from lakehouse.testing import RecordingStore
from tests.kit.worlds import NAME, StepIn, process, restored, saved

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.int64()})


async def lake_on(store: ObjectStore) -> Lake:
    """A process, and a database without a table."""
    lake = process(store)
    await lake.create_database("db")
    return lake


async def test_a_new_table_is_its_schema_and_one_snapshot() -> None:
    """The first snapshot has the number 1, the schema 0, and no row."""
    store = await restored({})
    made = await (await lake_on(store)).create_table(NAME, SCHEMA, primary_key="id")
    table = await process(store).table(NAME)
    assert (table.name, table.uuid) == (NAME, made.uuid)
    [first] = (await table.snapshots()).to_pylist()
    assert (first["snapshot"], first["parent"], first["kind"], first["schema"]) == (1, None, "create", 0)
    assert (await table.schema()).arrow().names == SCHEMA.names
    assert await table.scan().count() == 0


async def test_a_table_has_a_name_once_everything_else_is_there() -> None:
    """Schema, snapshot and name are put in this order, so that a name never stands for half a table."""
    store = RecordingStore(await restored({}))
    lake = await lake_on(store)
    store.clear()
    await lake.create_table(NAME, SCHEMA)
    places = ("/schema/schema-", "/snapshot/snapshot-", "/_tables/")
    puts = [call.key for call in store.calls if call.verb.startswith("put")]
    assert [place for key in puts for place in places if place in key] == list(places)


async def test_a_taken_name_is_refused_before_anything_is_put() -> None:
    """A table whose name is not free leaves no object, and the one that has the name is as it was."""
    store = await restored({})
    lake = await lake_on(store)
    table = await lake.create_table(NAME, SCHEMA)
    before = await saved(store)
    with pytest.raises(AlreadyExistsError, match=r"'db\.t'"):
        await process(store).create_table(NAME, SCHEMA)
    assert await saved(store) == before
    assert (await process(store).table(NAME)).uuid == table.uuid


async def test_a_name_that_a_drop_left_behind_is_free() -> None:
    """When a drop ended before it gave the name back, a new table gets it."""
    store = await restored({})
    dropped = await (await lake_on(store)).create_table(NAME, SCHEMA)
    halted = StepIn(store)

    async def ends() -> None:
        raise asyncio.CancelledError

    halted.before(0, "/_tables/", ends, verb="put_if_match")
    with pytest.raises(asyncio.CancelledError):
        await process(halted).drop_table(NAME)
    made = await process(store).create_table(NAME, SCHEMA)
    assert made.uuid != dropped.uuid
    assert (await process(store).table(NAME)).uuid == made.uuid


async def test_a_name_may_be_used_again_for_another_table() -> None:
    """A table made under the name of a dropped one has nothing of it."""
    lake = await lake_on(await restored({}))
    first = await lake.create_table(NAME, SCHEMA)
    await first.append([{"id": 1, "v": 1}])
    await lake.drop_table(NAME)
    second = await lake.create_table(NAME, SCHEMA)
    assert (second.uuid, second.location) != (first.uuid, first.location)
    assert await second.scan().count() == 0


async def test_who_makes_a_table_and_who_opens_it_share_it() -> None:
    """A connection has one open table of each incarnation, so that its commits take turns."""
    lake = await lake_on(await restored({}))
    made = await lake.create_table(NAME, SCHEMA)
    assert made.core is (await lake.table(NAME)).core is (await lake.table(NAME)).core


async def test_the_maker_of_a_table_writes_to_it_without_a_look() -> None:
    """What was just created is known: the first append reads nothing."""
    store = RecordingStore(await restored({}))
    table = await (await lake_on(store)).create_table(NAME, SCHEMA)
    store.clear()
    await table.append([{"id": 1, "v": 1}])
    assert not [call for call in store.calls if call.verb.startswith(("get", "list"))]


async def test_a_table_without_a_name_cannot_be_opened() -> None:
    """A name that stands for nothing is an error that says the name."""
    lake = await lake_on(await restored({}))
    with pytest.raises(NotFoundError, match=r"'db\.t'"):
        await lake.table(NAME)
