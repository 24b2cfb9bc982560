"""Ends of many files are compared with constants, and placed among them, as Python values are."""

from __future__ import annotations

import bisect
import decimal
import operator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.expr.ends import Ends
from tests.expr.test_columnar import KEYS

DECIMALS = (
    st.integers(-(10**37), 10**37) | st.integers(-(2**64) - 3, -(2**64) + 3) | st.integers(2**116, 2**116 + 3)
).map(decimal.Decimal)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.binary(): KEYS,
    pa.large_binary(): KEYS,
    pa.string(): st.text(max_size=10)
    | st.sampled_from(["https://a", "https://b", "https://ab", "https://a\0"]),
    pa.binary(9): st.binary(min_size=9, max_size=9),
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    pa.uint64(): st.integers(0, 2**64 - 1) | st.integers(0, 3),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(allow_nan=False),
    pa.decimal128(38, 0): DECIMALS,
    pa.decimal128(9, 0): st.integers(-(10**9) + 1, 10**9 - 1).map(decimal.Decimal),
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_places_are_those_of_a_binary_search(kind: pa.DataType, data: st.DataObject) -> None:
    """An end stands at the first key that is not below it; an unknown low end at the first of all."""
    values = data.draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=8))
    keys = sorted(set(data.draw(st.lists(VALUES[kind], min_size=1, max_size=12))))
    ends, wanted = Ends(pa.array(values, kind)), pa.array(keys, kind)
    assert ends.places_among(wanted).tolist() == [
        0 if value is None else bisect.bisect_left(keys, value) for value in values
    ]


@pytest.mark.parametrize("kind", VALUES, ids=str)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_ends_are_compared_exactly(kind: pa.DataType, data: st.DataObject) -> None:
    """Relations to one key, to a key for each file and to other ends are those of the values."""
    values = data.draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=8))
    others = data.draw(st.lists(st.sampled_from(values), min_size=len(values), max_size=len(values)))
    key = data.draw(st.sampled_from([value for value in values if value is not None] or [None]))
    ends = Ends(pa.array(values, kind))
    assert ends.equals(Ends(pa.array(others, kind))).tolist() == [
        one is not None and one == other for one, other in zip(values, others, strict=True)
    ]
    if key is None:
        return
    keys = pa.array([key], kind)
    at = np.zeros(len(values), np.int64)
    is_open = np.arange(len(values)) % 2 == 0
    for sign, test in (
        ("<", operator.lt), ("<=", operator.le), ("==", operator.eq), (">=", operator.ge), (">", operator.gt)
    ):  # fmt: skip
        assert ends.compare(sign, key).tolist() == [value is None or test(value, key) for value in values]
    assert ends.not_below(keys, at, None).tolist() == ends.compare(">=", key).tolist()
    assert ends.not_below(keys, at, is_open).tolist() == [
        value is None or (value > key if is_open[place] else value >= key)
        for place, value in enumerate(values)
    ]


@pytest.mark.parametrize("spread", [1, 1 << 30])
def test_many_ends_are_placed_by_a_table(spread: int) -> None:
    """Many numbers are placed as few are, whether keys are spread evenly or stand in a clump."""
    rng = np.random.default_rng(7)
    count = 1 << 18
    keys = np.unique(np.concatenate([rng.integers(-(2**62), 2**62, 500), rng.integers(0, spread, 500)]))
    values = np.concatenate([rng.integers(-(2**63), 2**63 - 1, count), keys, keys + 1])
    found = Ends(pa.array(values)).places_among(pa.array(keys))
    assert (found == np.searchsorted(keys, values)).all()


def test_many_ties_are_compared_as_a_whole() -> None:
    """Where most texts share their first bytes with a key, they are told apart all the same."""
    values = [f"https://{number}" for number in range(10)] + [None]
    assert Ends(pa.array(values)).compare("<", "https://5").tolist() == [True] * 5 + [False] * 5 + [True]
