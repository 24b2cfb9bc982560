"""Values of our columns as Iceberg writes them: bounds in manifests, partition values, types of both.

Ours are order-preserving bytes (``docs/spec/v1/row-key.md``), in which ints of all widths are 64 bits, floats
are doubles and decimals have 128 bits; Iceberg's single values are little-endian and as wide as their type.

Invariant: a bound that is returned bounds the same values; one that Iceberg cannot say, such as NaN, is None.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

from lakehouse.errors import InternalError
from lakehouse.format.schema import BinaryType, DataType, DecimalType, Primitive, StringType

__all__ = ["avro_type", "avro_value", "bound", "decimal_bytes"]

_SIGN, _SIGN_WIDE = 1 << 63, 1 << 127
_ALL_ONES = (1 << 64) - 1
_SHORT, _LONG = struct.Struct("<i"), struct.Struct("<q")
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_ORDERED_DOUBLE = struct.Struct(">d")
_SHORT_KINDS = frozenset({"int8", "int16", "int32", "date"})
_LONG_KINDS = frozenset({"int64", "time", "timestamp", "timestamp_ntz"})
_AVRO: Mapping[str, Any] = {
    "boolean": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    "timestamp_ntz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
}


def bound(data: bytes, kind: DataType, *, is_low: bool) -> bytes | None:
    """Returns a bound of a column as Iceberg's single value; None where it has none for it."""
    if isinstance(kind, StringType | BinaryType):
        return data
    if isinstance(kind, DecimalType):
        return _signed(_unscaled(data))
    match kind:
        case Primitive("boolean"):
            return data
        case Primitive("float" | "double" as name):
            return _real(data, _FLOAT if name == "float" else _DOUBLE, is_low=is_low)
        case Primitive(name) if name in _SHORT_KINDS:
            return _SHORT.pack(_whole(data))
        case Primitive(name) if name in _LONG_KINDS:
            return _LONG.pack(_whole(data))
    raise InternalError(f"columns of type {kind} have no bounds")


def avro_type(kind: DataType) -> Any:
    """Returns the Avro type of a partition value, as JSON has it."""
    match kind:
        case StringType():
            return "string"
        case BinaryType():
            return "bytes"
        case DecimalType(precision, scale):
            return {
                "type": "fixed",
                "name": f"decimal_{precision}_{scale}",
                "size": decimal_bytes(precision),
                "logicalType": "decimal",
                "precision": precision,
                "scale": scale,
            }
        case Primitive(name) if name in _AVRO:
            return _AVRO[name]
    raise InternalError(f"columns of type {kind} do not partition a table")


def avro_value(data: bytes, kind: DataType) -> Any:
    """Returns a partition value as the Avro type of :func:`avro_type` has it."""
    match kind:
        case StringType():
            return data.decode()
        case BinaryType():
            return data
        case DecimalType(precision, _):
            return _unscaled(data).to_bytes(decimal_bytes(precision), "big", signed=True)
        case Primitive("boolean"):
            return data != b"\0"
    return _whole(data)


def decimal_bytes(precision: int) -> int:
    """Returns the least number of bytes that hold every unscaled value of so many digits, and its sign."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 8) // 8


def _whole(data: bytes) -> int:
    return int.from_bytes(data, "big") - _SIGN


def _unscaled(data: bytes) -> int:
    return int.from_bytes(data, "big") - _SIGN_WIDE


def _signed(number: int) -> bytes:
    """Returns a number in as few bytes as hold it and its sign, big-endian."""
    size = ((number if number >= 0 else ~number).bit_length() + 8) // 8
    return number.to_bytes(size, "big", signed=True)


def _real(data: bytes, form: struct.Struct, *, is_low: bool) -> bytes | None:
    bits = int.from_bytes(data, "big")
    bits ^= _SIGN if bits & _SIGN else _ALL_ONES
    number: float = _ORDERED_DOUBLE.unpack(bits.to_bytes(8, "big"))[0]
    if math.isnan(number):
        return None
    if number == 0.0:  # ours is both zeros, and Iceberg's -0.0 is below 0.0
        number = -0.0 if is_low else 0.0
    return form.pack(number)
