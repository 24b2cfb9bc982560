"""Merges of runs: where the output stands, what it holds, and what is left when it fails."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import UnavailableError
from lakehouse.format.keys import RowKeyCodec
from lakehouse.format.metadata import KIND_COLUMN, SEQUENCE_COLUMN, FileEntry, Level, RowKind
from lakehouse.format.schema.types import SEQUENCE_FIELD
from lakehouse.io import ObjectStore
from lakehouse.storage.compact.executor import MergedCommits, merge_task, plan_table
from lakehouse.storage.compact.plan import CompactionReason, CompactionTask
from lakehouse.storage.compact.run_merger import MergedRuns, merge_runs
from lakehouse.storage.metadata.run_order import interval
from lakehouse.storage.table import Table
from lakehouse.testing import Fault, FaultKind, FaultyStore
from tests.kit.sstable_samples import SCHEMA as ROWS_SCHEMA
from tests.kit.sstable_samples import rows_of
from tests.kit.stored_runs import ROOT, StoredRuns
from tests.kit.worlds import NAME, process, restored, saved

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.int64()})
_MIB = 1024 * 1024


# --- one merge ------------------------------------------------------------------------


async def written() -> StoredRuns:
    """Three commits: rows 0, 2, … 198, then the first five of them again, then 2 and 4 deleted."""
    runs = StoredRuns(ROWS_SCHEMA)
    await runs.add(rows_of(100))
    await runs.add(rows_of(5))
    await runs.add(pa.table({"id": pa.array([2, 4], pa.int64())}), deletes=True)
    return runs


async def merged(runs: StoredRuns, first: int = 0, **how: Any) -> MergedRuns:
    """The runs from a commit on as one."""
    inputs = tuple(runs.entries[first:])
    task = CompactionTask(unit=((), 0), inputs=inputs, bottom=first == 0, reason=CompactionReason.FULL)
    return await merge_runs(
        runs.store, ROOT, ROWS_SCHEMA, runs.options, task, runs, **{"memory_bytes": _MIB, **how}
    )


async def rows_in(runs: StoredRuns, entry: FileEntry) -> pa.Table:
    """The rows of a file, with their snapshots and kinds."""
    reader = await runs.open(entry)
    return await reader.read([ROWS_SCHEMA.field("id"), SEQUENCE_FIELD], kinds=True)


async def test_the_output_stands_where_its_inputs_stood() -> None:
    """It has the hull of their positions; with the oldest run it is at the bottom, else above it."""
    runs = await written()
    (whole,) = (await merged(runs)).files.entries
    (upper,) = (await merged(runs, first=1)).files.entries
    assert (whole.lo, whole.hi, whole.level) == ((1, 1, 0), (3, 1, 0), Level.BOTTOM)
    assert (upper.lo, upper.hi, upper.level) == ((2, 1, 0), (3, 1, 0), Level.COMPACTED)


async def test_each_row_keeps_the_snapshot_it_came_with() -> None:
    """The newest row of each key is there, with the number of its commit."""
    runs = await written()
    (entry,) = (await merged(runs)).files.entries
    found = await rows_in(runs, entry)
    assert found.column("id").to_pylist() == [0, 6, 8, *range(10, 200, 2)]
    assert found.column(SEQUENCE_COLUMN).to_pylist() == [2, 2, 2, *[1] * 95]


async def test_deleted_keys_stay_above_older_runs() -> None:
    """Rows that delete are dropped with the oldest run alone; else older rows would come back."""
    runs = await written()
    (entry,) = (await merged(runs, first=1)).files.entries
    found = await rows_in(runs, entry)
    assert found.column("id").to_pylist() == [0, 2, 4, 6, 8]
    assert [RowKind(kind).name for kind in found.column(KIND_COLUMN).to_pylist()] == [
        "INSERT",
        "DELETE",
        "DELETE",
        "INSERT",
        "INSERT",
    ]
    assert (entry.rows, entry.deletes) == (5, 2)


async def test_nothing_is_written_when_every_key_is_deleted() -> None:
    """A merge whose rows are all deleted has no file."""
    runs = StoredRuns(ROWS_SCHEMA)
    await runs.add(rows_of(2))
    await runs.add(pa.table({"id": pa.array([0, 2], pa.int64())}), deletes=True)
    done = await merged(runs)
    assert (done.files.entries, runs.store.kinds().get("put")) == ((), None)


async def test_a_range_of_keys_is_merged_alone() -> None:
    """Calls for neighbouring ranges have each row once."""
    runs = await written()
    codec = RowKeyCodec(ROWS_SCHEMA.key_fields)
    cut = codec.encode_one((50,))
    found = []
    for keys in ((None, cut), (cut, None)):
        (entry,) = (await merged(runs, keys=keys)).files.entries
        found.append((await rows_in(runs, entry)).column("id").to_pylist())
    assert found == [[0, 6, 8, *range(10, 50, 2)], list(range(50, 200, 2))]


async def test_progress_is_the_number_of_rows_read() -> None:
    """Whoever watches is told ever larger numbers, and in the end that of all rows."""
    runs, seen = await written(), list[int]()
    await merged(runs, watch=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == sum(entry.rows for entry in runs.entries) == 107


# --- passes ---------------------------------------------------------------------------


async def _filled(store: ObjectStore, runs: int, options: dict[str, object], **layout: Any) -> Table:
    """A table of some small runs of random rows and deletions."""
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key="id", options=options, **layout)
    drawn = random.Random(runs)
    for number in range(runs):
        ids = drawn.sample(range(400), 40)
        rows = [{"id": one, "part": drawn.choice("ab"), "v": drawn.randrange(9) + number} for one in ids]
        await table.append(rows)
        if number % 5 == 4:
            await table.delete(keys=[{"id": drawn.randrange(400)} for _ in range(9)])
    return table


async def _compacted(store: ObjectStore, memory_bytes: int) -> tuple[list[Any], list[Any], set[str]]:
    """Rows with where they come from, what entries say, and all data files, after a compaction."""
    table = await process(store).table(NAME)
    core = table._table
    view = await core.newest()
    (task,) = await plan_table(view, full=True)
    merged = await merge_task(
        core, task, schema=view.schema, time_ms=view.snapshot.time_ms, memory_bytes=memory_bytes
    )
    assert merged.task == task
    assert await MergedCommits(core, view).commit([merged]) == (merged,)
    view = await core.newest()
    rows: list[Any] = []
    for one in sorted(await view.files(), key=lambda one: one.min_key or b""):
        reader = await core.open(one, view.schema)
        rows += (await reader.read([*view.schema.fields, SEQUENCE_FIELD])).to_pylist()
    said = [(one.level, one.deletes, one.updates, interval(one)) for one in merged.files.entries]
    return sorted(rows, key=lambda one: one["id"]), said, {one.key async for one in store.list("db/")}


_LAYOUTS: dict[str, tuple[dict[str, object], dict[str, Any]]] = {
    "deduplicate": ({}, {}),
    "sst": ({"file.format": "sst"}, {}),
    "partial update": ({"merge-engine": "partial-update"}, {}),
    "rows move between partitions": ({}, {"partition_by": ["part"]}),
}


@pytest.mark.parametrize("layout", ["deduplicate", "sst", "rows move between partitions"])
async def test_passes_leave_what_one_merge_leaves(layout: str) -> None:
    """Rows, where each comes from, levels and intervals are the same; files between passes are gone."""
    options, given = _LAYOUTS[layout]
    world_store = await restored({})
    await _filled(world_store, 20, options, **given)
    world = await saved(world_store)
    at_once, in_passes = await restored(world), await restored(world)
    rows, said, files = await _compacted(at_once, 64 * _MIB)
    found, told, left = await _compacted(in_passes, 2_000)
    assert found == rows
    assert len({one[SEQUENCE_COLUMN] for one in rows}) > 10
    assert set(told) == set(said) == {(Level.BOTTOM, 0, 0, said[0][-1])}
    made = [one for one in left if "/data/" in one and one not in world]
    assert len(made) == len(told)
    assert len([one for one in files if "/data/" in one and one not in world]) == len(said)


async def test_a_merge_that_fails_between_passes_leaves_no_file() -> None:
    """Whichever upload fails, of whatever pass, every file that was made is deleted."""
    store = await restored({})
    await _filled(store, 12, {})
    world = await saved(store)
    for number in itertools.count():
        tried = await restored(world)
        faulty = FaultyStore(tried)
        table = await process(faulty).table(NAME)
        view = await table._table.newest()
        (task,) = await plan_table(view, full=True)
        # Every attempt at it fails, so that the merge does.
        first = faulty.operations + 3 * number
        faulty.planned = [
            Fault(kind=FaultKind.THROTTLE, at=first + one, verb="put", key="/data/") for one in range(40)
        ]
        try:
            await merge_task(
                table._table, task, schema=view.schema, time_ms=view.snapshot.time_ms, memory_bytes=2_000
            )
        except UnavailableError:
            assert {one.key async for one in tried.list("")} == set(world)
        else:
            break
    assert number > 10
