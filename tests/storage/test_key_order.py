"""Which rows of an input stay, and in which order: the last of each key, by key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.storage.key_order import last_of_each

INT64 = st.integers(-(2**63), 2**63 - 1)


def _expected(keys: list[object]) -> list[int]:
    last = {key: row for row, key in enumerate(keys)}
    return [last[key] for key in sorted(last)]  # type: ignore[type-var]


@settings(deadline=None)
@given(st.lists(st.integers(0, 20) | INT64, max_size=200))
def test_the_last_row_of_each_number_stays(keys: list[int]) -> None:
    """Numbers of any range are sorted, and a later row replaces an earlier one."""
    found = last_of_each(np.array(keys, np.int64))
    assert (list(range(len(keys))) if found is None else found.tolist()) == _expected(keys)


@settings(deadline=None)
@given(st.lists(st.text(max_size=3) | st.text("ab", min_size=6, max_size=20), max_size=100))
def test_the_last_row_of_each_text_stays(keys: list[str]) -> None:
    """Text is sorted by its bytes."""
    found = last_of_each(pa.array(keys, pa.string()))
    as_bytes = [key.encode() for key in keys]
    assert (list(range(len(keys))) if found is None else found.tolist()) == _expected(as_bytes)


@pytest.mark.parametrize("span", [1, 300, 2**20, 2**40, 2**62])
@pytest.mark.parametrize("disorder", [0.001, 1.0])
def test_many_numbers_are_sorted_however_they_lie(span: int, disorder: float) -> None:
    """Large inputs take the quick ways, which agree with the plain one."""
    random = np.random.default_rng(span)
    keys = np.sort(random.integers(-span, span, 50_000))
    moved = np.flatnonzero(random.random(len(keys)) < disorder)
    keys[moved] = random.permutation(keys[moved])
    found = last_of_each(keys)
    assert found is not None
    assert found.tolist() == _expected(keys.tolist())


@pytest.mark.parametrize("keys", [[], [5], [-(2**63), 0, 2**63 - 1], [1, 2, 3]])
def test_rows_in_order_are_left_in_place(keys: list[int]) -> None:
    """Presorted input needs no order, so that it is not copied."""
    assert last_of_each(np.array(keys, np.int64)) is None
    assert last_of_each(pa.array([f"{key + 2**63:020}" for key in keys], pa.string())) is None
