"""Order-preserving encoding of values: bounds in manifests, partition values, parts of row keys.

::

    boolean                      1 byte: 00, 01
    int8 … int64                 int64, big-endian, sign bit flipped
    date, time, timestamp(_ntz)  the same, of days or microseconds
    float, double                double, big-endian; sign bit flipped, of negatives every bit
    decimal                      unscaled value as 128 bits, big-endian, sign bit flipped
    string                       UTF-8
    binary                       the bytes

-0.0 is 0.0, and every NaN is the one NaN above +inf: two values have the same bytes exactly when
they are equal. The specification is ``docs/spec/v1/row-key.md``.

Invariant: comparing bytes is comparing values, and widening a column (int8 to int64, float to
double, more digits of a decimal) changes no byte, so bounds in old files stay true.
"""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.excerpt import is_utf8, short
from lakehouse.format.schema.types import BinaryType, DataType, DecimalType, Primitive, StringType, arrow_type
from lakehouse.kernels.arrays import I64, U8

__all__ = [
    "NAN_BYTES",
    "ColumnValues",
    "binary_array",
    "binary_contents",
    "decimal_words",
    "decode_fixed",
    "decode_value",
    "encode_fixed",
    "encode_value",
    "encode_values",
    "one_array",
    "value_width",
    "whole_numbers",
]

ColumnValues: TypeAlias = pa.Array | pa.ChunkedArray
"""The values of one column."""

NAN_BYTES = bytes.fromhex("fff8000000000000")
"""Encoding of every NaN, float or double; above all other numbers."""

_SIGN = 1 << 63
_SIGN_WIDE = 1 << 127
_ALL_ONES = (1 << 64) - 1
_NAN_BITS = 0x7FF8_0000_0000_0000
_DOUBLE = struct.Struct(">d")
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_SMALL_OFFSET_MAX = (1 << 31) - 1
"""Maximum bytes of an array with 32-bit offsets."""
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
"""Context in which the point of any decimal moves without rounding."""


def value_width(kind: DataType) -> int | None:
    """Returns the number of bytes of each encoded value of the type; None where that varies.

    Raises:
        InvalidInputError: lists, maps and structs have no order.
    """
    match kind:
        case Primitive(name):
            return 1 if name == "boolean" else 8
        case DecimalType():
            return 16
        case StringType() | BinaryType():
            return None
    raise InvalidInputError(
        f"values of type {arrow_type(kind)} have no order: use a column of numbers, text or times"
    )


def encode_values(array: ColumnValues, kind: DataType) -> pa.Array:
    """Encodes every value, as a binary array (large_binary from 2 GiB on); nulls stay nulls."""
    array = one_array(array)
    width = value_width(kind)
    if width is None:
        return array.cast(pa.binary() if _is_small(array.type) else pa.large_binary())
    return binary_array(encode_fixed(array, kind), width, nulls_of=array)


def one_array(column: ColumnValues) -> pa.Array:
    """Returns the column in one piece; text and bytes of 2 GiB and more with 64-bit offsets."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if _is_small(column.type) and sum(chunk.nbytes for chunk in column.chunks) > _SMALL_OFFSET_MAX:
        column = column.cast(pa.large_binary())  # 32-bit offsets would overflow
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _is_small(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def binary_array(data: U8, width: int, *, nulls_of: pa.Array | None = None) -> pa.Array:
    """Returns a binary array of values of ``width`` bytes each, uncopied; large_binary from 2 GiB on."""
    count = len(data) // width
    small = len(data) <= _SMALL_OFFSET_MAX
    offsets = np.arange(0, len(data) + 1, width, dtype=np.int32 if small else np.int64)
    validity = None
    if nulls_of is not None and nulls_of.null_count:
        validity = pc.is_valid(nulls_of).buffers()[1]
    kind = pa.binary() if small else pa.large_binary()
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


def binary_contents(array: pa.Array) -> tuple[Any, U8]:
    """Returns offsets and bytes of a binary array, from its first value on; the bytes are a view."""
    dtype = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    _, offsets, data = array.buffers()
    if not len(array):
        return np.zeros(1, dtype), np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, dtype, count=array.offset + len(array) + 1)[array.offset :]
    held: U8 = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return ends - ends[0], held[ends[0] : ends[-1]]


def encode_fixed(array: pa.Array, kind: DataType) -> U8:
    """Encodes the values of a type with a width, one after another; nulls are arbitrary bytes."""
    if isinstance(kind, DecimalType):
        wide = np.ascontiguousarray(decimal_words(array, kind)[:, ::-1])
        wide[:, 0] ^= 0x80
        return wide.reshape(-1)
    if kind == Primitive("boolean"):
        return whole_numbers(array, kind).astype(np.uint8)
    if kind in (Primitive("float"), Primitive("double")):
        array = _as_kind(array, kind)
        bits = _double_bits(_buffer(array, array.type.to_pandas_dtype()))
    else:
        bits = whole_numbers(array, kind).view(np.uint64) ^ np.uint64(_SIGN)
    return cast(U8, bits.byteswap(inplace=True).view(np.uint8))


def whole_numbers(array: pa.Array, kind: DataType) -> I64:
    """Returns values as int64: integers, days, microseconds, and 1 for true; nulls are arbitrary."""
    array = _as_kind(array, kind)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    width = array.type.bit_width // 8
    numbers = _buffer(array, np.dtype("u1" if array.type == pa.uint8() else f"i{width}"))
    return cast(I64, numbers.astype(np.int64, copy=False))


def decimal_words(array: pa.Array, kind: DecimalType) -> U8:
    """Returns the 16 bytes of every unscaled value, little-endian two's complement, as rows of a matrix."""
    return cast(U8, _buffer(_as_kind(array, kind), np.uint8, 16).reshape(-1, 16))


def _as_kind(array: pa.Array, kind: DataType) -> pa.Array:
    target = arrow_type(kind)
    return array if array.type == target else array.cast(target)


def _buffer(array: pa.Array, dtype: Any, each: int = 1) -> Any:
    """Returns the values as they are in memory, uncopied; those of nulls are arbitrary."""
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array) * each, dtype)
    start, size = array.offset * each, len(array) * each
    return np.frombuffer(data, dtype, count=start + size)[start:]


def _double_bits(numbers: Any) -> Any:
    with np.errstate(invalid="ignore"):  # signalling NaNs
        doubles = numbers.astype(np.float64)
        bits = doubles.view(np.int64)
        bits[np.isnan(doubles)] = _NAN_BITS
        bits[doubles == 0.0] = 0  # -0.0 too
    # The shift fills with the sign: every bit of a negative is flipped, of others the sign alone.
    flips: I64 = bits >> 63
    return bits.view(np.uint64) ^ (flips.view(np.uint64) | np.uint64(_SIGN))


def decode_fixed(data: U8, kind: DataType) -> pa.Array:
    """Decodes what :func:`encode_fixed` made, without nulls.

    Raises:
        CorruptionError: some bytes encode no value of the type.
    """
    target = arrow_type(kind)
    if isinstance(kind, DecimalType):
        wide = np.ascontiguousarray(data.reshape(-1, 16)[:, ::-1])
        wide[:, 15] ^= 0x80
        return _array_over(wide, target, len(wide))
    if pa.types.is_boolean(target):
        if len(data) and data.max() > 1:
            raise CorruptionError("a boolean is 00 or 01", expected="00 or 01", got=int(data.max()))
        return pa.array(data).cast(pa.bool_())
    bits = data.view(">u8").astype(np.uint64)
    if pa.types.is_floating(target):
        flips = ~(bits.view(np.int64) >> 63)
        bits ^= flips.view(np.uint64) | np.uint64(_SIGN)
        return _array_over(bits, pa.float64(), len(bits)).cast(target, safe=False)
    bits ^= np.uint64(_SIGN)
    if target.bit_width == 64:
        return _array_over(bits, target, len(bits))
    try:
        return pa.array(bits.view(np.int64)).cast(f"int{target.bit_width}").cast(target)
    except pa.ArrowInvalid as error:
        raise CorruptionError(f"the bytes of a number hold one that is no {target}: {error}") from error


def _array_over(data: Any, kind: pa.DataType, count: int) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def encode_value(value: object, kind: DataType) -> bytes:
    """Encodes one value: a Python object, or an Arrow scalar of the type.

    Raises:
        InvalidInputError: it is no value of the type, or null.
    """
    if isinstance(value, pa.Scalar):
        if value.is_valid:
            return encode_values(pa.array([value], value.type), kind)[0].as_py()  # type: ignore[no-any-return]
        value = None
    match kind:
        case StringType() if isinstance(value, str):
            if not is_utf8(value):
                raise InvalidInputError(
                    f"{short(value)} is no text of a column: it has half of a surrogate pair",
                    value=short(value),
                )
            return value.encode()
        case BinaryType() if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        case DecimalType() if isinstance(value, decimal.Decimal | int) and not isinstance(value, bool):
            return (_unscaled(value, kind) + _SIGN_WIDE).to_bytes(16, "big")
        case Primitive("boolean") if isinstance(value, bool | np.bool_):
            return bytes([bool(value)])
        case Primitive("float" | "double") if isinstance(value, float | int) and not isinstance(value, bool):
            return _encode_double(float(value), kind)
        case Primitive(name):
            number = _number(value, name)
            if number is not None:
                return (number + _SIGN).to_bytes(8, "big")
    value_width(kind)
    raise InvalidInputError(f"{value!r} is no value of type {arrow_type(kind)}", value=value)


def _unscaled(value: decimal.Decimal | int, kind: DecimalType) -> int:
    exact = decimal.Decimal(value)
    if exact.is_finite() and exact.adjusted() < kind.precision:
        scaled = exact.scaleb(kind.scale, _EXACT)
        unscaled = int(scaled)
        if scaled == unscaled and abs(unscaled) < 10**kind.precision:
            return unscaled
    raise InvalidInputError(f"{value!r} is no value of type {arrow_type(kind)}", value=value)


def _encode_double(value: float, kind: Primitive) -> bytes:
    if value != value:
        return NAN_BYTES
    if kind.name == "float":
        value = float(np.float32(value))
    # Adding 0.0 makes -0.0 the one zero.
    bits = int.from_bytes(_DOUBLE.pack(value + 0.0), "big")
    return (bits ^ (_ALL_ONES if bits >> 63 else _SIGN)).to_bytes(8, "big")


def _number(value: object, name: str) -> int | None:
    """Returns a value as an integer: itself, days or microseconds; None when it is not of the type."""
    if name == "date":
        is_date = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
        return value.toordinal() - _EPOCH_DAY if is_date else None  # type: ignore[attr-defined]
    if name == "time":
        if not isinstance(value, dt.time) or value.tzinfo is not None:
            return None
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * 1_000_000 + value.microsecond
    if name in ("timestamp", "timestamp_ntz"):
        if not isinstance(value, dt.datetime):
            return None
        # A time without a zone is UTC, as in conditions (lakehouse.expr.bind).
        return ((value if value.tzinfo else value.replace(tzinfo=dt.UTC)) - _EPOCH) // _MICROSECOND
    if isinstance(value, np.integer):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    limit = 1 << _INT_BITS.get(name, 0) >> 1
    return value if -limit <= value < limit else None


def decode_value(data: bytes, kind: DataType) -> object:
    """Decodes one value to a Python object.

    Raises:
        CorruptionError: the bytes encode no value of the type.
        InvalidInputError: it is a date or time outside the years 1 to 9999, which Python does not have.
    """
    width = value_width(kind)
    if width is not None and len(data) != width:
        raise CorruptionError(
            f"a value of type {arrow_type(kind)} has {width} bytes, not {len(data)}",
            expected=width,
            got=len(data),
        )
    if isinstance(kind, BinaryType):
        return bytes(data)
    if isinstance(kind, StringType):
        try:
            return bytes(data).decode()
        except UnicodeDecodeError as error:
            raise CorruptionError(f"the bytes of a text are not UTF-8: {bytes(data).hex()}") from error
    value = decode_fixed(np.frombuffer(bytes(data), np.uint8), kind)[0]
    try:
        return value.as_py()
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the {value.type} in {bytes(data).hex()} lies outside the years that Python has: "
            "read the column as an Arrow array"
        ) from error
