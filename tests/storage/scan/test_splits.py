"""Splits of a scan: every row in exactly one of them, with all that may hide it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from unittest import mock

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import lakehouse
from lakehouse.expr import parse_where
from lakehouse.format.metadata.file_entry import FileEntry
from lakehouse.storage.files.reader import EVERY_KEY, EVERY_ROW, Piece
from lakehouse.storage.scan import splits
from lakehouse.storage.scan.file_plan import PlannedFile, PlannedUnit
from lakehouse.storage.scan.scan import Scan
from lakehouse.storage.scan.splits import Split, files_to_open, opened_splits, plan_splits, planned_bytes
from lakehouse.storage.scan.work_ranges import OPENED_MAX
from lakehouse.storage.tables.open_tables import OpenTable

_SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("amount", pa.int64())])


def file(
    path: str, low: str | None, high: str | None, *, size: int = 10, rows: int = 1_000_000
) -> PlannedFile:
    """A file with keys between two letters."""
    entry = FileEntry(
        path=path,
        size=size,
        rows=rows,
        min_key=None if low is None else low.encode(),
        max_key=None if high is None else high.encode(),
    )
    return PlannedFile(entry=entry, age=0)


def unit(*files: PlannedFile) -> PlannedUnit:
    """A merge unit."""
    return PlannedUnit(unit=((), 0), files=files)


def piece(first: bytes | None = None, *, row: int = 0, size: int = 10) -> Piece:
    """A piece of a file."""
    return Piece(rows=1, first_row=row, size=size, min_key=first)


def paths(found: Sequence[Split]) -> list[list[str]]:
    """Which files each split has."""
    return [[entry.path for entry in one.entries] for one in found]


def test_runs_that_overlap_stay_together() -> None:
    """Files that share keys are in one split, and others begin a new one where it would be too large."""
    files = [file("a", "a", "f"), file("b", "c", "d"), file("c", "f", "g"), file("d", "h", "k")]
    assert paths(plan_splits([unit(*files)], 30)) == [["a", "b", "c"], ["d"]]


def test_small_files_are_put_together_across_merge_units() -> None:
    """A split has as many files as fit."""
    units = [unit(file(name, "a", "z")) for name in "abcde"]
    assert paths(plan_splits(units, 20)) == [["a", "b"], ["c", "d"], ["e"]]


def test_splits_are_about_equal() -> None:
    """Files that do not quite fit leave no small split over, which would hold up a core."""
    sizes = {"a": 13, "b": 12, "c": 12, "d": 11}
    units = [unit(file(name, "a", "z", size=size)) for name, size in sizes.items()]
    assert paths(plan_splits(units, 24)) == [["a", "b"], ["c", "d"]]


def test_a_large_file_alone_is_cut_by_rows() -> None:
    """Its ranges of rows follow each other from the first row to the last."""
    found = plan_splits([unit(file("a", "a", "z", size=40, rows=100_000))], 10)
    assert [one.rows for one in found] == [
        (0, 25_000),
        (25_000, 50_000),
        (50_000, 75_000),
        (75_000, EVERY_ROW[1]),
    ]
    assert {one.keys for one in found} == {EVERY_KEY}


def test_files_without_keys_are_cut_by_rows() -> None:
    """So are the files of a table that has no key."""
    found = plan_splits([unit(file("a", None, None, size=20), file("b", None, None, size=5))], 10)
    assert paths(found) == [["a"], ["a"], ["b"]]


def test_few_rows_are_not_cut() -> None:
    """A cut leaves at least what a piece of a file has."""
    [split] = plan_splits([unit(file("a", None, None, size=1000, rows=5_000))], 10)
    assert split.rows == EVERY_ROW


def test_large_files_that_overlap_are_cut_by_keys() -> None:
    """Without their pieces, where a file begins; a split has only files with keys in its range."""
    files = [file("new", "a", "z"), file("a", "a", "f"), file("b", "g", "m"), file("c", "n", "z")]
    found = plan_splits([unit(*files)], 20)
    assert [one.keys for one in found] == [(None, b"g"), (b"g", None)]
    assert paths(found) == [["new", "a"], ["new", "b", "c"]]


def test_pieces_tell_where_to_cut() -> None:
    """Two files over all keys are cut where a piece begins."""
    files = [file("a", "a", "z", size=20), file("b", "a", "z", size=20)]
    assert [entry.path for entry in files_to_open([unit(*files)], 20)] == ["a", "b"]
    pieces = [piece(b"a"), piece(b"m")]
    found = plan_splits([unit(*files)], 20, pieces={"a": pieces, "b": pieces})
    assert [one.keys for one in found] == [(None, b"m"), (b"m", None)]
    assert paths(found) == [["a", "b"], ["a", "b"]]


def test_pieces_that_a_condition_leaves_are_what_counts() -> None:
    """A file of which none is left is in no split, one of which little is left is small."""
    files = [file(name, name, name, size=1000) for name in "abc"]
    pieces = {"a": [], "b": [piece(row=600_000)], "c": [piece(row=0), piece(row=900_000)]}
    assert planned_bytes([unit(*files)], pieces) == 30
    assert paths(plan_splits([unit(*files)], 40, pieces=pieces)) == [["b", "c"]]
    cut = plan_splits([unit(*files)], 10, pieces=pieces)
    assert paths(cut) == [["b"], ["c"], ["c"]]
    assert [one.rows for one in cut] == [EVERY_ROW, (0, 900_000), (900_000, EVERY_ROW[1])]


def test_what_is_small_or_alone_is_not_opened() -> None:
    """Only groups that have to be cut by keys cost requests."""
    assert files_to_open([unit(file("a", "a", "b")), unit(file("b", "a", "c", size=1000))], 20) == []


def test_no_files_make_no_splits() -> None:
    """An empty table has nothing to read."""
    assert plan_splits([], 10) == []


async def _scanned(
    core: OpenTable, where: str | None, split_bytes: int | None, *, opens: bool = False
) -> list[dict[str, object]]:
    view = await core.newest()
    scan = functools.partial(
        Scan, schema=view.schema, source=core, where=None if where is None else parse_where(where)
    )
    whole = scan(await view.entries())
    if split_bytes is None:
        scans = [whole]
    else:
        pieces = await whole.pieces(OPENED_MAX if opens else 0)
        cut = await opened_splits(whole.files.units, split_bytes, core, view.schema, pieces=pieces)
        scans = [scan(one.entries, keys=one.keys, rows=one.rows) for one in cut]
    found: list[dict[str, object]] = []
    for one in scans:
        async for table in one.tables():
            found += table.to_pylist()
    return sorted(found, key=repr)


@settings(max_examples=25, deadline=None)
@given(
    writes=st.lists(
        st.tuples(
            st.sampled_from(["upsert", "delete"]), st.integers(0, 600), st.integers(1, 3), st.integers(1, 500)
        ),
        max_size=5,
    ),
    engine=st.sampled_from(["deduplicate", "partial-update", "append"]),
    buckets=st.sampled_from([1, 2]),
    where=st.sampled_from([None, "amount > 1500", "id < 300", "part = 'p1'"]),
    split_bytes=st.sampled_from([1, 2000, 8000, 10**9]),
    group=st.sampled_from([128, 1024]),
)
async def test_splits_have_the_rows_of_the_scan(
    writes: list[tuple[str, int, int, int]],
    engine: str,
    buckets: int,
    where: str | None,
    split_bytes: int,
    group: int,
) -> None:
    """Whatever was written and asked for, the splits together have each row of the whole scan once."""
    options = {"compaction.auto": "off", "parquet.row_group_rows": str(group)}
    keyed = {"primary_key": ["id"], "bucket": buckets, "options": {**options, "merge_engine": engine}}
    async with lakehouse.connect("memory://splits") as lake:
        await lake.create_database("db", if_not_exists=True)
        await lake.drop_table("db.t", if_exists=True)
        how = {"options": options} if engine == "append" else keyed
        table = await lake.create_table("db.t", _SCHEMA, **how)
        for number, (what, first, step, count) in enumerate(writes):
            ids = range(first, first + step * count, step)
            rows = [{"id": one, "part": f"p{one % 2}", "amount": number * 1000 + one} for one in ids]
            if engine == "append":
                await table.append(rows)
            elif what == "upsert" or engine != "deduplicate":
                await table.upsert(rows)
            else:
                await table.delete(keys=[{"id": one} for one in ids])
        with mock.patch.object(splits, "_ROWS_MIN", 128):
            whole = await _scanned(table.core, where, None)
            for opens in (False, True):
                assert await _scanned(table.core, where, split_bytes, opens=opens) == whole
