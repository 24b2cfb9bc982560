"""Buckets of keys: Iceberg's bucket transform of the one key column, or of the whole row key.

bucket = (h & 7fffffff) mod count, h the hash of :mod:`lakehouse.kernels.murmur3` over::

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

import numpy as np
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
from lakehouse.kernels.arrays import I32, U32
from lakehouse.kernels.murmur3 import hash_bytes, hash_decimals, hash_int64, hash_pieces

__all__ = ["bucket_of", "bucket_of_key", "buckets_of"]

_POSITIVE = 0x7FFF_FFFF


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


def _hash_column(array: pa.Array, field: Field) -> U32:
    kind = field.type
    if isinstance(kind, StringType | BinaryType):
        return _hash_binary(encode_values(array, kind))
    if isinstance(kind, DecimalType):
        return hash_decimals(decimal_words(array, kind))
    return hash_int64(whole_numbers(array, kind))


def _hash_binary(values: pa.Array) -> U32:
    offsets, data = binary_contents(values)
    return hash_pieces(data, offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64))


def bucket_of(values: Sequence[object], fields: Sequence[Field], count: int) -> int:
    """Returns the bucket of one key, given its values."""
    return bucket_of_key(RowKeyCodec(fields).encode_one(values), fields, count)


def bucket_of_key(key: bytes, fields: Sequence[Field], count: int) -> int:
    """Returns the bucket of one row key."""
    _check_count(count)
    return (hash_bytes(_hashed_bytes(key, fields)) & _POSITIVE) % count


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
