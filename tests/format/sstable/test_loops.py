"""Loops over rows, and when they are compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.format.sstable.loops import Kernel, put_varint, read_varint, varint_sizes
from lakehouse.kernels.compiled import Loops, numba_available


def _total(numbers: Any) -> int:
    total = 0
    for number in numbers:
        total += number
    return total


@pytest.mark.skipif(not numba_available(), reason="numba is not installed")
def test_small_work_adds_up() -> None:
    """A loop that was interpreted often enough is compiled, as for the same work at once."""
    unit = Loops(_total)
    total = Kernel(unit, _total)
    found = [(total(16_000, np.arange(5)), unit.is_loaded) for _ in range(3)]
    assert found == [(10, False), (10, True), (10, True)]


def test_point_reads_compile_nothing() -> None:
    """However many there are, loops over a few rows stay interpreted."""
    unit = Loops(_total)
    total = Kernel(unit, _total)
    for _ in range(100):
        total(900, np.arange(5))
    assert not unit.is_loaded


@given(st.integers(0, 2**35 - 1), st.integers(0, 3))
def test_varints_come_back(value: int, missing: int) -> None:
    """A number is read as it was written, in as many bytes as were foreseen, or not at all."""
    out = bytearray(8)
    end = put_varint(out, 1, value)
    assert end - 1 == varint_sizes(np.array([value])).item()
    expected = (value, end) if missing == 0 else (0, -1)
    assert read_varint(out, 1, max(1, end - missing)) == expected
