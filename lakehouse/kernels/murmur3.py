"""Murmur3, the 32-bit x86 variant with seed 0, of many values at once and of one.

Iceberg's ``bucket`` transform and the buckets of our keys are computed from these hashes. Values of a column
are hashed word by word for all rows together, because a hash has only four bytes of work in a step.

Invariant: a value has the same hash alone and in a column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lakehouse.kernels.arrays import I64, U8, U32

__all__ = ["hash_bytes", "hash_decimals", "hash_int64", "hash_pieces"]

_C1, _C2 = 0xCC9E2D51, 0x1B873593
_ADDED = 0xE6546B64
_MIX1, _MIX2 = 0x85EBCA6B, 0xC2B2AE35
_MASK = 0xFFFF_FFFF
_BLOCK_ROWS = 1 << 14
"""Rows that are hashed together, so that intermediate arrays stay in the processor's cache."""
_FEW_ROWS = 16
"""Number of remaining longer rows at which they are hashed one by one instead of together."""


def hash_int64(numbers: I64) -> U32:
    """Returns the hash of each number, as its eight bytes in little-endian order."""
    return _in_blocks(len(numbers), lambda rows: _hash_words(numbers[rows]))


def hash_pieces(data: U8, starts: I64, lengths: I64) -> U32:
    """Returns the hash of each piece of some bytes.

    Args:
        data: the bytes.
        starts: first byte of each piece.
        lengths: number of bytes of each piece.
    """
    # Overlapping words, one from each byte on; the padding lets the last ones reach past the end.
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    words = np.ndarray((len(data) + 1,), "<u4", padded, strides=(1,))
    return _in_blocks(len(starts), lambda rows: _hash_rows(words, starts[rows], lengths[rows]))


def hash_decimals(unscaled: U8) -> U32:
    """Returns the hash of each decimal, as its unscaled number in the fewest bytes, big-endian.

    Args:
        unscaled: rows of 16 bytes, little-endian two's complement.
    """
    wide = np.ascontiguousarray(unscaled[:, ::-1])
    # Bytes that only repeat the sign are 0 after this, and are left out.
    plain = wide ^ (wide[:, :1] >> 7) * np.uint8(0xFF)
    plain[:, -1] |= np.uint8(1)  # one byte is left in any case
    first = np.argmax(plain != 0, axis=1)
    sign_needs_a_byte = np.take_along_axis(plain, first[:, None], axis=1)[:, 0] >= 0x80
    lengths = 16 - first + sign_needs_a_byte
    starts = np.arange(16, 16 * len(wide) + 1, 16) - lengths
    return hash_pieces(wide.reshape(-1), starts, lengths)


def hash_bytes(data: bytes) -> int:
    """Returns the hash of one value."""
    state = 0
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        state = _stirred_one(state, int.from_bytes(data[at : at + 4], "little"))
    state ^= _scrambled_one(int.from_bytes(data[whole:], "little")) ^ len(data)
    state = (state ^ state >> 16) * _MIX1 & _MASK
    state = (state ^ state >> 13) * _MIX2 & _MASK
    return state ^ state >> 16


def _in_blocks(count: int, hashed: Callable[[slice], U32]) -> U32:
    hashes: U32 = np.empty(count, np.uint32)
    for begin in range(0, count, _BLOCK_ROWS):
        rows = slice(begin, begin + _BLOCK_ROWS)
        hashes[rows] = hashed(rows)
    return hashes


def _hash_words(numbers: I64) -> U32:
    words = numbers.view(np.uint32).reshape(-1, 2)
    hashes = _stirred(np.zeros(len(numbers), np.uint32), words[:, 0])
    return _finished(_stirred(hashes, words[:, 1]), np.uint32(8))


def _hash_rows(words: Any, starts: I64, lengths: I64) -> U32:
    """Returns Murmur3 of pieces of bytes; ``words`` has the four bytes from each place on."""
    hashes: U32 = np.zeros(len(starts), np.uint32)
    whole = lengths >> 2
    rows = np.flatnonzero(whole)
    word = 0
    while len(rows) > _FEW_ROWS:
        hashes[rows] = _stirred(hashes[rows], words[starts[rows] + 4 * word])
        word += 1
        rows = rows[whole[rows] > word]
    for row in rows.tolist():
        state = int(hashes[row])
        begin = int(starts[row])
        for value in words[begin + 4 * word : begin + 4 * int(whole[row]) : 4].tolist():
            state = _stirred_one(state, value)
        hashes[row] = state
    rest = (lengths & 3).astype(np.uint32)
    tail = words[starts + 4 * whole] & ((np.uint32(1) << rest * np.uint32(8)) - np.uint32(1))
    return _finished(hashes ^ _scrambled(tail), lengths.astype(np.uint32))


def _rotated(values: U32, bits: int) -> U32:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))


def _scrambled(words: U32) -> U32:
    return _rotated(words * np.uint32(_C1), 15) * np.uint32(_C2)


def _stirred(hashes: U32, words: U32) -> U32:
    return _rotated(hashes ^ _scrambled(words), 13) * np.uint32(5) + np.uint32(_ADDED)


def _finished(hashes: U32, lengths: Any) -> U32:
    hashes = hashes ^ lengths
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(_MIX1)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(_MIX2)
    return hashes ^ (hashes >> np.uint32(16))


def _scrambled_one(word: int) -> int:
    word = word * _C1 & _MASK
    return (word << 15 | word >> 17) * _C2 & _MASK


def _stirred_one(state: int, word: int) -> int:
    state ^= _scrambled_one(word)
    return ((state << 13 | state >> 19) * 5 + _ADDED) & _MASK
