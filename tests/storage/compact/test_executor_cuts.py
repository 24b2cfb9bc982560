"""Compaction tasks cut by ranges of keys: nothing is lost at the borders, nothing is there twice."""

from __future__ import annotations

import dataclasses
import itertools
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.config import TableSettings
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.schema.types import KIND_FIELD, SEQUENCE_FIELD
from lakehouse.storage.compact.executor import MergedCommits, cut_task, merge_task, plan_table
from lakehouse.storage.compact.plan import CompactionTask
from lakehouse.storage.compact.run_merger import MergedRuns
from lakehouse.storage.files.reader import EVERY_KEY, KeyRange
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.metadata.run_order import interval
from lakehouse.storage.scan.scan import Scan
from lakehouse.storage.table import Table
from lakehouse.storage.tables.view import View
from tests.kit.memory_runs import live_rows
from tests.kit.run_histories import SCHEMA, History, histories
from tests.kit.worlds import NAME, process, restored

MB = 1 << 20


def between(cuts: list[bytes]) -> list[KeyRange]:
    """The ranges that some keys cut all keys into."""
    return list(itertools.pairwise([None, *sorted(set(cuts)), None]))


@settings(deadline=None)
@given(histories(), st.lists(st.integers(-1, 42), max_size=4), st.integers(1, 400))
async def test_scans_of_ranges_are_the_scan_of_all(history: History, cuts: list[int], memory: int) -> None:
    """Wherever the keys are cut, each row is in the scan of one range, and they come in order."""
    entries, runs, commits = history
    codec = RowKeyCodec(SCHEMA.key_fields)
    found: list[dict[str, Any]] = []
    for keys in between([codec.encode_one((cut,)) for cut in cuts]):
        bounds = TableSettings(scan_memory_bytes=memory, scan_concurrency=3)
        scan = Scan(entries, SCHEMA, runs, keys=keys, settings=bounds)
        rows = [row async for table in scan.tables() for row in table.to_pylist()]
        counted = Scan(entries, SCHEMA, runs, columns=(), keys=keys, settings=bounds)
        assert await counted.count() == len(rows)
        found += rows
    assert found == live_rows(SCHEMA, commits)


async def filled(engine: str, seed: int, **layout: Any) -> Table:
    """A table of runs with small row groups."""
    lake = process(await restored({}))
    await lake.create_database("db")
    schema = pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.int64(), "w": pa.int64()})
    options = {"parquet.row_group_rows": 128, "merge_engine": engine, "file.format.level0": "parquet"}
    layout = {"primary_key": ["id"], **layout}
    table = await lake.create_table(NAME, schema, options=options, **layout)
    drawn = random.Random(seed)
    for _ in range(6):
        some = drawn.sample(range(4000), 1200)
        rows = [
            {"id": one, "part": drawn.choice("ab"), "v": drawn.randrange(99), "w": drawn.choice([None, 1])}
            for one in some
        ]
        await table.upsert(rows)
        if engine != "first-row":
            gone = drawn.sample(range(4000), 300)
            await table.delete(
                keys=[
                    {"id": one, "part": "a"} if "part" in layout["primary_key"] else {"id": one}
                    for one in gone
                ]
            )
    return table


async def merged_rows(table: Table, view: View, merged: MergedRuns) -> list[dict[str, Any]]:
    """Rows of the output, with where they came from and what they do."""
    fields = (*view.schema.fields, SEQUENCE_FIELD)
    found: list[dict[str, Any]] = []
    for entry in merged.files.entries:
        reader = await table.core.open(entry, view.schema)
        rows = await reader.read(fields, kinds=True)
        if KIND_FIELD.name not in rows.column_names:
            rows = rows.append_column(KIND_FIELD.name, pa.array([0] * rows.num_rows))
        found += rows.to_pylist()
    return sorted(found, key=repr)


def newest_of(task: CompactionTask, runs: int) -> CompactionTask:
    """A task of some of the newest runs alone, which keeps what they delete."""
    kept = sorted({interval(one) for one in task.inputs})[-runs:]
    inputs = tuple(one for one in task.inputs if interval(one) in kept)
    return dataclasses.replace(task, inputs=inputs, bottom=False)


@pytest.mark.parametrize("newest", [None, 3])
@pytest.mark.parametrize(
    ("engine", "layout"),
    [
        ("deduplicate", {}),
        ("partial-update", {}),
        ("deduplicate", {"partition_by": ["part"]}),
        ("deduplicate", {"primary_key": ["part", "id"], "partition_by": ["part"]}),
    ],
)
async def test_the_parts_are_the_whole(engine: str, layout: dict[str, Any], newest: int | None) -> None:
    """Merged range by range, a task has the rows, kinds and origins that it has merged at once."""
    table = await filled(engine, seed=5, **layout)
    core, view = table.core, await table.core.newest()
    tasks = await plan_table(view, full=True)
    assert tasks
    if newest is not None:
        tasks = tuple(newest_of(task, newest) for task in tasks)
    for task in tasks:
        about: dict[str, Any] = {"schema": view.schema, "time_ms": view.snapshot.time_ms, "memory_bytes": MB}
        whole = await merge_task(core, task, **about)
        ranges = await cut_task(task, core, view.schema, task.size // 5)
        assert len(ranges) > 2
        parts = [await merge_task(core, task, keys=keys, **about) for keys in ranges]
        together = MergedRuns(task=task, files=UploadedFiles.joined(part.files for part in parts))
        assert await merged_rows(table, view, together) == await merged_rows(table, view, whole)
        assert {one.level for one in together.files.entries} == {one.level for one in whole.files.entries}
        assert await MergedCommits(core, view).commit([together]) == (together,)
    assert (await table.verify(deep=True)).ok


async def test_small_tasks_are_left_whole() -> None:
    """A task below its share is not cut, and nothing is read to find that out."""
    table = await filled("deduplicate", seed=1)
    view = await table.core.newest()
    [task] = await plan_table(view, full=True)

    class Closed:
        settings = TableSettings()
        """Bounds on reads."""

        async def open(self, entry: object, schema: object) -> Any:
            raise AssertionError("opened")

    assert await cut_task(task, Closed(), view.schema, task.size) == [EVERY_KEY]
