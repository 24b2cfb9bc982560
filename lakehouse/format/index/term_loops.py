"""Compiled loops over the terms of indexes: hashes, tokens of ASCII text, distinct terms, bits of filters.

They run compiled only, since Python's integers do not wrap; the callers of each have a counterpart in
numpy, for when nothing is compiled.

Invariant: a loop and its counterpart have the same results. A loop trusts its bounds: callers give offsets
that lie within the bytes, and two words of zeros behind them.

A term is known by a key. A term of 1 to 7 bytes is its own key, with its size in the highest byte, so equal
keys are equal terms; the key of any other is its SipHash-1-3, by which alone a filter knows it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakehouse.kernels.compiled import Loops

__all__ = ["TERM_LOOPS", "add_keys", "cut_text", "cut_values", "hash_all", "move_keys", "set_bits"]

_PAYS_FROM = 1 << 21
"""Number of terms for which numpy takes as long as compiled code takes to load."""
_V0, _V1 = 0x736F6D6570736575, 0x646F72616E646F6D ^ 42 << 56
_V2, _V3 = 0x6C7967656E657261, 0x7465646279746573 ^ 42 << 56
_MULTIPLIER = 0x517CC1B727220A95
_SPREAD = 0x9E3779B97F4A7C15


def _turned(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    """Returns the state after one more round of SipHash."""
    v0 += v1
    v1 = (v1 << np.uint64(13) | v1 >> np.uint64(51)) ^ v0
    v0 = v0 << np.uint64(32) | v0 >> np.uint64(32)
    v2 += v3
    v3 = (v3 << np.uint64(16) | v3 >> np.uint64(48)) ^ v2
    v0 += v3
    v3 = (v3 << np.uint64(21) | v3 >> np.uint64(43)) ^ v0
    v2 += v1
    v1 = (v1 << np.uint64(17) | v1 >> np.uint64(47)) ^ v2
    v2 = v2 << np.uint64(32) | v2 >> np.uint64(32)
    return v0, v1, v2, v3


def _word_at(words: Any, at: int) -> Any:
    """Returns the eight bytes from any byte on, as a word."""
    shift = np.uint64((at & 7) * 8)
    # A shift by 64 is undefined, so the high word moves in two steps.
    high = (words[(at >> 3) + 1] << np.uint64(1)) << (np.uint64(63) - shift)
    return words[at >> 3] >> shift | high


def _low_bytes(word: Any, size: int) -> Any:
    """Returns a word with its first ``size`` bytes, at most 7, and zeros for the others."""
    return word & ((np.uint64(1) << np.uint64(8 * size)) - np.uint64(1))


def _begun(size: Any) -> Any:
    """Returns the state after the length, which is hashed in front of a value."""
    length = np.uint64(size)
    v0, v1, v2, v3 = _turned(np.uint64(_V0), np.uint64(_V1), np.uint64(_V2), np.uint64(_V3) ^ length)
    return v0 ^ length, v1, v2, v3


def _ended(v0: Any, v1: Any, v2: Any, v3: Any, rest: Any, size: Any) -> Any:
    """Returns the hash, given the bytes behind the last whole word and the size of the value."""
    rest |= np.uint64(size + 8) << np.uint64(56)
    v0, v1, v2, v3 = _turned(v0, v1, v2, v3 ^ rest)
    v0 ^= rest
    v2 ^= np.uint64(255)
    for _ in range(3):
        v0, v1, v2, v3 = _turned(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def _hash_one(words: Any, at: int, size: int) -> Any:
    v0, v1, v2, v3 = _begun(size)
    for k in range(size >> 3):
        word = _word_at(words, at + 8 * k)
        v0, v1, v2, v3 = _turned(v0, v1, v2, v3 ^ word)
        v0 ^= word
    rest = size & 7
    return _ended(v0, v1, v2, v3, _low_bytes(_word_at(words, at + size - rest), rest), size)


def _hash_of_key(key: Any) -> Any:
    """Returns the hash of a short term, given its key."""
    size = np.int64(key >> np.uint64(56))
    v0, v1, v2, v3 = _begun(size)
    return _ended(v0, v1, v2, v3, _low_bytes(key, 7), size)


def hash_all(words: Any, starts: Any, lengths: Any, out: Any) -> None:
    """Writes the hash of every value to ``out``."""
    for i in range(len(out)):
        out[i] = _hash_one(words, starts[i], lengths[i])


def cut_text(
    text: Any, words: Any, bounds: Any, is_word: Any, row: int, at: int, shorts: Any, longs: Any
) -> Any:
    """Writes the keys of the tokens of rows, from a byte of a row on, until there is no room for more.

    Args:
        text: bytes of the rows.
        words: the same bytes as words.
        bounds: offset of each row in them, and the end of the last one.
        is_word: for each value of a byte whether tokens may have it.
        row: number of the row to begin with.
        at: offset of the byte to begin with.
        shorts: receives the keys of short terms.
        longs: receives the keys of other terms.

    Returns:
        Row and byte where it ended, and the numbers of keys of both kinds.
    """
    short, long, last = 0, 0, len(bounds) - 1
    while row < last:
        end = bounds[row + 1]
        while at < end:
            while at < end and not is_word[text[at]]:
                at += 1
            begin = at
            while at < end and is_word[text[at]]:
                at += 1
            size = at - begin
            if size > 7:
                longs[long] = _hash_one(words, begin, size)
                long += 1
            elif size > 0:
                shorts[short] = _low_bytes(_word_at(words, begin), size) | np.uint64(size) << np.uint64(56)
                short += 1
            if short == len(shorts) or long == len(longs):
                return row, at, short, long
        row += 1
    return row, at, short, long


def cut_values(words: Any, starts: Any, lengths: Any, shorts: Any, longs: Any) -> Any:
    """Writes the keys of values, for all of which there must be room; returns the numbers of both kinds."""
    short, long = 0, 0
    for i in range(len(starts)):
        size = lengths[i]
        if 0 < size < 8:
            word = _low_bytes(_word_at(words, starts[i]), size)
            shorts[short] = word | np.uint64(size) << np.uint64(56)
            short += 1
        else:
            longs[long] = _hash_one(words, starts[i], size)
            long += 1
    return short, long


def _place(table: Any, key: Any) -> Any:
    """Returns the place of a key in a table, or the empty place where it belongs."""
    mask = len(table) - 1
    at = np.int64((key * np.uint64(_SPREAD)) >> np.uint64(32)) & mask
    while table[at] != key and table[at] != np.uint64(0):
        at = (at + 1) & mask
    return at


def add_keys(table: Any, keys: Any, is_short: bool, out: Any, count: int) -> int:
    """Adds keys to a table, and hashes of new ones to ``out`` behind ``count`` others; returns the new count.

    A table has a power of two of places, some of which are empty, 0. A key 0, which almost no term has,
    counts as new every time.
    """
    for key in keys:
        at = _place(table, key)
        if table[at] != key or key == np.uint64(0):
            table[at] = key
            out[count] = _hash_of_key(key) if is_short else key
            count += 1
    return count


def move_keys(old: Any, table: Any) -> None:
    """Copies the keys of one table into another, larger one."""
    for key in old:
        if key != np.uint64(0):
            table[_place(table, key)] = key


def set_bits(hashes: Any, blocks: int, count: int, data: Any) -> None:
    """Sets ``count`` bits of each hash in a filter of so many blocks."""
    half, size, one = np.uint64(32), np.uint64(blocks), np.uint64(1)
    for first in hashes:
        h1 = first
        h2 = (h1 >> half) * np.uint64(_MULTIPLIER)
        for _ in range(count):
            block = (h1 >> half) * size >> half
            h1 += h2
            h1 = h1 << np.uint64(5) | h1 >> np.uint64(59)
            bit = h1 & np.uint64(511)
            data[block << np.uint64(6) | bit >> np.uint64(3)] |= np.uint8(one << (bit & np.uint64(7)))


TERM_LOOPS = Loops(
    _turned,
    _word_at,
    _low_bytes,
    _begun,
    _ended,
    _hash_one,
    _hash_of_key,
    hash_all,
    cut_text,
    cut_values,
    _place,
    add_keys,
    move_keys,
    set_bits,
    pays_from=_PAYS_FROM,
    adds_up=True,
)
"""The loops of this module, compiled as one unit; each is an attribute under its name."""
