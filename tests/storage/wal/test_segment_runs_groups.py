"""Reads of the log take small segments together, and see what they would see of each by itself."""

from __future__ import annotations

import random

import pytest

from lakehouse.format.metadata.file_entry import FileFormat
from lakehouse.testing import RecordingStore
from tests.kit.streaming import made, opened, rows_of, some, vanish
from tests.kit.table_operations import LAYOUTS
from tests.kit.worlds import table_of


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_hundreds_of_small_segments_are_few_runs(layout: str) -> None:
    """200 segments of one row are a handful of runs, and the newest row of a key is seen."""
    store = await made(layout)
    writer = await opened(store)
    keyed = bool(LAYOUTS[layout].get("primary_key"))
    expected: dict[int, tuple[int, str, int | None]] = {}
    all_rows = []
    chance = random.Random(0)
    for number in range(200):
        key = chance.randrange(60)
        row = (key, "a", number)
        await (await writer.put(some(row)))
        expected[key] = row
        all_rows.append(row)
    table = await table_of(store)
    view = await table.core.freshest()
    runs = {(one.lo, one.hi) for one in await view.entries() if one.format is FileFormat.WAL}
    assert len(runs) <= 3 + 7 + 7
    assert await rows_of(table, "wal") == sorted(expected.values() if keyed else all_rows)
    await vanish(writer)


async def test_a_commit_stands_between_the_segments_before_and_after_it() -> None:
    """Segments that different commits cover are not taken together, so that order is kept."""
    store = await made()
    writer = await opened(store)
    table = await table_of(store)
    for number in range(20):
        await (await writer.put(some((1, "a", number))))
    await table.delete(keys=[{"id": 1}])
    assert await rows_of(table, "wal") == []
    for number in range(20):
        await (await writer.put(some((2, "a", number))))
    await table.upsert(some((2, "b", 99)))
    assert await rows_of(table, "wal") == await rows_of(table) == [(2, "b", 99)]
    await (await writer.put(some((2, "a", 100))))
    assert await rows_of(table, "wal") == [(2, "a", 100)]
    await vanish(writer)


async def test_one_more_segment_makes_few_be_read_again() -> None:
    """A reader that has read the log reads at most a group of segments again when one comes, mostly one."""
    store = RecordingStore(await made())
    writer = await opened(store)
    reader = await table_of(store)
    reads = []
    for number in range(130):
        await (await writer.put(some((number, "a", number))))
        store.clear()
        await reader.scan(freshness="wal").count()
        reads.append(sum("/wal/" in call.key for call in store.calls if call.verb == "get"))
    assert sorted(reads)[len(reads) // 2] == 1
    assert sum(reads) <= 3 * 130 + 70
    await vanish(writer)
