"""What comes to a table from snapshot to snapshot, in pieces that are read apart."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.storage.cdc.increments import (
    Increment,
    Limit,
    added_by,
    appended_in,
    changed_pieces,
    read_snapshots,
    state_pieces,
)
from lakehouse.storage.table import Table
from tests.kit.worlds import NAME, process, restored

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.int64()})


async def made(**how: Any) -> Table:
    """An empty table that compacts when it is told."""
    lake = process(await restored({}))
    await lake.create_database("db")
    return await lake.create_table(NAME, SCHEMA, options={"compaction.auto": "off"}, **how)


def rows(*numbers: int, v: int = 0) -> list[dict[str, int]]:
    """Rows of these ids."""
    return [{"id": one, "v": v} for one in numbers]


async def pieces_of(table: Table, first: int, last: int) -> list[Increment]:
    """What two snapshots differ in."""
    before, after = [await table.core.view(snapshot=one) for one in (first, last)]
    return changed_pieces(await before.entries(), await after.entries(), after.schema)


async def test_pieces_share_no_key() -> None:
    """Files whose keys overlap are one piece, others are apart; together they are the state."""
    table = await made(primary_key="id")
    for numbers in ((1, 5), (4, 9), (20, 30), (31, 32)):
        await table.append(rows(*numbers))
    view = await table.core.newest()
    entries = await view.entries()
    pieces = state_pieces(entries, view.schema)
    assert [len(one.after) for one in pieces] == [2, 1, 1]
    assert sorted(one.path for piece in pieces for one in piece.after) == sorted(one.path for one in entries)
    ends = [
        (min(one.min_key or b"" for one in piece.after), max(one.max_key or b"" for one in piece.after))
        for piece in pieces
    ]
    assert all(high < low for (_, high), (low, _) in itertools.pairwise(ends))


async def test_only_pieces_that_differ() -> None:
    """A step has the pieces that it touched, with all files of their keys before and after."""
    table = await made(primary_key="id")
    await table.append(rows(1, 5))
    await table.append(rows(20, 30))
    await table.upsert(rows(3, 4, v=1))
    (piece,) = await pieces_of(table, 3, 4)
    assert [len(one) for one in (piece.before, piece.after, piece.added_files)] == [1, 2, 1]
    assert piece.size == piece.added_files[0].size
    assert await pieces_of(table, 4, 4) == []


async def test_files_of_new_rows_alone() -> None:
    """In a table without a key, appended, flushed and overwritten rows are new; what is rewritten is not."""
    table = await made()
    await table.append(rows(1, 2))
    await table.append(rows(3))
    async with table.writer() as writer:
        await (await writer.put(rows(4)))
    await table.flush()
    await table.compact(full=True)
    await table.delete("id = 2")
    await table.overwrite(rows(3, v=9), "id = 3")
    head = (await table.core.newest()).snapshot
    found = {}
    async for snapshot in read_snapshots(table.core, 1, head):
        files = await appended_in(table.core, snapshot)
        if files:
            found[snapshot.id] = (snapshot.kind.value, sum(one.rows for one in files))
    assert list(found.values()) == [("append", 2), ("append", 1), ("flush", 1), ("overwrite", 1)]


async def test_what_a_commit_brings() -> None:
    """Commits of rows count with their files, rows and bytes; compaction brings nothing."""
    table = await made(primary_key="id")
    await table.append(rows(1, 2))
    await table.upsert(rows(2, 3))
    await table.compact(full=True)
    head = (await table.core.newest()).snapshot
    brought = [added_by(one) async for one in read_snapshots(table.core, 1, head)]
    assert [one[:2] for one in brought] == [(0, 0), (1, 2), (1, 2), (0, 0)]
    assert brought[1][2] > 0


@pytest.mark.parametrize(
    ("limit", "ends"),
    [
        (Limit(), [4]),
        (Limit(files=2), [2, 4]),
        (Limit(rows=3), [1, 3, 4]),
        (Limit(rows=1), [1, 2, 3, 4]),
        (Limit(files=1, rows=100), [1, 2, 3, 4]),
    ],
)
async def test_limits(limit: Limit, ends: list[int]) -> None:
    """As many pieces are taken as the limits allow, one at least, and in the end all of them."""
    table = await made()
    for numbers in ((1, 2), (3, 4), (5,), (6, 7, 8)):
        await table.append(rows(*numbers))
    view = await table.core.newest()
    pieces = state_pieces(await view.entries(), view.schema)
    found, at = [], 0
    while at < len(pieces):
        at = limit.take(pieces, at)
        found.append(at)
    assert found == ends
