"""Encoding of values in GreptimeDB's indexes: bytes that sort as the values do.

==========================  ==========================================================================
strings                     their UTF-8, nothing else
everything else             ``01``, then:
bool                        ``01`` or ``00``
unsigned integers           big-endian
signed integers             big-endian, sign bit flipped; dates as days, timestamps as their number
floats                      big-endian, sign bit set, or all bits inverted when negative; one NaN, no -0
time, duration              as i64, then one byte for the unit: 0 s, 1 ms, 2 us, 3 ns
interval                    months, days and nanoseconds as one signed integer of 128 bits
decimal128                  as i128, then precision (u8) and scale (i8)
binary                      for each byte ``01`` and the byte, then ``00``
==========================  ==========================================================================

Invariant: :func:`decode_array` of :func:`encode_array` gives the values back (floats with one NaN
and without -0), and the encoded values of one type compare as the values do. Nulls stay nulls;
they have no encoding. A dictionary is encoded as its values are.

Whole columns are converted at once; the scalar functions are columns of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.kernels.arrays import I64, U8, Mask
from lakehouse.kernels.binary_arrays import binary_parts

__all__ = ["decode_array", "decode_scalar", "encode_array", "encode_scalar"]

_SOME = 1
_UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Encoding of a fixed-width type: Arrow's little-endian values, reordered and flipped."""

    width: int
    """Bytes of the value in an encoded value; 0 for booleans, which take one."""
    suffix: bytes = b""
    """Bytes that follow the value; the same for a whole column."""
    widen_from: int | None = None
    """Bytes in Arrow of integers that are encoded as 64 bits; None = they have ``width`` bytes."""
    words: tuple[int, ...] = ()
    """Bytes of each part of a value in Arrow, the most significant first; empty = one part."""
    signed: bool = True
    floating: bool = False

    @property
    def encoded(self) -> int:
        """Bytes of an encoded value, the leading 01 included."""
        return 1 + max(self.width, 1) + len(self.suffix)


def _layout(type_: pa.DataType) -> _Layout | None:
    """Returns the layout of a fixed-width type; None for strings, binaries and what cannot be indexed."""
    is_ = pa.types
    if is_.is_boolean(type_):
        return _Layout(width=0, signed=False)
    if is_.is_integer(type_):
        return _Layout(width=type_.bit_width // 8, signed=is_.is_signed_integer(type_))
    if is_.is_float32(type_) or is_.is_float64(type_):
        return _Layout(width=type_.bit_width // 8, floating=True)
    if is_.is_date32(type_) or is_.is_timestamp(type_):
        return _Layout(width=type_.bit_width // 8)
    if is_.is_time(type_) or is_.is_duration(type_):
        narrow = type_.bit_width // 8 if type_.bit_width < 64 else None
        return _Layout(width=8, suffix=bytes((_UNITS[type_.unit],)), widen_from=narrow)
    if is_.is_decimal128(type_):
        return _Layout(width=16, suffix=bytes((type_.precision, (type_.scale & 0xFF) ^ 0x80)))
    if type_ == pa.month_day_nano_interval():
        return _Layout(width=16, words=(4, 4, 8))
    return None


def _is_text(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)
    )


def _is_bytes(type_: pa.DataType) -> bool:
    is_ = pa.types
    return bool(
        is_.is_binary(type_)
        or is_.is_large_binary(type_)
        or is_.is_binary_view(type_)
        or is_.is_fixed_size_binary(type_)
    )


def encode_array(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Returns the encoded values of a column, as a binary or large_binary array with the same nulls."""
    if isinstance(array, pa.ChunkedArray):
        chunks = [encode_array(chunk) for chunk in array.chunks]
        wide = any(pa.types.is_large_binary(chunk.type) for chunk in chunks)
        width = pa.large_binary() if wide else pa.binary()
        return pa.chunked_array([chunk.cast(width) for chunk in chunks], width)
    type_ = array.type
    if pa.types.is_dictionary(type_):
        # A few long values, taken many times, may have more bytes than 32-bit offsets reach.
        return encode_array(array.dictionary).cast(pa.large_binary()).take(array.indices)
    if _is_text(type_):
        return array.cast(pa.large_binary() if pa.types.is_large_string(type_) else pa.binary())
    if _is_bytes(type_):
        return _encode_bytes(array)
    layout = _layout(type_)
    if layout is None:
        raise _unsupported_type_error(type_)
    return _encode_fixed(array, layout)


def decode_array(encoded: pa.Array, type_: pa.DataType) -> pa.Array:
    """Decodes values of type ``type_``; CorruptionError for bytes that encode no such value.

    For a dictionary type the result is an array of its value type.
    """
    if pa.types.is_dictionary(type_):
        return decode_array(encoded, type_.value_type)
    if _is_text(type_):
        return _cast(encoded, type_)
    offsets, data = binary_parts(encoded)
    valid = _valid(encoded)
    if _is_bytes(type_):
        return _cast(_decode_bytes(offsets, data, valid), type_)
    layout = _layout(type_)
    if layout is None:
        raise _unsupported_type_error(type_)
    wrong = valid & (np.diff(offsets) != layout.encoded)
    if wrong.any():
        raise _value_error(type_, f"{layout.encoded} bytes", int(np.diff(offsets)[wrong][0]))
    matrix = data[offsets[:-1][valid, None] + np.arange(layout.encoded)]
    raw = _decode_fixed(matrix, layout, type_)
    values = np.zeros((len(encoded), raw.shape[1]), np.uint8)
    values[valid] = raw
    bits = np.packbits(values[:, 0], bitorder="little") if layout.width == 0 else values.reshape(-1)
    return pa.Array.from_buffers(type_, len(encoded), [_validity(valid), pa.py_buffer(bits)])


def encode_scalar(value: Any, type_: pa.DataType) -> bytes:
    """Returns the encoding of one value."""
    if value is None:
        raise InvalidInputError("a null has no encoding: indexes leave nulls out")
    try:
        array = pa.array([value.as_py() if isinstance(value, pa.Scalar) else value], type_)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{value!r:.80} is no {type_}: {error}", value=value) from error
    encoded: bytes = encode_array(array)[0].as_py()
    return encoded


def decode_scalar(data: bytes, type_: pa.DataType) -> pa.Scalar:
    """Returns the value of one encoding, as an Arrow scalar of that type."""
    return decode_array(pa.array([data], pa.binary()), type_)[0]


def _valid(array: pa.Array) -> Mask:
    valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _validity(valid: Mask) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _binary_array(offsets: I64, data: U8, valid: Mask) -> pa.Array:
    small = int(offsets[-1]) < 1 << 31
    type_, width = (pa.binary(), np.int32) if small else (pa.large_binary(), np.int64)
    buffers = [_validity(valid), pa.py_buffer(offsets.astype(width)), pa.py_buffer(data)]
    return pa.Array.from_buffers(type_, len(valid), buffers)


def _encode_fixed(array: pa.Array, layout: _Layout) -> pa.Array:
    rows = len(array)
    out = np.empty((rows, layout.encoded), np.uint8)
    out[:, 0] = _SOME
    value = out[:, 1 : layout.encoded - len(layout.suffix)]
    value[:] = _big_endian(array, layout)
    out[:, layout.encoded - len(layout.suffix) :] = list(layout.suffix)
    if layout.floating:
        _flip_floats(value)
    elif layout.signed:
        value[:, 0] ^= 0x80
    return _binary_array(np.arange(rows + 1, dtype=np.int64) * layout.encoded, out.reshape(-1), _valid(array))


def _big_endian(array: pa.Array, layout: _Layout) -> U8:
    """Returns the values as rows of bytes, the most significant first; rows of nulls are arbitrary."""
    rows = len(array)
    if layout.width == 0:
        bits: U8 = array.cast(pa.uint8()).fill_null(0).to_numpy()
        return bits.reshape(rows, 1)
    stored = layout.widen_from or layout.width
    data = array.buffers()[1]
    raw = np.frombuffer(data, np.uint8)[array.offset * stored : (array.offset + rows) * stored]
    if layout.widen_from:
        raw = raw.view(f"<i{stored}").astype("<i8").view(np.uint8)
    if layout.floating:
        # One NaN and no -0, as GreptimeDB has them: equal values get equal bytes.
        floats = raw.view(f"<f{layout.width}").copy()
        floats[np.isnan(floats)] = np.nan
        floats[floats == 0] = 0
        raw = floats.view(np.uint8)
    matrix: U8 = raw.reshape(rows, layout.width)[:, _byte_order(layout)]
    return matrix


def _byte_order(layout: _Layout) -> list[int]:
    """Returns for each encoded byte the number of Arrow's little-endian byte that it is."""
    order: list[int] = []
    start = 0
    for width in layout.words or (layout.width,):
        order += reversed(range(start, start + width))
        start += width
    return order


def _flip_floats(value: U8) -> None:
    """Makes big-endian floats compare as the numbers do."""
    # Negative floats order backwards by their bits, so all of those are inverted.
    negative = value[:, 0] >= 0x80
    value[negative] ^= 0xFF
    value[~negative, 0] ^= 0x80


def _unflip_floats(value: U8) -> None:
    positive = value[:, 0] >= 0x80
    value[~positive] ^= 0xFF
    value[positive, 0] ^= 0x80


def _decode_fixed(matrix: U8, layout: _Layout, type_: pa.DataType) -> U8:
    """Decodes rows of encoded values into Arrow's bytes."""
    end = layout.encoded - len(layout.suffix)
    if (matrix[:, 0] != _SOME).any():
        raise _value_error(type_, "a leading 01", int(matrix[matrix[:, 0] != _SOME, 0][0]))
    if (matrix[:, end:] != np.frombuffer(layout.suffix, np.uint8)).any():
        raise _value_error(type_, f"suffix {layout.suffix.hex()}", "another")
    value = matrix[:, 1:end].copy()
    if layout.width == 0:
        if (value > 1).any():
            raise _value_error(type_, "00 or 01", int(value.max()))
        return value
    if layout.floating:
        _unflip_floats(value)
    elif layout.signed:
        value[:, 0] ^= 0x80
    raw = np.empty_like(value)
    raw[:, _byte_order(layout)] = value
    if layout.widen_from:
        numbers = raw.view("<i8")
        narrow = numbers.astype(f"<i{layout.widen_from}")
        if (narrow != numbers).any():
            raise _value_error(type_, f"{layout.widen_from * 8} bits", int(numbers[narrow != numbers][0]))
        return narrow.view(np.uint8)
    return raw


def _encode_bytes(array: pa.Array) -> pa.Array:
    """Encodes bytes as sequences: ``01``, (``01`` byte)..., ``00``."""
    if not (pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)):
        array = array.cast(pa.binary())
    offsets, data = binary_parts(array.fill_null(b""))
    lengths = np.diff(offsets)
    stops = np.cumsum(2 * lengths + 2)
    starts = np.concatenate([[0], stops])
    out = np.full(int(starts[-1]), _SOME, np.uint8)
    out[stops - 1] = 0
    # Byte i of the column moves to 2i plus the 01 and 00 of its own value and of those before it.
    shift = np.repeat(2 * np.arange(1, len(lengths) + 1), lengths)
    out[2 * np.arange(len(shift)) + shift] = data[offsets[0] : offsets[-1]]
    return _binary_array(starts, out, _valid(array))


def _decode_bytes(offsets: I64, data: U8, valid: Mask) -> pa.Array:
    sizes = np.diff(offsets)[valid]
    starts = offsets[:-1][valid]
    if ((sizes < 2) | (sizes % 2 == 1)).any():
        raise _value_error(pa.binary(), "an even number of bytes", int(sizes.min()))
    lengths = np.zeros(len(valid), np.int64)
    lengths[valid] = (sizes - 2) // 2
    within, row = _positions(lengths)
    begins = offsets[:-1][row]
    marks = data[begins + 2 * within + 1]
    if (data[starts] != _SOME).any() or (marks != 1).any() or (data[starts + sizes - 1] != 0).any():
        raise _value_error(pa.binary(), "01 before each byte and 00 at the end", "something else")
    out = data[begins + 2 * within + 2]
    return _binary_array(np.concatenate([[0], np.cumsum(lengths)]), out, valid)


def _positions(lengths: I64) -> tuple[I64, I64]:
    """Returns for every byte of a column its position within its value, and its row."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    begins = np.cumsum(lengths) - lengths
    return np.arange(len(row)) - begins[row], row


def _cast(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns bytes as strings, or as binaries of another type."""
    try:
        return values.cast(type_)
    except pa.ArrowInvalid as error:
        raise CorruptionError(f"an indexed value is no {type_}: {error}", expected=str(type_)) from error


def _unsupported_type_error(type_: pa.DataType) -> InvalidInputError:
    return InvalidInputError(
        f"values of type {type_} cannot be indexed: index another column", type=str(type_)
    )


def _value_error(type_: pa.DataType, expected: object, got: object) -> CorruptionError:
    return CorruptionError(
        f"an indexed value is no {type_}: expected {expected}, got {got}", expected=expected, got=got
    )
