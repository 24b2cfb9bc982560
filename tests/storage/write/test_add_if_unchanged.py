"""Commits of rows that were decided from a snapshot, with others committing behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lakehouse.errors import ConflictError
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.storage.schema.evolution import AddColumn
from lakehouse.storage.table import Table
from lakehouse.storage.write.add_if_unchanged import AddIfUnchanged, KeySpan
from lakehouse.storage.write.distributed_writes import commit_uploaded
from tests.kit.table_operations import SCHEMA
from tests.kit.worlds import NAME, process, restored

Row = dict[str, Any]
Other = Callable[[Table], Awaitable[object]]


def some(*numbers: int, value: int = 0) -> list[Row]:
    """Rows with these ids."""
    return [{"id": number, "part": "a", "v": value} for number in numbers]


async def made() -> Table:
    """A table of three rows in two runs."""
    lake = process(await restored({}))
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key=["id"])
    await table.append(some(1, 2, 3))
    await table.upsert(some(3, value=1))
    return table


async def decide(table: Table, other: Other, *keys: int) -> int:
    """Rows for the ids 1 and 2, decided before another commits; the snapshot they make."""
    view = await table.core.newest()
    written = await table.core.write(view, some(1, 2, value=9))
    await other(table)
    codec = RowKeyCodec(view.schema.key_fields)
    looked_at: list[KeySpan] | None = [(codec.encode_one([1]), codec.encode_one([2]))] if keys else None
    change = AddIfUnchanged(table.core, view.snapshot, written, looked_at=looked_at)
    return (await commit_uploaded(table.core, change, tail=change.tail)).snapshot


async def values(table: Table) -> dict[int, int]:
    """What is read, by id."""
    return {row["id"]: row["v"] for row in await table.scan().to_pylist()}


async def files_of(table: Table) -> int:
    """Data files in the store."""
    return len([one async for one in table.core.env.store.list(f"{table.core.root}/data/")])


HARMLESS: dict[str, Other] = {
    "nothing": lambda table: table.current_snapshot(),
    "rows of other keys": lambda table: table.upsert(some(3, 900)),
    "other keys deleted": lambda table: table.delete(keys=[{"id": 3}]),
    "compaction": lambda table: table.compact(full=True),
    "tag": lambda table: table.create_tag("t"),
}
HARMFUL: dict[str, Other] = {
    "rows of these keys": lambda table: table.upsert(some(2)),
    "these keys deleted": lambda table: table.delete(keys=[{"id": 1}]),
    "overwrite": lambda table: table.overwrite(some(3)),
    "rollback": lambda table: table.rollback(snapshot=2),
    "schema": lambda table: table.alter(AddColumn("more", "string")),
}


@pytest.mark.parametrize("other", HARMLESS)
async def test_commits_that_cannot_matter_are_passed_over(other: str) -> None:
    """Rows of other keys, compaction and tags leave the decision right."""
    table = await made()
    assert await decide(table, HARMLESS[other], 1, 2) == await table.current_snapshot()
    found = await values(table)
    assert (found[1], found[2]) == (9, 9)


@pytest.mark.parametrize("other", HARMFUL)
async def test_commits_that_may_matter_are_a_conflict(other: str) -> None:
    """Rows of keys that were looked at, rows taken away and other columns ask for another decision."""
    table = await made()
    with pytest.raises(ConflictError, match="decide again"):
        await decide(table, HARMFUL[other], 1, 2)


async def test_a_decision_about_all_rows_minds_every_row() -> None:
    """With no range of keys any new row matters, and files of the decision are deleted."""
    table = await made()
    before = await files_of(table)
    with pytest.raises(ConflictError, match="decide again"):
        await decide(table, HARMLESS["rows of other keys"])
    assert await files_of(table) == before + 1


async def test_rows_put_into_the_log_since_then_stay_above() -> None:
    """A decision covers what was read; what was put after it is newer than its rows."""
    table = await made()
    async with table.writer() as writer:
        view = await table.core.newest()
        written = await table.core.write(view, some(1, 2, value=9))
        await (await writer.put(some(2, value=5)))
        change = AddIfUnchanged(table.core, view.snapshot, written, looked_at=None)
        await commit_uploaded(table.core, change, tail=change.tail)
        fresh = await table.scan(freshness="wal").to_pylist()
        assert {row["id"]: row["v"] for row in fresh} == {1: 9, 2: 5, 3: 1}
    assert await values(table) == {1: 9, 2: 5, 3: 1}
