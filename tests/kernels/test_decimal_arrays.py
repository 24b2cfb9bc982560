"""Arithmetic with the words of decimals is that of whole numbers."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.kernels.decimal_arrays import added, decimal_words, decimals_of, remainders

NUMBERS = st.lists(
    st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-(2**65), 2**65) | st.integers(-9, 9),
    min_size=1,
    max_size=5,
)
KIND = pa.decimal128(38, 0)


def array_of(numbers: list[int | None]) -> pa.Array:
    """Whole numbers as decimals."""
    return pa.array([None if number is None else decimal.Decimal(number) for number in numbers], KIND)


@given(NUMBERS, st.integers(1, 2**31 - 1))
def test_remainders(numbers: list[int], divisor: int) -> None:
    """A remainder is never negative."""
    assert remainders(decimal_words(array_of([*numbers])), divisor).tolist() == [
        number % divisor for number in numbers
    ]


@given(NUMBERS, st.integers(-(2**31), 2**31))
def test_sums(numbers: list[int], other: int) -> None:
    """Sums carry from one word to the other, in both directions."""
    numbers = [number // 10 for number in numbers]
    words = added(decimal_words(array_of([*numbers])), np.full(len(numbers), other))
    made = decimals_of(words, KIND, np.zeros(len(numbers), np.bool_))
    assert [int(value) for value in made.to_pylist()] == [number + other for number in numbers]


def test_nulls_and_slices() -> None:
    """Words of a slice are those of its values, and nulls stay nulls."""
    array = array_of([1, None, -3])[1:]
    made = decimals_of(decimal_words(array), KIND, np.array([True, False]))
    assert made.to_pylist() == [None, decimal.Decimal(-3)]
    assert decimal_words(pa.nulls(2, KIND)).shape == (2, 2)
