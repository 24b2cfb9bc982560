"""SipHash-1-3 of many byte strings at once, keyed and framed as GreptimeDB's bloom filters do.

The key is the number 42 as sixteen big-endian bytes. The hashed bytes of a value are its length as
eight little-endian bytes and then the value itself, as Rust's ``Hash`` for byte slices has them.

Invariant: :func:`hash_values` of a column is, value for value, the SipHash-1-3 of the reference
description, whatever the lengths are; a test compares it with an implementation of that.

Where nothing is compiled, a column is hashed word by word: word k of every value that has one goes
through the round together. Values are sorted by their number of words first, so those still alive are
always a prefix of the state, and the arrays are views, never copies. A few very long values at the end
of a column are finished one by one, where calls into numpy would cost more than they do.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakehouse.format.index.term_loops import TERM_LOOPS
from lakehouse.kernels.arrays import I64, U64
from lakehouse.kernels.binary_arrays import binary_parts
from lakehouse.kernels.padded_words import padded_words

__all__ = ["hash_values"]

_BLOCK = 1 << 14
"""Number of values hashed together, so that their state stays in the processor's cache."""
_FEW = 12
"""Number of remaining values below which Python's integers are quicker than calls into numpy."""
_MASK = (1 << 64) - 1
_K0, _K1 = 0, 42 << 56
_START = (
    _K0 ^ 0x736F6D6570736575,
    _K1 ^ 0x646F72616E646F6D,
    _K0 ^ 0x6C7967656E657261,
    _K1 ^ 0x7465646279746573,
)
_FINAL_ROUNDS = 3
_PREFIX_BYTES = 8
# Masks that keep the first n bytes of a little-endian word.
_KEEP = np.array([(1 << 8 * n) - 1 for n in range(8)], np.uint64)


def hash_values(array: pa.Array) -> U64:
    """Returns the hashes of a binary array; the hash of a null means nothing."""
    offsets, data = binary_parts(array)
    lengths = np.diff(offsets)
    words = padded_words(data, int(offsets[0]), int(offsets[-1]))
    starts = offsets[:-1] - (offsets[0] & ~7)
    out = np.empty(len(lengths), np.uint64)
    compiled = TERM_LOOPS.compiled_for(len(lengths))
    if compiled is not None:
        compiled.hash_all(words, starts, lengths, out)
        return out
    for begin in range(0, len(lengths), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        out[part] = _hash_block(words, starts[part], lengths[part])
    return out


def _hash_block(words: U64, starts: I64, lengths: I64) -> U64:
    counts = lengths >> 3
    if counts.size and (counts != counts[0]).any():
        order = np.argsort(-counts, kind="stable")
        hashed = np.empty(len(starts), np.uint64)
        hashed[order] = _hash_sorted(words, starts[order], lengths[order])
        return hashed
    return _hash_sorted(words, starts, lengths)


def _hash_sorted(words: U64, starts: I64, lengths: I64) -> U64:
    """Hashes values that are in descending order of their number of whole words."""
    size = len(starts)
    state = [np.full(size, word, np.uint64) for word in _START]
    scratch = np.empty(size, np.uint64)
    _absorb(state, lengths.astype(np.uint64), scratch)
    counts = lengths >> 3
    ascending = -counts
    at, shift = starts >> 3, (starts & 7).astype(np.uint64) * np.uint64(8)
    for k in range(int(counts[0]) if size else 0):
        alive = int(np.searchsorted(ascending, -k))
        if alive < _FEW:
            _absorb_singly(state, words, starts[:alive], counts[:alive], k)
            break
        views = [part[:alive] for part in state]
        _absorb(views, _unaligned(words, at[:alive] + k, shift[:alive]), scratch[:alive])
    last = _unaligned(words, at + counts, shift) & _KEEP[lengths & 7]
    last |= (lengths + _PREFIX_BYTES).astype(np.uint64) << np.uint64(56)
    _absorb(state, last, scratch)
    v0, v1, v2, v3 = state
    v2 ^= np.uint64(0xFF)
    for _ in range(_FINAL_ROUNDS):
        _round(v0, v1, v2, v3, scratch)
    v0 ^= v1
    v2 ^= v3
    v0 ^= v2
    return v0


def _unaligned(words: U64, index: I64, shift: U64) -> U64:
    """Returns the words that begin ``shift`` bits behind the words at ``index``."""
    low = words[index] >> shift
    # A shift by 64 is undefined, so the high word moves in two steps.
    high = (words[index + 1] << np.uint64(1)) << (np.uint64(63) - shift)
    return low | high


def _absorb(state: list[U64], message: U64, scratch: U64) -> None:
    v0, v1, v2, v3 = state
    v3 ^= message
    _round(v0, v1, v2, v3, scratch)
    v0 ^= message


def _round(v0: U64, v1: U64, v2: U64, v3: U64, scratch: U64) -> None:
    v0 += v1
    _rotate(v1, 13, scratch)
    v1 ^= v0
    _rotate(v0, 32, scratch)
    v2 += v3
    _rotate(v3, 16, scratch)
    v3 ^= v2
    v0 += v3
    _rotate(v3, 21, scratch)
    v3 ^= v0
    v2 += v1
    _rotate(v1, 17, scratch)
    v1 ^= v2
    _rotate(v2, 32, scratch)


def _rotate(value: U64, bits: int, scratch: U64) -> None:
    np.right_shift(value, np.uint64(64 - bits), out=scratch)
    np.left_shift(value, np.uint64(bits), out=value)
    np.bitwise_or(value, scratch, out=value)


def _absorb_singly(state: list[U64], words: U64, starts: I64, counts: I64, k: int) -> None:
    """Absorbs the words from the ``k``-th on into the states of a few long values."""
    raw = words.view(np.uint8)
    for i, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        v0, v1, v2, v3 = (int(part[i]) for part in state)
        for message in raw[start + 8 * k : start + 8 * count].copy().view("<u8").tolist():
            v3 ^= message
            v0 = (v0 + v1) & _MASK
            v1 = (v1 << 13 & _MASK | v1 >> 51) ^ v0
            v0 = v0 << 32 & _MASK | v0 >> 32
            v2 = (v2 + v3) & _MASK
            v3 = (v3 << 16 & _MASK | v3 >> 48) ^ v2
            v0 = (v0 + v3) & _MASK
            v3 = (v3 << 21 & _MASK | v3 >> 43) ^ v0
            v2 = (v2 + v1) & _MASK
            v1 = (v1 << 17 & _MASK | v1 >> 47) ^ v2
            v2 = v2 << 32 & _MASK | v2 >> 32
            v0 ^= message
        for part, value in zip(state, (v0, v1, v2, v3), strict=True):
            part[i] = value
