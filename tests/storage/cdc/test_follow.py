"""Following a table: changes as they are committed, resumed from a token."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.io import ObjectStore
from lakehouse.storage.cdc.follow import ChangeBatch
from lakehouse.storage.table import Table
from tests.kit.worlds import NAME, process, restored, table_of

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.int64()})


async def made() -> ObjectStore:
    """A table of one row."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key=["id"])
    await table.append([{"id": 1, "v": 1}])
    return store


async def next_batch(table: Table, after: str | int | None) -> ChangeBatch:
    """The first changes behind a position."""
    async with asyncio.timeout(10), aclosing(table.follow(after, poll_s=0.01)) as batches:
        return await anext(batches)


def rows_of(batch: ChangeBatch) -> list[dict[str, Any]]:
    """The changes as dicts."""
    found: list[dict[str, Any]] = batch.rows.to_pylist()
    return found


async def test_changes_come_as_they_are_committed() -> None:
    """A follower that begins now sees what is committed from then on, net, in order."""
    store = await made()
    seen: list[dict[str, Any]] = []
    async with asyncio.timeout(10), aclosing((await table_of(store)).follow(poll_s=0.01)) as batches:
        first = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0.05)
        assert not first.done()
        await (await table_of(store)).upsert([{"id": 1, "v": 2}, {"id": 2, "v": 2}])
        seen += rows_of(await first)
        await (await table_of(store)).delete("id = 2")
        seen += rows_of(await anext(batches))
    assert [(row["id"], row["v"], row["_change"]) for row in seen] == [
        (1, 1, "update_before"),
        (1, 2, "update_after"),
        (2, 2, "insert"),
        (2, 2, "delete"),
    ]


async def test_a_token_resumes_in_another_process() -> None:
    """What was committed between a token and its use is seen once, as net changes."""
    store = await made()
    await (await table_of(store)).upsert([{"id": 2, "v": 2}])
    batch = await next_batch(await table_of(store), 2)
    assert [row["id"] for row in rows_of(batch)] == [2]
    await (await table_of(store)).upsert([{"id": 3, "v": 3}])
    await (await table_of(store)).upsert([{"id": 3, "v": 4}])
    resumed = await next_batch(await table_of(store), batch.token)
    assert [(row["id"], row["v"], row["_change"]) for row in rows_of(resumed)] == [(3, 4, "insert")]


async def test_commits_that_change_no_row_are_passed_over() -> None:
    """Tags and compaction make snapshots, and no changes."""
    store = await made()
    table = await table_of(store)
    await table.upsert([{"id": 1, "v": 1}])
    await table.create_tag("one")
    await table.compact(full=True)
    await table.upsert([{"id": 9, "v": 9}])
    batch = await next_batch(await table_of(store), 2)
    assert [row["id"] for row in rows_of(batch)] == [9]


async def test_an_expired_position_is_said() -> None:
    """A position whose snapshot has expired is an error that names what there is; a tag keeps it."""
    store = await made()
    table = await table_of(store)
    token = (await next_batch(table, 1)).token
    for value in range(3):
        await table.upsert([{"id": 1, "v": 10 + value}])
    await table.create_tag("kept", snapshot=3)
    await table.expire_snapshots(retain=1)
    with pytest.raises(NotFoundError, match="has expired; there are") as caught:
        await next_batch(await table_of(store), token)
    assert caught.value.kind == "position-expired"
    assert rows_of(await next_batch(await table_of(store), 3))


async def test_tokens_of_other_tables_are_refused() -> None:
    """A token of a table that was dropped and made again, and what is no token, are refused."""
    store = await made()
    token = (await next_batch(await table_of(store), 1)).token
    await process(store).drop_table(NAME)
    table = await process(store).create_table(NAME, SCHEMA, primary_key=["id"])
    for wrong in (token, "12", "a.b.c"):
        with pytest.raises(InvalidInputError):
            await next_batch(table, wrong)


async def test_rows_of_the_log_show_once() -> None:
    """Rows that a commit covered are changes then, and not again when they are flushed."""
    store = await made()
    async with (await table_of(store)).writer() as writer:
        await (await writer.put([{"id": 5, "v": 5}]))
        await (await table_of(store)).upsert([{"id": 6, "v": 6}])
        batch = await next_batch(await table_of(store), 2)
        assert [row["id"] for row in rows_of(batch)] == [5, 6]
    await (await table_of(store)).upsert([{"id": 7, "v": 7}])
    assert [row["id"] for row in rows_of(await next_batch(await table_of(store), batch.token))] == [7]
