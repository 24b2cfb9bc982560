"""Bytes as 64-bit words, for loops that read eight bytes at a time from any byte on.

Invariant: behind the bytes there are two words of zeros, so that such a loop may read on past the end.
"""

from __future__ import annotations

import numpy as np

from lakehouse.kernels.arrays import U8, U64

__all__ = ["padded_words"]


def padded_words(data: U8, begin: int, end: int) -> U64:
    """Returns the bytes from ``begin & ~7`` to ``end`` as little-endian words, plus two words of zeros."""
    begin &= ~7
    size = (end - begin + 7) // 8 + 2
    padded = np.zeros(size * 8, np.uint8)
    padded[: end - begin] = data[begin:end]
    return padded.view("<u8")
