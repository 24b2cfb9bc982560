"""Codec of the values of SSTable rows: found by position, packed and unpacked a column at a time.

A row of columns is::

    null bits     1 bit per column, lowest first; set = null    ceil(columns / 8) bytes
    fixed part    the columns of fixed width, in order; little-endian, zeros for nulls
    sized part    the other columns that are not null, in order: varint size, bytes

A row of no bytes at all is one whose every column is null. Structs, lists and maps are sized
columns, and their contents are rows again::

    struct        a row of its fields
    list          varint count, then for each element: varint size, a row of the element
    map           varint count, then for each entry: varint size, a row of key and value

Invariant: :func:`unpack_rows` of the result of :func:`pack_rows` gives the same columns; any other
bytes give columns or a :class:`RowError`, and no byte outside a row is read for it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakehouse.format.schema.types import (
    BinaryType,
    DataType,
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
    arrow_type,
)
from lakehouse.format.sstable.loops import (
    Packed,
    element_counts,
    element_spans,
    fresh_bytes,
    gather,
    get_fixed,
    numbers,
    packed_binary,
    put_elements,
    put_fixed,
    put_sized,
    read_only,
    read_varint,
    spans,
    sums,
    varint_sizes,
)
from lakehouse.kernels.arrays import I64, U8

__all__ = ["RowError", "RowLayout", "one_fixed", "one_sized", "pack_rows", "unpack_row", "unpack_rows"]

_WIDTHS = {
    "boolean": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float": 4, "double": 8,
    "date": 4, "time": 8, "timestamp": 8, "timestamp_ntz": 8,
}  # fmt: skip
_DECIMAL_WIDTH = 16
_TIME = Primitive("time")
_ENDS = struct.Struct("=ii")
"""Layout of Arrow's offsets of one value."""
_OFFSET_MAX = (1 << 31) - 1
"""Maximum bytes or elements of one Arrow array with 32-bit offsets."""


class RowError(ValueError):
    """Raised for bytes that are no row; ``row`` is its number among those given."""

    def __init__(self, row: int, what: str) -> None:
        super().__init__(what)
        self.row = row
        self.what = what


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayout:
    """Layout of a row; the number of a column is that of its null bit."""

    fields: tuple[Field, ...]
    places: tuple[int | None, ...]
    """For each column, the offset of its fixed bytes in the row; None = it is a sized one."""
    head_bytes: int
    """Bytes of null bits and fixed part, which every row has unless it is all nulls."""
    types: tuple[pa.DataType, ...]
    widths: tuple[int, ...]
    """Bytes of each column's fixed part; 0 for sized ones."""

    @classmethod
    def of(cls, fields: Sequence[Field]) -> RowLayout:
        """Returns the layout of a row of these columns."""
        at = (len(fields) + 7) // 8
        places: list[int | None] = []
        for field in fields:
            width = _width(field.type)
            places.append(None if width is None else at)
            at += width or 0
        return cls(
            fields=tuple(fields),
            places=tuple(places),
            head_bytes=at,
            types=tuple(arrow_type(field.type) for field in fields),
            widths=tuple(_width(field.type) or 0 for field in fields),
        )


def _width(kind: DataType) -> int | None:
    match kind:
        case Primitive(name):
            return _WIDTHS[name]
        case DecimalType():
            return _DECIMAL_WIDTH
    return None


# --- packing ------------------------------------------------------------------------------


def pack_rows(layout: RowLayout, columns: Sequence[pa.Array], rows: int) -> Packed:
    """Encodes the rows of these columns, one array for each field of the layout."""
    present = np.zeros(rows, np.bool_)
    sizes = np.full(rows, layout.head_bytes, np.int64)
    sized: dict[int, Packed] = {}
    valid: list[U8] = []
    for bit, (field, column) in enumerate(zip(layout.fields, columns, strict=True)):
        mask = _valid(column)
        valid.append(mask)
        present |= mask.view(np.bool_)
        if layout.places[bit] is None:
            sized[bit] = part = _pack_sized(field.type, column)
            lengths = part.lengths
            sizes += (lengths + varint_sizes(lengths)) * mask
    sizes *= present
    offsets = sums(sizes)
    out = fresh_bytes(int(offsets[-1]))
    begins = np.where(present, offsets[:-1], -1)
    cursor = offsets[:-1] + layout.head_bytes
    for bit, column in enumerate(columns):
        place = layout.places[bit]
        if place is None:
            part = sized[bit]
            put_sized(rows, out, begins, cursor, bit, part.data, part.offsets, valid[bit])
        else:
            width = layout.widths[bit]
            put_fixed(rows, out, begins, place, bit, _fixed_bytes(column, width), width, valid[bit])
    return Packed(data=read_only(out), offsets=offsets)


def _valid(column: pa.Array) -> U8:
    """Returns 1 for each value and 0 for each null."""
    if not column.null_count:
        return np.ones(len(column), np.uint8)
    return np.ascontiguousarray(column.is_valid().to_numpy(zero_copy_only=False)).view(np.uint8)


def _fixed_bytes(column: pa.Array, width: int) -> U8:
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    data = column.buffers()[1] if len(column) else None
    if data is None:
        return read_only(np.zeros(len(column) * width, np.uint8))
    return read_only(
        np.frombuffer(data, np.uint8)[column.offset * width : (column.offset + len(column)) * width]
    )


def _pack_sized(kind: DataType, column: pa.Array) -> Packed:
    match kind:
        case StructType(fields):
            return pack_rows(RowLayout.of(fields), column.flatten(), len(column))
        case ListType(element):
            counts, offsets, (values,) = _elements(column)
            return _pack_elements(counts, pack_rows(RowLayout.of([element]), [values], len(values)), offsets)
        case MapType(key, value):
            counts, offsets, (keys, values) = _elements(column)
            packed = pack_rows(RowLayout.of([key, value]), [keys, values], len(keys))
            return _pack_elements(counts, packed, offsets)
    return packed_binary(column)


def _elements(column: pa.Array) -> tuple[I64, I64, tuple[pa.Array, ...]]:
    """Returns the number of elements of each list, their offsets, and the elements of all lists."""
    if column.null_count or column.offset:
        # A copy: nulls then have no elements, and the elements begin with the first list's.
        column = column.take(pa.array(np.arange(len(column))))
    offsets = np.asarray(column.offsets if len(column) else [0], np.int64)
    is_map = pa.types.is_map(column.type)
    values = (column.keys, column.items) if is_map else (column.values,)
    begin, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    return np.diff(offsets), offsets - begin, tuple(part.slice(begin, count) for part in values)


def _pack_elements(counts: I64, elements: Packed, offsets: I64) -> Packed:
    """Encodes lists of packed elements as sized values; the elements of list i begin at ``offsets[i]``."""
    lengths = elements.lengths
    before = sums(lengths + varint_sizes(lengths))
    begins = sums(varint_sizes(counts) + before[offsets[1:]] - before[offsets[:-1]])
    out = fresh_bytes(int(begins[-1]))
    put_elements(len(lengths), out, begins, offsets, elements.data, elements.offsets)
    return Packed(data=read_only(out), offsets=begins)


# --- unpacking ----------------------------------------------------------------------------


def unpack_rows(
    layout: RowLayout, data: U8, begins: I64, ends: I64, wanted: Sequence[bool] | None = None
) -> list[pa.Array | None]:
    """Decodes the columns of the rows at ``data[begins[i]:ends[i]]``; None for each that is not wanted.

    Raises:
        RowError: the bytes are no such rows.
    """
    wanted = wanted if wanted is not None else [True] * len(layout.fields)
    if not any(wanted):
        return [None] * len(wanted)
    sizes = ends - begins
    if (short := (sizes != 0) & (sizes < layout.head_bytes)).any():
        raise RowError(
            int(short.argmax()), f"is shorter than the {layout.head_bytes} bytes that all rows have"
        )
    # Sized columns have no fixed place: those before a wanted one must be walked over.
    last = max(bit for bit, asked in enumerate(wanted) if asked)
    cursor = begins + layout.head_bytes
    columns: list[pa.Array | None] = []
    for bit, field in enumerate(layout.fields):
        place = layout.places[bit]
        if bit > last or (place is not None and not wanted[bit]):
            columns.append(None)
        elif place is not None:
            columns.append(_unpack_fixed(field.type, data, begins, ends, place, bit))
        else:
            columns.append(_unpack_sized(field.type, data, begins, ends, cursor, bit, wanted=wanted[bit]))
    if all(places is not None or bit <= last for bit, places in enumerate(layout.places)):
        surplus = (sizes != 0) & (cursor != ends)
        if surplus.any():
            raise RowError(int(surplus.argmax()), "goes on behind its last column")
    return columns


def unpack_row(
    layout: RowLayout, data: bytes, begin: int, end: int, wanted: Sequence[bool]
) -> list[pa.Array | None]:
    """Decodes one row at ``data[begin:end]`` likewise, without numpy's arrays, which would cost more."""
    head = data[begin : begin + layout.head_bytes]
    if begin != end and len(head) > end - begin:
        raise RowError(0, f"is shorter than the {layout.head_bytes} bytes that all rows have")
    at = begin + layout.head_bytes
    columns: list[pa.Array | None] = []
    for bit, place in enumerate(layout.places):
        column = None
        if begin == end or head[bit >> 3] >> (bit & 7) & 1:
            column = pa.nulls(1, layout.types[bit]) if wanted[bit] else None
        elif place is not None:
            if wanted[bit]:
                value = head[place : place + layout.widths[bit]]
                column = one_fixed(layout.fields[bit].type, layout.types[bit], value)
        else:
            size, at = read_varint(data, at, end)
            if at < 0 or size > end - at:
                raise RowError(0, "has a value that goes beyond its end")
            if wanted[bit]:
                column = one_sized(layout.fields[bit].type, data[at : at + size])
            at += size
        columns.append(column)
    if begin != end and at != end:
        raise RowError(0, "goes on behind its last column")
    return columns


def one_fixed(kind: DataType, type_: pa.DataType, value: bytes) -> pa.Array:
    """Decodes one value of fixed width to an array.

    Raises:
        RowError: the bytes are no such value.
    """
    if value > b"\x01" and pa.types.is_boolean(type_):
        raise _truth_value_error(0)
    return _checked(kind, pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(value)]))


def one_sized(kind: DataType, value: bytes) -> pa.Array:
    """Decodes one value of a sized column to an array.

    Raises:
        RowError: the bytes are no such value.
    """
    if not isinstance(kind, StringType | BinaryType):
        data = np.frombuffer(value, np.uint8)
        return _unpack_values(kind, data, numbers(1), np.array([len(value)]), np.ones(1, np.uint8))
    buffers = [None, pa.py_buffer(_ENDS.pack(0, len(value))), pa.py_buffer(value)]
    return _checked(kind, pa.Array.from_buffers(arrow_type(kind), 1, buffers))


def _unpack_fixed(kind: DataType, data: U8, begins: I64, ends: I64, place: int, bit: int) -> pa.Array:
    rows, width = len(begins), _width(kind) or 0
    out = fresh_bytes(rows * width)
    valid = np.ones(rows, np.uint8)
    get_fixed(rows, data, begins, ends, place, bit, width, out, valid)
    type_ = arrow_type(kind)
    if pa.types.is_boolean(type_):
        if (odd := out > 1).any():
            raise _truth_value_error(int(odd.argmax()))
        out = np.packbits(out, bitorder="little")
    return _checked(kind, pa.Array.from_buffers(type_, rows, [_validity(valid), pa.py_buffer(out)]))


def _unpack_sized(
    kind: DataType, data: U8, begins: I64, ends: I64, cursor: I64, bit: int, *, wanted: bool
) -> pa.Array | None:
    """Decodes a sized column if it is wanted; moves ``cursor`` behind it in any case."""
    rows = len(begins)
    starts, lengths = numbers(rows), numbers(rows)
    valid = np.ones(rows, np.uint8)
    bad = spans(rows, data, cursor, begins, ends, bit, starts, lengths, valid)
    if bad >= 0:
        raise RowError(bad, "has a value that goes beyond its end")
    if not wanted:
        return None
    return _unpack_values(kind, data, starts, lengths, valid)


def _unpack_values(kind: DataType, data: U8, starts: I64, lengths: I64, valid: U8) -> pa.Array:
    rows, type_ = len(starts), arrow_type(kind)
    match kind:
        case StructType(fields):
            parts = unpack_rows(RowLayout.of(fields), data, starts, starts + lengths)
            return pa.Array.from_buffers(type_, rows, [_validity(valid)], children=parts)
        case ListType(element):
            offsets, (values,) = _unpack_elements((element,), data, starts, lengths, valid)
            return pa.Array.from_buffers(type_, rows, [_validity(valid), offsets], children=[values])
        case MapType(key, value):
            offsets, parts = _unpack_elements((key, value), data, starts, lengths, valid)
            if parts[0].null_count:
                raise RowError(int((valid != 0).argmax()), "has a map with a key that is null")
            entry = pa.struct([type_.key_field, type_.item_field])
            entries = pa.Array.from_buffers(entry, len(parts[0]), [None], children=parts)
            return pa.Array.from_buffers(type_, rows, [_validity(valid), offsets], children=[entries])
    offsets = _offsets(lengths)
    out = fresh_bytes(int(offsets[-1]))
    gather(rows, data, starts, lengths, offsets, out)
    buffers = [_validity(valid), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out)]
    return _checked(kind, pa.Array.from_buffers(type_, rows, buffers))


def _checked(kind: DataType, column: pa.Array) -> pa.Array:
    """Refuses text, times and decimals whose bytes are no values of their type; returns the column."""
    if isinstance(kind, StringType | DecimalType) or kind == _TIME:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise RowError(0, f"or another has a value that is none of its type: {error}") from error
    return column


def _unpack_elements(
    fields: tuple[Field, ...], data: U8, starts: I64, lengths: I64, valid: U8
) -> tuple[pa.Buffer, list[pa.Array]]:
    """Decodes the offsets of lists, and the columns of all their elements."""
    counts = numbers(len(starts))
    bad = element_counts(len(starts), data, starts, lengths, valid, counts)
    if bad < 0:
        offsets = _offsets(counts)
        begins, ends = numbers(int(offsets[-1])), numbers(int(offsets[-1]))
        bad = element_spans(len(begins), data, starts, lengths, valid, offsets, begins, ends)
    if bad >= 0:
        raise RowError(bad, "has a list whose elements do not fill it")
    try:
        parts = unpack_rows(RowLayout.of(fields), data, begins, ends)
    except RowError as error:
        row = int(np.searchsorted(offsets, error.row, side="right")) - 1
        raise RowError(row, f"has an element that {error.what}") from error
    return pa.py_buffer(offsets.astype(np.int32)), parts


def _offsets(lengths: I64) -> I64:
    """Returns the offsets of values of these lengths; refuses what exceeds 32-bit offsets."""
    offsets = sums(lengths)
    if int(offsets[-1]) > _OFFSET_MAX:
        raise RowError(
            int(np.searchsorted(offsets, _OFFSET_MAX)) - 1, "and those before hold more than 2 GiB"
        )
    return offsets


def _truth_value_error(row: int) -> RowError:
    return RowError(row, "has a truth value that is neither 0 nor 1")


def _validity(valid: U8) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
