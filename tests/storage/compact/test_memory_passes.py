"""Merging many runs in passes: memory holds few pieces at once, and nothing else is different for it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config import Settings
from lakehouse.format.metadata.file_entry import FileEntry, FileFormat
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.storage.compact.memory_passes import MergePass, PassPlanner, runs_in_order
from lakehouse.storage.metadata.run_order import hull
from tests.kit.memory_pools import counted_pool
from tests.kit.worlds import NAME, restored

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.int64()})
_MIB = 1024 * 1024


def entry(
    at: int,
    rows: int,
    *,
    keys: tuple[bytes, bytes] = (b"a", b"z"),
    file_format: FileFormat = FileFormat.PARQUET,
) -> FileEntry:
    """A file of a run that a commit added."""
    own = (at, 1, 0)
    low, high = keys
    return FileEntry(
        path=f"{at}-{low!r}",
        bucket=0,
        total_buckets=1,
        at=at,
        lo=own,
        hi=own,
        format=file_format,
        size=rows * 10,
        rows=rows,
        min_key=low,
        max_key=high,
    )


def planner(memory: int, **given: Any) -> PassPlanner:
    """Of rows of one byte, a hundred to a piece."""
    return PassPlanner(**{"memory_bytes": memory, "row_bytes": 1.0, "piece_rows": 100, **given})


# --- the plan -------------------------------------------------------------------------


def test_few_runs_are_merged_at_once() -> None:
    """Where a piece of each run fits, nothing is merged beforehand, however large the runs are."""
    assert planner(5_000).next_pass([entry(at, 10**9) for at in range(10)]) is None


def test_runs_that_share_no_key_are_merged_at_once() -> None:
    """What counts is how many files have rows about one key."""
    apart = [entry(at, 10**9, keys=(b"%04d-a" % at, b"%04d-z" % at)) for at in range(1000)]
    assert planner(500).next_pass(apart) is None
    assert planner(500).next_pass([*apart, *(entry(at, 100) for at in range(1000, 1002))]) is not None


def test_a_small_whole_is_merged_at_once() -> None:
    """Runs that together take a part of the memory need no passes, though each is a piece."""
    assert planner(1_000).next_pass([entry(at, 4) for at in range(100)]) is None
    assert planner(1_000).next_pass([entry(at, 5) for at in range(100)]) is not None


def test_a_piece_of_an_sstable_is_a_megabyte_of_its_file() -> None:
    """Of an SSTable the rows of about a megabyte are held, whatever a Parquet file's pieces are."""
    one = entry(1, 10**7, file_format=FileFormat.SSTABLE)
    assert planner(1).held([one]) == pytest.approx(_MIB / 10, rel=0.01)


def test_old_large_runs_are_not_written_twice() -> None:
    """Of one large old run and many young ones the young are merged beforehand."""
    runs = [entry(1, 10**9), *(entry(at, 90) for at in range(2, 40))]
    todo = planner(2_000).next_pass(runs)
    assert todo is not None
    assert runs[0].path not in {one.path for one in itertools.chain(*todo.groups)}


def test_made_files_have_pieces_that_fit_together() -> None:
    """A piece of each file that a pass makes fit into what the pieces of one merge may take."""
    runs, memory = [entry(at, 1_000_000) for at in range(200)], 500_000
    large = planner(memory, piece_rows=10_000)
    todo = large.next_pass(runs)
    assert todo is not None
    assert todo.piece_rows < 10_000
    made = runs[: len(todo.groups)]
    known = large.knowing([one.path for one in made], todo.piece_rows)
    assert known.held(made) == len(made) * todo.piece_rows <= memory / 5
    assert known.next_pass(made) is None


@st.composite
def many_runs(draw: st.DrawFn) -> list[FileEntry]:
    """Runs of all sizes, each of one file or of two, in any order."""
    found = []
    for at in range(draw(st.integers(1, 30))):
        rows = draw(st.sampled_from([1, 50, 100, 5_000]))
        low, high = sorted(draw(st.tuples(*[st.binary(min_size=1, max_size=1)] * 2)))
        found.append(entry(at, rows, keys=(low, high)))
        if draw(st.booleans()):
            found.append(entry(at, rows, keys=(high + b"1", high + b"2")))
    return draw(st.permutations(found))


@given(files=many_runs(), memory=st.integers(1, 3_000))
def test_passes_merge_neighbours_and_come_to_an_end(files: list[FileEntry], memory: int) -> None:
    """Every group is two neighbouring runs or more, whole; groups ascend; runs get fewer until all fits."""
    given_runs = len(runs_in_order(files))
    made = planner(memory)
    for turn in itertools.count():
        todo = made.next_pass(files)
        if todo is None:
            break
        before = runs_in_order(files)
        files, made = _after(files, todo, before, made, turn)
        assert len(runs_in_order(files)) < len(before)
    assert turn < given_runs
    assert made.fits(files) or len(runs_in_order(files)) <= 3


def _after(
    files: Sequence[FileEntry],
    todo: MergePass,
    before: Sequence[Sequence[FileEntry]],
    made: PassPlanner,
    turn: int,
) -> tuple[list[FileEntry], PassPlanner]:
    """What there is when a pass is done; its groups are looked at."""
    places = {one.path: place for place, run in enumerate(before) for one in run}
    left, fresh = list(files), []
    last = -1
    for number, group in enumerate(todo.groups):
        runs = sorted({places[one.path] for one in group})
        assert runs == list(range(runs[0], runs[-1] + 1))
        assert runs[0] > last
        assert len(runs) > 1
        assert {one.path for one in group} == {one.path for at in runs for one in before[at]}
        last = runs[-1]
        left = [one for one in left if one not in group]
        lo, hi = hull(group)
        fresh.append(
            dataclasses.replace(
                group[0],
                path=f"made-{turn}-{number}",
                lo=lo,
                hi=hi,
                rows=sum(one.rows for one in group),
                min_key=min(one.min_key or b"" for one in group),
                max_key=max(one.max_key or b"" for one in group),
            )
        )
    return [*left, *fresh], made.knowing([one.path for one in fresh], todo.piece_rows)


# --- the merge ------------------------------------------------------------------------


@pytest.mark.timeout(120)
async def test_memory_is_bounded_however_many_runs_overlap() -> None:
    """Of fifty runs that are one piece each, six times the setting, no more is held than 1.5 times that."""
    bound, each, runs = 6 * _MIB, 8_000, 50
    store = await restored({})
    settings = Settings.resolve({"table.compaction_memory_bytes": bound, "cache.max_bytes": 0})
    lake = Lake(stacked(store), settings=settings)
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key="id")
    values = np.random.default_rng(1)
    texts = [f"{number:0100}" for number in range(each)]
    for number in range(runs):
        ids = np.arange(number, each * runs, runs)
        await table.append(pa.table({"id": ids, "part": texts, "v": values.integers(0, 1 << 60, each)}))
    with counted_pool() as pool:
        done = await table.compact(full=True)
        peak = pool.max_memory()
    assert (done.rows_in, done.rows_out, done.units) == (each * runs, each * runs, 1)
    assert done.rows_in * (8 + 104 + 8) > 6 * bound
    assert 0 < peak < 1.5 * bound, peak / bound
