"""Older versions of dropped views: when they go, and what stays."""

from __future__ import annotations

import pytest

from lakehouse.errors import LakehouseError, NotFoundError
from lakehouse.io import ObjectStore
from lakehouse.lake import Lake
from lakehouse.testing import Fault, FaultKind, FaultyStore, ManualClock, PowerCut
from tests.kit.timed_store import HOUR_S, TimedStore
from tests.kit.worlds import process, restored

ONE, TWO = {"spark": "select 1"}, {"spark": "select 2"}


async def made(store: ObjectStore) -> Lake:
    """A live view of two versions, and a dropped one."""
    lake = process(store, clock=ManualClock())
    await lake.create_database("db")
    for name in ("db.live", "db.gone"):
        await lake.create_view(name, ONE)
        await lake.create_view(name, TWO, or_replace=True)
    await lake.drop_view("db.gone")
    return lake


async def history(store: ObjectStore) -> list[str]:
    """Names of the views that have older versions, once for each."""
    return [one.key.split("/")[2].rpartition("-")[0] async for one in store.list("db/_history/")]


async def test_versions_go_when_the_grace_since_the_drop_is_over() -> None:
    """A view dropped less than an hour ago waits; then its versions go, and it cannot come back."""
    store = TimedStore(await restored({}))
    lake = await made(store)
    store.advance(HOUR_S - 1)
    done = await lake.purge_dropped()
    assert (done.views, len(done.waiting), done.objects) == ((), 1, 0)
    store.advance(1)
    would = await lake.purge_dropped(dry_run=True)
    assert (len(would.views), would.objects) == (1, 2)
    assert sorted(await history(store)) == ["gone", "gone", "live"]
    done = await lake.purge_dropped()
    assert (len(done.views), done.objects, done.waiting) == (1, 2, ())
    assert await history(store) == ["live"]
    with pytest.raises(NotFoundError, match="purged") as told:
        await lake.undrop_view("db.gone")
    assert told.value.kind == "purged"
    assert b"select" not in (await store.get("db/_tables/gone")).data
    await lake.create_view("db.gone", ONE)
    assert (await lake.purge_dropped(grace_s=0)).views == ()


async def test_versions_go_after_the_name_was_taken() -> None:
    """A dropped view whose name another has since is purged too, and the other one stays as it is."""
    store = TimedStore(await restored({}))
    lake = await made(store)
    await lake.create_view("db.gone", TWO)
    done = await lake.purge_dropped(grace_s=0)
    assert len(done.views) == 1
    assert await history(store) == ["live"]
    assert (await process(store).view("db.gone")).sql == "select 2"


async def test_a_renamed_view_is_found_under_its_new_name() -> None:
    """A live view keeps its versions whatever its name, and a dropped one goes although it was renamed."""
    store = TimedStore(await restored({}))
    lake = await made(store)
    await lake.create_database("other")
    await lake.rename_view("db.live", "other.x")
    await lake.purge_dropped(grace_s=0)
    assert [one.sql for one in await lake.view_versions("other.x")] == ["select 1", "select 2"]
    await lake.drop_view("other.x")
    await lake.purge_dropped("db", grace_s=0)
    assert await history(store) == []


async def test_a_purge_that_ended_anywhere_is_ended_by_the_next_one() -> None:
    """At whichever request a purge ends, the next one completes it, and the live view keeps its version."""
    for number in range(60):
        inner = TimedStore(await restored({}))
        await made(inner)
        faulty = FaultyStore(inner)
        faulty.planned = [Fault(kind=FaultKind.POWER_CUT_AFTER, at=number)]
        try:
            await process(faulty).purge_dropped(grace_s=0)
        except (PowerCut, LakehouseError):
            pass
        if not faulty.injected:
            break
        await process(inner).purge_dropped(grace_s=0)
        assert await history(inner) == ["live"]
    assert number > 5
