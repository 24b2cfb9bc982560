"""Bloom filters with the bits of crate ``fastbloom``: their sizes, hash counts and the bits of each value.

A filter is a row of 512-bit blocks. A value's *plain* bits may fall in different blocks, its
*sparse* bits all fall in one: with few values to a block, each has hundreds of bits, which are
computed faster as words of random bits with a given density.

Invariant: sizes and counts depend on the number of values and the rate alone and are computed
in IEEE doubles in the order written here, because a reader derives them again and must
arrive at the same integers. Everything that takes hashes takes arrays of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lakehouse.errors import InvalidInputError
from lakehouse.kernels.arrays import I64, U64, Mask

__all__ = [
    "BLOCK_BYTES",
    "Draws",
    "block_count",
    "build_filters",
    "check_rate",
    "draws_of",
    "looks_of",
    "may_contain",
    "may_contain_one",
]

BLOCK_BYTES = 64
"""Size of a block in bytes; filters are whole blocks."""
_BLOCK_BITS = 8 * BLOCK_BYTES
_BLOCK_WORDS = BLOCK_BYTES // 8
_LN2 = math.log(2)
_MULTIPLIER = np.uint64(0x517CC1B727220A95)
_32, _5, _59 = np.uint64(32), np.uint64(5), np.uint64(59)
_BITS_64 = (1 << 64) - 1
_LOW_9 = np.uint64(_BLOCK_BITS - 1)

# For each density t/64 the operators that combine random words into it, and its cost when t is chosen.
_OPERATORS = {
    8: "&&", 9: "&&|&&", 10: "&|&&", 11: "|&|&&", 12: "|&&", 13: "&||&&", 14: "||&&", 15: "|||&&",
    16: "&", 17: "&&&|&", 18: "&&|&", 19: "|&&|&", 20: "&|&", 21: "&|&|&", 22: "|&|&", 23: "||&|&",
    24: "|&", 25: "&&||&", 26: "&||&", 27: "|&||&", 28: "||&", 29: "&|||&", 30: "|||&", 31: "||||&", 32: "",
}  # fmt: skip
_WORK = {
    8: 3, 9: 6, 10: 5, 11: 6, 12: 4, 13: 6, 14: 5, 15: 6, 16: 2, 17: 6, 18: 5, 19: 6, 20: 4,
    21: 6, 22: 5, 23: 6, 24: 3, 25: 6, 26: 5, 27: 6, 28: 4, 29: 6, 30: 5, 31: 6, 32: 1,
}  # fmt: skip


def _bits_alike(density: int) -> float:
    """Returns the number of plain bits that fill a word as much as random bits of this density (64ths)."""
    return math.log(1 - density / 64) / math.log(63 / 64)


_TOTAL_MAX = 8 * _bits_alike(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """The way in which a value chooses its bits: numbers of plain and of sparse ones."""

    plain: int
    """Bits chosen one by one."""
    sparse: int | None
    """Density, in 64ths, of the random words that choose the other bits; None = there are no others."""


def check_rate(rate: float) -> None:
    """Refuses false positive rates outside of (0, 1]."""
    if not 0 < rate <= 1:
        raise InvalidInputError(
            f"a false positive rate must be in (0, 1], not {rate!r}", false_positive_rate=rate
        )


@lru_cache(maxsize=4096)
def block_count(values: int, rate: float) -> int:
    """Returns the number of blocks of a filter for so many distinct values."""
    bits = max(_BLOCK_BITS, 8 * math.ceil(values * math.log(rate) / (-8.0 * _LN2 * _LN2)))
    return -(-bits // _BLOCK_BITS)


@lru_cache(maxsize=4096)
def draws_of(blocks: int, values: int) -> Draws:
    """Returns the way in which values choose bits in a filter of so many blocks and distinct values."""
    per_block = values / blocks
    wanted = _BLOCK_BITS / per_block * _LN2 if values else math.inf
    total = math.floor(min(max(wanted, 1.0), _TOTAL_MAX))
    plain, sparse = total, None
    for density, work in _WORK.items():
        rest = _rounded(total - 8 * _bits_alike(density))
        # The right side adds work and a density, which have no common unit. Upstream compares them so,
        # and the bits depend on it.
        if rest >= 0 and rest + work < plain + (sparse or 0):
            plain, sparse = rest, density
    return Draws(plain=plain, sparse=sparse)


def _rounded(value: float) -> int:
    """Rounds to the nearest integer, halves away from zero as Rust does."""
    whole = math.floor(abs(value))
    if abs(value) - whole >= 0.5:
        whole += 1
    return int(math.copysign(whole, value))


def build_filters(hashes: U64, owner: I64, counts: I64, rate: float) -> tuple[bytes, I64]:
    """Returns the bytes of filters one after another, and the number of blocks of each.

    Args:
        hashes: hashes of all distinct values, grouped by filter in ascending order.
        owner: for each hash, the number of its filter.
        counts: for each filter, its number of values.
        rate: false positive rate.
    """
    blocks = np.array([block_count(count, rate) for count in counts.tolist()], np.int64)
    begins = np.cumsum(blocks) - blocks
    # A byte for each bit: setting those and packing them is five times quicker than setting bits.
    flags = np.zeros(int(blocks.sum()) * _BLOCK_BITS, np.uint8)
    late: list[tuple[I64, U64]] = []
    for draws, mine in _by_draws(blocks, counts):
        chosen = mine[owner]
        h1, which = hashes[chosen], owner[chosen]
        h2 = _second(h1)
        start = begins[which]
        sizes = blocks[which].astype(np.uint64)
        for bits in _plain_bits(h1, h2, sizes, draws.plain):
            flags[start * _BLOCK_BITS + bits] = 1
        if draws.sparse is not None:
            late.append((start + _block(h1, sizes), _sparse_words(h1, h2, draws.sparse)))
    words = np.packbits(flags, bitorder="little").view("<u8").reshape(-1, _BLOCK_WORDS)
    for at, pattern in late:
        np.bitwise_or.at(words, at, pattern)
    return words.tobytes(), blocks


def may_contain(words: U64, begins: I64, blocks: I64, hashes: U64, draws: Draws) -> Mask:
    """Returns for each hash whether its filter, ``blocks`` blocks from ``begins`` on, may hold its value.

    All filters choose bits in the same way, ``draws``.
    """
    h1 = hashes.copy()
    h2 = _second(h1)
    sizes = blocks.astype(np.uint64)
    held = np.ones(len(h1), np.bool_)
    for bits in _plain_bits(h1, h2, sizes, draws.plain):
        at = begins * _BLOCK_BITS + bits
        held &= (words[at >> 6] >> (at & 63).astype(np.uint64) & np.uint64(1)).astype(np.bool_)
    if draws.sparse is not None:
        pattern_words = words.reshape(-1, _BLOCK_WORDS)[begins + _block(h1, sizes)]
        pattern = _sparse_words(h1, h2, draws.sparse)
        held &= ((pattern_words & pattern) == pattern).all(axis=1)
    return held


def may_contain_one(filters: bytes | memoryview, begin: int, blocks: int, first: int, plain: int) -> bool:
    """Does the same for one hash and a filter without sparse bits: for few, twenty times as fast.

    Args:
        filters: bytes of filters.
        begin: offset of the filter in them.
        blocks: number of blocks of the filter.
        first: the hash.
        plain: number of bits of a value.
    """
    second = (first >> 32) * int(_MULTIPLIER) & _BITS_64
    for _ in range(plain):
        block = (first >> 32) * blocks >> 32
        first = first + second & _BITS_64
        first = (first << 5 | first >> 59) & _BITS_64
        bit = block * _BLOCK_BITS + (first & _BLOCK_BITS - 1)
        if not filters[begin + (bit >> 3)] >> (bit & 7) & 1:
            return False
    return True


def looks_of(hashes: U64, blocks: I64, draws: Draws) -> Iterator[tuple[I64, U64]]:
    """Yields the lookups that :func:`may_contain` makes: for each hash a block of its filter, and bits in it.

    The bits are given as words of the block. A value may be there if every lookup finds all its bits set.
    """
    h1 = hashes.copy()
    h2 = _second(h1)
    sizes = blocks.astype(np.uint64)
    rows = np.arange(len(h1))
    for bits in _plain_bits(h1, h2, sizes, draws.plain):
        pattern = np.zeros((len(h1), _BLOCK_WORDS), np.uint64)
        pattern[rows, bits >> 6 & 7] = np.uint64(1) << (bits & 63).astype(np.uint64)
        yield bits // _BLOCK_BITS, pattern
    if draws.sparse is not None:
        block = _block(h1, sizes)
        yield block, _sparse_words(h1, h2, draws.sparse)


def _by_draws(blocks: I64, counts: I64) -> Iterator[tuple[Draws, Mask]]:
    """Yields groups of filters that choose bits in the same way, as masks; empty filters are in none."""
    groups: dict[Draws, list[int]] = {}
    for index, (size, count) in enumerate(zip(blocks.tolist(), counts.tolist(), strict=True)):
        if count:
            groups.setdefault(draws_of(size, count), []).append(index)
    for draws, indexes in groups.items():
        mine = np.zeros(len(blocks), np.bool_)
        mine[indexes] = True
        yield draws, mine


def _second(h1: U64) -> U64:
    return (h1 >> _32) * _MULTIPLIER


def _block(h1: U64, blocks: U64) -> I64:
    return ((h1 >> _32) * blocks >> _32).astype(np.int64)


def _step(h1: U64, h2: U64) -> None:
    """Advances hashes to the next one of each value, in place."""
    h1 += h2
    high = h1 >> _59
    h1 <<= _5
    h1 |= high


def _plain_bits(h1: U64, h2: U64, blocks: U64, count: int) -> Iterator[I64]:
    """Yields ``count`` times a bit of each value, from the start of its filter. Steps ``h1`` in place."""
    for _ in range(count):
        block = _block(h1, blocks)
        _step(h1, h2)
        yield block * _BLOCK_BITS + (h1 & _LOW_9).astype(np.int64)


def _sparse_words(h1: U64, h2: U64, density: int) -> U64:
    """Returns a block of random bits for each value, as words. Steps ``h1`` in place."""
    lanes = np.empty((len(h1), 4), np.uint64)
    for lane in range(4):
        _step(h1, h2)
        lanes[:, lane] = h1
    increment = (h2 * np.uint64(4))[:, None]
    pattern = np.empty((len(h1), _BLOCK_WORDS), np.uint64)
    for half in (pattern[:, :4], pattern[:, 4:]):
        lanes += increment
        half[:] = lanes
        for operator in _OPERATORS[density]:
            lanes += increment
            if operator == "&":
                half &= lanes
            else:
                half |= lanes
    return pattern
