"""Copies of bytes within loops: the same bytes, sliced or one by one."""

from __future__ import annotations

import numpy as np
import pytest

from lakehouse.kernels.copying import copy_bytes, copy_loop, copy_spans


@pytest.mark.parametrize("copy", [copy_bytes, copy_loop])
@pytest.mark.parametrize(("to", "start", "count"), [(0, 0, 8), (3, 5, 2), (7, 0, 1), (4, 4, 0)])
def test_both_ways_copy_the_same(copy, to: int, start: int, count: int) -> None:  # type: ignore[no-untyped-def]
    """Bytes are set at their place and nowhere else."""
    data, out = np.arange(10, 18, dtype=np.uint8), np.zeros(8, np.uint8)
    copy(out, to, data, start, count)
    expected = [0] * 8
    expected[to : to + count] = range(10 + start, 10 + start + count)
    assert out.tolist() == expected


def test_spans_go_to_their_offsets() -> None:
    """Scattered bytes are put where their offsets say, empty spans included."""
    data, out = np.arange(10, dtype=np.uint8), np.zeros(6, np.uint8)
    copy_spans(data, np.array([7, 0, 2]), np.array([2, 0, 3]), np.array([0, 2, 3]), out)
    assert out.tolist() == [7, 8, 0, 2, 3, 4]
