"""Buckets of keys: Iceberg's bucket transform of the one key column, or of the whole row key.

bucket = (h & 7fffffff) mod count, h the 32-bit x86 variant of Murmur3 with seed 0 over::

    integers, date, time, timestamp(_ntz), boolean   the number as int64, little-endian
    decimal                                          unscaled, big-endian, in as few bytes as hold it
    string, binary                                   the bytes
    several columns                                  the row key

Invariant: a key has the same bucket whether it is hashed alone or in a column, and still after a key
column was widened; a key of one column has Iceberg's ``bucket[count]``. The specification is
``docs/spec/v1/row-key.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.keys.order_value import (
    ColumnValues,
    binary_contents,
    decimal_words,
    encode_values,
    one_array,
    whole_numbers,
)
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.schema.types import BinaryType, DecimalType, Field, Primitive, StringType
from lakehouse.kernels.arrays import I32, I64, U8

__all__ = ["bucket_of", "bucket_of_key", "buckets_of"]

_U32: TypeAlias = npt.NDArray[np.uint32]

_C1, _C2 = 0xCC9E2D51, 0x1B873593
_ADDED = 0xE6546B64
_MIX1, _MIX2 = 0x85EBCA6B, 0xC2B2AE35
_MASK = 0xFFFF_FFFF
_POSITIVE = 0x7FFF_FFFF
_BLOCK_ROWS = 1 << 14
"""Rows that are hashed together, so that intermediate arrays stay in the processor's cache."""
_FEW_ROWS = 16
"""Number of remaining longer rows at which they are hashed one by one instead of together."""


def buckets_of(columns: Sequence[ColumnValues], fields: Sequence[Field], count: int) -> I32:
    """Returns the bucket of every row.

    Args:
        columns: the columns of the key, in key order.
        fields: the same columns as the schema has them.
        count: number of buckets.

    Raises:
        InvalidInputError: ``count`` is not positive, or the columns cannot be a key.
    """
    _check_count(count)
    codec = RowKeyCodec(fields)
    codec.refuse_nulls(columns)
    if len(fields) > 1:
        hashes = _hash_binary(codec.encode(columns))
    else:
        hashes = _hash_column(one_array(columns[0]), fields[0])
    return ((hashes & np.uint32(_POSITIVE)) % np.uint32(count)).astype(np.int32)


def _check_count(count: int) -> None:
    if count < 1:
        raise InvalidInputError(f"there are 1 or more buckets, not {count}", buckets=count)


def _hash_column(array: pa.Array, field: Field) -> _U32:
    kind = field.type
    if isinstance(kind, StringType | BinaryType):
        return _hash_binary(encode_values(array, kind))
    if isinstance(kind, DecimalType):
        return _hash_decimals(decimal_words(array, kind))
    numbers = whole_numbers(array, kind)
    return _in_blocks(len(numbers), lambda rows: _hash_int64(numbers[rows]))


def _in_blocks(count: int, hashed: Any) -> _U32:
    hashes: _U32 = np.empty(count, np.uint32)
    for begin in range(0, count, _BLOCK_ROWS):
        rows = slice(begin, begin + _BLOCK_ROWS)
        hashes[rows] = hashed(rows)
    return hashes


def _hash_int64(numbers: I64) -> _U32:
    words = numbers.view(np.uint32).reshape(-1, 2)
    hashes = _stirred(np.zeros(len(numbers), np.uint32), words[:, 0])
    return _finished(_stirred(hashes, words[:, 1]), np.uint32(8))


def _hash_binary(values: pa.Array) -> _U32:
    offsets, data = binary_contents(values)
    return _hash_pieces(data, offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64))


def _hash_decimals(unscaled: U8) -> _U32:
    wide = np.ascontiguousarray(unscaled[:, ::-1])
    # Iceberg hashes the fewest bytes that hold the number. Bytes that only repeat the sign are 0 after this.
    plain = wide ^ (wide[:, :1] >> 7) * np.uint8(0xFF)
    plain[:, -1] |= np.uint8(1)  # one byte is left in any case
    first = np.argmax(plain != 0, axis=1)
    sign_needs_a_byte = np.take_along_axis(plain, first[:, None], axis=1)[:, 0] >= 0x80
    lengths = 16 - first + sign_needs_a_byte
    starts = np.arange(16, 16 * len(wide) + 1, 16) - lengths
    return _hash_pieces(wide.reshape(-1), starts, lengths)


def _hash_pieces(data: U8, starts: I64, lengths: I64) -> _U32:
    # Overlapping words, one from each byte on; the padding lets the last ones reach past the end.
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    words = np.ndarray((len(data) + 1,), "<u4", padded, strides=(1,))
    return _in_blocks(len(starts), lambda rows: _hash_rows(words, starts[rows], lengths[rows]))


def _hash_rows(words: Any, starts: I64, lengths: I64) -> _U32:
    """Returns Murmur3 of pieces of bytes; ``words`` has the four bytes from each place on."""
    hashes: _U32 = np.zeros(len(starts), np.uint32)
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


def _rotated(values: _U32, bits: int) -> _U32:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))


def _scrambled(words: _U32) -> _U32:
    return _rotated(words * np.uint32(_C1), 15) * np.uint32(_C2)


def _stirred(hashes: _U32, words: _U32) -> _U32:
    return _rotated(hashes ^ _scrambled(words), 13) * np.uint32(5) + np.uint32(_ADDED)


def _finished(hashes: _U32, lengths: Any) -> _U32:
    hashes = hashes ^ lengths
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(_MIX1)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(_MIX2)
    return hashes ^ (hashes >> np.uint32(16))


def bucket_of(values: Sequence[object], fields: Sequence[Field], count: int) -> int:
    """Returns the bucket of one key, given its values."""
    return bucket_of_key(RowKeyCodec(fields).encode_one(values), fields, count)


def bucket_of_key(key: bytes, fields: Sequence[Field], count: int) -> int:
    """Returns the bucket of one row key."""
    _check_count(count)
    return (_hash_one(_hashed_bytes(key, fields)) & _POSITIVE) % count


def _hashed_bytes(key: bytes, fields: Sequence[Field]) -> bytes:
    kind = fields[0].type
    if len(fields) > 1 or isinstance(kind, StringType | BinaryType):
        return key
    if kind == Primitive("boolean"):
        return key + bytes(7)
    # The bytes of a key have the sign bit flipped, so that they order like the numbers.
    number = int.from_bytes(key, "big") - (1 << 8 * len(key) - 1)
    if isinstance(kind, DecimalType):
        return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
    return number.to_bytes(8, "little", signed=True)


def _hash_one(data: bytes) -> int:
    state = 0
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        state = _stirred_one(state, int.from_bytes(data[at : at + 4], "little"))
    state ^= _scrambled_one(int.from_bytes(data[whole:], "little")) ^ len(data)
    state = (state ^ state >> 16) * _MIX1 & _MASK
    state = (state ^ state >> 13) * _MIX2 & _MASK
    return state ^ state >> 16


def _scrambled_one(word: int) -> int:
    word = word * _C1 & _MASK
    return (word << 15 | word >> 17) * _C2 & _MASK


def _stirred_one(state: int, word: int) -> int:
    state ^= _scrambled_one(word)
    return ((state << 13 | state >> 19) * 5 + _ADDED) & _MASK
