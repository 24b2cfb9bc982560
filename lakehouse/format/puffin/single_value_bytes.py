"""Values of a column as the bytes of Iceberg's single-value serialization, all of them at once.

Integers and dates are 4 or 8 bytes, times and moments 8, all little-endian; decimals the fewest bytes of
their unscaled number, big-endian; texts, UUIDs and bytes as they are. Our ``tinyint`` and ``smallint`` are
``int`` to Iceberg.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.kernels.arrays import I64, U8
from lakehouse.kernels.binary_arrays import binary_parts
from lakehouse.kernels.decimal_arrays import decimal_words
from lakehouse.kernels.value_hashes import whole_numbers

__all__ = ["ValueBytes", "has_single_values", "single_value_bytes"]

ValueBytes = tuple[U8, I64, I64]
"""Bytes, and for each value its first byte and their number."""
_MICROS_PER = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
"""Factor to the unit that Iceberg has: nanoseconds stay what they are."""


def has_single_values(kind: pa.DataType) -> bool:
    """Returns whether values of a type have single-value bytes: all but nested ones."""
    types = pa.types
    return not (types.is_nested(kind) or types.is_null(kind) or types.is_dictionary(kind))


def single_value_bytes(values: pa.Array) -> ValueBytes:
    """Returns the bytes of each value of an array without nulls.

    Raises:
        InvalidInputError: values of this type have none.
    """
    kind, types = values.type, pa.types
    if not has_single_values(kind):
        raise InvalidInputError(f"values of {kind} have no bytes of their own in Iceberg")
    if types.is_decimal128(kind):
        return _decimals(values)
    if types.is_boolean(kind):
        return _fixed(whole_numbers(values).astype(np.uint8).view(np.uint8), 1)
    if types.is_floating(kind):
        kept = values.cast(pa.float32()) if types.is_float16(kind) else values
        numbers = np.ascontiguousarray(kept.to_numpy(zero_copy_only=False))
        return _fixed(numbers.view(np.uint8), numbers.itemsize)
    if types.is_timestamp(kind) or types.is_time(kind):
        numbers = whole_numbers(values) * _MICROS_PER[kind.unit]
        return _fixed(numbers.view(np.uint8), 8)
    if types.is_date32(kind) or (types.is_integer(kind) and kind.bit_width <= 32):
        return _fixed(whole_numbers(values).astype("<i4").view(np.uint8), 4)
    if types.is_integer(kind):
        return _fixed(whole_numbers(values).view(np.uint8), 8)
    offsets, data = binary_parts(values.cast(pa.binary()) if types.is_fixed_size_binary(kind) else values)
    return data, offsets[:-1], np.diff(offsets)


def _fixed(data: U8, width: int) -> ValueBytes:
    starts = np.arange(0, len(data), width, dtype=np.int64)
    return data, starts, np.full(len(starts), width, np.int64)


def _decimals(values: pa.Array) -> ValueBytes:
    unscaled = np.ascontiguousarray(decimal_words(values)[: len(values)]).view(np.uint8).reshape(-1, 16)
    wide = np.ascontiguousarray(unscaled[:, ::-1])
    # Bytes that only repeat the sign are 0 after this, and are left out.
    plain = wide ^ (wide[:, :1] >> 7) * np.uint8(0xFF)
    plain[:, -1] |= np.uint8(1)  # one byte is left in any case
    first = np.argmax(plain != 0, axis=1)
    sign_needs_a_byte = np.take_along_axis(plain, first[:, None], axis=1)[:, 0] >= 0x80
    lengths = (16 - first + sign_needs_a_byte).astype(np.int64)
    return wide.reshape(-1), np.arange(16, 16 * len(wide) + 1, 16) - lengths, lengths
