"""Scans and lookups of tables whose merge engine folds rows, against the plain model.

Histories hold runs as commits left them and as adjacent compactions folded them, pieces of a few rows,
and conditions that statistics judge file by file and piece by piece.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import anyio
import pyarrow as pa
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from lakehouse.config import TableSettings
from lakehouse.expr import Expr, col
from lakehouse.expr.bounds import Verdict
from lakehouse.format.metadata.file_entry import KIND_COLUMN, FileEntry, Position, RowKind
from lakehouse.format.schema import TableSchema
from lakehouse.format.schema.types import KIND_FIELD
from lakehouse.storage.files.reader import Piece
from lakehouse.storage.scan import file_plan as plan
from lakehouse.storage.scan import sections
from lakehouse.storage.scan.file_plan import Judged
from lakehouse.storage.scan.lookup import Lookup
from lakehouse.storage.scan.scan import Scan
from tests.kit.memory_runs import MemoryRuns
from tests.kit.merge_models import ENGINES, Element, EngineCase, Row, folded, rows_of

CASES = {one.name: one for one in ENGINES}
SEQUENCED, FIRST = CASES["deduplicate by sequence"], CASES["first-row"]
PARTIAL, GROUPED = CASES["partial-update"], CASES["partial-update in groups"]
SUMS = CASES["aggregation by sequence"]

Condition = tuple[str, Expr | None, Callable[[Row], bool]]
"""A condition, and the same in Python."""


def _at_least(name: str, bound: int) -> Condition:
    return (
        f"{name} >= {bound}",
        col(name) >= bound,
        lambda row: row[name] is not None and row[name] >= bound,
    )


def conditions(case: EngineCase) -> list[Condition]:
    """Conditions on every column of whole numbers, and on the key."""
    found: list[Condition] = [
        ("all", None, lambda row: True),
        ("key", (col("id") >= 5) & (col("id") < 12), lambda row: 5 <= row["id"] < 12),
    ]
    for name, kind in case.columns.items():
        if pa.types.is_integer(kind):
            found += [_at_least(name, 2), _at_least(name, 4)]
            found.append((f"{name} is null", col(name).is_null(), lambda row, name=name: row[name] is None))
    return found


class History:
    """Runs of a table and what they come to."""

    def __init__(self, case: EngineCase, piece_rows: int) -> None:
        self.case = case
        self.runs = MemoryRuns(case.schema, piece_rows)
        self.entries: list[FileEntry] = []
        self.state: dict[int, Row] = {}

    def __repr__(self) -> str:
        return "\n".join(f"{one.hi} {self.runs.files[one.path].table.to_pylist()}" for one in self.entries)

    def add(self, rows: dict[int, Element], lo: Position, hi: Position) -> None:
        """A run as a file."""
        keys = sorted(rows)
        if not keys:
            return
        fields = pa.schema([field.with_nullable(True) for field in self.case.schema.arrow()])
        table = pa.Table.from_pylist([rows[key][1] for key in keys], schema=fields)
        kinds = [int(rows[key][0]) for key in keys]
        if any(kinds):
            table = table.append_column(KIND_COLUMN, pa.array(kinds, pa.int8()))
        self.entries.append(self.runs.add(table, lo=lo, hi=hi, updates=kinds.count(RowKind.UPDATE)))

    def passing(self, condition: Condition) -> list[Row]:
        """The rows that match, by key."""
        return [row for _, row in sorted(self.state.items()) if condition[2](row)]


def _folded(case: EngineCase, runs: list[dict[int, Element]]) -> dict[int, Element]:
    keys = {key for run in runs for key in run}
    return {
        key: reduce(lambda old, new: folded(case, old, new), [run[key] for run in runs if key in run])
        for key in keys
    }


@st.composite
def histories(draw: st.DrawFn, case: EngineCase) -> History:
    """Commits of operands and deletions, some neighbours compacted."""
    found = History(case, draw(st.integers(1, 5)))
    row = rows_of(case, st.integers(0, 15))
    commits: list[dict[int, Element]] = []
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.integers(0, 4)) == 0:
            gone = draw(st.sets(st.integers(0, 15), max_size=4))
            commits.append({key: (RowKind.DELETE, _nothing(case, key)) for key in gone})
        else:
            rows = draw(st.lists(row, max_size=10))
            commits.append({one["id"]: (RowKind.UPDATE, case.own(one)) for one in rows})
    shapes = [((at, 1, 0), (at, 1, 0), rows) for at, rows in enumerate(commits, start=2)]
    for _ in range(draw(st.integers(0, 2))):
        first = draw(st.integers(0, len(shapes) - 1))
        last = draw(st.integers(first, len(shapes) - 1))
        output = _folded(case, [rows for _, _, rows in shapes[first : last + 1]])
        if first == 0:
            output = {
                key: (RowKind.INSERT, row) for key, (kind, row) in output.items() if kind != RowKind.DELETE
            }
        shapes[first : last + 1] = [(shapes[first][0], shapes[last][1], output)]
    for lo, hi, rows in shapes:
        cut = draw(st.integers(0, 15))
        found.add({key: one for key, one in rows.items() if key < cut}, lo, hi)
        found.add({key: one for key, one in rows.items() if key >= cut}, lo, hi)
    final = _folded(case, commits)
    found.state = {key: row for key, (kind, row) in final.items() if kind != RowKind.DELETE}
    found.entries = draw(st.permutations(found.entries))
    return found


def _nothing(case: EngineCase, key: int) -> Row:
    return {"id": key, **dict.fromkeys(case.columns)}


class Oracle:
    """Knows of every file and piece exactly whether rows of it match: no pruner can exclude more."""

    def __init__(self, runs: MemoryRuns, passes: Callable[[Row], bool]) -> None:
        self._runs, self._passes = runs, passes

    def excludes_keys(self, entry: FileEntry) -> str | None:
        """Nothing."""
        return None

    def excludes_piece(self, entry: FileEntry, piece: Piece) -> bool:
        """Nothing."""
        return False

    def judge(self, entry: FileEntry) -> tuple[Verdict, str]:
        """By its rows."""
        return self._verdict(self._runs.files[entry.path].table), "stats"

    def judge_all(self, entries: Sequence[FileEntry]) -> Judged:
        """One after another."""
        return Judged.of([self.judge(entry) for entry in entries])

    def judge_piece(self, entry: FileEntry, piece: Piece) -> Verdict:
        """By its rows."""
        return self._verdict(self._runs.files[entry.path].table.slice(piece.first_row, piece.rows))

    def _verdict(self, table: pa.Table) -> Verdict:
        rows = [row for row in table.to_pylist() if row.get(KIND_COLUMN, 0) != RowKind.DELETE]
        matches = {self._passes(row) for row in rows}
        return Verdict.SOME if len(matches) == 2 else Verdict.ALL if matches == {True} else Verdict.NONE


async def scanned(scan: Scan) -> list[Row]:
    """All rows that a scan returns."""
    return [row async for table in scan.tables() for row in table.to_pylist()]


@pytest.mark.parametrize("case", ENGINES, ids=str)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
async def test_scans_are_the_model(case: EngineCase, data: st.DataObject) -> None:
    """A scan finds what the fold of all rows has, whatever is left out for its condition."""
    history = data.draw(histories(case))
    condition = data.draw(st.sampled_from(conditions(case)))
    names = data.draw(st.lists(st.sampled_from(["id", *case.columns]), min_size=1, unique=True))
    pruner = data.draw(st.sampled_from([None, Oracle(history.runs, condition[2])]))
    asked: dict[str, Any] = {
        "where": condition[1],
        "pruner": pruner if condition[1] is not None else None,
        "settings": TableSettings(
            scan_memory_bytes=data.draw(st.sampled_from([1, 2_000, 1 << 28])), scan_concurrency=3
        ),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "lakehouse.storage.scan.section_reader._WORTH_A_REQUEST", data.draw(st.sampled_from([0, 10**9]))
        )
        found = await scanned(Scan(history.entries, case.schema, history.runs, columns=names, **asked))
        counted = await Scan(history.entries, case.schema, history.runs, columns=(), **asked).count()
    wanted = [{name: row[name] for name in names} for row in history.passing(condition)]
    assert found == wanted
    assert counted == len(wanted)


@pytest.mark.parametrize("case", ENGINES, ids=str)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
async def test_lookups_are_the_model(case: EngineCase, data: st.DataObject) -> None:
    """A key has the fold of its rows, alone and among many."""
    history = data.draw(histories(case))
    names = data.draw(st.none() | st.lists(st.sampled_from(["id", *case.columns]), min_size=1, unique=True))
    lookup = Lookup(history.entries, case.schema, history.runs)
    shown = {key: {name: row[name] for name in names or row} for key, row in sorted(history.state.items())}
    keys = data.draw(st.lists(st.integers(0, 16), max_size=12))
    found = await lookup.get_many([{"id": key} for key in keys], columns=names)
    assert found.to_pylist() == [shown[key] for key in sorted(set(keys)) if key in shown]
    for key in set(keys):
        assert await lookup.get({"id": key}, columns=names) == shown.get(key)


@pytest.mark.parametrize("case", ENGINES, ids=str)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
async def test_rows_kept_as_operands(case: EngineCase, data: st.DataObject) -> None:
    """A scan that keeps kinds gives the elements that stand for some neighbouring runs."""
    history = data.draw(histories(case))
    hidden = dataclasses.replace(case.schema, fields=(*case.schema.fields, KIND_FIELD))
    memory = TableSettings(scan_memory_bytes=data.draw(st.sampled_from([1, 1 << 28])))
    scan = Scan(history.entries, hidden, _WithKinds(history.runs), deletions=True, settings=memory)
    runs = [
        {
            row["id"]: (RowKind(row.pop(KIND_COLUMN, 0)), row)
            for row in history.runs.files[entry.path].table.to_pylist()
        }
        for entry in sorted(history.entries, key=lambda one: (one.hi, one.min_key))
    ]
    found = {row["id"]: (RowKind(row.pop(KIND_COLUMN)), row) for row in await scanned(scan)}
    assert found == _folded(case, runs)


class _WithKinds:
    """Opens files whose rows always say their kinds."""

    def __init__(self, runs: MemoryRuns) -> None:
        self._runs = runs

    settings = TableSettings()
    """Bounds on reads."""

    async def open(self, entry: FileEntry, schema: TableSchema) -> Any:
        """The file."""
        run = await self._runs.open(entry)

        class Reader:
            entry = run.entry
            pieces = run.pieces

            async def read(
                self, fields: Any, pieces: Any = None, *, kinds: bool = False, rows: Any = None
            ) -> pa.Table:
                named = [one for one in fields if one.name != KIND_COLUMN]
                return await run.read(named, pieces, kinds=True, rows=rows)

        return Reader()


def counter_example(case: EngineCase) -> None:
    """Fails unless some history shows a scan that is wrong."""

    async def is_right(history: History, condition: Condition) -> bool:
        oracle = Oracle(history.runs, condition[2])
        scan = Scan(history.entries, case.schema, history.runs, where=condition[1], pruner=oracle)
        return await scanned(scan) == history.passing(condition)

    some = st.tuples(histories(case), st.sampled_from(conditions(case)[2:]))
    quick = settings(max_examples=2_000, deadline=None, phases=[Phase.generate], database=None)
    find(some, lambda one: not anyio.run(is_right, *one), settings=quick)


@pytest.mark.parametrize("case", [SEQUENCED, PARTIAL, SUMS], ids=str)
def test_the_rule_of_deduplicate_is_not_enough(case: EngineCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving files out as where the newest row hides the others gives wrong answers, and is noticed."""
    monkeypatch.setattr(plan, "_plan_folded", plan._plan_unit)
    counter_example(case)


@pytest.mark.parametrize("case", [SEQUENCED, PARTIAL, SUMS], ids=str)
def test_nor_is_it_for_pieces(case: EngineCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving pieces out by the rule of deduplicate gives wrong answers, and is noticed."""
    monkeypatch.setattr(sections, "_folded", lambda chunks: [chunk for chunk in chunks if chunk.wanted])
    counter_example(case)


async def test_files_that_nothing_overlaps_are_left_out() -> None:
    """Statistics leave a file out when no other has keys in its range, and not otherwise."""
    history = History(SUMS, 3)
    for at, keys in enumerate([(0, 1), (10, 11), (1, 2)], start=2):
        rows = {key: (RowKind.UPDATE, {"id": key, "s": None, "v": at, "n": 1}) for key in keys}
        history.add(rows, (at, 1, 0), (at, 1, 0))
    scan = Scan(history.entries, SUMS.schema, history.runs, where=col("n") == 2)
    assert await scanned(scan) == [{"id": 1, "s": None, "v": 4, "n": 2}]
    assert scan.report.files_pruned == {"stats": 1}
    assert sorted(set(history.runs.opened)) == ["f0", "f2"]


async def test_a_get_stops_at_a_full_row() -> None:
    """Files below a row that hides everything older are not asked."""
    history = History(SUMS, 3)
    kinds = [RowKind.UPDATE, RowKind.INSERT, RowKind.UPDATE, RowKind.UPDATE]
    for at, kind in enumerate(kinds, start=2):
        row = {"id": 1, "s": None, "v": at, "n": 10**at}
        history.add({1: (kind, row)}, (at, 1, 0), (at, 1, 0))
    found = await Lookup(history.entries, SUMS.schema, history.runs).get({"id": 1}, columns=["n"])
    assert found == {"n": 111_000}
    assert sorted(set(history.runs.opened)) == ["f1", "f2", "f3"]
