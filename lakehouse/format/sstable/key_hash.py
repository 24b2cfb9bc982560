"""XXH3-64 (seed 0) of many keys at once.

Invariant: :func:`hash_keys` of an array is, key for key, the hash of the xxhash library; compiled
code hashes keys of up to 128 bytes, the library longer ones, and all keys where nothing is
compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xxhash

from lakehouse.format.sstable.loops import Packed
from lakehouse.kernels.arrays import U64
from lakehouse.kernels.compiled import Loops

__all__ = ["hash_key", "hash_keys"]

hash_key = xxhash.xxh3_64_intdigest
"""Function that hashes one key."""

_COMPILED_MAX = 128
_SECRET = np.frombuffer(
    bytes.fromhex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
        "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
        "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
        "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    ),
    np.uint8,
)
"""The first 128 bytes of the secret that the algorithm defines."""


def hash_keys(keys: Packed) -> U64:
    """Returns the hashes of all keys."""
    count = len(keys.offsets) - 1
    out = np.empty(count, np.uint64)
    compiled = _LOOPS.compiled_for(count)
    if compiled is None:
        left: Any = range(count)
    else:
        compiled._hash_short(keys.data, keys.offsets, out)
        left = np.flatnonzero(keys.lengths > _COMPILED_MAX).tolist()
    if len(left):
        view = keys.data.data
        bounds = keys.offsets.tolist()
        for i in left:
            out[i] = hash_key(view[bounds[i] : bounds[i + 1]])
    return out


# The functions below run compiled only: Python's integers do not wrap. They follow the reference
# description for inputs of up to 128 bytes, the seed left out because it is 0.


def _word(data: Any, at: int, size: int) -> Any:
    """Returns ``size`` bytes as a little-endian number."""
    value = np.uint64(0)
    first = np.uint64(at)
    for i in range(np.uint64(size)):
        value |= np.uint64(data[first + i]) << (np.uint64(8) * i)
    return value


def _swapped(value: Any) -> Any:
    """Returns the number with its eight bytes in reverse order."""
    out = np.uint64(0)
    for _ in range(8):
        out = (out << np.uint64(8)) | (value & np.uint64(255))
        value >>= np.uint64(8)
    return out


def _folded(a: Any, b: Any) -> Any:
    """Returns the low half xor the high half of the 128-bit product."""
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    cross = (a0 * b0 >> half) + (a1 * b0 & low) + a0 * b1
    return (a1 * b1 + (a1 * b0 >> half) + (cross >> half)) ^ (a * b)


def _avalanche(h: Any) -> Any:
    h ^= h >> np.uint64(37)
    h *= np.uint64(0x165667919E3779F9)
    return h ^ (h >> np.uint64(32))


def _avalanche_64(h: Any) -> Any:
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xC2B2AE3D27D4EB4F)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0x165667B19E3779F9)
    return h ^ (h >> np.uint64(32))


def _secret(at: int) -> Any:
    return _word(_SECRET, at, 8)


def _mixed(data: Any, at: int, secret: int) -> Any:
    return _folded(_word(data, at, 8) ^ _secret(secret), _word(data, at + 8, 8) ^ _secret(secret + 8))


def _hash_tiny(data: Any, at: int, size: int) -> Any:
    """Hashes up to 16 bytes."""
    length = np.uint64(size)
    if size > 8:
        low = _word(data, at, 8) ^ _secret(24) ^ _secret(32)
        high = _word(data, at + size - 8, 8) ^ _secret(40) ^ _secret(48)
        return _avalanche(length + _swapped(low) + high + _folded(low, high))
    if size >= 4:
        h = _word(data, at + size - 4, 4) + (_word(data, at, 4) << np.uint64(32))
        h ^= _secret(8) ^ _secret(16)
        h ^= (h << np.uint64(49) | h >> np.uint64(15)) ^ (h << np.uint64(24) | h >> np.uint64(40))
        h *= np.uint64(0x9FB21C651E98DF25)
        h ^= (h >> np.uint64(35)) + length
        h *= np.uint64(0x9FB21C651E98DF25)
        return h ^ (h >> np.uint64(28))
    if size > 0:
        h = np.uint64(data[at]) << np.uint64(16) | np.uint64(data[at + (size >> 1)]) << np.uint64(24)
        h |= np.uint64(data[at + size - 1]) | length << np.uint64(8)
        return _avalanche_64(h ^ _word(_SECRET, 0, 4) ^ _word(_SECRET, 4, 4))
    return _avalanche_64(_secret(56) ^ _secret(64))


def _hash_one(data: Any, at: int, size: int) -> Any:
    if size <= 16:
        return _hash_tiny(data, at, size)
    h = np.uint64(size) * np.uint64(0x9E3779B185EBCA87)
    for i in range((size - 1) // 32, -1, -1):
        h += _mixed(data, at + 16 * i, 32 * i)
        h += _mixed(data, at + size - 16 * (i + 1), 32 * i + 16)
    return _avalanche(h)


def _hash_short(data: Any, offsets: Any, out: Any) -> None:
    for i in range(len(out)):
        size = offsets[i + 1] - offsets[i]
        if size <= _COMPILED_MAX:
            out[i] = _hash_one(data, offsets[i], size)


_LOOPS = Loops(
    _word,
    _swapped,
    _folded,
    _avalanche,
    _avalanche_64,
    _secret,
    _mixed,
    _hash_tiny,
    _hash_one,
    _hash_short,
)
