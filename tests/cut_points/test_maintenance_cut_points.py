"""Every request of expiry, sweep and rescaling fails in every way: nothing that is needed is lost.

As in ``test_table_cut_points``: a call is made once to see its requests, then again for each of them
with a fault there. Afterwards every snapshot that exists reads as it did, and the same call, made again,
ends what was begun.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from lakehouse.io import ObjectStore
from lakehouse.storage.table import Table
from lakehouse.testing import RecordingStore
from tests.cut_points.test_table_cut_points import Failing, plans, told
from tests.kit.table_operations import Shown, build, seen
from tests.kit.worlds import World, restored, saved, table_of

FUTURE = "2100-01-01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """A call, and whether it has done its work."""

    run: Callable[[Table], Awaitable[object]]
    again: Callable[[Table], Awaitable[object]]
    """Ends what was begun."""
    is_done: Callable[[Table, set[str], set[str]], Awaitable[bool]]
    """Given the data files there are and those that snapshots need."""


async def _no_garbage(_: Table, there: set[str], needed: set[str]) -> bool:
    return there == needed


async def _no_orphans(_: Table, there: set[str], needed: set[str]) -> bool:
    return there == needed


async def _rescaled(table: Table, there: set[str], needed: set[str]) -> bool:
    files = await (await table._table.newest()).files()
    return needed <= there and {one.total_buckets for one in files} == {3}


CALLS = {
    "expire": Maintenance(
        run=lambda table: table.expire_snapshots(retain=1, grace_s=0),
        again=lambda table: table.expire_snapshots(retain=1, grace_s=0),
        is_done=_no_garbage,
    ),
    "orphans": Maintenance(
        run=lambda table: table.remove_orphans(older_than=FUTURE),
        again=lambda table: table.remove_orphans(older_than=FUTURE),
        is_done=_no_orphans,
    ),
    "rescale": Maintenance(
        run=lambda table: table.rescale(3), again=lambda table: table.rescale(3), is_done=_rescaled
    ),
}


async def _world(what: str) -> tuple[World, dict[int, Shown]]:
    """A table with a tag, files that later snapshots lost, and orphans where they matter."""
    world, _ = await build("key holds partition")
    store = await restored(world)
    table = await table_of(store)
    await table.create_tag("kept", snapshot=2)
    await table.overwrite([{"id": 8, "part": "a", "v": 8}])
    await table.append([{"id": 9, "part": "b", "v": 9}])
    if what == "orphans":
        for number in range(3):
            await store.put(f"{table._table.root}/data/bucket-0/{uuid.UUID(int=number)}.parquet", b"x")
    held = {number: await seen(table, number) for number in range(1, await table.current_snapshot() + 1)}
    return await saved(store), held


async def _needed(table: Table) -> set[str]:
    """Data files of all snapshots that exist."""
    found: set[str] = set()
    for one in (await table.snapshots()).to_pylist():
        files = (await table.files(snapshot=one["snapshot"])).to_pylist()
        found |= {f"{table._table.root}/{file['path']}" for file in files}
    return found


async def _there(store: ObjectStore) -> set[str]:
    return {one.key async for one in store.list("") if "/data/" in one.key}


@pytest.mark.parametrize("what", CALLS)
async def test_every_cut_point_of_maintenance(what: str) -> None:
    """Wherever it fails, what exists reads as before, is whole, and the next call ends the work."""
    call = CALLS[what]
    world, held = await _world(what)
    store = RecordingStore(await restored(world))
    await asyncio.sleep(0.002)
    table = await table_of(store)
    await table.current_snapshot()
    store.clear()
    await call.run(table)
    calls = list(store.calls)
    assert await call.is_done(table, await _there(store), await _needed(table))
    tried = 0
    for number, kind, count in plans(calls):
        failing = Failing(await restored(world))
        await asyncio.sleep(0.002)
        table = await table_of(failing.faulty)
        await table.current_snapshot()
        failing.fail(number, kind, count)
        answer = await told(call.run(table))
        await failing.over()
        table = await table_of(failing.store)
        for again in (False, True):
            if again:
                await call.again(table)
            there, needed = await _there(failing.store), await _needed(table)
            assert needed <= there, (number, kind, count, answer)
            for one in (await table.snapshots()).to_pylist():
                wanted = held[min(one["snapshot"], max(held))]
                assert await seen(table, one["snapshot"]) == wanted, (number, kind, count, answer)
            assert (await table.scan(tag="kept").to_pylist()) != []
        assert await call.is_done(table, there, needed), (number, kind, count, answer)
        tried += 1
    assert tried > 20
