"""Published objects: where they are, and which of them are deleted when."""

from __future__ import annotations

import pytest

from lakehouse.errors import CorruptionError
from lakehouse.io import ObjectStore
from lakehouse.storage.table import Table
from lakehouse.testing import ManualClock
from tests.kit.publications import Placed, publications, published_place
from tests.kit.published import ROWS, numbered
from tests.kit.timed_store import HOUR_S, TimedStore
from tests.kit.worlds import NAME, process, restored, saved, table_of


async def made(store: ObjectStore, **options: object) -> Table:
    """A table with a first run."""
    lake = process(store, clock=ManualClock())
    await lake.create_database("db")
    table = await lake.create_table(NAME, ROWS, primary_key="id", bucket=2, options=options)
    await table.upsert(numbered(0, 20))
    return table


async def republished(table: Table, text: str) -> None:
    """Changes some rows and publishes them."""
    await table.upsert(numbered(3, 9, text))
    await table.compact(full=True)
    await table.publish_iceberg()


async def names(store: ObjectStore) -> set[str]:
    """Names of the published objects."""
    return {one.key.rpartition("/")[2] async for one in store.list("") if "/iceberg/" in one.key}


@pytest.mark.parametrize("version", [2, 3])
async def test_what_nobody_reads_any_more_is_deleted_after_the_grace(version: int) -> None:
    """Metadata stay for the grace after they were replaced; then they go, and what they alone needed."""
    store = TimedStore(await restored({}))
    table = await made(store, **{"iceberg.retain": 1, "iceberg.format_version": version})
    await table.publish_iceberg()
    # Written long ago, and replaced only now.
    store.advance(3 * HOUR_S)
    await republished(table, "a")
    before = await names(store)
    store.advance(HOUR_S / 2)
    await republished(table, "b")
    assert before <= await names(store)
    store.advance(2 * HOUR_S)
    await republished(table, "c")
    store.advance(2 * HOUR_S)
    await republished(table, "d")
    left = await names(store)
    versions = sorted(name for name in left if name.startswith("v"))
    assert versions == ["v4.metadata.json", "v5.metadata.json", "version-hint.text"]
    assert len([name for name in left if name.startswith("snap")]) == 2
    found = await publications(store, table)
    assert [one.version for one in found] == [4, 5]


async def test_manifests_that_newer_snapshots_still_need_stay() -> None:
    """A manifest that no later publication had to write again is kept, however old it is."""
    store = TimedStore(await restored({}))
    lake = process(store, clock=ManualClock())
    await lake.create_database("db")
    table = await lake.create_table(NAME, ROWS, options={"iceberg.retain": 1})
    await table.append(numbered(0, 5))
    await table.publish_iceberg()
    for number in range(5, 9):
        store.advance(2 * HOUR_S)
        await table.append(numbered(number, number + 1))
        await table.publish_iceberg()
    (*_, newest) = await publications(store, table)
    assert list(newest.rows.values()) == [9]
    assert len([name for name in await names(store) if name.startswith("v")]) == 3


async def test_orphans_of_publishers_that_ended_are_deleted_with_the_rest() -> None:
    """Manifests that no metadata ever named go once their snapshot is behind all that readers use."""
    store = TimedStore(await restored({}))
    table = await made(store, **{"iceberg.retain": 1})
    uuid = "00000000-0000-0000-0000-000000000000"
    orphan = f"{table.core.root}/iceberg/metadata/manifest-2-{uuid}.avro"
    foreign = f"{table.core.root}/iceberg/metadata/mine.txt"
    await table.publish_iceberg()
    for key in (orphan, foreign):
        await store.put(key, b"x")
    for text in "abcd":
        store.advance(2 * HOUR_S)
        await republished(table, text)
    left = await names(store)
    assert orphan.rpartition("/")[2] not in left
    assert "mine.txt" in left


async def test_a_warehouse_that_was_moved_is_published_anew() -> None:
    """Manifests name files by URL: at another place all are written again, and the sequence goes on."""
    store = Placed(await restored({}))
    table = await made(store)
    first = await table.publish_iceberg()
    moved = await restored(await saved(store))
    table = await table_of(moved)
    report = await table.publish_iceberg()
    assert (first.changed, report.changed, report.version, report.added) == (True, True, 2, 2)
    place = published_place(moved, table)
    document = (await place.version(2)).document
    assert document["location"].startswith(moved.url)
    assert [one["sequence-number"] for one in document["snapshots"]] == [2]
    assert (await table.publish_iceberg()).changed is False


async def test_metadata_that_name_files_elsewhere_are_damaged() -> None:
    """A URL that is not below the table's directory is named as damage."""
    table = await made(await restored({}))
    place = published_place(table.core.env.store, table)
    assert place.path(place.url("data/x")) == "data/x"
    with pytest.raises(CorruptionError, match="elsewhere/x"):
        place.path("memory://elsewhere/x")


async def test_a_purge_deletes_what_was_published() -> None:
    """Published metadata are the table's own: they go with it."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(NAME, ROWS)
    await table.append(numbered(0, 3))
    await table.publish_iceberg()
    await lake.drop_table(NAME)
    report = await lake.purge_dropped(grace_s=0)
    assert report.foreign == 0
    assert await names(store) == set()


async def test_a_sweep_of_orphans_leaves_what_is_published() -> None:
    """Maintenance of the table knows published metadata, and deletes none."""
    store = await restored({})
    table = await made(store)
    await table.publish_iceberg()
    before = await names(store)
    report = await table.remove_orphans(older_than="2100-01-01")
    assert (report.objects, await names(store)) == (0, before)
