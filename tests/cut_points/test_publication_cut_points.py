"""Every request of a publication fails in every way: readers see what was published before, or what is new.

As in ``test_table_cut_points``: a publication is made once to see its requests, then again for each of them
with a fault there. Afterwards every version of the metadata that exists has all that it refers to, its
snapshots are held, and the next publication ends what was begun.
"""

from __future__ import annotations

import pytest

from lakehouse.io import ObjectStore
from lakehouse.testing import Call, RecordingStore
from tests.cut_points.test_table_cut_points import Failing, plans, told
from tests.kit.publications import Placed, publications
from tests.kit.published import ROWS, numbered
from tests.kit.worlds import NAME, World, process, restored, saved, table_of

BEFORE, AFTER = 10, 14
"""Rows that readers see before and after the publication."""


async def _world(version: int) -> World:
    """A table that was published, and has changed since in every merge unit."""
    store = Placed(await restored({}))
    lake = process(store)
    await lake.create_database("db")
    options = {"iceberg.format_version": version, "iceberg.retain": 2}
    table = await lake.create_table(NAME, ROWS, primary_key="id", bucket=2, options=options)
    await table.upsert(numbered(0, 8))
    await table.publish_iceberg()
    await table.upsert(numbered(6, 10))
    await table.compact(full=True)
    await table.publish_iceberg()
    await table.upsert(numbered(9, 15, "w"))
    await table.delete("id = 0")
    if version == 2:
        await table.compact(full=True)
    return await saved(store)


async def _calls(world: World) -> list[Call]:
    store = RecordingStore(Placed(await restored(world)))
    table = await table_of(store)
    await table.current_snapshot()
    store.clear()
    assert (await table.publish_iceberg()).changed
    return store.calls


async def _newest_rows(store: ObjectStore) -> int:
    """Rows that readers see, after a look at everything that there is."""
    found = await publications(store, await table_of(store))
    assert found[-1].held
    return list(found[-1].rows.values())[-1]


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
async def test_every_cut_point_of_a_publication(version: int) -> None:
    """Readers see the publication before or the new one, whole; done is the new one."""
    world = await _world(version)
    for number, kind, count in plans(await _calls(world)):
        failing = Failing(Placed(await restored(world)))
        table = await table_of(failing.faulty)
        await table.current_snapshot()
        failing.fail(number, kind, count)
        answer = await told(table.publish_iceberg())
        await failing.over()
        allowed = {"done": [AFTER], "failed": [BEFORE]}.get(answer, [BEFORE, AFTER])
        assert await _newest_rows(failing.store) in allowed, (number, kind, count, answer)
        again = await (await table_of(failing.store)).publish_iceberg()
        assert (again.rows, bool(again.lag)) == (AFTER, False)
        assert await _newest_rows(failing.store) == AFTER
