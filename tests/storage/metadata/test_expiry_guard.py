"""Those who are held up until what they read has expired and is deleted: told so, or begun anew."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lakehouse.errors import CorruptionError, NotFoundError
from lakehouse.storage.table import Table
from tests.kit.streaming import made, opened, rows_of, some, vanish
from tests.kit.worlds import NAME, StepIn, process, table_of

BEFORE = [(2 * number, "a", number) for number in range(6)]


async def filled() -> StepIn:
    """A table of three files."""
    store = StepIn(await made())
    table = await table_of(store)
    for number in (0, 2, 4):
        await table.upsert(some(*BEFORE[number : number + 2]))
    return store


async def delete_old(store: StepIn) -> None:
    """Others replace every file, and delete those that were there before."""
    table = await table_of(store.inner)
    await table.flush()
    await table.upsert(some((99, "b", 9)))
    await table.compact(full=True)
    for _ in range(2):
        await table.expire_snapshots(retain=1, grace_s=0)


async def _changes(table: Table) -> list[Any]:
    return [one async for one in table.changes(2)]


async def _rows(table: Table) -> list[Any]:
    return [one async for one in table.scan().batches()]


READS: dict[str, Callable[[Table], Awaitable[Any]]] = {
    "scan": lambda table: table.scan().to_arrow(),
    "batches": _rows,
    "count": lambda table: table.scan("v > 2").count(),
    "aggregate": lambda table: table.scan("v > 2").aggregate({"n": "count"}),
    "get": lambda table: table.get({"id": 2}),
    "get_many": lambda table: table.get_many([{"id": 2}, {"id": 4}]),
    "changes": _changes,
    "compact": lambda table: table.compact(full=True),
    "rescale": lambda table: table.rescale(3),
}


@pytest.mark.parametrize("what", READS)
async def test_a_reader_is_told_that_its_snapshot_expired(what: str) -> None:
    """Whoever is held up before it opens a file is told which snapshot expired, and not of damage."""
    store = await filled()
    table = await table_of(store)
    read = (await table.current_snapshot()) if what != "changes" else 2
    store.before(0, "/data/", lambda: delete_old(store))
    with pytest.raises(NotFoundError, match=rf"snapshot {read} of .* expired while it was read") as told:
        await READS[what](table)
    assert isinstance(told.value.__cause__, CorruptionError | NotFoundError)
    assert told.value.context["snapshot"] == read
    assert store.act is None
    assert await rows_of(await table_of(store)) == [*BEFORE, (99, "b", 9)]
    assert (await (await table_of(store)).verify(deep=True)).ok


async def test_a_flush_is_told_that_its_segments_expired() -> None:
    """A flush that was held up until others had flushed the log and deleted it is told so."""
    store = await filled()
    writer = await opened(store)
    await (await writer.put(some((7, "a", 7))))
    await vanish(writer)
    await (await table_of(store)).create_tag("t")
    store.before(0, "/wal/", lambda: delete_old(store), verb="get")
    table = await table_of(store)
    with pytest.raises(NotFoundError, match="expired while it was read"):
        await table.flush()
    assert store.act is None


WRITES: dict[str, tuple[Callable[[Table], Awaitable[Any]], list[tuple[int, str, int]]]] = {
    "delete": (lambda table: table.delete("v = 1"), [one for one in BEFORE if one[2] != 1]),
    "overwrite": (
        lambda table: table.overwrite(some((2, "c", 1)), where="v = 1"),
        [BEFORE[0], (2, "c", 1), *BEFORE[2:]],
    ),
    "append": (
        lambda table: table.append(some((1, "a", 8)), on_conflict="error"),
        [*BEFORE, (1, "a", 8)],
    ),
}


@pytest.mark.parametrize("what", WRITES)
async def test_a_write_that_reads_begins_anew(what: str) -> None:
    """A write that was held up until what it decides from was deleted decides again, from the head."""
    store = await filled()
    table = await table_of(store)
    write, rows = WRITES[what]
    store.before(0, "/data/", lambda: delete_old(store), verb="get_range")
    await write(table)
    assert store.act is None
    assert await rows_of(await table_of(store)) == sorted([*rows, (99, "b", 9)])
    assert (await (await table_of(store)).verify(deep=True)).ok


async def test_what_is_missing_of_a_snapshot_that_is_there_is_damage() -> None:
    """A file that is gone although a snapshot which did not expire refers to it is said to be damage."""
    store = await filled()
    table = await table_of(store)
    await table.create_tag("kept", snapshot=3)
    await delete_old(store)
    [file, *_] = (await table.files(snapshot=3)).column("path").to_pylist()
    assert await table.scan(tag="kept").count() == 4
    keys = [one.key async for one in store.inner.list("") if one.key.endswith(file)]
    await store.inner.delete(keys[0])
    with pytest.raises(CorruptionError, match="is missing"):
        await (await table_of(store)).scan(tag="kept").to_arrow()


async def test_a_reader_is_told_that_the_table_was_dropped() -> None:
    """Whoever is held up until the table is dropped and deleted is told that."""
    store = await filled()
    table = await table_of(store)

    async def drop() -> None:
        lake = process(store.inner)
        await lake.drop_table(NAME)
        root = [one.key async for one in store.inner.list("")]
        await store.inner.delete_many([one for one in root if "/data/" in one])

    store.before(0, "/data/", drop)
    with pytest.raises(NotFoundError, match="was dropped by snapshot 5"):
        await table.scan().to_arrow()


# --- held up between the head and what it refers to -------------------------------------------

PUT = [(7, "a", 7), (11, "a", 11)]


async def streamed() -> StepIn:
    """A table of three files whose log has a fence and two rows that no snapshot covers."""
    store = await filled()
    writer = await opened(store)
    for row in PUT:
        await (await writer.put(some(row)))
    await vanish(writer)
    return store


async def flush_and_delete(store: StepIn) -> None:
    """Others flush the log, put more, flush that too, and delete what is left; no snapshot expires."""
    await (await table_of(store.inner)).flush()
    writer = await opened(store.inner)
    await (await writer.put(some((9, "a", 9))))
    await writer.close()
    await (await table_of(store.inner)).expire_snapshots(grace_s=0)


async def _opened(table: Table) -> None:
    async with table.writer() as writer:
        await (await writer.put(some((50, "c", 50))))


LATE: dict[str, tuple[Callable[[Table], Awaitable[Any]], list[tuple[int, str, int]]]] = {
    "upsert": (lambda table: table.upsert(some((50, "c", 50))), [(50, "c", 50)]),
    "delete": (lambda table: table.delete("id = 1000"), []),
    "insert": (lambda table: table.append(some((50, "c", 50)), on_conflict="error"), [(50, "c", 50)]),
    "tag": (lambda table: table.create_tag("late"), []),
    "flush": (lambda table: table.flush(), []),
    "writer": (_opened, [(50, "c", 50)]),
    "scan": (lambda table: table.scan(freshness="wal").to_arrow(), []),
    "get": (lambda table: table.get({"id": 7}, freshness="wal"), []),
}


@pytest.mark.parametrize("what", LATE)
async def test_whoever_lists_the_log_late_begins_anew(what: str) -> None:
    """Reads and writes held up between the head and the log's listing go on from the newest head."""
    store = await streamed()
    table = await table_of(store)
    await table.current_snapshot()
    store.before(0, "/wal/", lambda: flush_and_delete(store), verb="list_page")
    work, more = LATE[what]
    await work(table)
    assert store.act is None
    assert await rows_of(await table_of(store), "wal") == sorted([*BEFORE, *PUT, (9, "a", 9), *more])
    assert (await (await table_of(store)).verify(deep=True)).ok


async def test_a_drop_that_lists_the_log_late_drops() -> None:
    """A drop held up between the head and the log's listing ends the table all the same."""
    store = await streamed()
    lake = process(store)
    store.before(0, "/wal/", lambda: flush_and_delete(store), verb="list_page")
    await lake.drop_table(NAME)
    assert store.act is None
    assert [name async for name in process(store).tables("db")] == []


@pytest.mark.parametrize("what", ["scan", "get"])
async def test_a_fresh_reader_is_told_that_the_log_was_flushed(what: str) -> None:
    """Whoever is held up until the segments that it reads are flushed is told so, and not of damage."""
    store = await streamed()
    table = await table_of(store)
    store.before(1, "/wal/", lambda: flush_and_delete(store), verb="get")
    with pytest.raises(NotFoundError, match=r"log above snapshot \d+ of .* was flushed while"):
        await LATE[what][0](table)
    assert store.act is None
