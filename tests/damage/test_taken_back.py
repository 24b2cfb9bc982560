"""Creates that a store takes back: listings show an object for a while, and reads never find it.

MinIO does so when whoever creates an object is gone before the answer.
"""

from __future__ import annotations

import dataclasses

import pytest

from lakehouse.io import ObjectMeta, ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.protocols import ListPage
from lakehouse.storage.metadata.paths import join, segment_path, snapshot_path
from lakehouse.testing import RecordingStore, memory_store
from tests.kit.streaming import made, opened, rows_of, some, vanish
from tests.kit.table_logs import HEAD, ROOT, log_of, put, taken_over, values_in
from tests.kit.worlds import NAME, process, table_of


class TakenBack(StoreDecorator):
    """Lists one object more than there are, as long as nobody creates it."""

    def __init__(self, inner: ObjectStore, key: str = "") -> None:
        super().__init__(inner)
        self.key = key

    async def list_page(
        self,
        prefix: str = "",
        *,
        start_after: str | None = None,
        delimiter: str | None = None,
        page: str | None = None,
        limit: int | None = None,
    ) -> ListPage:
        found = await self.inner.list_page(
            prefix, start_after=start_after, delimiter=delimiter, page=page, limit=limit
        )
        known = {one.key for one in found.objects}
        if (
            delimiter is not None
            or page is not None
            or not self.key.startswith(prefix)
            or self.key <= (start_after or "")
            or self.key in known
        ):
            return found
        objects = sorted((*found.objects, ObjectMeta(key=self.key, size=99)), key=lambda one: one.key)
        return dataclasses.replace(found, objects=tuple(objects))


async def streamed() -> tuple[TakenBack, str]:
    """A table whose writer is gone, with three rows in its log, and its directory."""
    store = TakenBack(await made())
    writer = await opened(store)
    for number in range(3):
        await (await writer.put(some((number, "a", number))))
    await vanish(writer)
    return store, (await process(store).table(NAME))._table.root


async def log_of_three() -> ObjectStore:
    """A log with a fence and three values."""
    store = memory_store()
    appender = await taken_over(store)
    for value in range(3):
        await put(appender, value)
    return store


ROWS = [(0, "a", 0), (1, "a", 1), (2, "a", 2)]
FIFTH = join(ROOT, segment_path(5))


async def test_the_tail_ends_where_reads_find_something() -> None:
    """A segment that a listing shows and a read does not find is not in the tail: one request more tells."""
    inner = await log_of_three()
    store = RecordingStore(TakenBack(inner, key=FIFTH))
    assert (await log_of(store).tail(HEAD)).upto == 4
    assert store.kinds() == {"list": 1, "get": 1}
    assert await values_in(inner) == [0, 1, 2]


async def test_what_was_read_is_not_asked_for_again() -> None:
    """Whoever has created or read the newest segment trusts the listing that shows it."""
    store = RecordingStore(await log_of_three())
    wal = log_of(store)
    await wal.tail(HEAD)
    store.clear()
    await wal.tail(HEAD)
    assert store.kinds() == {"list": 1}


async def test_the_number_is_free_for_the_next_writer() -> None:
    """Whoever takes the log over creates the segment that came to nothing."""
    inner = await log_of_three()
    store = TakenBack(inner, key=FIFTH)
    await put(await taken_over(store), 9)
    assert [number async for number, _ in log_of(inner).log.sizes()] == [1, 2, 3, 4, 5, 6]
    assert await values_in(inner) == [0, 1, 2, 9]


@pytest.mark.parametrize("what", ["scan", "upsert", "flush", "writer", "delete"])
async def test_rows_are_as_if_the_segment_had_never_been(what: str) -> None:
    """Reads, commits, flushes and writers that meet such a segment leave a table that everybody can read."""
    store, root = await streamed()
    store.key = join(root, segment_path(5))
    rows = ROWS
    table = await table_of(store)
    if what == "upsert":
        await table.upsert(some((7, "b", 7)))
        rows = [*ROWS, (7, "b", 7)]
    elif what == "flush":
        await table.flush()
    elif what == "delete":
        await table.delete("id = 1")
        rows = [ROWS[0], ROWS[2]]
    elif what == "writer":
        writer = await opened(store)
        await (await writer.put(some((8, "a", 8))))
        await vanish(writer)
        rows = [*ROWS, (8, "a", 8)]
    assert await rows_of(table, "wal") == rows
    assert await rows_of(await table_of(store), "wal") == rows
    report = await (await table_of(store)).verify(deep=True)
    assert report.ok, str(report)


async def test_the_newest_segment_stays_when_another_came_to_nothing() -> None:
    """Expiry keeps the newest segment there is, whatever the listing shows behind it."""
    store, root = await streamed()
    table = await table_of(store)
    await table.flush()
    store.key = join(root, segment_path(5))
    await table.expire_snapshots(retain=1, grace_s=0)
    left = [one.key async for one in store.inner.list(join(root, "wal/"))]
    assert left == [join(root, segment_path(4))]
    writer = await opened(store)
    await (await writer.put(some((8, "a", 8))))
    await writer.flush()
    await vanish(writer)
    assert await rows_of(await table_of(store)) == [*ROWS, (8, "a", 8)]


@pytest.mark.parametrize("knows", [False, True])
async def test_a_snapshot_that_came_to_nothing_is_none(knows: bool) -> None:
    """A snapshot that a listing shows and a read does not find does not hide the one before it, and its id
    goes to the next commit."""
    store, root = await streamed()
    table = await table_of(store)
    await table.upsert(some((7, "b", 7)))
    newest = await table.current_snapshot()
    store.key = join(root, snapshot_path(newest + 1))
    table = table if knows else await table_of(store)
    assert await table.current_snapshot() == newest
    assert await rows_of(table) == [*ROWS, (7, "b", 7)]
    report = await table.verify()
    assert report.ok, str(report)
    assert not (await table.repair()).losses
    await table.upsert(some((7, "b", 8)))
    assert await (await table_of(store)).current_snapshot() == newest + 1
    assert await rows_of(await table_of(store)) == [*ROWS, (7, "b", 8)]


async def test_others_are_found_behind_one_that_came_to_nothing() -> None:
    """A process that is behind finds the newest snapshot although one more is listed."""
    store, root = await streamed()
    behind, other = await table_of(store), await table_of(store)
    before = await behind.current_snapshot()
    for number in range(3):
        await other.upsert(some((7, "b", number)))
    store.key = join(root, snapshot_path(before + 4))
    assert await behind.current_snapshot() == before + 3


async def test_a_dropped_table_is_purged_all_the_same() -> None:
    """The last snapshot of a dropped table is found by whoever deletes what is left of it."""
    store, root = await streamed()
    lake = process(store)
    newest = await (await lake.table(NAME)).current_snapshot()
    await lake.drop_table(NAME)
    store.key = join(root, snapshot_path(newest + 2))
    await process(store).purge_dropped(grace_s=0)
    assert [one.key async for one in store.inner.list(root)] == []


async def test_a_name_that_came_to_nothing_is_not_listed() -> None:
    """A listing of tables passes over names whose pointer is not there."""
    store = TakenBack(await made())
    store.key = "db/_tables/u"
    assert [str(name) async for name in process(store).tables("db")] == [NAME]
