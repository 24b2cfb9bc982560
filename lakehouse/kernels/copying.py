"""Copies of bytes within loops: a slice when interpreted, a loop of its own when compiled.

Invariant: both ways copy the same bytes; the caller sees to it that they lie within their bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["copy_bytes", "copy_loop", "copy_spans"]


def copy_bytes(out: Any, to: int, data: Any, start: int, count: int) -> None:
    """Sets ``out[to : to + count] = data[start : start + count]``."""
    out[to : to + count] = data[start : start + count]


def copy_loop(out: Any, to: int, data: Any, start: int, count: int) -> None:
    """Does the same in compiled code: the stand-in of :func:`copy_bytes`."""
    # With signed indices numba checks each for being negative, which is seven times slower.
    first, source = np.uint64(to), np.uint64(start)
    for i in range(np.uint64(count)):
        out[first + i] = data[source + i]


def copy_spans(data: Any, starts: Any, lengths: Any, offsets: Any, out: Any) -> None:
    """Copies scattered bytes, each to its offset."""
    for i in range(len(starts)):
        copy_bytes(out, offsets[i], data, starts[i], lengths[i])
