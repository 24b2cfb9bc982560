"""Bounds of columns as typed values, from the bytes of manifests (Iceberg's single-value serialization).

A type may have been promoted since bounds were written, which keeps them as they were: an int's four bytes in
a column of longs, a float's in one of doubles, a date's days in one of timestamps.

Invariant: never an error. Bytes that are no value of the column's type, and NaN, bound nothing and are null.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse.format.avro import gathered
from lakehouse.iceberg.manifests.keyed import RawBounds
from lakehouse.kernels.arrays import I64, U8, Mask
from lakehouse.kernels.big_endian import decimal_array

__all__ = ["decoded_bounds"]

_OF_UNIT = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
"""Days as each unit of time."""
_INT64_MAX = (1 << 63) - 1


def decoded_bounds(raw: RawBounds | None, kind: pa.DataType, *, count: int) -> pa.Array:
    """Returns the bound of each file as a value of a column's type; null where it is not known.

    Args:
        raw: bytes of the bounds; None = no file has one.
        kind: Arrow type of the column. Bounds of types without an order, such as lists, are not known.
        count: number of files.
    """
    decode = _decoder(kind)
    if raw is None or decode is None or not raw.present:
        return pa.nulls(count, kind)
    values = decode(raw, kind)
    if raw.rows is None:
        return values
    places = np.full(count, -1, np.int64)
    places[raw.rows] = np.arange(raw.present)
    return values.take(pa.array(places, mask=places < 0))


def _decoder(kind: pa.DataType) -> Callable[[RawBounds, pa.DataType], pa.Array] | None:
    is_ = pa.types
    if is_.is_integer(kind) or is_.is_temporal(kind):
        return _numbers
    if is_.is_floating(kind):
        return _floats
    if is_.is_boolean(kind):
        return _flags
    if is_.is_decimal(kind):
        return _decimals
    if is_.is_string(kind) or is_.is_large_string(kind):
        return _texts
    if is_.is_binary(kind) or is_.is_large_binary(kind):
        return _binary
    return _fixed if is_.is_fixed_size_binary(kind) else None


def _made(kind: pa.DataType, values: npt.NDArray[np.generic], known: Mask | None) -> pa.Array:
    """Returns an array over the values, uncopied."""
    bits = None if known is None else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(values)])


def _cells(raw: RawBounds, width: int, like: str) -> tuple[npt.NDArray[np.generic], Mask | None]:
    """Returns the bounds of this width as numbers, and which they are; None = all are."""
    if raw.width == width:
        return raw.data.view(like), None
    starts, lengths = raw.spans()
    fits = lengths == width
    cells = np.zeros((len(starts), width), np.uint8)
    cells[fits] = raw.data[starts[fits][:, None] + np.arange(width)]
    return cells.reshape(-1).view(like), fits


def _numbers(raw: RawBounds, kind: pa.DataType) -> pa.Array:
    if kind.bit_width == 32:
        return _made(kind, *_cells(raw, 4, "<i4"))
    if kind.bit_width != 64:
        return pa.nulls(raw.present, kind)
    values, known = _cells(raw, 8, "<i8")
    if known is None or bool(known.all()):
        return _made(kind, values, None)
    old, are_old = _cells(raw, 4, "<i4")
    if are_old is None:
        are_old = np.ones(len(old), np.bool_)
    widened: I64 = old.astype(np.int64)
    if pa.types.is_timestamp(kind):
        # Days; those beyond the range of the type are not known.
        factor = _OF_UNIT[kind.unit] if kind.tz is None else 0
        are_old &= (np.abs(widened) <= _INT64_MAX // factor) if factor else np.zeros(len(old), np.bool_)
        widened = np.where(are_old, widened, 0) * factor
    elif pa.types.is_temporal(kind):
        are_old[:] = False
    return _made(kind, np.where(known, values, widened), known | are_old)


def _floats(raw: RawBounds, kind: pa.DataType) -> pa.Array:
    old, are_old = _cells(raw, 4, "<f4")
    if kind.bit_width == 32:
        return _not_nan(kind, old, are_old)
    values, known = _cells(raw, 8, "<f8")
    if known is None or bool(known.all()):
        return _not_nan(kind, values, None)
    if are_old is None:
        are_old = np.ones(len(old), np.bool_)
    return _not_nan(kind, np.where(known, values, old.astype(np.float64)), known | are_old)


def _not_nan(kind: pa.DataType, values: npt.NDArray[np.generic], known: Mask | None) -> pa.Array:
    nan: Mask = np.isnan(values)
    if bool(nan.any()):
        known = ~nan if known is None else known & ~nan
    return _made(kind, values, known)


def _flags(raw: RawBounds, kind: pa.DataType) -> pa.Array:
    values, known = _cells(raw, 1, "u1")
    flags: U8 = np.packbits(values != 0, bitorder="little")
    bits = None if known is None else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(flags)])


def _decimals(raw: RawBounds, kind: pa.DataType) -> pa.Array:
    starts, lengths = raw.spans()
    return decimal_array(raw.data, starts, lengths, kind, None)


def _binary(raw: RawBounds, kind: pa.DataType) -> pa.Array:
    starts, lengths = raw.spans()
    offsets = np.append(starts, starts[-1] + lengths[-1])
    wide = kind in (pa.large_binary(), pa.large_string())
    ends = pa.py_buffer(offsets.astype(np.int64 if wide else np.int32))
    return pa.Array.from_buffers(kind, len(starts), [None, ends, pa.py_buffer(raw.data)])


def _texts(raw: RawBounds, kind: pa.DataType) -> pa.Array:
    texts = _binary(raw, kind)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return _sound_texts(raw, kind)
    return texts


def _sound_texts(raw: RawBounds, kind: pa.DataType) -> pa.Array:
    """Returns the texts that are UTF-8; others, which are rare, are not known."""
    starts, lengths = raw.spans()
    spans = zip(starts.tolist(), lengths.tolist(), strict=True)
    sound = np.array([_is_utf8(raw.data[start : start + length].tobytes()) for start, length in spans])
    body, offsets = gathered(raw.data, starts, np.where(sound, lengths, 0))
    inner = RawBounds(count=len(starts), width=-1, data=body, offsets=offsets, rows=None)
    texts = _binary(inner, kind)
    return texts.take(pa.array(np.arange(len(starts)), mask=~sound))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _fixed(raw: RawBounds, kind: pa.DataType) -> pa.Array:
    if raw.width == kind.byte_width:
        return pa.Array.from_buffers(kind, raw.present, [None, pa.py_buffer(raw.data)])
    _, known = _cells(raw, kind.byte_width, "u1")
    if known is None or not bool(known.any()):
        return pa.nulls(raw.present, kind)
    starts, _ = raw.spans()
    cells = np.zeros((len(starts), kind.byte_width), np.uint8)
    cells[known] = raw.data[starts[known][:, None] + np.arange(kind.byte_width)]
    bits = pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(kind, len(starts), [bits, pa.py_buffer(cells)])
