"""Rows are gathered as Arrow takes them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.storage.rows.take import take_rows


@settings(deadline=None)
@given(
    values=st.lists(st.text(max_size=15), min_size=1, max_size=50),
    picks=st.lists(st.integers(0, 1000), max_size=80),
    begin=st.integers(0, 49),
)
def test_short_and_long_texts_are_gathered(values: list[str], picks: list[int], begin: int) -> None:
    """Texts come whole, in the order asked for, from a slice as from the beginning."""
    begin = min(begin, len(values) - 1)
    column = pa.chunked_array([values]).slice(begin)
    rows = pa.array([pick % len(column) for pick in picks], pa.int64())
    found = take_rows(column, rows)
    found.validate(full=True)
    assert found.to_pylist() == [values[begin + row] for row in rows.to_pylist()]


@pytest.mark.parametrize(
    "values", [["a", None, "b"], [1, None, 3], [b"x", b"", b"y"], [[1], [], None], [None, None, None]]
)
@pytest.mark.parametrize("chunks", [1, 2])
def test_other_columns_are_gathered(values: list[object], chunks: int) -> None:
    """Nulls, numbers, bytes and lists are taken as they are."""
    column = pa.chunked_array([pa.array(values)] * chunks)
    assert take_rows(column, pa.array([2, 1, 0, 1])).to_pylist() == [values[row] for row in (2, 1, 0, 1)]


def test_an_empty_column_gives_an_empty_one() -> None:
    """No row is asked for, none comes."""
    empty = pa.chunked_array([[]], pa.string())
    assert take_rows(empty, pa.array([], pa.int64())).to_pylist() == []
