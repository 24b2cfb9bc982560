"""Streaming writers: what is acknowledged, who sees it when, and what a second writer does to the first."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from lakehouse.errors import FencedError, InvalidInputError, NotFoundError
from lakehouse.io import ObjectStore
from lakehouse.testing import LatencyStore, RecordingStore
from tests.kit.table_operations import LAYOUTS, SCHEMA
from tests.kit.worlds import NAME, process, restored, table_of

Row = tuple[int, str, int | None]


def some(*rows: Row) -> list[dict[str, object]]:
    """Rows as dicts."""
    return [{"id": number, "part": part, "v": value} for number, part, value in rows]


async def made(layout: str = "rows move between partitions", **options: str) -> ObjectStore:
    """An empty table."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    await lake.create_table(NAME, SCHEMA, options=options, **LAYOUTS[layout])
    return store


async def rows_of(store: ObjectStore, freshness: str = "snapshot") -> list[Row]:
    """What a process reads that opens the table afresh."""
    found = await (await table_of(store)).scan(freshness=freshness).to_pylist()  # type: ignore[arg-type]
    return sorted((row["id"], row["part"], row["v"]) for row in found)


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_an_acknowledged_row_is_seen_by_fresh_reads_and_flushed_by_the_end(layout: str) -> None:
    """A row is read with freshness='wal' once acknowledged, and from a snapshot once the writer closed."""
    store = await made(layout)
    async with (await table_of(store)).writer() as writer:
        await (await writer.put(some((1, "a", 10), (2, "b", 20))))
        await (await writer.put(some((3, "a", 30))))
        assert await rows_of(store) == []
        assert await rows_of(store, "wal") == [(1, "a", 10), (2, "b", 20), (3, "a", 30)]
    assert await rows_of(store) == [(1, "a", 10), (2, "b", 20), (3, "a", 30)]
    assert (await (await table_of(store)).files()).num_rows > 0


async def test_a_later_put_of_a_key_wins_before_and_after_the_flush() -> None:
    """Of several puts and deletes of a key the last one counts, in the log as in files."""
    store = await made()
    async with (await table_of(store)).writer() as writer:
        await writer.put(some((1, "a", 1), (2, "a", 1), (1, "a", 2)))
        await writer.delete([{"id": 2}])
        await (await writer.put(some((3, "b", 3))))
        assert await rows_of(store, "wal") == [(1, "a", 2), (3, "b", 3)]
        await writer.flush()
        assert await rows_of(store) == [(1, "a", 2), (3, "b", 3)]
        await (await writer.delete([{"id": 1}]))
        assert await rows_of(store, "wal") == [(3, "b", 3)]
    assert await rows_of(store) == [(3, "b", 3)]


@pytest.mark.parametrize("layout", [one for one in LAYOUTS if one != "append-only"])
async def test_commits_stand_above_what_was_acknowledged_before(layout: str) -> None:
    """A batch write called after an acknowledgement replaces that row; a later put replaces it again."""
    store = await made(layout)
    table = await table_of(store)
    async with table.writer() as writer:
        await (await writer.put(some((1, "a", 1), (2, "a", 1))))
        other = await table_of(store)
        await other.upsert(some((1, "a", 2)))
        assert await rows_of(store) == [(1, "a", 2), (2, "a", 1)]
        await (await writer.put(some((1, "a", 3))))
        assert await rows_of(store, "wal") == [(1, "a", 3), (2, "a", 1)]
        await writer.flush()
        assert await rows_of(store) == [(1, "a", 3), (2, "a", 1)]


async def test_keys_are_deleted_whose_columns_stand_in_another_order() -> None:
    """A writer deletes keys whose columns the primary key names in another order than the schema."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    await lake.create_table(NAME, SCHEMA, primary_key=["part", "id"])
    async with (await table_of(store)).writer() as writer:
        await writer.put(some((1, "a", 1), (2, "a", 2)))
        await writer.delete([{"part": "a", "id": 1}])
        await (await writer.put(some((1, "b", 3))))
        assert await rows_of(store, "wal") == [(1, "b", 3), (2, "a", 2)]
    assert await rows_of(store) == [(1, "b", 3), (2, "a", 2)]


async def test_a_delete_after_the_acknowledgement_leaves_the_row_deleted() -> None:
    """Put acknowledged, delete acknowledged, flush: the row stays deleted."""
    store = await made()
    async with (await table_of(store)).writer() as writer:
        await (await writer.put(some((1, "a", 1), (2, "b", 5))))
        await (await table_of(store)).delete("v < 3")
        assert await rows_of(store) == [(2, "b", 5)]
        await writer.flush()
        assert await rows_of(store) == [(2, "b", 5)]
    assert await rows_of(store) == [(2, "b", 5)]


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_overwrites_take_acknowledged_rows_away(layout: str) -> None:
    """An overwrite of everything, or of a partition, takes rows away that are in the log only."""
    store = await made(layout)
    async with (await table_of(store)).writer() as writer:
        await (await writer.put(some((1, "a", 1), (2, "b", 2))))
        await (await table_of(store)).overwrite(some((3, "a", 3)), where="part = 'a'")
        assert await rows_of(store) == [(2, "b", 2), (3, "a", 3)]
        await (await writer.put(some((4, "b", 4))))
        await (await table_of(store)).overwrite(some((5, "b", 5)))
        assert await rows_of(store) == [(5, "b", 5)]
    assert await rows_of(store) == [(5, "b", 5)]


async def test_old_snapshots_read_the_same_after_the_flush() -> None:
    """A snapshot that covers rows of the log reads the same before and after they are flushed."""
    store = await made()
    table = await table_of(store)
    async with table.writer() as writer:
        await (await writer.put(some((1, "a", 1))))
        await (await table_of(store)).upsert(some((9, "z", 9)))
        covering = await (await table_of(store)).current_snapshot()
        before = await (await table_of(store)).scan(snapshot=covering).to_pylist()
        await (await writer.put(some((1, "a", 2))))
    assert await (await table_of(store)).scan(snapshot=covering).to_pylist() == before
    assert await rows_of(store) == [(1, "a", 2), (9, "z", 9)]


async def test_a_second_writer_fences_the_first() -> None:
    """Opening a writer ends the one before: its puts fail, what it had acknowledged stays."""
    store = await made()
    first = (await table_of(store)).writer()
    await first.__aenter__()
    await (await first.put(some((1, "a", 1))))
    async with (await table_of(store)).writer() as second:
        ack = await first.put(some((2, "a", 2)))
        with pytest.raises(FencedError, match="epoch 2"):
            await ack
        with pytest.raises(FencedError):
            await first.put(some((3, "a", 3)))
        await (await second.put(some((4, "a", 4))))
    await first.close()
    assert await rows_of(store) == [(1, "a", 1), (4, "a", 4)]


async def test_a_crashed_writers_rows_are_taken_over() -> None:
    """What a writer that vanished had acknowledged is flushed by the next writer, or by flush()."""
    store = await made()
    lost = (await table_of(store)).writer()
    await lost.__aenter__()
    await (await lost.put(some((1, "a", 1))))
    await lost.__aexit__(RuntimeError, RuntimeError(), None)
    assert await rows_of(store) == []
    await (await table_of(store)).flush()
    assert await rows_of(store) == [(1, "a", 1)]


async def test_a_sequence_is_put_once_also_by_the_next_writer() -> None:
    """A put that carries (id, sequence) is made once, however often and by whichever writer."""
    store = await made("append-only")
    for _ in range(2):
        async with (await table_of(store)).writer() as writer:
            acks = [await writer.put(some((1, "a", 1)), writer=("loader", 7)) for _ in range(2)]
            for ack in acks:
                await ack
    assert await rows_of(store) == [(1, "a", 1)]


async def test_a_row_that_does_not_fit_refuses_its_put_alone() -> None:
    """A put with a bad row is refused with column, row and value; others go on."""
    store = await made()
    async with (await table_of(store)).writer() as writer:
        await writer.put(some((1, "a", 1)))
        with pytest.raises(InvalidInputError, match="'v', row 1"):
            await writer.put([{"id": 2, "part": "a", "v": 1}, {"id": 3, "part": "a", "v": "x"}])
    assert await rows_of(store) == [(1, "a", 1)]


async def test_a_writer_adopts_a_new_column() -> None:
    """Rows with a column that was added meanwhile are accepted without opening the writer anew."""
    store = await made()
    async with (await table_of(store)).writer() as writer:
        await (await writer.put(some((1, "a", 1))))
        await (await table_of(store)).add_column("w", "int")
        await (await writer.put([{"id": 2, "part": "a", "v": 2, "w": 5}]))
        found = await (await table_of(store)).scan(freshness="wal").to_pylist()
    expected = [{"id": 1, "part": "a", "v": 1, "w": None}, {"id": 2, "part": "a", "v": 2, "w": 5}]
    assert sorted(found, key=lambda row: row["id"]) == expected
    found = await (await table_of(store)).scan().to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == expected


async def test_a_dropped_table_ends_its_writer() -> None:
    """Puts into a table that was dropped meanwhile fail with NotFoundError; none is acknowledged."""
    store = await made()
    writer = (await table_of(store)).writer()
    await writer.__aenter__()
    await (await writer.put(some((1, "a", 1))))
    await process(store).drop_table(NAME)
    with pytest.raises(NotFoundError):
        await (await writer.put(some((2, "a", 2))))
    await writer.__aexit__(RuntimeError, RuntimeError(), None)


async def test_a_rollback_takes_acknowledged_rows_away() -> None:
    """Rows acknowledged before a rollback was called are gone after it."""
    store = await made()
    await (await table_of(store)).append(some((1, "a", 1)))
    async with (await table_of(store)).writer() as writer:
        await (await writer.put(some((2, "a", 2))))
        await (await table_of(store)).rollback(snapshot=2)
        assert await rows_of(store, "wal") == [(1, "a", 1)]
        await (await writer.put(some((3, "a", 3))))
    assert await rows_of(store) == [(1, "a", 1), (3, "a", 3)]


async def test_concurrent_puts_share_segments_and_a_put_is_one_request() -> None:
    """A put alone costs one PUT; what comes while a segment is written goes into the next one together."""
    store = RecordingStore(LatencyStore(await made(), {"put": 0.05}))
    async with (await table_of(store)).writer() as writer:
        store.clear()
        await (await writer.put(some((0, "a", 0))))
        assert store.kinds() == {"put": 1}

        async def task(number: int) -> None:
            await (await writer.put(some((number, "a", number))))

        await asyncio.gather(*(task(number) for number in range(1, 65)))
        assert writer.report().segments <= 8
        assert writer.report().rows == 65
    assert len(await rows_of(store)) == 65


async def test_small_memtables_flush_while_rows_come() -> None:
    """Memory stays within the memtables' size: rows are flushed beside the puts, and none is lost."""
    store = await made(**{"write.memtable_bytes": "20000", "wal.segment_bytes": "2048"})
    async with (await table_of(store)).writer() as writer:
        highest = 0
        for begin in range(0, 5_000, 50):
            ids = list(range(begin, begin + 50))
            rows = pa.table({"id": ids, "part": ["a"] * 50, "v": ids})
            await (await writer.put(rows))
            highest = max(highest, writer.report().memory_bytes)
        assert writer.report().flushes > 2
        assert highest < 6 * 20_000
    assert len(await rows_of(store)) == 5_000


async def test_a_small_memtable_is_flushed_after_the_interval() -> None:
    """Rows are in a snapshot after snapshot_interval_s, however few they are."""
    store = await made(snapshot_interval_s="0.05")
    async with (await table_of(store)).writer() as writer:
        await (await writer.put(some((1, "a", 1))))
        async with asyncio.timeout(5):
            while writer.report().flushes == 0:  # noqa: ASYNC110  nothing else tells
                await asyncio.sleep(0.01)
        assert await rows_of(store) == [(1, "a", 1)]
