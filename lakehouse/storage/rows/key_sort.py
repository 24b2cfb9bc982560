"""Key order of input rows: the sort of a write, and the last row of each key.

Invariant: rows of a key keep the order of the input, and where only one of them is kept it is the last;
rows that are in order already are recognised, so that nobody copies them.

A write of random keys spends most of its time on sorting, and a sort most of its time on comparing. So
numbers are sorted by radix, and texts as numbers, eight bytes at a time.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.format.keys import binary_contents
from lakehouse.kernels.arrays import I64, U64, Mask
from lakehouse.storage.rows.key_arrays import KeyArray

__all__ = ["by_key", "last_of_each"]

_FEW_BREAKS = 64
"""Mean length of sorted stretches above which rows are merged, not sorted anew."""
_BLOCK_ROWS = 1 << 19
"""Number of rows that are sorted at once: their keys fit the processor's cache."""
_DIGIT_BITS = 16
_DIGITS = 2
"""Number of radix sorts, each of 16 bits, which Numpy sorts so. After two, by the highest bits that differ,
rows are in order but for keys that agree in these, and finishing them costs less than further passes."""
_WORD = 8
"""Bytes of text that are sorted at once, as one unsigned integer."""
_WORDS_MAX = 16
"""Maximum number of words sorted so; texts that agree in more are sorted by comparison."""


def last_of_each(keys: KeyArray) -> I64 | None:
    """Returns the number of the last row of each key, in key order; None when that is every row, in place."""
    order = by_key(keys)
    if order is None:
        return None
    rows, ends = order
    return rows if ends.all() else rows[ends]


def by_key(keys: KeyArray) -> tuple[I64, Mask] | None:
    """Returns the numbers of all rows in key order, and a mask of the last row of each key.

    None when the rows are in key order already and every key has one row.
    """
    if isinstance(keys, np.ndarray):
        breaks = np.count_nonzero(keys[1:] <= keys[:-1])
        if not breaks:
            return None
        # Numpy's stable sort merges the stretches that are in order, when they are few.
        few = breaks < len(keys) // _FEW_BREAKS
        rows = np.argsort(keys, kind="stable") if few else _sorted_blocks(keys)
        ordered = keys[rows]
        same: Mask = ordered[1:] == ordered[:-1]
    else:
        if pc.all(pc.greater(keys[1:], keys[:-1]), min_count=0).as_py():
            return None
        rows, same = _sorted_texts(keys)
    return rows, np.append(~same, True)


def _sorted_blocks(keys: I64) -> I64:
    """Returns row numbers in key order: blocks that fit the processor's cache are sorted, then merged."""
    if len(keys) <= _BLOCK_ROWS:
        return _sorted_numbers(_distances(keys))
    rows = np.empty(len(keys), np.int64)
    ordered = np.empty_like(keys)
    for begin in range(0, len(keys), _BLOCK_ROWS):
        block = keys[begin : begin + _BLOCK_ROWS]
        order = _sorted_numbers(_distances(block))
        ordered[begin : begin + _BLOCK_ROWS] = block[order]
        rows[begin : begin + _BLOCK_ROWS] = order + begin
    return rows[np.argsort(ordered, kind="stable")]


def _distances(keys: I64) -> U64:
    """Returns the distance of each number from the least: unsigned, with as few bits as possible."""
    # In unsigned arithmetic the difference of any two int64 is right.
    distances: U64 = keys.view(np.uint64) - keys.min().view(np.uint64)
    return distances


def _sorted_numbers(numbers: U64) -> I64:
    """Returns row numbers in the order of these numbers, equal ones in the order of their rows."""
    bits = int(numbers.max()).bit_length()
    above = max(0, bits - _DIGITS * _DIGIT_BITS)
    rows: I64 | None = None
    for shift in range(above, bits, _DIGIT_BITS):
        digit = (numbers >> np.uint64(shift)).astype(np.uint16)
        rows = np.argsort(digit, kind="stable") if rows is None else _then(rows, digit)
    if rows is None:
        return np.arange(len(numbers))
    if above:
        nearly = numbers[rows]
        # The low bits are unsorted yet: a merge of nearly sorted rows finishes them.
        if not bool((nearly[1:] >= nearly[:-1]).all()):
            rows = rows[np.argsort(nearly, kind="stable")]
    return rows


def _then(rows: I64, digit: np.ndarray) -> I64:
    """Sorts ordered rows by a digit of higher weight; rows with the same digit keep their order."""
    return rows[np.argsort(digit[rows], kind="stable")]


def _sorted_texts(keys: pa.Array) -> tuple[I64, Mask]:
    """Returns row numbers in the order of texts or bytes, and for all but the last if the next is the same.

    Rows are sorted by the first eight bytes, then those that tie by the next eight, and so on. A text
    that ends is filled up with zeros, and comes before a longer one that has zeros there.
    """
    offsets, data = binary_contents(keys)
    padded = np.concatenate([data, np.zeros(_WORD, np.uint8)])
    every = np.ndarray((len(data) + 1,), ">u8", padded, strides=(1,))
    rows = np.arange(len(keys))
    begins = np.zeros(len(keys), np.bool_)  # places in ``rows`` where another text begins
    begins[0] = True
    tied = np.arange(len(keys))  # places in ``rows`` whose order is not decided yet
    for depth in range(0, _WORD * _WORDS_MAX, _WORD):
        chosen = rows[tied]
        at = np.minimum(offsets[chosen] + depth, offsets[chosen + 1])
        left = np.minimum(offsets[chosen + 1] - at, _WORD).astype(np.uint8)
        words = _cut_words(every[at].astype(np.uint64), left)
        group = np.cumsum(begins[tied]).astype(np.uint64)
        order = np.argsort(left, kind="stable")
        for weight in (words - words.min(), group - np.uint64(1)):
            order = order[_sorted_numbers(weight[order])]
        rows[tied] = chosen[order]
        words, left = words[order], left[order]
        begins[tied[1:]] |= (words[1:] != words[:-1]) | (left[1:] != left[:-1])
        goes_on = ~begins[tied]
        among_others = goes_on | np.append(goes_on[1:], False)
        tied = tied[among_others & (left == _WORD)]
        if not len(tied):
            return rows, ~begins[1:]
    rows = pc.array_sort_indices(keys).to_numpy().astype(np.int64)
    ordered = keys.take(pa.array(rows))
    return rows, pc.equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False)


def _cut_words(words: U64, left: np.ndarray) -> U64:
    """Clears the bytes of words that lie behind the end of their texts."""
    if bool((left == _WORD).all()):
        return words
    unused = (np.uint64(_WORD) - left.astype(np.uint64)) * np.uint64(4)
    cut: U64 = words >> unused >> unused << unused << unused  # in halves: no shift of 64 bits is defined
    return cut
