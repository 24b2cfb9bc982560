"""Decimals from two's complement numbers, highest byte first."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.kernels.big_endian import decimal_array


def _decimals(numbers: list[bytes], kind: pa.DataType, valid: list[bool] | None = None) -> pa.Array:
    lengths = np.array([len(number) for number in numbers], np.int64)
    starts = np.cumsum(lengths) - lengths
    data = np.frombuffer(b"".join(numbers), np.uint8)
    known = None if valid is None else np.array(valid)
    return decimal_array(data, starts, lengths, kind, known)


def _unscaled(values: pa.Array) -> list[int | None]:
    return [None if value is None else int(value) for value in values.to_pylist()]


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), max_size=5), st.integers(0, 40))
def test_numbers_come_back(values: list[int], more: int) -> None:
    """A number of any length, the shortest and longer ones, is the decimal of its value."""
    numbers = [value.to_bytes(value.bit_length() // 8 + 1 + more, "big", signed=True) for value in values]
    assert _unscaled(_decimals(numbers, pa.decimal128(38, 0))) == values


@given(st.lists(st.integers(-(10**76) + 1, 10**76 - 1), max_size=5))
def test_wide_numbers_come_back(values: list[int]) -> None:
    """Decimals of 256 bits hold numbers of 76 digits."""
    with decimal.localcontext(prec=80):
        numbers = [value.to_bytes(32, "big", signed=True) for value in values]
        assert _unscaled(_decimals(numbers, pa.decimal256(76, 0))) == values


@given(st.integers(1, 38), st.integers(-200, 200), st.booleans())
def test_numbers_of_more_digits_are_null(digits: int, beyond: int, below: bool) -> None:
    """A number is null where it has more digits than its type, and else itself, at each end of the range."""
    value = (10**digits + beyond) * (-1 if below else 1)
    number = value.to_bytes(20, "big", signed=True)
    expected = value if abs(value) < 10**digits else None
    assert _unscaled(_decimals([number], pa.decimal128(digits, 0))) == [expected]


@pytest.mark.parametrize(
    "number",
    [
        b"",
        bytes(65),
        b"\x01" + bytes(16),
        b"\xfe" + bytes(16),
        b"\x00" + b"\x80" + bytes(15),
        b"\x00" + b"\xff" * 16,
        b"\xff" + bytes(15) + b"\x05",
    ],
)
def test_numbers_that_do_not_fit_are_null(number: bytes) -> None:
    """No bytes, very many, and numbers of more than 128 bits are no decimals."""
    assert _decimals([b"\x05", number], pa.decimal128(38, 0)).to_pylist() == [5, None]


def test_nulls_stay_null() -> None:
    """The bytes of a number that is not there are not looked at."""
    assert _decimals([b"\x05", b"\x06"], pa.decimal128(5, 1), [False, True]).to_pylist() == [
        None,
        decimal.Decimal("0.6"),
    ]
