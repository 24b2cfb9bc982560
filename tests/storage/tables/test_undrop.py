"""Dropped tables and databases that come back: what does, until when, and who wins when others act."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

import pyarrow as pa
import pytest

from lakehouse.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    UnsupportedVersionError,
)
from lakehouse.format.metadata.name_pointer import NameState
from lakehouse.format.metadata.sealed_json import seal, unseal
from lakehouse.io import ObjectStore
from lakehouse.lake import Lake
from lakehouse.storage.metadata.table_name import TableName
from lakehouse.storage.tables.names import Names
from lakehouse.testing import RecordingStore
from tests.cut_points.test_table_cut_points import Failing, plans, told
from tests.kit.timed_store import HOUR_S, TimedStore
from tests.kit.worlds import NAME, StepIn, World, process, restored, saved

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.int64()})
ROWS = [{"id": 1, "v": 1}, {"id": 2, "v": 2}]


async def filled(*, drop: bool = True) -> World:
    """A table of two rows in two files, dropped."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key="id")
    for row in ROWS:
        await table.append([row])
    if drop:
        await lake.drop_table(NAME)
    return await saved(store)


async def rows(lake: Lake, name: str = NAME) -> list[dict[str, object]]:
    """The rows of a table, in order."""
    found = await (await lake.table(name)).scan().to_pylist()
    return sorted(found, key=lambda row: row["id"])


async def half_dropped() -> World:
    """The same where whoever dropped it ended before its name was free."""
    store = await restored(await filled(drop=False))
    halted = StepIn(store)

    async def ends() -> None:
        raise asyncio.CancelledError

    halted.before(0, "_tables/", ends, verb="put_if_match")
    with pytest.raises(asyncio.CancelledError):
        await process(halted).drop_table(NAME)
    assert await state_of(store) is NameState.LIVE
    return await saved(store)


async def state_of(store: ObjectStore, name: str = NAME) -> NameState:
    """What the pointer of a name says."""
    return (await Names(store).look(TableName.parse(name)))[0].state


# --- one table ------------------------------------------------------------------------


async def test_a_dropped_table_comes_back_as_it_was() -> None:
    """Rows, history and tags are there again, under a new snapshot, and a second undrop is an error."""
    store = await restored(await filled(drop=False))
    lake = process(store)
    table = await lake.table(NAME)
    await table.create_tag("kept", snapshot=2)
    dropped = await lake.drop_table(NAME)
    assert dropped is not None
    with pytest.raises(NotFoundError, match="undrop_table brings it back"):
        await process(store).table(NAME)
    back = await process(store).undrop_table(NAME)
    assert (back.name, back.uuid) == (NAME, dropped.uuid)
    assert await rows(process(store)) == ROWS
    assert await back.scan(tag="kept").count() == 1
    kinds = (await back.snapshots())["kind"].to_pylist()
    assert kinds == ["create", "append", "append", "tag", "drop", "undrop"]
    assert [one async for one in process(store).tables("db")] == [NAME]
    with pytest.raises(AlreadyExistsError, match="is not dropped"):
        await process(store).undrop_table(NAME)


async def test_a_purged_table_cannot_come_back() -> None:
    """Before the grace is over it can, after the purge it is an error with a kind of its own."""
    store = TimedStore(await restored(await filled()))
    assert (await process(store).purge_dropped()).tables == ()
    await process(store).undrop_table(NAME)
    assert await rows(process(store)) == ROWS
    await process(store).drop_table(NAME)
    store.advance(HOUR_S)
    assert len((await process(store).purge_dropped()).tables) == 1
    with pytest.raises(NotFoundError, match="objects are deleted") as error:
        await process(store).undrop_table(NAME)
    assert error.value.kind == "purged"
    assert await state_of(store) is NameState.PURGING
    assert [one async for one in process(store).tables("db")] == []
    assert [one async for one in process(store).index_metas()] == []
    with pytest.raises(NotFoundError, match="its objects are deleted"):
        await process(store).table(NAME)
    await process(store).create_table(NAME, SCHEMA)


async def test_a_table_that_never_was_cannot_come_back() -> None:
    """Names that stand for nothing, in databases that are not there either, are said to be unknown."""
    lake = process(await restored(await filled()))
    for name in ("db.never", "never.t"):
        with pytest.raises(NotFoundError, match="never"):
            await lake.undrop_table(name)


async def test_a_table_that_was_renamed_comes_back_under_its_last_name() -> None:
    """The old name says where the table is; the name it was dropped with brings it back."""
    store = await restored(await filled(drop=False))
    lake = process(store)
    await lake.create_database("other")
    await lake.rename_table(NAME, "other.moved")
    await lake.drop_table("other.moved")
    with pytest.raises(NotFoundError, match=r"other\.moved"):
        await process(store).undrop_table(NAME)
    await process(store).undrop_table("other.moved")
    assert await rows(process(store), "other.moved") == ROWS
    await process(store).drop_table("other.moved")
    assert len((await process(store).purge_dropped(grace_s=0)).tables) == 1
    assert await state_of(store, "other.moved") is NameState.PURGING


async def test_tables_open_since_before_the_drop_go_on() -> None:
    """They are told of the drop while it lasts, and read and write again after the undrop."""
    store = await restored(await filled(drop=False))
    before = await process(store).table(NAME)
    await before.current_snapshot()
    await process(store).drop_table(NAME)
    with pytest.raises(NotFoundError, match="was dropped by snapshot 4"):
        await before.append([{"id": 3, "v": 3}])
    await process(store).undrop_table(NAME)
    await before.append([{"id": 3, "v": 3}])
    assert await before.scan().count() == 3


async def test_rows_acknowledged_before_the_drop_are_there() -> None:
    """What was put into the log before the drop comes back; its writer is ended, and a new one goes on."""
    store = await restored(await filled(drop=False))
    async with process(store) as lake, process(store) as other:
        writer = (await lake.table(NAME)).writer()
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(writer)
            await (await writer.put([{"id": 3, "v": 3}]))
            await other.drop_table(NAME)
            await other.undrop_table(NAME)
            with pytest.raises(LakehouseError):
                await (await writer.put([{"id": 4, "v": 4}]))
            with contextlib.suppress(LakehouseError):
                await stack.aclose()
        async with (await other.table(NAME)).writer() as writer:
            await (await writer.put([{"id": 5, "v": 5}]))
        assert [row["id"] for row in await rows(other)] == [1, 2, 3, 5]


# --- several tables of one name -------------------------------------------------------


async def test_a_name_that_is_in_use_is_not_taken() -> None:
    """While a table made since has the name undrop is refused; once that is renamed it is not."""
    store = await restored(await filled())
    lake = process(store)
    await lake.create_table(NAME, SCHEMA)
    with pytest.raises(AlreadyExistsError, match="made since: rename it"):
        await process(store).undrop_table(NAME)
    assert await rows(process(store)) == []
    await lake.rename_table(NAME, "db.new")
    await process(store).undrop_table(NAME)
    assert await rows(process(store)) == ROWS
    assert await rows(process(store), "db.new") == []


async def test_the_last_one_comes_back_unless_a_uuid_says_which() -> None:
    """Of three tables that were dropped under one name each can come back, by its uuid or its directory."""
    store = await restored(await filled(drop=False))
    uuids = []
    for number in range(3):
        lake = process(store)
        if number:
            table = await lake.create_table(NAME, SCHEMA)
            await table.append([{"id": number, "v": -number}])
        done = await lake.drop_table(NAME)
        assert done is not None
        uuids.append(done.uuid)
    lake = process(store)
    await lake.undrop_table(NAME)
    assert await rows(lake) == [{"id": 2, "v": -2}]
    await lake.drop_table(NAME)
    await lake.undrop_table(NAME, uuid=uuids[0])
    assert await rows(process(store)) == ROWS
    await lake.drop_table(NAME)
    await lake.undrop_table(NAME, uuid=uuids[1].hex[:8])
    assert await rows(process(store)) == [{"id": 1, "v": -1}]
    with pytest.raises(NotFoundError, match=str(uuids[0])):
        await lake.undrop_table(NAME, uuid="0" * 8)
    with pytest.raises(InvalidInputError, match="first 8 digits"):
        await lake.undrop_table(NAME, uuid="orders")


async def test_a_purge_takes_tables_whose_name_was_given_away() -> None:
    """They go like others, can come back until then, and not afterwards; the live table stays."""
    store = TimedStore(await restored(await filled()))
    await process(store).create_table(NAME, SCHEMA)
    await process(store).drop_table(NAME)
    await process(store).create_table(NAME, SCHEMA)
    store.advance(HOUR_S)
    assert len((await process(store).purge_dropped()).tables) == 2
    pointer, _ = await Names(store).look(TableName.parse(NAME))
    assert pointer.state is NameState.LIVE
    assert [one.state for one in pointer.before] == [NameState.PURGING] * 2
    assert await rows(process(store)) == []
    await process(store).rename_table(NAME, "db.new")
    with pytest.raises(NotFoundError, match=r"db\.new"):
        await process(store).undrop_table(NAME)
    with pytest.raises(NotFoundError) as error:
        await process(store).undrop_table(NAME, uuid=pointer.before[0].table)
    assert error.value.kind == "purged"


async def test_a_pointer_remembers_sixteen() -> None:
    """Of more tables dropped under a name the oldest are forgotten, and still purged."""
    store = await restored(await filled())
    for _ in range(17):
        lake = process(store)
        await lake.create_table(NAME, SCHEMA)
        await lake.drop_table(NAME)
    pointer, _ = await Names(store).look(TableName.parse(NAME))
    assert len(pointer.before) == 16
    assert len((await process(store).purge_dropped(grace_s=0)).tables) == 18


# --- databases ------------------------------------------------------------------------


async def test_a_database_comes_back_with_what_was_dropped_with_it() -> None:
    """Tables dropped by the cascade are back; one that was dropped before stays dropped."""
    store = await restored(await filled(drop=False))
    lake = process(store)
    for name in ("db.u", "db.gone"):
        await lake.create_table(name, SCHEMA)
    await lake.drop_table("db.gone")
    done = await lake.drop_database("db", cascade=True)
    assert done is not None
    assert [one.table for one in done.tables] == [NAME, "db.u"]
    assert done.until is not None
    assert await process(store).databases() == []
    with pytest.raises(NotFoundError, match="undrop_database"):
        await process(store).undrop_table(NAME)
    back = await process(store).undrop_database("db")
    assert (back.tables, back.lost) == ((NAME, "db.u"), ())
    assert [one async for one in process(store).tables("db")] == [NAME, "db.u"]
    assert await rows(process(store)) == ROWS
    with pytest.raises(AlreadyExistsError, match="not dropped"):
        await process(store).undrop_database("db")
    with pytest.raises(NotFoundError, match="never"):
        await process(store).undrop_database("nowhere")


async def test_what_was_purged_of_a_database_is_named() -> None:
    """The others come back, and the database does."""
    store = TimedStore(await restored(await filled(drop=False)))
    lake = process(store)
    await lake.create_table("db.long", SCHEMA, options={"delete_grace_s": 7200})
    await lake.drop_database("db", cascade=True)
    store.advance(HOUR_S)
    assert len((await process(store).purge_dropped()).tables) == 1
    back = await process(store).undrop_database("db")
    assert back.tables == ("db.long",)
    assert [name for name, _ in back.lost] == [NAME]
    assert "objects are deleted" in str(back)
    assert await process(store).databases() == ["db"]


async def test_a_cascade_that_ended_midway_can_be_undone() -> None:
    """The database is live still; the tables that are dropped already come back."""
    store = await restored(await filled(drop=False))
    await process(store).create_table("db.u", SCHEMA)
    hooked = StepIn(store)

    async def ends() -> None:
        raise asyncio.CancelledError

    hooked.before(0, "_database", ends, verb="put_if_match")
    with pytest.raises(asyncio.CancelledError):
        await process(hooked).drop_database("db", cascade=True)
    assert [one async for one in process(store).tables("db")] == []
    back = await process(store).undrop_database("db")
    assert back.tables == (NAME, "db.u")


# --- every request fails --------------------------------------------------------------


async def sound(store: ObjectStore, where: object) -> bool:
    """Whether the table is live; a live one must have all of its rows."""
    try:
        assert await rows(process(store)) == ROWS, where
    except NotFoundError:
        return False
    return True


CALLS: dict[str, Callable[[Lake], Awaitable[object]]] = {
    "undrop": lambda lake: lake.undrop_table(NAME),
    "purge": lambda lake: lake.purge_dropped(grace_s=0),
}


@pytest.mark.parametrize("what", CALLS)
async def test_every_cut_point(what: str) -> None:
    """Wherever an undrop or a purge fails, the table is back whole or not at all; repeating it ends it."""
    world, call = await filled(), CALLS[what]
    recorded = RecordingStore(await restored(world))
    await call(process(recorded))
    tried = 0
    for number, kind, count in plans(list(recorded.calls)):
        failing = Failing(await restored(world))
        failing.fail(number, kind, count)
        answer = await told(call(process(failing.faulty)))
        await failing.over()
        where = (number, recorded.calls[number], kind, count, answer)
        is_live = await sound(failing.store, where)
        if what == "purge":
            assert not is_live, where
            await call(process(failing.store))
            assert not [one async for one in failing.store.list("db/t-")], where
        else:
            assert is_live or answer != "done", where
            if is_live:
                await process(failing.store).drop_table(NAME)
            await call(process(failing.store))
            assert await sound(failing.store, where), where
        tried += 1
    assert tried > 20


async def test_an_undrop_that_ended_midway_is_ended_by_a_purge() -> None:
    """With the commit made and the name not, the table is neither purged at once nor for ever left."""
    store = TimedStore(await restored(await filled()))
    hooked = StepIn(store)

    async def ends() -> None:
        raise asyncio.CancelledError

    hooked.before(0, "_tables/", ends, verb="put_if_match")
    with pytest.raises(asyncio.CancelledError):
        await process(hooked).undrop_table(NAME)
    assert not await process(store).table_exists(NAME)
    assert len((await process(store).purge_dropped()).waiting) == 1
    store.advance(HOUR_S)
    assert len((await process(store).purge_dropped()).waiting) == 1
    with pytest.raises(NotFoundError) as error:
        await process(store).undrop_table(NAME)
    assert error.value.kind == "purged"
    store.advance(HOUR_S)
    assert len((await process(store).purge_dropped()).tables) == 1
    assert not [one async for one in store.list("db/t-")]


# --- races ----------------------------------------------------------------------------


async def requests_of(world: World, call: Callable[[Lake], Awaitable[object]]) -> int:
    """How many requests a call makes."""
    recorded = RecordingStore(await restored(world))
    await call(process(recorded))
    return len(recorded.calls)


@pytest.mark.parametrize("dropped", [filled, half_dropped])
@pytest.mark.parametrize(("one", "other"), [("undrop", "purge"), ("purge", "undrop")])
async def test_of_undrop_and_purge_one_wins(
    one: str, other: str, dropped: Callable[[], Awaitable[World]]
) -> None:
    """Before whatever request of the one the other runs: the table is back whole, or purged and not live."""
    world = await dropped()
    for number in range(await requests_of(world, CALLS[one])):
        store = await restored(world)
        hooked, met = StepIn(store), list[str]()

        async def step_in(store: ObjectStore = store, met: list[str] = met) -> None:
            met.append(await told(CALLS[other](process(store))))

        hooked.before(number, "", step_in)
        answer = await told(CALLS[one](process(hooked)))
        undropped = answer if one == "undrop" else met[0]
        is_live = await sound(store, (number, answer, met))
        assert is_live == (undropped == "done"), (number, answer, met)
        await process(store).purge_dropped(grace_s=0)
        await process(store).purge_dropped(grace_s=0)
        assert await sound(store, number) == is_live
        assert is_live or not [key async for key in store.list("db/t-")], (number, answer, met)


async def test_of_undrop_and_create_one_has_the_name() -> None:
    """Before whatever request of an undrop a table of its name is made: one of them has it, and is whole."""
    world = await filled()
    for number in range(await requests_of(world, CALLS["undrop"])):
        store = await restored(world)
        hooked, met = StepIn(store), list[str]()

        async def create(store: ObjectStore = store, met: list[str] = met) -> None:
            met.append(await told(process(store).create_table(NAME, SCHEMA)))

        hooked.before(number, "", create)
        answer = await told(CALLS["undrop"](process(hooked)))
        assert (answer, met) in [("done", ["failed"]), ("failed", ["done"])], number
        assert await rows(process(store)) == (ROWS if answer == "done" else [])
        if answer == "failed":
            await process(store).rename_table(NAME, "db.new")
            await process(store).undrop_table(NAME)
            assert await rows(process(store)) == ROWS


async def test_of_undrop_and_undrop_both_are_done() -> None:
    """Before whatever request of an undrop another one runs: the table is back, with one commit."""
    world = await filled()
    for number in range(await requests_of(world, CALLS["undrop"])):
        store = await restored(world)
        hooked = StepIn(store)

        async def step_in(store: ObjectStore = store) -> None:
            await CALLS["undrop"](process(store))

        hooked.before(number, "", step_in)
        with contextlib.suppress(AlreadyExistsError):
            await CALLS["undrop"](process(hooked))
        table = await process(store).table(NAME)
        assert await rows(process(store)) == ROWS
        assert (await table.snapshots())["kind"].to_pylist()[-2:] == ["drop", "undrop"]


@pytest.mark.parametrize("held_up", ["snapshot/snapshot-", "_tables/"])
async def test_a_drop_that_came_later_is_not_undone(held_up: str) -> None:
    """An undrop held up while others undrop, write and drop again fails and leaves the table dropped."""
    store = await restored(await filled())
    hooked = StepIn(store)

    async def step_in() -> None:
        lake = process(store)
        await lake.undrop_table(NAME)
        await (await lake.table(NAME)).append([{"id": 3, "v": 3}])
        await lake.drop_table(NAME)

    hooked.before(0, held_up, step_in, verb="put_if_absent" if "snapshot" in held_up else "put_if_match")
    with pytest.raises(ConflictError, match="dropped again"):
        await process(hooked).undrop_table(NAME)
    assert not await process(store).table_exists(NAME)
    await process(store).undrop_table(NAME)
    assert await (await process(store).table(NAME)).scan().count() == 3


@pytest.mark.parametrize(("verb", "number"), [("get", 1), ("put_if_match", 0)])
@pytest.mark.parametrize("late", ["drop", "create"])
async def test_a_drop_does_not_take_the_name_of_a_table_that_came_back(
    late: str, verb: str, number: int
) -> None:
    """A drop or create held up before it frees a dropped table's name leaves it to whoever undropped."""
    store = await restored(await half_dropped())
    hooked = StepIn(store)

    async def undrop() -> None:
        await process(store).undrop_table(NAME)

    hooked.before(number, "_tables/", undrop, verb=verb)
    if late == "drop":
        await process(hooked).drop_table(NAME)
    else:
        assert await told(process(hooked).create_table(NAME, SCHEMA)) == "failed"
    assert hooked.act is None
    assert await rows(process(store)) == ROWS


@pytest.mark.parametrize("seed", range(12))
async def test_many_at_once(seed: int) -> None:
    """However undrops, purges, creates and drops of one name interleave, no live pointer lacks objects."""
    chance = random.Random(seed)
    inner = await restored(await filled())

    class Shuffled(StepIn):
        async def call(self, verb, key, request, size=0):  # type: ignore[no-untyped-def]
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            return await request()

    calls: list[Callable[[Lake], Awaitable[object]]] = [
        *CALLS.values(),
        lambda lake: lake.create_table(NAME, SCHEMA),
        lambda lake: lake.drop_table(NAME),
    ]
    picked = [chance.choice(calls) for _ in range(8)]
    await asyncio.gather(*(told(call(process(Shuffled(inner)))) for call in picked))
    lake = process(inner)
    if await lake.table_exists(NAME):
        with contextlib.suppress(NotFoundError):
            assert await rows(lake) in (ROWS, [])


# --- other releases -------------------------------------------------------------------


async def test_what_this_release_does_not_know_is_said_to_be_newer() -> None:
    """A pointer's state and a commit's kind of a later release are no damage: the error says to upgrade."""
    store = await restored(await filled())
    key = "db/_tables/t"
    members = unseal((await store.get(key)).data, key=key, what="", newest=9)
    del members["crc32c"]
    await store.put(key, seal({**members, "state": "archived"}))
    with pytest.raises(UnsupportedVersionError, match=r"archived.*Upgrade"):
        await process(store).table(NAME)
    store = await restored(await filled(drop=False))
    (newest,) = [one.key async for one in store.list("db/t-") if one.key.endswith("snapshot-" + f"{3:020}")]
    members = unseal((await store.get(newest)).data, key=newest, what="", newest=9)
    del members["crc32c"]
    await store.put(newest, seal({**members, "kind": "clone"}))
    with pytest.raises(UnsupportedVersionError, match=r"clone.*Upgrade"):
        await (await process(store).table(NAME)).current_snapshot()


async def test_older_releases_are_told_by_the_format() -> None:
    """An undrop and a purging pointer carry a format that releases without them refuse; others do not."""
    store = await restored(await filled())
    await process(store).undrop_table(NAME)

    async def formats() -> dict[str, object]:
        found = {}
        async for one in store.list("db/"):
            if "/snapshot-" in one.key or "_tables/" in one.key:
                data = (await store.get(one.key)).data
                found[one.key.rpartition("/")[2]] = unseal(data, key=one.key, what="", newest=9)["format"]
        return found

    last = "snapshot-" + f"{5:020}"
    assert {name for name, number in (await formats()).items() if number == 2} == {last}
    await process(store).drop_table(NAME)
    await process(store).purge_dropped(grace_s=0)
    assert await formats() == {"t": 2}
