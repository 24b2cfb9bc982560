"""Scans of random histories against a plain model, and what they read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from lakehouse.config import TableSettings
from lakehouse.expr import Expr, col
from lakehouse.expr.bounds import Verdict
from lakehouse.format.metadata.file_entry import KIND_COLUMN, FileEntry, RowKind
from lakehouse.storage.files.reader import Piece
from lakehouse.storage.scan import section_reader
from lakehouse.storage.scan.file_plan import Judged
from lakehouse.storage.scan.scan import Scan
from tests.kit.memory_runs import MemoryRuns, live_rows
from tests.kit.run_histories import SCHEMA, History, histories

Condition = tuple[Expr | None, Callable[[dict[str, Any]], bool], Callable[[int], bool]]
"""An expression, the same in Python, and what it asks of the key alone."""

CONDITIONS: list[Condition] = [
    (None, lambda row: True, lambda key: True),
    (col("a") > 6, lambda row: row["a"] is not None and row["a"] > 6, lambda key: True),
    (col("a").is_null(), lambda row: row["a"] is None, lambda key: True),
    (col("b") == "yy", lambda row: row["b"] == "yy", lambda key: True),
    (
        (col("id") >= 10) & (col("id") < 25),
        lambda row: 10 <= row["id"] < 25,
        lambda key: 10 <= key < 25,
    ),
    ((col("id") < 10) | (col("a") == 3), lambda row: row["id"] < 10 or row["a"] == 3, lambda key: True),
    (
        (col("id") > 5) & (col("a") <= 2),
        lambda row: row["id"] > 5 and row["a"] is not None and row["a"] <= 2,
        lambda key: key > 5,
    ),
]


class Oracle:
    """Knows of every file and piece exactly whether rows of it match: no pruner can exclude more."""

    def __init__(self, runs: MemoryRuns, condition: Condition) -> None:
        self._runs = runs
        _, self._passes, self._key_passes = condition

    def _rows(self, entry: FileEntry, piece: Piece | None = None) -> list[dict[str, Any]]:
        table = self._runs.files[entry.path].table
        return (table if piece is None else table.slice(piece.first_row, piece.rows)).to_pylist()

    def excludes_keys(self, entry: FileEntry) -> str | None:
        """By its keys."""
        return None if any(self._key_passes(row["id"]) for row in self._rows(entry)) else "key range"

    def excludes_piece(self, entry: FileEntry, piece: Piece) -> bool:
        """By its keys."""
        return not any(self._key_passes(row["id"]) for row in self._rows(entry, piece))

    def judge(self, entry: FileEntry) -> tuple[Verdict, str]:
        """By its rows."""
        return self._verdict(self._rows(entry)), "stats"

    def judge_all(self, entries: Sequence[FileEntry]) -> Judged:
        """One after another."""
        return Judged.of([self.judge(entry) for entry in entries])

    def judge_piece(self, entry: FileEntry, piece: Piece) -> Verdict:
        """By its rows."""
        return self._verdict(self._rows(entry, piece))

    def _verdict(self, rows: list[dict[str, Any]]) -> Verdict:
        matches = {self._passes(row) for row in rows if row.get(KIND_COLUMN, 0) != RowKind.DELETE}
        return Verdict.SOME if len(matches) == 2 else Verdict.ALL if matches == {True} else Verdict.NONE


async def rows_of(scan: Scan) -> list[dict[str, Any]]:
    """All rows that a scan returns."""
    return [row async for table in scan.tables() for row in table.to_pylist()]


STEPS = {"at once": None, "fetched later": 1.0, "decoded later": -1.0}
"""How columns that a condition does not look at are read; above which share of pieces with rows at once."""


@pytest.mark.parametrize("steps", list(STEPS))
@pytest.mark.parametrize("knows_all", [False, True], ids=["stats", "oracle"])
@settings(max_examples=80, deadline=None)
@given(
    history=histories(),
    condition=st.sampled_from(CONDITIONS),
    columns=st.sampled_from([None, ("b",), ("a", "id"), ("id",), ("b", "a", "id")]),
    limit=st.none() | st.integers(0, 12),
    memory=st.sampled_from([1, 2_000, 1 << 28]),
)
async def test_scan_is_the_model(
    history: History,
    condition: Condition,
    columns: tuple[str, ...] | None,
    limit: int | None,
    memory: int,
    knows_all: bool,
    steps: str,
) -> None:
    """A scan returns what a dictionary of the newest rows holds, by key, whatever is asked of it and
    whichever columns are read first."""
    entries, runs, commits = history
    where, passes, _ = condition
    expected = [row for row in live_rows(SCHEMA, commits) if passes(row)][:limit]
    if columns is not None:
        expected = [{name: row[name] for name in columns} for row in expected]
    asked: dict[str, Any] = {
        "where": where,
        "limit": limit,
        "pruner": Oracle(runs, condition) if knows_all else None,
        "settings": TableSettings(scan_memory_bytes=memory, scan_concurrency=3),
    }
    scan = Scan(entries, SCHEMA, runs, columns=columns, **asked)
    share = STEPS[steps]
    with pytest.MonkeyPatch.context() as patched:
        if share is not None:  # files here are too small to be worth it
            patched.setattr(section_reader, "_WORTH_A_REQUEST", 0)
            patched.setattr(section_reader, "_MANY", share)
        assert await rows_of(scan) == expected
    assert scan.report.rows == len(expected)
    assert await Scan(entries, SCHEMA, runs, columns=(), **asked).count() == len(expected)


SEARCH = settings(max_examples=1000, phases=[Phase.generate], deadline=None)


def wrong_answer(history: History) -> bool:
    """Whether some condition gets a wrong answer on the history."""
    entries, runs, commits = history

    async def is_wrong(condition: Condition) -> bool:
        expected = [row for row in live_rows(SCHEMA, commits) if condition[1](row)]
        pruner = Oracle(runs, condition)
        return await rows_of(Scan(entries, SCHEMA, runs, where=condition[0], pruner=pruner)) != expected

    return any(anyio.run(is_wrong, condition) for condition in CONDITIONS)


def test_skipping_newer_files_freely_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rule of pruning, files that hide older rows are skipped and answers are wrong."""
    monkeypatch.setattr("lakehouse.storage.scan.file_plan._KeyRanges.overlap", lambda self, entry: False)
    find(histories(), wrong_answer, settings=SEARCH)


def test_skipping_newer_pieces_freely_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rule of pruning, pieces that hide older rows are skipped and answers are wrong."""
    monkeypatch.setattr(
        "lakehouse.storage.scan.sections._needed", lambda chunks: [chunk for chunk in chunks if chunk.wanted]
    )
    find(histories(), wrong_answer, settings=SEARCH)
