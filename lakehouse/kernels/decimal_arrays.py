"""Arrow arrays of decimals as numpy arrays of their unscaled numbers, and back.

A number is a pair of little-endian words of 64 bits, the lower one first, in two's complement.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.kernels.arrays import I64, U64, Mask

__all__ = ["added", "decimal_words", "decimals_of", "remainders"]

_LOW_HALF = np.uint64(0xFFFF_FFFF)
_HALF_BITS = np.uint64(32)


def decimal_words(array: pa.Array) -> U64:
    """Returns the unscaled numbers of a decimal128 array, a row of two words each; of nulls, anything."""
    data = array.buffers()[1]
    if data is None:
        return np.zeros((len(array), 2), np.uint64)
    words = np.frombuffer(data, np.uint64, 2 * (array.offset + len(array)))
    return words.reshape(-1, 2)[array.offset :]


def decimals_of(words: U64, kind: pa.DataType, null: Mask) -> pa.Array:
    """Returns numbers as an array of decimals; nothing checks that they fit."""
    data = pa.py_buffer(np.ascontiguousarray(words))
    made = pa.Array.from_buffers(kind, len(words), [None, data])
    return pc.if_else(pa.array(null), pa.scalar(None, kind), made) if null.any() else made


def remainders(words: U64, divisor: int) -> I64:
    """Returns the remainder of each number, from 0 up; the divisor has at most 31 bits."""
    by = np.uint64(divisor)
    rest = np.zeros(len(words), np.uint64)
    for word in (words[:, 1], words[:, 0]):
        for half in (word >> _HALF_BITS, word & _LOW_HALF):
            rest = ((rest << _HALF_BITS) | half) % by
    # The words of a negative number stand for one that is 2**128 more.
    surplus = np.uint64((1 << 128) % divisor)
    is_negative = words[:, 1].view(np.int64) < 0
    return np.where(is_negative, (rest + by - surplus) % by, rest).astype(np.int64)


def added(words: U64, numbers: I64) -> U64:
    """Returns the sums of numbers and others of one word."""
    low = words[:, 0] + numbers.view(np.uint64)
    carry = (low < words[:, 0]).astype(np.uint64)
    # A negative number has ones in its higher word.
    high = words[:, 1] + carry - (numbers < 0).astype(np.uint64)
    return np.stack([low, high], axis=1)
