"""Which rows of an input stay, and in which order: the last of each key, by key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.storage.rows.key_sort import last_of_each

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
@given(
    st.lists(
        st.text(max_size=3) | st.text("ab", min_size=6, max_size=20) | st.text("a\x00", max_size=20),
        max_size=100,
    )
)
def test_the_last_row_of_each_text_stays(keys: list[str]) -> None:
    """Text is sorted by its bytes, whatever its length and what it begins with."""
    found = last_of_each(pa.array(keys, pa.string()))
    as_bytes = [key.encode() for key in keys]
    assert (list(range(len(keys))) if found is None else found.tolist()) == _expected(as_bytes)


@settings(deadline=None)
@given(
    st.lists(st.binary(max_size=18), max_size=60),
    st.binary(max_size=12),
    st.sampled_from([0, 1, 7, 8, 9, 200]),
)
def test_bytes_with_a_common_beginning_are_sorted(keys: list[bytes], end: bytes, shared: int) -> None:
    """Long common beginnings are no trouble, in large_binary neither."""
    keys = [b"p" * shared + key + end for key in keys]
    found = last_of_each(pa.array(keys, pa.large_binary()))
    assert (list(range(len(keys))) if found is None else found.tolist()) == _expected(keys)


@pytest.mark.parametrize("pattern", ["{}", "key-{:09}", "{:032x}", "{:0150}"])
def test_many_texts_are_sorted(pattern: str) -> None:
    """Large inputs of equal and of different lengths, some rows of one key."""
    random = np.random.default_rng(0)
    keys = [pattern.format(number) for number in random.integers(0, 2**62, 5_000) % 10**9]
    keys += keys[:100]
    found = last_of_each(pa.array(keys))
    assert found is not None
    assert found.tolist() == _expected(keys)


@pytest.mark.parametrize("span", [1, 300, 2**20, 2**40, 2**62])
@pytest.mark.parametrize("disorder", [0.001, 1.0])
@pytest.mark.parametrize("rows", [50_000, 600_000])
def test_many_numbers_are_sorted_however_they_lie(span: int, disorder: float, rows: int) -> None:
    """Large inputs take the quick ways, which agree with the plain one."""
    random = np.random.default_rng(span)
    keys = np.sort(random.integers(-span, span, rows))
    moved = np.flatnonzero(random.random(len(keys)) < disorder)
    keys[moved] = random.permutation(keys[moved])
    found = last_of_each(keys)
    assert found is not None
    order = np.argsort(keys, kind="stable")
    last = np.append(keys[order][1:] != keys[order][:-1], True)
    assert np.array_equal(found, order[last])


@pytest.mark.parametrize("keys", [[], [5], [-(2**63), 0, 2**63 - 1], [1, 2, 3]])
def test_rows_in_order_are_left_in_place(keys: list[int]) -> None:
    """Presorted input needs no order, so that it is not copied."""
    assert last_of_each(np.array(keys, np.int64)) is None
    assert last_of_each(pa.array([f"{key + 2**63:020}" for key in keys], pa.string())) is None
