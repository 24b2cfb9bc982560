"""Row keys: the columns of a key as one string of bytes that sorts as the tuple of its values does.

The columns follow one another in key order. A type with a width is encoded as in
:mod:`lakehouse.format.keys.order_value`. Text and bytes are raw when their column is the last;
elsewhere they are escaped and terminated::

    byte 00  ->  01 01
    byte 01  ->  01 02
    others       as they are
    end          00

No escaped value holds 00, so the end marks the beginning of the next column, and it sorts below any
byte that a longer value has there; 01 01 < 01 02 < every other byte keeps the order of the rest. Keys
have no nulls and no floats. The specification is ``docs/spec/v1/row-key.md``.

Invariant: of two tuples the lesser has the lesser key, equal ones have the same, and decoding a key
returns its tuple. Arrays of keys are binary, or large_binary where 32-bit offsets do not suffice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.keys.order_value import (
    ColumnValues,
    binary_array,
    binary_contents,
    decode_fixed,
    decode_value,
    encode_fixed,
    encode_value,
    encode_values,
    one_array,
    value_width,
)
from lakehouse.format.schema.types import Field, Primitive, StringType, arrow_type
from lakehouse.kernels.arrays import U8

__all__ = ["RowKeyCodec"]

_END = b"\x00"
_ESCAPES = ((b"\x01", b"\x01\x02"), (b"\x00", b"\x01\x01"))
"""Replacements in the order in which they are applied; undone in reverse order."""
_LONG = Primitive("int64")
_SIGN = 1 << 63
_HALF = 1 << 62
_LARGE_FROM = 1 << 31
"""Number of bytes of keys from which arrays get 64-bit offsets."""


class RowKeyCodec:
    """Encodes and decodes the keys of one table.

    Args:
        fields: the columns of the key, in key order.

    Raises:
        InvalidInputError: there is no column, or one of a type that keys cannot have.
    """

    __slots__ = ("_fields", "_longs", "_widths")

    def __init__(self, fields: Sequence[Field]) -> None:
        if not fields:
            raise InvalidInputError("a row key has one column or more")
        for field in fields:
            if field.type in (Primitive("float"), Primitive("double")):
                raise InvalidInputError(
                    f"column {field.name!r} cannot be part of a key: {arrow_type(field.type)} values that "
                    "look the same need not be equal; use decimal or an integer",
                    column=field.name,
                )
        self._fields = tuple(fields)
        self._widths = tuple(value_width(field.type) for field in fields)
        self._longs = tuple(field.type == _LONG for field in fields)

    def encode(self, columns: Sequence[ColumnValues]) -> pa.Array:
        """Encodes the keys of rows, given the columns of the key in key order.

        A single column of text or bytes is not copied.

        Raises:
            InvalidInputError: a column has nulls.
        """
        self.refuse_nulls(columns)
        arrays = [one_array(column) for column in columns]
        if None not in self._widths:
            return self._encode_fixed(arrays)
        return self._encode_joined(arrays)

    def refuse_nulls(self, columns: Sequence[ColumnValues]) -> None:
        """Checks that the columns of the key have a value in every row.

        Raises:
            InvalidInputError: a value is missing; the message names column and row.
        """
        for field, column in zip(self._fields, columns, strict=True):
            if column.null_count:
                row = pc.index(pc.is_null(column), True).as_py()
                raise InvalidInputError(
                    f"row {row} has no value in column {field.name!r}, which is part of the key",
                    column=field.name,
                    row=row,
                )

    def _encode_fixed(self, arrays: list[pa.Array]) -> pa.Array:
        widths = [width for width in self._widths if width is not None]
        parts = [encode_fixed(array, field.type) for array, field in zip(arrays, self._fields, strict=True)]
        if len(parts) == 1:
            return binary_array(parts[0], widths[0])
        joined: U8 = np.empty((len(arrays[0]), sum(widths)), np.uint8)
        at = 0
        for part, width in zip(parts, widths, strict=True):
            joined[:, at : at + width] = part.reshape(-1, width)
            at += width
        return binary_array(joined.reshape(-1), sum(widths))

    def _encode_joined(self, arrays: list[pa.Array]) -> pa.Array:
        last = len(arrays) - 1
        parts: list[Any] = []
        size = 0
        for at, (array, field) in enumerate(zip(arrays, self._fields, strict=True)):
            part = encode_values(array, field.type)
            if self._widths[at] is None and at != last:
                part = _escaped(part)
                parts += [part, pa.scalar(_END)]
                size += len(part)
            else:
                parts.append(part)
            size += len(binary_contents(part)[1])
        kind = pa.large_binary() if size >= _LARGE_FROM else pa.binary()
        parts = [part.cast(kind) for part in parts]
        if len(parts) == 1:
            return parts[0]
        return pc.binary_join_element_wise(*parts, pa.scalar(b"", kind))

    def encode_one(self, values: Sequence[object]) -> bytes:
        """Encodes the key of one row.

        Raises:
            InvalidInputError: a value is missing or not of its column's type.
        """
        parts = []
        for field, is_long, value in zip(self._fields, self._longs, values, strict=True):
            # Whole numbers are keys most often, and those well within their width need no second look.
            if is_long and type(value) is int and -_HALF < value < _HALF:
                parts.append((value + _SIGN).to_bytes(8, "big"))
                continue
            try:
                parts.append(encode_value(value, field.type))
            except InvalidInputError as error:
                raise InvalidInputError(
                    f"column {field.name!r} of the key: {error}", column=field.name
                ) from error
        return parts[0] if len(parts) == 1 else self.join(parts)

    def join(self, parts: Sequence[bytes]) -> bytes:
        """Returns a key, or a prefix of keys, made of the encoded values of its columns.

        With fewer parts than columns it is the prefix of exactly those keys that have these leading
        values.
        """
        last = len(self._fields) - 1
        return b"".join(
            part if at == last or self._widths[at] is not None else _escape(part) + _END
            for at, part in enumerate(parts)
        )

    def split(self, key: bytes) -> list[bytes]:
        """Splits a key into the encoded values of its columns; reverses :meth:`join`.

        Raises:
            CorruptionError: these are not the bytes of a key of this table.
        """
        parts = []
        at = 0
        for number, width in enumerate(self._widths):
            if width is None and number == len(self._widths) - 1:
                end = after = len(key)  # the last column is raw and has no end mark
            elif width is None:
                end = key.find(_END, at)
                after = end + 1
            else:
                end = after = at + width
            if not at <= end <= len(key):
                raise _damage_error(key, self._fields[number])
            parts.append(key[at:end] if width is not None or end == after else _unescape(key[at:end]))
            at = after
        if at != len(key):
            raise _damage_error(key, self._fields[-1])
        return parts

    def decode_one(self, key: bytes) -> tuple[object, ...]:
        """Decodes the values of one key to Python objects."""
        parts = self.split(key)
        return tuple(decode_value(part, field.type) for part, field in zip(parts, self._fields, strict=True))

    def decode(self, keys: ColumnValues) -> list[pa.Array]:
        """Decodes keys to arrays of the columns' Arrow types (large where 32-bit offsets do not suffice).

        Raises:
            CorruptionError: one of them is no key of this table.
        """
        keys = one_array(keys)
        offsets, data = binary_contents(keys)
        starts, stops = offsets[:-1], offsets[1:]
        zeros = np.flatnonzero(data == 0) if None in self._widths[:-1] else None
        columns = []
        for number, (field, width) in enumerate(zip(self._fields, self._widths, strict=True)):
            is_last = number == len(self._fields) - 1
            if width is not None:
                ends = after = starts + width
            elif is_last or zeros is None:
                ends = after = stops
            else:
                ends = np.append(zeros, len(data))[np.searchsorted(zeros, starts)]
                after = ends + 1
            if (after > stops).any() or (is_last and (after != stops).any()):
                wrong = int(np.argmax((after > stops) | (is_last & (after != stops))))
                raise _damage_error(data[offsets[wrong] : offsets[wrong + 1]].tobytes(), field)
            part = keys if len(self._fields) == 1 else _cut(data, starts, ends)
            if width is not None:
                columns.append(decode_fixed(binary_contents(part)[1], field.type))
            else:
                columns.append(_text(part if is_last else _unescaped(part), field))
            starts = after
        return columns


def _cut(data: U8, starts: Any, ends: Any) -> pa.Array:
    """Returns the bytes from each start to its end, both ascending, as a binary array."""
    if not len(starts):
        return pa.array([], pa.binary())
    # An array whose odd values are the bytes in between: the wanted ones are every second of its values.
    bounds = np.empty(2 * len(starts), starts.dtype)
    bounds[0::2], bounds[1::2] = starts, ends
    kind = pa.large_binary() if starts.dtype == np.int64 else pa.binary()
    whole = pa.Array.from_buffers(
        kind, len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(data))]
    )
    return whole.take(pa.array(np.arange(0, len(bounds), 2)))


def _escaped(values: pa.Array) -> pa.Array:
    data = binary_contents(values)[1]
    if not len(data) or data.min() > 1:
        return values
    if 2 * len(data) >= _LARGE_FROM:
        values = values.cast(pa.large_binary())
    for plain, escaped in _ESCAPES:
        values = pc.replace_substring(values, pattern=plain, replacement=escaped)
    return values


def _unescaped(values: pa.Array) -> pa.Array:
    if not (binary_contents(values)[1] == 1).any():
        return values
    for plain, escaped in reversed(_ESCAPES):
        values = pc.replace_substring(values, pattern=escaped, replacement=plain)
    return values


def _escape(value: bytes) -> bytes:
    for plain, escaped in _ESCAPES:
        value = value.replace(plain, escaped)
    return value


def _unescape(value: bytes) -> bytes:
    for plain, escaped in reversed(_ESCAPES):
        value = value.replace(escaped, plain)
    return value


def _text(values: pa.Array, field: Field) -> pa.Array:
    is_text = isinstance(field.type, StringType)
    small = len(binary_contents(values)[1]) < _LARGE_FROM
    kind = arrow_type(field.type) if small else pa.large_string() if is_text else pa.large_binary()
    try:
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise CorruptionError(
            f"keys hold bytes that are no text in column {field.name!r}: {error}"
        ) from error


def _damage_error(key: bytes, field: Field) -> CorruptionError:
    shown = key[:64].hex() + ("…" if len(key) > 64 else "")
    return CorruptionError(
        f"{shown} is no row key of this table: column {field.name!r} does not end where it has to",
        column=field.name,
        got=shown,
    )
