"""Every request of every call on views fails in every way: no version is lost, and no name is two things."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import pyarrow as pa
import pytest

from lakehouse.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from lakehouse.io import ObjectStore
from lakehouse.lake import Lake
from lakehouse.storage.tables import ViewDefinition
from lakehouse.testing import FaultKind, RecordingStore
from tests.cut_points.test_table_cut_points import Failing, attempts_at, told
from tests.kit.worlds import NAME, StepIn, World, process, restored, saved

SCHEMA = pa.schema({"id": pa.int64()})
ONE, TWO, THREE = ({"spark": f"select {number}"} for number in (1, 2, 3))
MANY = 40
"""More requests than a call makes."""


async def world() -> World:
    """A database with a view of two versions."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    await lake.create_view("db.v", ONE)
    await lake.create_view("db.v", TWO, or_replace=True)
    return await saved(store)


async def views_of(store: ObjectStore) -> dict[str, list[str]]:
    """SQL of all versions of all views that are listed and can be read, by name."""
    lake, found = process(store), dict[str, list[str]]()
    async for name in lake.views("db"):
        with contextlib.suppress(NotFoundError):
            found[name] = [one.sql for one in await lake.view_versions(name)]
    return found


OLD = ["select 1", "select 2"]
NEW = [*OLD, "select 3"]


async def test_every_cut_point_of_making_a_view() -> None:
    """A view is there and listed, or its name is free; making it again makes it be there once."""

    async def create(lake: Lake) -> None:
        await lake.create_view("db.new", ONE)

    async for answer, store, where in attempts_at(await world(), create):
        found = await views_of(store)
        assert found.pop("db.v") == OLD, where
        assert ("db.new" in found) in {"done": [True], "failed": [False]}.get(answer, [True, False]), where
        await process(store).create_view("db.new", ONE, if_not_exists=True)
        assert (await views_of(store))["db.new"] == ["select 1"], where


async def test_every_cut_point_of_replacing_a_view() -> None:
    """A version is there once or not at all, older ones stay, and repeating the call makes no second one."""

    async def replace(lake: Lake) -> None:
        await lake.create_view("db.v", THREE, or_replace=True)

    async for answer, store, where in attempts_at(await world(), replace):
        found = (await views_of(store))["db.v"]
        assert found in {"done": [NEW], "failed": [OLD]}.get(answer, [OLD, NEW]), where
        await replace(process(store))
        assert (await views_of(store))["db.v"] == NEW, where


async def test_every_cut_point_of_dropping_a_view() -> None:
    """A view is there with its versions, or gone; dropped again it is gone, and it can come back whole."""
    async for answer, store, where in attempts_at(await world(), lambda lake: lake.drop_view("db.v")):
        found = await views_of(store)
        allowed = {"done": [{}], "failed": [{"db.v": OLD}]}.get(answer, [{}, {"db.v": OLD}])
        assert found in allowed, where
        await process(store).drop_view("db.v", if_exists=True)
        assert await views_of(store) == {}
        await process(store).undrop_view("db.v")
        assert await views_of(store) == {"db.v": OLD}, where


async def test_every_cut_point_of_renaming_a_view() -> None:
    """A view has its old name or the new one, in between both, never none; renaming it again ends it."""

    async def rename(lake: Lake) -> None:
        await lake.rename_view("db.v", "db.new")

    async for answer, store, where in attempts_at(await world(), rename):
        found = await views_of(store)
        allowed = {"done": [{"db.new"}], "failed": [{"db.v"}]}
        both = {"db.v", "db.new"}
        assert set(found) in allowed.get(answer, [{"db.v"}, {"db.new"}, both]), (where, answer)
        assert all(versions == OLD for versions in found.values())
        with contextlib.suppress(NotFoundError):
            await rename(process(store))
        assert await views_of(store) == {"db.new": OLD}, where


async def unfinished() -> AsyncIterator[tuple[ObjectStore, str]]:
    """Warehouses in which a renaming of db.v to db.new ended at each of its requests, before or after it."""
    start = await world()
    store = RecordingStore(await restored(start))
    await process(store).rename_view("db.v", "db.new")
    for number, call in enumerate(store.calls):
        for kind in (FaultKind.POWER_CUT_BEFORE, FaultKind.POWER_CUT_AFTER):
            failing = Failing(await restored(start))
            failing.fail(number, kind, 1)
            assert await told(process(failing.faulty).rename_view("db.v", "db.new")) == "dead"
            await failing.over()
            yield failing.store, f"{number} {call} {kind}"


@pytest.mark.parametrize("under", ["db.v", "db.new"])
async def test_a_version_made_while_a_renaming_lies_unfinished_is_kept(under: str) -> None:
    """Wherever a renaming ended, a version made under either name is seen under every name there is."""
    async for store, where in unfinished():
        if under not in await views_of(store):
            continue
        await process(store).create_view(under, THREE, or_replace=True)
        assert all(versions == NEW for versions in (await views_of(store)).values()), where
        with contextlib.suppress(NotFoundError):
            await process(store).rename_view("db.v", "db.new")
        assert await views_of(store) == {"db.new": NEW}, where


async def test_a_view_dropped_while_a_renaming_lies_unfinished_is_gone() -> None:
    """Wherever a renaming ended, a drop under the old name leaves no view, and the new name can be taken."""
    async for store, where in unfinished():
        if "db.v" not in await views_of(store):
            continue
        await process(store).drop_view("db.v")
        assert await views_of(store) == {}, where
        await process(store).create_view("db.new", THREE)
        assert await views_of(store) == {"db.new": ["select 3"]}, where


async def holders(store: ObjectStore, view: uuid.UUID) -> list[str]:
    """Names under which a view is."""
    lake, found = process(store), list[str]()
    async for name in lake.views("db"):
        with contextlib.suppress(NotFoundError):
            if (await lake.view(name)).uuid == view:
                found.append(name)
    return found


async def settled(store: ObjectStore, view: uuid.UUID) -> dict[str, list[str]]:
    """Names that a view still has, and its versions, when every name was renamed once and back."""
    lake = process(store)
    for name in await holders(store, view):
        with contextlib.suppress(NotFoundError):
            await lake.rename_view(name, "db.somewhere")
            await lake.rename_view("db.somewhere", name)
    names = await holders(store, view)
    return {name: versions for name, versions in (await views_of(store)).items() if name in names}


@pytest.mark.parametrize("taken_by", ["view", "undropped table"])
async def test_a_view_with_an_unfinished_renaming_and_another_one_has_one_name(taken_by: str) -> None:
    """Wherever a renaming ended, after another one and a new owner of the old name a view has one name."""
    async for store, where in unfinished():
        lake = process(store)
        known = await views_of(store)
        old = "db.v" if "db.v" in known else "db.new"
        view = (await lake.view(old)).uuid
        await lake.rename_view(old, "db.other")
        if taken_by == "undropped table":
            await lake.create_table("db.v", SCHEMA)
            await lake.drop_table("db.v")
            await lake.undrop_table("db.v")
        else:
            await lake.create_view("db.v", THREE)
        assert await settled(store, view) == {"db.other": OLD}, where


async def test_unfinished_renamings_of_one_another_leave_one_name() -> None:
    """Wherever a renaming back to a name ends whose own renaming lies unfinished, a view has one name."""
    both = [saved(store) async for store, _ in unfinished() if len(await views_of(store)) == 2]
    start = await restored(await both[0])
    for rest in both[1:]:
        rest.close()
    await process(start).rename_view("db.v", "db.other")
    view = (await process(start).view("db.other")).uuid

    async def rename_back(lake: Lake) -> None:
        await lake.rename_view("db.other", "db.v")

    async for _, store, where in attempts_at(await saved(start), rename_back):
        name = (await holders(store, view))[0]
        assert (await process(store).create_view(name, THREE, or_replace=True)).uuid == view, where
        left = await settled(store, view)
        assert list(left.values()) == [NEW], (where, left)


async def test_a_name_that_is_taken_again_ends_the_renaming_that_left_it() -> None:
    """Wherever a renaming ended behind which the old name is free, its new owner leaves the view its name."""
    async for store, where in unfinished():
        lake, found = process(store), await views_of(store)
        if "db.v" in found:
            continue
        view = (await lake.view("db.new")).uuid
        await lake.create_view("db.v", THREE)
        assert await settled(store, view) == {"db.new": OLD}, where


@pytest.mark.parametrize("way", [("db.other",), ("db.new", "db.other"), ("db.other", "db.v")])
@pytest.mark.parametrize("is_taken", [False, True])
async def test_a_view_renamed_further_in_the_middle_of_a_renaming_has_one_name(
    way: tuple[str, ...], is_taken: bool
) -> None:
    """Whatever renamings others make in the middle of one, and who takes the names left, one name is left."""

    async def theirs(lake: Lake) -> uuid.UUID:
        view, name = (await lake.view("db.v")).uuid, "db.v"
        for following in way:
            await lake.rename_view(name, following)
            name = following
        if is_taken and way[-1] != "db.v":
            await lake.create_view("db.v", THREE)
        return view

    for _, view, store in await between(lambda lake: lake.rename_view("db.v", "db.new"), theirs):
        if isinstance(view, uuid.UUID):  # else mine was through, and theirs found no db.v
            left = await settled(store, view)
            assert list(left.values()) == [OLD], (left, way)


async def test_a_view_that_comes_back_in_the_middle_of_a_renaming_is_never_lost() -> None:
    """Whenever others drop, undrop and rename a view in the middle of a renaming, it is there."""

    async def theirs(lake: Lake) -> uuid.UUID:
        view = (await lake.view("db.v")).uuid
        await lake.drop_view("db.v")
        with contextlib.suppress(NotFoundError):  # ends what has begun
            await lake.drop_view("db.new")
        await lake.undrop_view("db.v")
        await lake.rename_view("db.v", "db.new")
        return view

    for _, view, store in await between(lambda lake: lake.rename_view("db.v", "db.new"), theirs):
        if isinstance(view, uuid.UUID):
            assert await settled(store, view) == {"db.new": OLD}


async def between(
    act: Callable[[Lake], Awaitable[object]], other: Callable[[Lake], Awaitable[object]]
) -> list[tuple[object, object, ObjectStore]]:
    """What a call and another one told, and left, for each request before which the other was made."""
    start, told = await world(), list[tuple[object, object, ObjectStore]]()
    for number in range(MANY):
        inner, answers = await restored(start), list[object]()
        hooked = StepIn(inner)

        async def step_in(inner: ObjectStore = inner, answers: list[object] = answers) -> None:
            answers.append(await answer_of(other(process(inner))))

        hooked.before(number, "", step_in)
        mine = await answer_of(act(process(hooked)))
        if not answers:
            assert number > 2
            return told
        told.append((mine, answers[0], inner))
    raise AssertionError("the call does not end")


async def answer_of(call: Awaitable[object]) -> object:
    """What a call returned, or the class of what it raised."""
    try:
        return await call
    except (AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError) as error:
        return type(error)


async def test_of_a_table_and_a_view_one_gets_the_name() -> None:
    """Whenever a table is made in the middle of a view's making, or the other way round, one is told."""
    view, table = (
        lambda lake: lake.create_view("db.new", ONE),
        lambda lake: lake.create_table("db.new", SCHEMA),
    )
    for act, other in ((view, table), (table, view)):
        for mine, theirs, store in await between(act, other):
            assert mine is AlreadyExistsError
            assert theirs is not AlreadyExistsError
            lake = process(store)
            views = [name async for name in lake.views("db")]
            tables = [name async for name in lake.tables("db")]
            assert ("db.new" in views, "db.new" in tables) == (act is table, act is view)


async def test_replaces_at_once_make_a_version_each() -> None:
    """Whenever others replace a view in the middle of a replace, both versions are there, in order."""
    for mine, theirs, store in await between(
        lambda lake: lake.create_view("db.v", THREE, or_replace=True),
        lambda lake: lake.create_view("db.v", ONE, or_replace=True),
    ):
        assert isinstance(mine, ViewDefinition)
        assert isinstance(theirs, ViewDefinition)
        found = await process(store).view_versions("db.v")
        assert {one.version: one.sql for one in found}[mine.version] == "select 3"
        assert {one.version: one.sql for one in found}[theirs.version] == "select 1"
        assert [one.version for one in found] == [1, 2, 3, 4]
        assert found[2].created < found[3].created


async def test_a_replace_in_the_middle_of_a_renaming_is_kept() -> None:
    """Whenever a view is replaced under its old name while it gets another, the version goes along."""
    for mine, theirs, store in await between(
        lambda lake: lake.rename_view("db.v", "db.new"),
        lambda lake: lake.create_view("db.v", THREE, or_replace=True),
    ):
        assert isinstance(mine, ViewDefinition)
        assert isinstance(theirs, ViewDefinition)
        found = await views_of(store)
        # After the old name was given up, the other made a view of its own.
        assert found in ({"db.new": NEW}, {"db.new": OLD, "db.v": ["select 3"]})


async def test_two_renamings_at_once_leave_one_name() -> None:
    """Whenever a view is renamed elsewhere in the middle of a renaming, it has one name in the end."""
    for mine, theirs, store in await between(
        lambda lake: lake.rename_view("db.v", "db.new"), lambda lake: lake.rename_view("db.v", "db.other")
    ):
        won = [name for name, told in (("db.new", mine), ("db.other", theirs)) if told is not ConflictError]
        won = [name for name in won if name in await views_of(store)]
        assert list(await views_of(store)) == won
        assert len(won) == 1
        assert not await process(store).table_exists(NAME)
