"""Murmur3 of many values at once and of one: published vectors, and equal results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.kernels.murmur3 import hash_bytes, hash_int64, hash_pieces

# Appendix B of Iceberg's specification, which hashes with seed 0 too.
OF_BYTES = {b"iceberg": 1210000089, bytes(range(4)): -188683207, b"": 0}
OF_NUMBERS = {34: 2017239379, 17486: -653330422, 81068000000: -662762989}


def signed(value: int) -> int:
    """The number of 32 bits with a sign, as the specification writes it."""
    return value - (1 << 32) if value >> 31 else value


@pytest.mark.parametrize(("data", "expected"), OF_BYTES.items())
def test_published_hashes_of_bytes(data: bytes, expected: int) -> None:
    """Bytes hash to what Iceberg's specification lists."""
    assert signed(hash_bytes(data)) == expected


def test_published_hashes_of_numbers() -> None:
    """Numbers hash to what Iceberg's specification lists."""
    assert [signed(int(one)) for one in hash_int64(np.array(list(OF_NUMBERS)))] == list(OF_NUMBERS.values())


@given(st.lists(st.binary(max_size=90), max_size=60))
def test_pieces_hash_as_each_by_itself(values: list[bytes]) -> None:
    """Hashing many pieces of unequal lengths together changes no hash."""
    data = np.frombuffer(b"-" + b"".join(values), np.uint8)
    lengths = np.array([len(value) for value in values], np.int64)
    starts = 1 + np.cumsum(lengths) - lengths
    assert hash_pieces(data, starts, lengths).tolist() == [hash_bytes(value) for value in values]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=60))
def test_numbers_hash_as_their_eight_bytes(numbers: list[int]) -> None:
    """A number's hash is that of its little-endian bytes."""
    expected = [hash_bytes(number.to_bytes(8, "little", signed=True)) for number in numbers]
    assert hash_int64(np.array(numbers, np.int64)).tolist() == expected
