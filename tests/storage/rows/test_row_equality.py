"""Rows compared value by value, nested ones too."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.storage.rows.row_equality import same_rows

NAN = math.nan
LISTS = st.none() | st.lists(st.none() | st.integers(0, 2), max_size=3)
ROWS = st.fixed_dictionaries(
    {
        "s": st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(0, 1), "l": LISTS}),
        "m": st.none()
        | st.dictionaries(st.sampled_from("ab"), LISTS, max_size=2).map(lambda one: sorted(one.items())),
        "t": st.none() | st.sampled_from(["", "a"]),
    }
)
SCHEMA = pa.schema(
    {
        "s": pa.struct({"x": pa.int64(), "l": pa.list_(pa.int64())}),
        "m": pa.map_(pa.string(), pa.list_(pa.int64())),
        "t": pa.string(),
    }
)


@given(pairs=st.lists(st.tuples(ROWS, ROWS)), skip=st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_rows_are_the_same_when_python_says_so(
    pairs: list[tuple[dict[str, object], dict[str, object]]], skip: int
) -> None:
    """Values of any depth, nulls among them, compare as the same Python values do."""
    one, other = (pa.Table.from_pylist([pair[side] for pair in pairs], SCHEMA).slice(skip) for side in (0, 1))
    assert same_rows(one, other).tolist() == [left == right for left, right in pairs[skip:]]


@pytest.mark.parametrize(("left", "right", "same"), [(NAN, NAN, True), (NAN, 1.0, False), (None, NAN, False)])
def test_nan_is_the_same_as_nan(left: float | None, right: float, same: bool) -> None:
    """A value that is no number did not change when it still is none."""
    one, other = (pa.table({"v": pa.array([value], pa.float64())}) for value in (left, right))
    assert same_rows(one, other).tolist() == [same]
