"""Every request of every call that commits fails in every way: nothing is lost, doubled or half visible.

A call is made once to see its requests. Then it is made again for each of them, on a copy of the table,
with a fault at that request. What it says must be true afterwards for a process that opens the table
afresh: *done* is there once, *failed* has left nothing, *unknown* may be either, and so may what a
process did that ended. Whatever happens, snapshots have all of their files.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    LakehouseError,
    NotFoundError,
    UnavailableError,
)
from lakehouse.format.metadata.snapshot import CommitKind
from lakehouse.io import ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.lake import Lake
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.table import Table
from lakehouse.testing import (
    Call,
    Fault,
    FaultKind,
    FaultyStore,
    ManualClock,
    PowerCut,
    RecordingStore,
)
from tests.kit.table_operations import (
    LAYOUTS,
    OPERATIONS,
    SCHEMA,
    Operation,
    build,
    seen,
)
from tests.kit.worlds import NAME, StepIn, World, process, restored, table_of

ONCE = (
    FaultKind.FAIL_BEFORE,
    FaultKind.FAIL_AFTER,
    FaultKind.DUPLICATE,
    FaultKind.CONFLICT,
    FaultKind.THROTTLE,
    FaultKind.LANDS_LATER,
    FaultKind.POWER_CUT_BEFORE,
    FaultKind.POWER_CUT_AFTER,
)
FOR_GOOD = (FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER, FaultKind.THROTTLE, FaultKind.LANDS_LATER)
READS = ("get", "get_range", "get_suffix", "head", "list_page")
MANY = 100
"""More requests than a call makes."""


def plans(calls: list[Call]) -> Iterator[tuple[int, FaultKind, int]]:
    """What to try for a call that makes these requests: from which on, what, how many of them."""
    for number, call in enumerate(calls):
        if call.verb in READS:
            yield from ((number, FaultKind.FAIL_BEFORE, 1), (number, FaultKind.POWER_CUT_BEFORE, 1))
            yield number, FaultKind.FAIL_BEFORE, MANY
        else:
            yield from ((number, kind, 1) for kind in ONCE)
            yield from ((number, kind, MANY) for kind in FOR_GOOD)


async def told(call: Awaitable[object]) -> str:
    """What a process is told about its call."""
    try:
        await call
    except CommitUnknownError:
        return "unknown"
    except LakehouseError:
        return "failed"
    except PowerCut:
        return "dead"
    return "done"


class Failing:
    """A store, and the same store as a process sees it whose requests fail."""

    def __init__(self, store: ObjectStore) -> None:
        self.store, self.faulty = store, FaultyStore(store)

    def fail(self, number: int, kind: FaultKind, count: int) -> None:
        """From the request of that number, counted from now, so many fail."""
        first = self.faulty.operations + number
        self.faulty.planned = [Fault(kind=kind, at=at) for at in range(first, first + count)]

    async def over(self) -> None:
        """The fault is over, and what was to land later lands."""
        assert self.faulty.injected, "the fault did not happen"
        self.faulty.planned, self.faulty.power = [], True
        await self.faulty.land()


async def check_files(store: ObjectStore) -> None:
    """Every snapshot there is has all of its files, and none of them twice."""
    table = await table_of(store)
    objects = {one.key: one.size async for one in store.list("")}
    root = table.location.rpartition("/db/")[2]
    for number in range(1, await table.current_snapshot() + 1):
        files = (await table.files(snapshot=number)).to_pylist()
        assert len({one["path"] for one in files}) == len(files)
        for one in files:
            assert objects[f"db/{root}/{one['path']}"] == one["bytes"]


async def data_files(store: ObjectStore) -> set[str]:
    """Data files there are, whether a snapshot knows them or not."""
    return {one.key async for one in store.list("") if "/data/" in one.key}


async def tags_of(table: Table) -> dict[str, int]:
    """Snapshots by tag."""
    return {one["name"]: one["snapshot"] for one in (await table.tags()).to_pylist()}


# --- calls on a table -----------------------------------------------------------------

THEIRS = {"id": 50, "part": "b", "v": 50}
"""The row of another process; the conditions of all operations but one match it."""


def with_another(store: ObjectStore, inner: ObjectStore, met: list[str]) -> ObjectStore:
    """A store on which another process appends right before a snapshot is created."""
    hooked = StepIn(store)

    async def step_in() -> None:
        met.append("append")
        await (await table_of(inner)).append([THEIRS])

    hooked.before(0, "/snapshot/", step_in, verb="put_if_absent")
    return hooked


async def requests_of(world: World, what: Operation, *, contended: bool) -> list[Call]:
    """What a call asks of the store when nothing fails."""
    inner = await restored(world)
    store = RecordingStore(inner)
    table = await table_of(with_another(store, inner, []) if contended else store)
    await table.current_snapshot()
    store.clear()
    await what.run(table)
    return store.calls


@pytest.mark.parametrize("contended", [False, True], ids=["alone", "contended"])
@pytest.mark.parametrize("what", OPERATIONS, ids=lambda one: one.name.replace(" ", "-"))
async def test_every_cut_point_of_a_call(what: Operation, contended: bool) -> None:
    """Done is there once, failed not at all, and a reader never sees a part of it."""
    world, model = await build("key holds partition" if what.needs_key else "append-only")
    for number, kind, count in plans(await requests_of(world, what, contended=contended)):
        failing, met = Failing(await restored(world)), list[str]()
        store = with_another(failing.faulty, failing.store, met) if contended else failing.faulty
        table = await table_of(store)
        await table.current_snapshot()
        failing.fail(number, kind, count)
        answer = await told(what.run(table))
        await failing.over()
        before = model.put(THEIRS) if met else model
        after = what.on(before)
        allowed = {"done": [after], "failed": [before]}.get(answer, [before, after])
        table = await table_of(failing.store)
        found = await seen(table), await tags_of(table)
        assert found in [(one.shown(), one.tags) for one in allowed], (number, kind, count, answer)
        await check_files(failing.store)


WRITES = [one for one in OPERATIONS if one.writes_rows]


@pytest.mark.parametrize("what", WRITES, ids=lambda one: one.name.replace(" ", "-"))
async def test_a_write_that_is_refused_takes_its_files_back(what: Operation) -> None:
    """When the snapshot is certainly not created, the files that were uploaded for it are deleted."""
    for layout in LAYOUTS:
        if what.needs_key and layout == "append-only":
            continue
        world, model = await build(layout)
        for kind in (FaultKind.THROTTLE, FaultKind.CONFLICT):
            failing = Failing(await restored(world))
            table = await table_of(failing.faulty)
            files = await data_files(failing.store)
            failing.faulty.planned = [Fault(kind=kind, verb="put_if_absent")] * MANY
            with pytest.raises(UnavailableError):
                await what.run(table)
            await failing.over()
            assert await data_files(failing.store) == files
            assert await seen(await table_of(failing.store)) == model.shown()


@pytest.mark.parametrize("what", WRITES, ids=lambda one: one.name.replace(" ", "-"))
async def test_a_write_with_a_sequence_can_be_repeated_until_it_is_done(what: Operation) -> None:
    """However a write ended that carries a sequence, repeating it leaves it there once."""
    world, model = await build("key holds partition" if what.needs_key else "append-only")
    wanted = what.on(model)
    calls = await requests_of(world, what, contended=False)
    for number, kind, count in plans(calls):
        if calls[number].verb != "put_if_absent":
            continue
        failing = Failing(await restored(world))
        table = await table_of(failing.faulty)
        await table.current_snapshot()
        failing.fail(number, kind, count)
        first = await told(what.run(table, writer=("w", 1)))
        await failing.over()
        again = await what.run(await table_of(failing.store), writer=("w", 1))
        assert not (first == "done" and again.changed)
        assert again.snapshot == 5
        table = await table_of(failing.store)
        assert await table.current_snapshot() == 5
        assert await seen(table) == wanted.shown()
        await check_files(failing.store)


# --- calls that stall -----------------------------------------------------------------

MORE_OF_THEIRS = {"id": 51, "part": "a", "v": 51}


class Expire:
    """Says that there are no snapshots below the head."""

    blind = False

    async def draft(self, base: Base) -> Draft:
        """Whatever the head is."""
        return Draft(kind=CommitKind.EXPIRE, earliest=base.snapshot.id)


async def an_hour_passes(store: ObjectStore) -> None:
    """Others commit, let all older snapshots expire, and delete their objects."""
    table = await table_of(store)
    core = table._table
    names = (await table.schema()).arrow().names
    for row in (THEIRS, MORE_OF_THEIRS):
        await table.append([dict(zip(names, row.values(), strict=False))])
    done = await core.commit(Expire(), view=await core.known())
    for number in range(1, done.snapshot.id - 1):
        await store.delete(core.snapshots.log.key(number))


class Stalls(StoreDecorator):
    """One request takes an hour: the process stood still before it was sent, or before its answer came."""

    def __init__(self, inner: ObjectStore, clock: ManualClock) -> None:
        super().__init__(inner)
        self._clock = clock
        self.left: int | None = None
        """Requests until then."""
        self.answered = False
        """Whether the request had been sent."""

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[Any]], size: int = 0) -> Any:
        stalls = self.left == 0
        if self.left is not None:
            self.left -= 1
        if not stalls:
            return await request()
        if not self.answered:
            await self._pass()
            return await request()
        try:
            return await request()
        finally:
            await self._pass()

    async def _pass(self) -> None:
        await self._clock.advance(3_600)
        await an_hour_passes(self.inner)


@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("what", OPERATIONS, ids=lambda one: one.name.replace(" ", "-"))
async def test_a_call_that_wakes_up_after_expiry_tells_the_truth(what: Operation, answered: bool) -> None:
    """Wherever a call stalls past the deadline, what it says holds for the table as it is by then."""
    world, model = await build("key holds partition" if what.needs_key else "append-only")
    theirs = model.put(THEIRS).put(MORE_OF_THEIRS)
    with_mine = [what.on(theirs).shown(), what.on(model).put(THEIRS).put(MORE_OF_THEIRS).shown()]
    for number in range(MANY):
        inner, clock = await restored(world), ManualClock(skip=True)
        stalls = Stalls(inner, clock)
        table = await table_of(stalls, clock=clock)
        await table.current_snapshot()
        stalls.left, stalls.answered = number, answered
        answer = await told(what.run(table))
        if stalls.left >= 0:
            break
        allowed = {"done": with_mine, "failed": [theirs.shown()]}.get(answer, [*with_mine, theirs.shown()])
        assert await seen(await table_of(inner)) in allowed, (number, answer)
    assert number > 1


# --- calls on a warehouse -------------------------------------------------------------


async def names_of(store: ObjectStore) -> dict[str, str]:
    """Every table that can be read: name and identity."""
    lake, found = process(store), {}
    async for name in lake.tables("db"):
        with contextlib.suppress(NotFoundError):
            table = await lake.table(name)
            await seen(table)
            found[name] = str(table.uuid)
    return found


async def attempts_at(
    world: World, call: Callable[[Lake], Awaitable[object]]
) -> AsyncIterator[tuple[str, ObjectStore, str]]:
    """A call on a warehouse with every fault at every request: what was told, what is left, what failed."""
    store = RecordingStore(await restored(world))
    await call(process(store))
    for number, kind, count in plans(list(store.calls)):
        failing = Failing(await restored(world))
        failing.fail(number, kind, count)
        answer = await told(call(process(failing.faulty)))
        await failing.over()
        yield answer, failing.store, f"{number} {store.calls[number]} {kind} {count}"


async def test_every_cut_point_of_a_create() -> None:
    """A table is there with its schema, or its name is free; creating it again makes it be there."""
    world, _ = await build("append-only")
    old = await names_of(await restored(world))

    async def create(lake: Lake) -> None:
        await lake.create_table("db.new", SCHEMA, primary_key="id")

    async for answer, store, where in attempts_at(world, create):
        found = await names_of(store)
        assert found.items() >= old.items(), where
        assert ("db.new" in found) in {"done": [True], "failed": [False]}.get(answer, [True, False]), where
        lake = process(store)
        table = await lake.create_table("db.new", SCHEMA, primary_key="id", if_not_exists=True)
        await table.append([{"id": 1, "part": "a", "v": 1}])
        assert await seen(await process(store).table("db.new")) == (
            ["id", "part", "v"],
            [{"id": 1, "part": "a", "v": 1}],
        )


async def test_every_cut_point_of_a_drop() -> None:
    """A table is there with its rows, or it is gone for everybody; dropping it again makes it be gone."""
    world, model = await build("append-only")

    async for answer, store, where in attempts_at(world, lambda lake: lake.drop_table(NAME)):
        found = await names_of(store)
        assert (NAME in found) in {"done": [False], "failed": [True]}.get(answer, [True, False]), where
        if NAME in found:
            assert await seen(await table_of(store)) == model.shown()
        await process(store).drop_table(NAME, if_exists=True)
        assert not await process(store).table_exists(NAME)
        await process(store).create_table(NAME, SCHEMA)
        assert await seen(await table_of(store)) == (["id", "part", "v"], [])


async def test_every_cut_point_of_a_rename() -> None:
    """A table has its old name or the new one, in between perhaps both; renaming it again ends it."""
    world, model = await build("append-only")

    async for answer, store, where in attempts_at(world, lambda lake: lake.rename_table(NAME, "db.new")):
        found = set(await names_of(store))
        allowed = {"done": [{"db.new"}], "failed": [{NAME}]}
        assert found in allowed.get(answer, [{NAME}, {"db.new"}, {NAME, "db.new"}]), where
        with contextlib.suppress(NotFoundError):
            await process(store).rename_table(NAME, "db.new")
        assert set(await names_of(store)) == {"db.new"}, where
        assert await seen(await process(store).table("db.new")) == model.shown()


async def test_two_tables_raced_into_one_name() -> None:
    """Whenever another process takes the name in the middle of a create, that says so and changes nothing."""
    world, _ = await build("append-only")
    other_schema = pa.schema({"other": pa.int64()})

    async def create(lake: Lake, schema: pa.Schema) -> str:
        try:
            await lake.create_table("db.new", schema)
        except AlreadyExistsError:
            return "taken"
        return "made"

    for number in range(MANY):
        inner, answers = await restored(world), list[str]()
        hooked = StepIn(inner)

        async def step_in(inner: ObjectStore = inner, answers: list[str] = answers) -> None:
            answers.append(await create(process(inner), other_schema))

        hooked.before(number, "", step_in)
        mine = await create(process(hooked), SCHEMA)
        if not answers:
            break
        assert (mine, answers) == ("taken", ["made"])
        assert (await (await process(inner).table("db.new")).schema()).arrow().names == ["other"]
    assert number > 3
