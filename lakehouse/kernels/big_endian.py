"""Whole numbers of any length, highest byte first, as decimals: how Avro and Iceberg store them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakehouse.kernels.arrays import I64, U8, U64, Mask

__all__ = ["decimal_array"]

_BYTES_MAX = 64
"""Longest number that is looked at; a decimal has 32 bytes at most, and what goes beyond says nothing."""


def decimal_array(data: U8, starts: I64, lengths: I64, kind: pa.DataType, valid: Mask | None) -> pa.Array:
    """Decimals whose unscaled values are two's complement numbers; null where none fits the type.

    Args:
        data: bytes of all numbers.
        starts: where each number begins.
        lengths: bytes of each number.
        kind: a decimal of 128 or 256 bits.
        valid: which numbers are there; None = all.
    """
    width = kind.bit_width // 8
    fits = (lengths > 0) & (lengths <= _BYTES_MAX)
    if valid is not None:
        fits &= valid
    cells = np.zeros((len(starts), width), np.uint8)
    for length in np.unique(lengths[fits]).tolist():
        rows = np.flatnonzero(fits & (lengths == length))
        # Lowest byte first, as Arrow has it.
        raw = data[starts[rows][:, None] + np.arange(length - 1, -1, -1)]
        sign = np.where(raw[:, -1] >> 7, np.uint8(255), np.uint8(0))
        cells[rows, : min(length, width)] = raw[:, :width]
        cells[rows, length:] = sign[:, None]
        beyond = (raw[:, width:] != sign[:, None]).any(axis=1) | (cells[rows, -1] >> 7 != sign >> 7)
        fits[rows[beyond]] = False
    fits &= _has_digits(cells.view("<u8").astype(np.uint64), kind.precision)
    bits = pa.py_buffer(np.packbits(fits, bitorder="little"))
    return pa.Array.from_buffers(kind, len(starts), [bits, pa.py_buffer(cells)])


def _has_digits(words: U64, digits: int) -> Mask:
    """Returns which numbers, lowest word first, have at most so many digits."""
    top = words[:, -1] >> np.uint64(63) != 0
    size = np.where(top[:, None], ~words, words)  # of a negative number one less than its size
    most = 10**digits - 1
    below = np.zeros(len(words), np.bool_)
    equal = np.ones(len(words), np.bool_)
    for at in range(words.shape[1] - 1, -1, -1):
        limit = np.uint64(most >> 64 * at & (1 << 64) - 1)
        below |= equal & (size[:, at] < limit)
        equal &= size[:, at] == limit
    # Of a negative number whose size is one more than the greatest, the complement is the greatest itself.
    fits: Mask = below | (equal & ~top)
    return fits
