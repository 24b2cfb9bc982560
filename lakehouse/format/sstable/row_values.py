"""Decoder of single rows of SSTables to Python objects, for lookups, without any Arrow array in between.

Arrow costs several times more than the row when there is only one. Values of types that are rare in rows that
are looked up (decimals, times, nested ones) go through it all the same.

Invariant: a value is the object that Arrow's ``as_py`` gives for what :mod:`lakehouse.format.sstable.rows`
decodes; bytes that are no row are a :class:`RowError` here as there.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lakehouse.format.keys.order_value import decode_value
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.schema.types import BinaryType, DataType, Primitive, StringType, arrow_type
from lakehouse.format.sstable.loops import read_varint
from lakehouse.format.sstable.rows import RowError, RowLayout, one_fixed, one_sized

__all__ = ["KeyValues", "RowValues"]

_CODES = {
    "boolean": "B", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "float": "f", "double": "d",
    "date": "i", "timestamp": "q", "timestamp_ntz": "q",
}  # fmt: skip
"""Codes of :mod:`struct` for the types whose bytes Python reads itself."""
_SIGN = 1 << 63
_NUMBER_BYTES = 8
"""Bytes of a number in a key."""
_DAY_0 = dt.date(1970, 1, 1)
_MOMENT_0 = dt.datetime(1970, 1, 1)

_Convert = Callable[[Any], object]


class _Step(NamedTuple):
    """Treatment of one column of a row."""

    byte: int
    """Number of the byte with its null bit."""
    mask: int
    place: int
    """Number of its value among those of the fixed part; 0 = it is a sized one."""
    convert: _Convert | None
    """Makes the object of the value; None = it is the object."""
    is_wanted: bool


class RowValues:
    """Decodes selected columns of rows.

    Args:
        layout: the layout of the rows.
        wanted: for each column, True if it is selected.
    """

    __slots__ = ("_head", "_head_bytes", "_nulls", "_steps")

    def __init__(self, layout: RowLayout, wanted: Sequence[bool]) -> None:
        self._head_bytes = layout.head_bytes
        self._nulls: list[object] = [None] * sum(wanted)
        codes = [f"<{(len(layout.fields) + 7) // 8}s"]
        steps = []
        count = 0
        for bit, (field, place, asked) in enumerate(zip(layout.fields, layout.places, wanted, strict=True)):
            if place is None:
                convert = _sized(field.type)
            else:
                code, convert = _fixed(field.type, layout.types[bit], layout.widths[bit])
                codes.append(code if asked else f"{layout.widths[bit]}x")
                if not asked:
                    continue
                count += 1
            steps.append(_Step(bit >> 3, 1 << (bit & 7), 0 if place is None else count, convert, asked))
        self._head = struct.Struct("".join(codes))
        self._steps = tuple(steps)

    def decode(self, data: bytes, begin: int, end: int) -> list[object]:
        """Returns the values of the selected columns in the row at ``data[begin:end]``.

        Raises:
            RowError: the bytes are no such row.
        """
        if begin == end:
            return list(self._nulls)
        at = begin + self._head_bytes
        if at > end:
            raise RowError(0, f"is shorter than the {self._head_bytes} bytes that all rows have")
        head = self._head.unpack_from(data, begin)
        nulls = head[0]
        values: list[object] = []
        for byte, mask, place, convert, is_wanted in self._steps:
            if nulls[byte] & mask:
                if is_wanted:
                    values.append(None)
                continue
            if place:
                value = head[place]
            else:
                size, at = read_varint(data, at, end)
                if at < 0 or size > end - at:
                    raise RowError(0, "has a value that goes beyond its end")
                value = data[at : at + size]
                at += size
            if is_wanted:
                values.append(value if convert is None else convert(value))
        if at != end:
            raise RowError(0, "goes on behind its last column")
        return values


def _fixed(kind: DataType, type_: pa.DataType, width: int) -> tuple[str, _Convert | None]:
    """Returns the code for the bytes of a value of fixed width, and what makes the object of it."""
    name = kind.name if isinstance(kind, Primitive) else ""
    match name:
        case "boolean":
            return "B", _truth
        case "date":
            return "i", _date
        case "timestamp" | "timestamp_ntz":
            return "q", _moment(type_)
    if name in _CODES:
        return _CODES[name], None
    return f"{width}s", lambda value: one_fixed(kind, type_, value)[0].as_py()


def _sized(kind: DataType) -> _Convert | None:
    if isinstance(kind, BinaryType):
        return None
    if isinstance(kind, StringType):
        return _text
    return lambda value: one_sized(kind, value)[0].as_py()


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise RowError(0, f"or another has a value that is none of its type: {error}") from error


def _truth(value: int) -> bool:
    if value > 1:
        raise RowError(0, "has a truth value that is neither 0 nor 1")
    return value == 1


def _date(days: int) -> dt.date:
    return _DAY_0 + dt.timedelta(days=days)


def _moment(type_: pa.DataType) -> _Convert:
    # The zone is the very object that Arrow gives: there are several that mean UTC.
    start = _MOMENT_0 if type_.tz is None else pa.scalar(0, type_).as_py()
    return lambda micros: start + dt.timedelta(microseconds=micros)


class KeyValues:
    """Decodes row keys.

    Args:
        codec: of the keys.
        kinds: types of the columns of the key.
    """

    __slots__ = ("_codec", "_converts")

    def __init__(self, codec: RowKeyCodec, kinds: Sequence[DataType]) -> None:
        self._codec = codec
        self._converts = tuple(_of_key(kind) for kind in kinds)

    def decode(self, key: bytes) -> list[object]:
        """Returns the values of a key's columns, as Python objects.

        Raises:
            CorruptionError: this is no key.
        """
        if len(self._converts) == 1:
            return [self._converts[0](key)]
        return [convert(part) for convert, part in zip(self._converts, self._codec.split(key), strict=True)]


def _of_key(kind: DataType) -> _Convert:
    """Returns what makes the object of the bytes of a key's column; odd ones go to the slower decoder."""
    object_of = _of_number(kind)
    if object_of is None:
        return lambda part: decode_value(part, kind)

    def convert(part: bytes) -> object:
        if len(part) == _NUMBER_BYTES:
            with contextlib.suppress(OverflowError):
                return object_of(int.from_bytes(part, "big") - _SIGN)
        return decode_value(part, kind)

    return convert


def _of_number(kind: DataType) -> _Convert | None:
    """Returns what makes the object of the number in a key; None where there is none."""
    name = kind.name if isinstance(kind, Primitive) else ""
    match name:
        case "int64":
            return int
        case "date":
            return _date
        case "timestamp" | "timestamp_ntz":
            return _moment(arrow_type(kind))
    return None
