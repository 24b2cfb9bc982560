"""Plans of compactions: Paimon's picks, over neighbours alone, and an end to planning."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.format.metadata.file_entry import FileEntry, Level, Position
from lakehouse.format.schema.table_options import TableOptions
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import Field, Primitive
from lakehouse.storage.compact.plan import (
    CompactionReason,
    CompactionTask,
    most_runs,
    pick_runs,
    plan_compaction,
)
from lakehouse.storage.metadata.run_order import hull, interval

KEYED = TableSchema(
    fields=(Field(id=1, name="id", type=Primitive("int64"), required=True),),
    primary_key=("id",),
    buckets=2,
    highest_field_id=1,
)
APPENDED = dataclasses.replace(KEYED, primary_key=())
DEFAULTS = TableOptions()


def entry(
    at: int, size: int, *, bucket: int = 0, lo: Position | None = None, level: Level = Level.FRESH
) -> FileEntry:
    """A file of a run that a commit added."""
    own = (at, 1, 0)
    return FileEntry(
        path=f"{bucket}-{lo}-{at}-{size}",
        bucket=bucket,
        total_buckets=KEYED.buckets,
        at=at,
        lo=lo or own,
        hi=own,
        level=level,
        size=size,
        rows=size,
        min_key=b"a",
        max_key=b"b",
    )


def history(sizes: Sequence[int], *, bucket: int = 0) -> list[FileEntry]:
    """Runs of these sizes, the oldest first."""
    return [entry(at, size, bucket=bucket) for at, size in enumerate(sizes, start=2)]


# --- picks ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "picked"),
    [
        ([100, 100, 100, 100], None),
        ([100, 100, 100, 100, 100], (5, CompactionReason.SIZE_AMPLIFICATION)),
        ([500, 100, 100, 100, 100], (4, CompactionReason.SIZE_RATIO)),
        ([1000, 500, 200, 90, 40], None),
        ([5000, 1000, 500, 200, 90, 40], (2, CompactionReason.RUN_COUNT)),
        ([5000, 1000, 500, 120, 90, 40], (3, CompactionReason.RUN_COUNT)),
        ([9000, 2000, 1000, 500, 200, 90, 40], (3, CompactionReason.RUN_COUNT)),
        ([1000, 199, 100, 50, 25, 25], (5, CompactionReason.SIZE_RATIO)),
        ([2000, 204, 101, 40, 20, 20], (3, CompactionReason.SIZE_RATIO)),
    ],
)
def test_picks_by_example(sizes: list[int], picked: tuple[int, CompactionReason] | None) -> None:
    """Amplification above 200 %, then runs of one size (1 % aside), then what is above the trigger."""
    assert pick_runs(sizes, DEFAULTS) == picked


def test_runs_that_differ_by_the_ratio_are_of_one_size() -> None:
    """The next older run may be larger than all newer ones together by compaction.size_ratio_percent."""
    assert pick_runs([10_000, 5000, 1000, 101, 100], DEFAULTS) == (2, CompactionReason.SIZE_RATIO)
    assert pick_runs([10_000, 5000, 1000, 102, 100], DEFAULTS) is None
    loose = dataclasses.replace(DEFAULTS, compaction_size_ratio_percent=2)
    assert pick_runs([10_000, 5000, 1000, 102, 100], loose) == (2, CompactionReason.SIZE_RATIO)


def test_amplification_is_measured_against_the_oldest_run() -> None:
    """The newer runs together may have compaction.max_size_amplification_percent of its size."""
    assert pick_runs([100, 160, 30, 8, 2], DEFAULTS) is None
    assert pick_runs([100, 160, 30, 8, 3], DEFAULTS) == (5, CompactionReason.SIZE_AMPLIFICATION)
    loose = dataclasses.replace(DEFAULTS, compaction_max_size_amplification_percent=201)
    assert pick_runs([100, 160, 30, 8, 3], loose) is None


def test_nothing_is_picked_below_the_trigger() -> None:
    """A table with few runs is left alone, and compaction.trigger says how many are few."""
    assert pick_runs([1, 2, 1], DEFAULTS) is None
    eager = dataclasses.replace(DEFAULTS, compaction_trigger=3)
    assert pick_runs([1, 2, 1], eager) == (3, CompactionReason.SIZE_AMPLIFICATION)


# --- plans ----------------------------------------------------------------------------


def test_each_merge_unit_is_planned_for_itself() -> None:
    """A bucket with many runs is compacted, one with few is not."""
    files = history([100] * 5, bucket=0) + history([100] * 4, bucket=1)
    (task,) = plan_compaction(files, KEYED, DEFAULTS)
    assert (task.unit, task.runs, task.rows, task.bottom) == (((), 0), 5, 500, True)
    assert most_runs(files, KEYED) == 5


def test_deleted_keys_stay_above_older_runs() -> None:
    """A task without the oldest run does not say that nothing is below it."""
    (task,) = plan_compaction(history([500, 100, 100, 100, 100]), KEYED, DEFAULTS)
    assert (task.runs, task.bottom) == (4, False)
    assert task.interval == ((3, 1, 0), (6, 1, 0))


def test_a_covered_segment_is_a_barrier() -> None:
    """Runs on both sides of a segment that is in no file are not merged; above one nothing is the bottom."""
    files = history([100] * 6)
    segment = ((5, 0, 7), (5, 0, 9))
    tasks = plan_compaction(files, KEYED, DEFAULTS, covered=[segment], full=True)
    assert sorted((task.interval, task.bottom) for task in tasks) == [
        (((2, 1, 0), (4, 1, 0)), True),
        (((5, 1, 0), (7, 1, 0)), False),
    ]
    (task,) = plan_compaction(files, KEYED, DEFAULTS, covered=[((1, 0, 1), (1, 0, 1))], full=True)
    assert not task.bottom


def test_a_full_plan_leaves_one_bottom_run_alone() -> None:
    """What a full compaction made is not compacted again; a single run of a commit is."""
    assert plan_compaction([entry(2, 100, level=Level.BOTTOM)], KEYED, DEFAULTS, full=True) == ()
    (task,) = plan_compaction([entry(2, 100)], KEYED, DEFAULTS, full=True)
    assert (task.runs, task.bottom, task.reason) == (1, True, CompactionReason.FULL)


def test_all_files_of_a_run_are_merged_together() -> None:
    """A run of several files is one input, not several."""
    files = history([100] * 4)
    two = [dataclasses.replace(one, path=f"{one.path}-{n}") for one in files for n in range(2)]
    assert plan_compaction(two, KEYED, DEFAULTS) == ()
    (task,) = plan_compaction(two, KEYED, DEFAULTS, full=True)
    assert (task.runs, len(task.inputs)) == (4, 8)


def test_nothing_is_merged_while_buckets_change() -> None:
    """Files of several bucket counts may share keys across merge units."""
    files = history([100] * 5)
    files[0] = dataclasses.replace(files[0], total_buckets=1)
    assert plan_compaction(files, KEYED, DEFAULTS, full=True) == ()


def test_small_files_of_an_append_only_table_are_put_together() -> None:
    """Neighbours up to the target size; large ones stay, and part small ones from each other."""
    options = dataclasses.replace(DEFAULTS, file_target_bytes=1000)
    files = history([100, 100, 900, 100, 100, 100, 100, 100])
    (task,) = plan_compaction(files, APPENDED, options)
    assert [one.at for one in task.inputs] == [5, 6, 7, 8, 9]
    assert task.reason is CompactionReason.SMALL_FILES
    tasks = plan_compaction(files, APPENDED, options, full=True)
    assert sorted(tuple(one.at for one in task.inputs) for task in tasks) == [(2, 3), (5, 6, 7, 8, 9)]


def test_only_asked_units_and_partitions_are_looked_at() -> None:
    """A plan can be limited to merge units."""
    files = history([100] * 5, bucket=0) + history([100] * 5, bucket=1)
    (task,) = plan_compaction(files, KEYED, DEFAULTS, units=[((), 1)])
    assert task.unit == ((), 1)
    assert plan_compaction(files, KEYED, DEFAULTS, holds=lambda _: False, full=True) == ()


# --- properties -----------------------------------------------------------------------

many = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 10_000)), max_size=20)
covers = st.lists(st.integers(2, 22), max_size=3, unique=True)


def drawn(runs: list[tuple[int, int]]) -> list[FileEntry]:
    """A file of each commit."""
    return [entry(at, size, bucket=bucket) for at, (bucket, size) in enumerate(runs, start=2)]


def replaced(files: list[FileEntry], task: CompactionTask, number: int) -> list[FileEntry]:
    """The files after a task was done."""
    lo, hi = task.interval
    output = dataclasses.replace(
        task.inputs[0],
        path=f"out-{number}",
        lo=lo,
        hi=hi,
        size=task.size,
        rows=task.rows,
        level=Level.BOTTOM if task.bottom else Level.COMPACTED,
    )
    return [one for one in files if one not in task.inputs] + [output]


@given(many, covers, st.booleans(), st.sampled_from([KEYED, APPENDED]))
def test_tasks_are_of_neighbours_and_disjoint(
    runs: list[tuple[int, int]], covers: list[int], full: bool, schema: TableSchema
) -> None:
    """No other run and no segment stands within the hull of a task; a file is in one task at most."""
    files = drawn(runs)
    covered = sorted(((at, 0, at), (at, 0, at)) for at in covers)
    tasks = plan_compaction(files, schema, DEFAULTS, covered=covered, full=full)
    inputs = [one.path for task in tasks for one in task.inputs]
    assert len(set(inputs)) == len(inputs)
    for task in tasks:
        lo, hi = task.interval
        bucket = task.unit[1] if schema is KEYED else None
        mates = [one for one in files if bucket in (None, one.bucket)]
        within = [one for one in mates if interval(one)[0] <= hi and interval(one)[1] >= lo]
        assert sorted(one.path for one in within) == sorted(one.path for one in task.inputs)
        assert not [low for low, high in covered if low <= hi and high >= lo]
        is_oldest = lo == min(hull([one])[0] for one in mates) and not any(high < lo for _, high in covered)
        assert task.bottom == (is_oldest and schema is KEYED)


@given(many, covers, st.booleans(), st.sampled_from([KEYED, APPENDED]))
def test_planning_comes_to_an_end(
    runs: list[tuple[int, int]], covers: list[int], full: bool, schema: TableSchema
) -> None:
    """When every plan is carried out, there soon is nothing to do; no run is lost on the way."""
    files, covered = drawn(runs), sorted(((at, 0, at), (at, 0, at)) for at in covers)
    rows = sum(one.rows for one in files)
    for turn in itertools.count():
        tasks = plan_compaction(files, schema, DEFAULTS, covered=covered, full=full)
        if not tasks:
            break
        for number, task in enumerate(tasks):
            files = replaced(files, task, turn * 100 + number)
        assert turn <= 20
    assert sum(one.rows for one in files) == rows
    if full and not covered and schema is KEYED:
        assert len(files) == len({bucket for bucket, _ in runs})
        assert all(one.level is Level.BOTTOM for one in files)


def test_plans_travel() -> None:
    """A task is a value: pickled and unpickled it is the same."""
    tasks = plan_compaction(history([100] * 5), KEYED, DEFAULTS)
    assert pickle.loads(pickle.dumps(tasks)) == tasks
