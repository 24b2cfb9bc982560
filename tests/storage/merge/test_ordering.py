"""The merge kernel against a plain model, for keys of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from lakehouse.format.metadata.file_entry import KIND_COLUMN, RowKind
from lakehouse.storage.merge.ordering import kind_counts, kinds_of, merge_order, survivors, with_kinds
from tests.kit.key_commits import commits_of_keys, runs_of


@given(drawn=commits_of_keys())
@settings(max_examples=300, deadline=None)
def test_rows_come_by_key_and_then_by_age(drawn: tuple[list[str], list[list[tuple[Any, ...]]]]) -> None:
    """Rows of any keys are ordered by key, those of one key from the oldest to the newest."""
    keys, tables = runs_of(*drawn)
    order = merge_order(keys.arrays(tables))
    rows = [(tuple(row.values()), age) for age, table in enumerate(tables) for row in table.to_pylist()]
    expected = sorted(range(len(rows)), key=lambda at: rows[at])
    assert order.rows.tolist() == expected
    ends = [
        at + 1 == len(expected) or rows[expected[at]][0] != rows[expected[at + 1]][0]
        for at in range(len(expected))
    ]
    assert order.ends.tolist() == ends
    assert order.keys == sum(ends)


@pytest.mark.parametrize("spread", [1, 40, 3_000])
def test_texts_that_agree_in_their_first_bytes(spread: int) -> None:
    """Texts are in order however many of them agree in the bytes that are compared first."""
    random = np.random.default_rng(spread)
    texts = [f"{'x' * (at % 3)}{at % spread:09}/{at:06}" for at in range(3_000)]
    runs = [sorted(random.choice(texts, 1_000, replace=False).tolist()) for _ in range(4)]
    order = merge_order([pa.array(run) for run in runs])
    every = [text for run in runs for text in run]
    assert [every[at] for at in order.rows] == sorted(every)
    assert order.keys == len(set(every))


def test_slices_are_merged_as_they_are() -> None:
    """Arrays that begin within a buffer count from their own first row."""
    runs = [pa.array(["z", "a", "c", "d"]).slice(1), pa.array(["y", "b", "c"]).slice(1)]
    order = merge_order(runs)
    assert order.rows.tolist() == [0, 3, 1, 4, 2]
    assert order.ends.tolist() == [True, True, False, True, True]


def test_the_newest_row_stays_unless_it_deletes() -> None:
    """Of each key the newest row is left, and none where that is a deletion."""
    order = merge_order([np.array([1, 2, 3]), np.array([2, 4]), np.array([2, 3])])
    kinds = np.array([0, 0, 0, 2, 0, 0, 2], np.uint8)
    assert survivors(order, None).tolist() == [0, 5, 6, 4]
    assert survivors(order, kinds).tolist() == [0, 5, 4]


def test_no_runs_have_no_order() -> None:
    """Nothing to merge is merged to nothing."""
    assert merge_order([]).rows.tolist() == []
    assert merge_order([np.array([], np.int64), np.array([5])]).rows.tolist() == [0]


def test_tables_without_kinds_hold_inserts() -> None:
    """Kinds are those of the column where there is one, and inserts elsewhere."""
    plain = pa.table({"a": [1, 2]})
    marked = plain.append_column(KIND_COLUMN, pa.array([2, 0], pa.int8()))
    assert kinds_of([plain]) is None
    found = kinds_of([plain, marked])
    assert found is not None
    assert found.tolist() == [RowKind.INSERT, RowKind.INSERT, RowKind.DELETE, RowKind.INSERT]


@pytest.mark.parametrize(
    ("kinds", "written", "counted"),
    [
        (None, [0, 0, 0], (0, 0)),
        (RowKind.DELETE, [2, 2, 2], (3, 0)),
        (np.array([0, 1, 2], np.uint8), [0, 1, 2], (1, 1)),
    ],
)
def test_kinds_are_added_and_counted(kinds: Any, written: list[int], counted: tuple[int, int]) -> None:
    """Rows get one kind for all or one for each, none meaning inserts; deletes and operands are counted."""
    rows = pa.table({"k": pa.array([1, 2, 3])})
    assert kind_counts(rows) == (0, 0)
    with_them = with_kinds(rows, kinds)
    assert with_them.column(KIND_COLUMN).to_pylist() == written
    assert kind_counts(with_them) == counted
