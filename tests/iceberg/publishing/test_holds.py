"""Holds: what is published is kept from expiry for as long as readers are told of it."""

from __future__ import annotations

import pytest

from lakehouse.errors import NotFoundError
from lakehouse.io import ObjectStore
from lakehouse.storage.table import Table
from lakehouse.testing import ManualClock
from tests.kit.publications import publications, published_place
from tests.kit.published import ROWS, numbered
from tests.kit.timed_store import HOUR_S, TimedStore
from tests.kit.worlds import NAME, StepIn, process, restored, table_of


async def made(store: ObjectStore, **options: object) -> Table:
    """A table with a first run."""
    lake = process(store, clock=ManualClock())
    await lake.create_database("db")
    table = await lake.create_table(NAME, ROWS, primary_key="id", options=options)
    await table.upsert(numbered(0, 4))
    return table


async def republished(table: Table) -> int:
    """Changes all files and publishes them; returns the snapshot."""
    await table.upsert(numbered(0, 4, "w"))
    await table.compact(full=True)
    return (await table.publish_iceberg()).snapshot


async def tags(table: Table) -> list[str]:
    """Names of all tags."""
    return sorted((await table.tags())["name"].to_pylist())


async def test_published_files_outlive_their_snapshots() -> None:
    """Expiry leaves the files of every listed snapshot, however long ago others expired."""
    store = TimedStore(await restored({}))
    table = await made(store)
    first = (await table.publish_iceberg()).snapshot
    second = await republished(table)
    third = await republished(table)
    await table.upsert(numbered(8, 9))
    await table.compact(full=True)
    for _ in range(3):
        await table.expire_snapshots(retain=1)
        store.advance(2 * HOUR_S)
    (*_, newest) = await publications(store, table)
    assert (newest.rows, newest.held) == ({first: 4, second: 4, third: 4}, True)
    with pytest.raises(NotFoundError):
        await table.scan(snapshot=third + 2).to_arrow()


async def test_a_snapshot_that_is_not_listed_any_more_is_let_go() -> None:
    """With one snapshot retained, the hold of the last but one is dropped by the next publication."""
    table = await made(await restored({}), **{"iceberg.retain": 1})
    first = (await table.publish_iceberg()).snapshot
    second = await republished(table)
    assert await tags(table) == sorted([f"iceberg-{first}", f"iceberg-{second}"])
    third = await republished(table)
    assert await tags(table) == sorted([f"iceberg-{second}", f"iceberg-{third}"])


async def test_tags_of_users_stay_and_are_published() -> None:
    """A user's tag of a published snapshot is a tag there; holds are none of the readers' business."""
    store = await restored({})
    table = await made(store)
    first = await table.publish_iceberg()
    await table.create_tag("mine", snapshot=first.snapshot)
    await table.create_tag("iceberg-like", snapshot=1)
    await republished(table)
    await republished(table)
    assert {"mine", "iceberg-like"} <= set(await tags(table))
    assert (await _refs(store, table)) == ["main", "mine"]


async def test_a_snapshot_that_expires_meanwhile_is_not_published() -> None:
    """A publication that was held up until its snapshot had expired publishes the newest one instead."""
    store = await restored({})
    await made(store)
    stepping = StepIn(store)
    slow = await table_of(stepping)

    async def expire() -> None:
        other = await table_of(store)
        await other.upsert(numbered(4, 6))
        await other.compact(full=True)
        await other.expire_snapshots(retain=1, grace_s=0)

    stepping.before(0, "/snapshot/", expire, verb="put_if_absent")
    report = await slow.publish_iceberg()
    assert stepping.act is None
    assert report.rows == 6
    (newest,) = await publications(store, slow)
    assert (newest.rows, newest.held) == ({report.snapshot: 6}, True)


async def _refs(store: ObjectStore, table: Table) -> list[str]:
    place = published_place(store, table)
    return sorted((await place.newest(await place.listed())).document["refs"])
