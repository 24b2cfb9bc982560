"""Murmur3 hashes of Arrow values, as appendix B of Iceberg's specification has them.

Integers, dates and times are hashed as numbers of 64 bits, times in microseconds; decimals as the fewest
bytes of their unscaled numbers; texts, UUIDs and bytes as they are. Floats as doubles, both zeros and all
NaN alike.

Invariant: a value has the same hash after its column was promoted to a wider type.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.kernels.arrays import I64, U32
from lakehouse.kernels.binary_arrays import binary_parts
from lakehouse.kernels.decimal_arrays import decimal_words
from lakehouse.kernels.murmur3 import hash_decimals, hash_int64, hash_pieces

__all__ = ["hash_values", "whole_numbers"]

_NAN_BITS = 0x7FF8_0000_0000_0000
_MICROS_PER = {"s": 1_000_000, "ms": 1_000, "us": 1}


def hash_values(values: pa.Array, *, salt: int = 0) -> U32:
    """Returns the hash of each value; that of a null is any number.

    Args:
        values: numbers, texts, bytes, dates, times or truth values.
        salt: a byte that all bytes are changed by, for another hash of the same values; 0 = Iceberg's hash.

    Raises:
        InvalidInputError: values of this type have no hash.
    """
    kind, types = values.type, pa.types
    if types.is_decimal128(kind):
        return hash_decimals(decimal_words(values).view(np.uint8).reshape(-1, 16) ^ np.uint8(salt))
    if types.is_floating(kind):
        return hash_int64(_double_bits(values) ^ _salted(salt))
    if types.is_timestamp(kind) or types.is_time(kind):
        numbers = whole_numbers(values)
        micros = numbers // 1_000 if kind.unit == "ns" else numbers * _MICROS_PER[kind.unit]
        return hash_int64(micros ^ _salted(salt))
    if types.is_integer(kind) or types.is_date32(kind) or types.is_boolean(kind):
        return hash_int64(whole_numbers(values) ^ _salted(salt))
    if types.is_fixed_size_binary(kind):
        values = values.cast(pa.binary())
    elif not _is_bytes(kind):
        raise InvalidInputError(f"values of {kind} have no hash")
    offsets, data = binary_parts(values)
    return hash_pieces(data ^ np.uint8(salt), offsets[:-1], np.diff(offsets))


def _salted(salt: int) -> np.int64:
    return np.int64(int.from_bytes(bytes([salt]) * 8, "little", signed=True))


def whole_numbers(values: pa.Array) -> I64:
    """Returns integers, days, times in their unit, and 1 for true as int64; 0 for null."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    elif values.type.bit_width == 32 and pa.types.is_temporal(values.type):
        values = values.cast(pa.int32())
    numbers: I64 = values.cast(pa.int64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _double_bits(values: pa.Array) -> I64:
    doubles = (
        values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    )  # of -0.0 makes 0.0
    bits: I64 = doubles.view(np.int64)
    bits[np.isnan(doubles)] = _NAN_BITS
    return bits


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind)
    return bool(is_text or types.is_binary(kind) or types.is_large_binary(kind))
