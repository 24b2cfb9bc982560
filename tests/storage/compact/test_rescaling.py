"""Rescaling: another number of buckets, the same answers, whoever writes meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.format.keys.buckets import bucket_of
from lakehouse.format.metadata.file_entry import Level
from lakehouse.io import ObjectStore
from lakehouse.io.work.progress import Progress
from lakehouse.storage.metadata.run_order import interval
from lakehouse.storage.table import Table
from lakehouse.testing import RecordingStore
from tests.kit.worlds import NAME, Row, StepIn, process, restored, table_of

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.int64()})
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"primary_key": ["id"]},
    "keyed": {"primary_key": ["id", "part"], "partition_by": "part"},
    "moving": {"primary_key": ["id"], "partition_by": "part"},
}


def some(*numbers: int, value: int = 0) -> list[Row]:
    """Rows of these numbers, in two partitions."""
    return [{"id": n, "part": "ab"[n % 2], "v": value} for n in numbers]


async def made(store: ObjectStore, **layout: Any) -> Table:
    """A table with rows, newer ones, deleted ones."""
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, **layout)
    await table.append(some(*range(60)))
    await table.upsert(some(*range(0, 60, 3), value=1))
    await table.delete("id < 10")
    await table.upsert(some(5, 7, 61, value=2))
    return table


async def held(table: Table, snapshot: int | None = None) -> list[Row]:
    """What a snapshot holds, by key."""
    return sorted(await table.scan(snapshot=snapshot).to_pylist(), key=lambda row: row["id"])


async def numbers(table: Table) -> set[int]:
    """Numbers of buckets that the newest snapshot's files have."""
    return {one.total_buckets for one in await (await table._table.newest()).files()}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("before", "after"), [(1, 4), (3, 2), (4, 1), (2, 2)])
async def test_every_snapshot_reads_as_before(layout: str, before: int, after: int) -> None:
    """Rows, deletions and intervals are those of before, in the newest snapshot and in all others."""
    table = await made(await restored({}), bucket=before, **LAYOUTS[layout])
    wanted = {number: await held(table, number) for number in range(1, 6)}
    done = await table.rescale(after)
    assert (done.before, done.buckets, done.changed) == (before, after, before != after)
    assert await numbers(table) == {after}
    reader = await table_of(table._table.env.store)
    for number, rows in wanted.items():
        assert await held(reader, number) == rows
    assert await held(reader) == wanted[5]
    for row in [*wanted[5], *some(3, 9)]:
        key = {name: row[name] for name in LAYOUTS[layout]["primary_key"]}
        assert await reader.get(key) == (row if row in wanted[5] else None)
    keys = [{name: row[name] for name in LAYOUTS[layout]["primary_key"]} for row in wanted[5]]
    assert (await reader.get_many(keys)).num_rows == len(wanted[5])
    assert (await reader.verify(deep=True)).ok, str(await reader.verify(deep=True))
    assert (await reader.schema()).buckets == after


async def test_only_the_oldest_of_runs_that_come_together_is_at_the_bottom() -> None:
    """Bottom runs of different ages, from different buckets, are one bottom run and one above it."""
    lake = process(await restored({}))
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key=["id"], bucket=2)
    fields = (await table.schema()).key_fields
    sides = [[n for n in range(20) if bucket_of((n,), fields, 2) == side] for side in (1, 0)]
    for side in sides:
        await table.append(some(*side))
    await table.compact(full=True)
    await table.rescale(1)
    levels = [one.level for one in sorted(await (await table._table.newest()).files(), key=interval)]
    assert levels == [Level.BOTTOM, Level.COMPACTED]
    report = await table.verify(deep=True)
    assert report.ok, str(report)


async def test_writes_and_compactions_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows written, deleted and compacted after it are where the new number of buckets puts them."""
    table = await made(await restored({}), bucket=3, **LAYOUTS["keyed"])
    before = await held(table)
    await table.rescale(5)
    await table.compact(full=True)
    assert await held(table) == before
    await table.upsert(some(20, 21, value=9))
    await table.delete("v = 1")
    await table.rescale(2)
    wanted = [row for row in before if row["v"] != 1 and row["id"] not in (20, 21)] + some(20, 21, value=9)
    assert await held(table) == sorted(wanted, key=lambda row: row["id"])
    report = await table.verify(deep=True)
    assert report.ok, str(report)
    await table.rollback(snapshot=5)
    assert await held(table) == before
    assert (await table.schema()).buckets == 3


async def test_rows_keep_the_snapshots_they_came_with() -> None:
    """Lineage survives: changes since an older snapshot are the same after compaction and rescaling."""
    table = await made(await restored({}), bucket=2, **LAYOUTS["plain"])
    await table.compact(full=True)

    async def since() -> list[Row]:
        return [row async for found in table.changes(3) for row in found.to_pylist()]

    before = sorted(await since(), key=repr)
    await table.rescale(3)
    assert sorted(await since(), key=repr) == before


async def test_an_append_only_table_changes_its_schema_alone() -> None:
    """Without a key nothing ties rows to a bucket, so no file is touched."""
    store = RecordingStore(await restored({}))
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, bucket=2)
    await table.append(some(1, 2, 3))
    store.clear()
    done = await table.rescale(4)
    assert (done.changed, done.files_in) == (True, 0)
    assert not [one for one in store.calls if "/data/" in one.key]
    await table.append(some(4))
    assert len(await held(table)) == 4


async def test_dry_run_progress_and_cost() -> None:
    """A dry run changes nothing; the real one tells how far it has got and what it cost."""
    store = RecordingStore(await restored({}))
    table = await made(store, bucket=2, **LAYOUTS["plain"])
    files, head = len((await table.files()).to_pylist()), await table.current_snapshot()
    would = await table.rescale(4, dry_run=True)
    assert (would.files_in, would.changed, await table.current_snapshot()) == (files, False, head)
    told: list[Progress] = []
    store.clear()
    done = await table.rescale(4, progress=told.append)
    assert (done.files_in, done.rows, done.bytes_in) == (would.files_in, would.rows, would.bytes_in)
    assert (told[-1].step, told[-1].done, told[-1].total) == ("split files", files, files)
    assert done.cost.by_kind() == store.kinds()
    # Its files, a schema and the snapshot; no file of this process is read again but from its cache.
    assert store.kinds()["put"] == done.files_out + 2
    assert "4 buckets" in str(done)


@pytest.mark.parametrize("wrong", [0, 10_001, "4", True])
async def test_wrong_numbers_are_refused(wrong: Any) -> None:
    """A number of buckets that no table can have is an error."""
    table = await made(await restored({}), **LAYOUTS["plain"])
    with pytest.raises(InvalidInputError, match="buckets"):
        await table.rescale(wrong)


# --- others, at the same time ---------------------------------------------------------

Act = Callable[[Table], Awaitable[object]]
THEIRS: dict[str, tuple[Act, Callable[[list[Row]], list[Row]]]] = {
    "upsert": (
        lambda table: table.upsert(some(20, 21, value=7)),
        lambda rows: [{**row, "v": 7} if row["id"] in (20, 21) else row for row in rows],
    ),
    "delete": (
        lambda table: table.delete("v = 0"),
        lambda rows: [row for row in rows if row["v"] != 0],
    ),
    "overwrite": (lambda table: table.overwrite(some(1)), lambda rows: some(1)),
    "compact": (lambda table: table.compact(full=True), lambda rows: rows),
    "rescale": (lambda table: table.rescale(7), lambda rows: rows),
    "add a column": (
        lambda table: table.add_column("c", "int"),
        lambda rows: [{**r, "c": None} for r in rows],
    ),
    "tag": (lambda table: table.create_tag("t"), lambda rows: rows),
}


@pytest.mark.parametrize("what", THEIRS)
async def test_others_commit_in_the_middle(what: str) -> None:
    """Whenever somebody commits while runs are split, both are there in the end."""
    act, on = THEIRS[what]
    number = 0
    while True:
        store = await restored({})
        before = await held(await made(store, bucket=2, **LAYOUTS["keyed"]))
        hooked = StepIn(store)
        mine, acted = await table_of(hooked), list[object]()
        await mine.current_snapshot()

        async def step(store: ObjectStore = store, acted: list[object] = acted) -> None:
            acted.append(await act(await table_of(store)))

        hooked.before(number, "", step)
        await mine.rescale(4)
        if not acted:
            break
        reader = await table_of(store)
        assert await held(reader) == on(before), number
        assert await numbers(reader) <= {4, 7}
        assert len(await numbers(reader)) == 1
        assert (await reader.verify(deep=True)).ok
        number += 7
    assert number > 10


@pytest.mark.parametrize("what", ["upsert", "delete", "overwrite", "rows once"])
@pytest.mark.parametrize("layout", ["keyed", "moving"])
async def test_a_write_that_finds_another_number_of_buckets(what: str, layout: str) -> None:
    """A write whose files are there when the table is rescaled splits them, and leaves nothing behind."""
    store = await restored({})
    before = await held(await made(store, bucket=2, **LAYOUTS[layout]))
    hooked = StepIn(store)
    mine = await table_of(hooked)
    await mine.current_snapshot()
    hooked.before(0, "/snapshot/", lambda: _rescaled(store), verb="put_if_absent")
    if what == "rows once":
        await mine.upsert(row for row in [pa.Table.from_pylist(some(20, 21, value=7), SCHEMA)])
        wanted = THEIRS["upsert"][1](before)
    else:
        await THEIRS[what][0](mine)
        wanted = THEIRS[what][1](before)
    reader = await table_of(store)
    assert await held(reader) == wanted
    assert await numbers(reader) == {5}
    assert (await reader.verify(deep=True)).ok
    await reader.expire_snapshots(retain=1, grace_s=0)
    live = {one["path"] for one in (await reader.files()).to_pylist()}
    there = {
        one.key.partition("/data/")[2]
        for one in [one async for one in store.list("db/")]
        if "/data/" in one.key
    }
    kept = {path.removeprefix("data/") for path in live}
    assert there == kept


async def _rescaled(store: ObjectStore) -> None:
    await (await table_of(store)).rescale(5)
