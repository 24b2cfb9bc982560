"""Murmur3, the 128-bit x64 variant, of many pieces of bytes at once: the first 64 bits of each hash.

DataSketches' theta sketches are made of these hashes. Pieces are hashed in blocks of 16 bytes, the same
block of all pieces together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakehouse.kernels.arrays import I64, U8, U64

__all__ = ["hash_pieces_128"]

_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_ADDED1, _ADDED2 = 0x52DCE729, 0x38495AB5
_MIX1, _MIX2 = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53
_MASK = (1 << 64) - 1
_BLOCK = 16
_BLOCK_ROWS = 1 << 14
"""Rows that are hashed together, so that intermediate arrays stay in the processor's cache."""
_FEW_ROWS = 16
"""Number of remaining longer rows at which they are hashed one by one instead of together."""


def hash_pieces_128(data: U8, starts: I64, lengths: I64, *, seed: int) -> U64:
    """Returns the first half of the hash of each piece of some bytes.

    Args:
        data: the bytes.
        starts: first byte of each piece.
        lengths: number of bytes of each piece.
        seed: beginning of both halves of the state.
    """
    # Overlapping words, one from each byte on; the padding lets the last ones reach past the end.
    padded = np.concatenate([data, np.zeros(2 * _BLOCK, np.uint8)])
    words = np.ndarray((len(data) + _BLOCK + 1,), "<u8", padded, strides=(1,))
    hashes: U64 = np.empty(len(starts), np.uint64)
    for begin in range(0, len(starts), _BLOCK_ROWS):
        rows = slice(begin, begin + _BLOCK_ROWS)
        hashes[rows] = _hash_rows(words, starts[rows], lengths[rows], seed)
    return hashes


def _hash_rows(words: Any, starts: I64, lengths: I64, seed: int) -> U64:
    first: U64 = np.full(len(starts), seed, np.uint64)
    second = first.copy()
    whole = lengths // _BLOCK
    rows, block = np.flatnonzero(whole), 0
    while len(rows) > _FEW_ROWS:
        at = starts[rows] + _BLOCK * block
        first[rows], second[rows] = _stirred(first[rows], second[rows], words[at], words[at + 8])
        block += 1
        rows = rows[whole[rows] > block]
    for row in rows.tolist():
        first[row], second[row] = _stirred_one(
            words, int(starts[row]), range(block, int(whole[row])), int(first[row]), int(second[row])
        )
    at, rest = starts + _BLOCK * whole, lengths - _BLOCK * whole
    first ^= _scrambled(words[at] & _lowest(rest), _C1, 31, _C2)
    second ^= _scrambled(words[at + 8] & _lowest(rest - 8), _C2, 33, _C1)
    return _finished(first, second, lengths.astype(np.uint64))


def _lowest(count: I64) -> U64:
    """Returns words with so many of their lowest bytes set, from none to eight."""
    bits = (8 * np.clip(count, 0, 8)).astype(np.uint64)
    # A shift by 64 is left out: numpy yields zero for it, and C anything.
    partial = (np.uint64(1) << np.minimum(bits, np.uint64(63))) - np.uint64(1)
    masks: U64 = np.where(bits == 64, np.uint64(_MASK), partial)
    return masks


def _rotated(values: U64, bits: int) -> U64:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _scrambled(words: U64, before: int, bits: int, after: int) -> U64:
    return _rotated(words * np.uint64(before), bits) * np.uint64(after)


def _stirred(first: U64, second: U64, low: U64, high: U64) -> tuple[U64, U64]:
    first = _rotated(first ^ _scrambled(low, _C1, 31, _C2), 27) + second
    first = first * np.uint64(5) + np.uint64(_ADDED1)
    second = _rotated(second ^ _scrambled(high, _C2, 33, _C1), 31) + first
    return first, second * np.uint64(5) + np.uint64(_ADDED2)


def _stirred_one(words: Any, start: int, blocks: range, first: int, second: int) -> tuple[int, int]:
    """Stirs some blocks of one long piece, in Python's numbers, which are quicker than arrays of one."""
    begin, end = start + _BLOCK * blocks.start, start + _BLOCK * blocks.stop
    lows, highs = words[begin:end:_BLOCK].tolist(), words[begin + 8 : end + 8 : _BLOCK].tolist()
    for low, high in zip(lows, highs, strict=True):
        first ^= _turned(low * _C1, 31) * _C2 & _MASK
        first = (_turned(first, 27) + second) * 5 + _ADDED1 & _MASK
        second ^= _turned(high * _C2, 33) * _C1 & _MASK
        second = (_turned(second, 31) + first) * 5 + _ADDED2 & _MASK
    return first, second


def _turned(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 64 - bits) & _MASK


def _finished(first: U64, second: U64, lengths: U64) -> U64:
    first, second = first ^ lengths, second ^ lengths
    first = first + second
    second = second + first
    return _mixed(first) + _mixed(second)


def _mixed(values: U64) -> U64:
    values = (values ^ (values >> np.uint64(33))) * np.uint64(_MIX1)
    values = (values ^ (values >> np.uint64(33))) * np.uint64(_MIX2)
    return values ^ (values >> np.uint64(33))
