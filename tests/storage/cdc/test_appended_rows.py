"""Changes of tables without a primary key: the rows that came, each once."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakehouse
from lakehouse.errors import InvalidInputError
from lakehouse.storage.table import Table
from tests.kit.worlds import process, restored

SCHEMA = pa.schema({"n": pa.int64()})


async def made(lake: lakehouse.Lake, **more: Any) -> Table:
    """A table without a key."""
    await lake.create_database("db")
    return await lake.create_table("db.events", SCHEMA, **more)


def rows(*numbers: int) -> list[dict[str, Any]]:
    """Rows of these numbers."""
    return [{"n": number} for number in numbers]


async def told(table: Table, start: int, end: int | None = None) -> list[int]:
    """The numbers of the rows that came."""
    found: list[int] = []
    async for changes in table.changes(start, end):
        assert set(changes.column("_change").to_pylist()) <= {"insert"}
        found += changes.column("n").to_pylist()
    return found


async def test_rows_come_in_the_order_of_their_commits() -> None:
    """Between two snapshots come the rows of the commits in between, and no others."""
    async with lakehouse.connect("memory://appended-order") as lake:
        table = await made(lake)
        for number in range(5):
            await table.append(rows(number, number + 10))
        assert await told(table, 1) == [0, 10, 1, 11, 2, 12, 3, 13, 4, 14]
        assert await told(table, 2, 4) == [1, 11, 2, 12]
        assert await told(table, 6) == []


async def test_compaction_brings_no_rows() -> None:
    """Rows that are put into other files are not told again."""
    async with lakehouse.connect("memory://appended-compact") as lake:
        table = await made(lake)
        for number in range(4):
            await table.append(rows(number))
        before = await table.current_snapshot()
        assert (await table.compact(full=True)).changed
        await table.append(rows(9))
        assert await told(table, before) == [9]
        assert await told(table, 1) == [0, 1, 2, 3, 9]


async def test_rows_of_the_log_come_when_they_are_covered() -> None:
    """A row put into the log comes with the commit that covers it, and not again when it is flushed."""
    async with lakehouse.connect("memory://appended-log") as lake:
        table = await made(lake)
        writer = table.writer()
        async with writer:
            await (await writer.put(rows(1)))
            await table.append(rows(2))
            covered = await table.current_snapshot()
            assert sorted(await told(table, 1)) == [1, 2]
        assert await told(table, covered) == []
        assert sorted(await told(table, 1)) == [1, 2]
        assert sorted(row["n"] for row in await table.scan().to_pylist()) == [1, 2]


async def test_rows_that_go_cannot_be_told() -> None:
    """Net changes are refused across a commit that took rows away, which is named."""
    async with lakehouse.connect("memory://appended-delete") as lake:
        table = await made(lake)
        await table.append(rows(1, 2, 3))
        gone = (await table.delete("n = 2")).snapshot
        await table.append(rows(4))
        with pytest.raises(InvalidInputError, match=f"snapshot {gone} of db.events took rows away"):
            await told(table, 1)
        assert await told(table, 1, gone - 1) == [1, 2, 3]
        assert await told(table, gone) == [4]


async def test_followers_see_what_comes_and_not_what_goes() -> None:
    """A follower goes on over deletes, and resumes from its token in another process."""
    async with lakehouse.connect("memory://appended-follow") as lake:
        table = await made(lake)
        await table.append(rows(1, 2))
        async with asyncio.timeout(10), aclosing(table.follow(1, poll_s=0.01)) as batches:
            first = await anext(batches)
            assert first.rows.column("n").to_pylist() == [1, 2]
            await table.delete("n = 1")
            await table.append(rows(3))
            seen: list[int] = []
            while not seen:
                seen += (await anext(batches)).rows.column("n").to_pylist()
            assert seen == [3]
        async with asyncio.timeout(10), aclosing(table.follow(first.token, poll_s=0.01)) as batches:
            assert (await anext(batches)).rows.column("n").to_pylist() == [3]


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.sampled_from(["append", "put", "flush", "compact", "cover"]), max_size=12))
async def test_what_came_is_what_is_there(steps: list[str]) -> None:
    """From any snapshot to any later one come the rows that the later one shows and the earlier does not."""
    async with lakehouse.connect(f"memory://appended-{uuid.uuid4().hex}") as lake:
        table = await made(lake, options={"compaction.auto": "off"})
        number = 0
        async with table.writer() as writer:
            for step in steps:
                number += 1
                if step == "append":
                    await table.append(rows(number))
                elif step == "put":
                    await (await writer.put(rows(number)))
                elif step == "flush":
                    await writer.flush()
                elif step == "cover":
                    await table.flush()
                else:
                    await table.compact(full=True)
        last = await table.current_snapshot()
        shown = {
            at: {row["n"] for row in await table.scan(snapshot=at).to_pylist()} for at in range(1, last + 1)
        }
        for start in (1, max(1, last // 2), last):
            came = await told(table, start, last)
            assert sorted(came) == sorted(shown[last] - shown[start])


async def test_changes_across_a_repair_are_refused() -> None:
    """A repair that left rows out is named, as a delete is: without a key nothing says which rows went."""
    store = await restored({})
    lake = process(store)
    table = await made(lake)
    await table.append(rows(1, 2))
    await table.append(rows(3))
    (lost,) = [entry.path for entry in await (await table.core.newest()).files() if entry.rows == 1]
    await store.delete_many([f"{table.core.root}/{lost}"])
    table = await process(store).table("db.events")
    report = await table.repair()
    assert report.changed
    await table.append(rows(4))
    with pytest.raises(InvalidInputError, match=rf"snapshot {report.snapshot} .*\(repair\)"):
        await told(table, 3)
    assert await told(table, report.snapshot) == [4]
