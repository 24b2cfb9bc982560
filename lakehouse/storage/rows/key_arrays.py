"""Row keys as arrays that are quick to sort, and where in sorted rows a key belongs.

Invariant: arrays of one call compare among each other as the encoded row keys do. They are what
the columns hold where that suffices (one column of numbers, moments, text or bytes), several
columns of numbers packed into one where their values fit, and the encoded row keys otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from lakehouse.format.keys import RowKeyCodec
from lakehouse.format.schema import BinaryType, Field, Primitive, StringType
from lakehouse.kernels.arrays import I64

__all__ = ["KeyArray", "KeyColumns"]

KeyArray: TypeAlias = "I64 | pa.Array"
"""Numbers, or an Arrow array of text or bytes."""

_PACKED_MAX = 1 << 62


class KeyColumns:
    """The key columns of a schema, as tables of rows carry them."""

    __slots__ = ("codec", "fields", "names")

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self.names = tuple(field.name for field in fields)
        self.codec = RowKeyCodec(self.fields)

    def arrays(self, tables: Sequence[pa.Table]) -> list[KeyArray]:
        """A key array for each table; they compare among each other."""
        if len(self.fields) == 1 and isinstance(self.fields[0].type, StringType | BinaryType):
            return [_whole(table.column(self.names[0])) for table in tables]
        if all(isinstance(field.type, Primitive) for field in self.fields):
            columns = [[_numbers(table.column(name)) for name in self.names] for table in tables]
            if len(self.fields) == 1:
                return [parts[0] for parts in columns]
            if (packed := _packed(columns)) is not None:
                return packed
        return [self.encoded(table) for table in tables]

    def encoded(self, table: pa.Table) -> pa.Array:
        """The row keys as bytes."""
        return self.codec.encode([_whole(table.column(name)) for name in self.names])

    def rows_below(self, table: pa.Table, key: bytes, *, included: bool = False) -> int:
        """How many rows of a sorted table have smaller row keys than this (``included``: or the same)."""
        low, high = 0, table.num_rows
        parts = self.codec.decode(pa.array([key], pa.binary()))
        for field, name, part in zip(self.fields, self.names, parts, strict=True):
            column = table.column(name).slice(low, high - low)
            low, high = (
                low + _bisect(field, column, part, right=False),
                low + _bisect(field, column, part, right=True),
            )
            if low == high:
                return low
        return high if included else low


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    if isinstance(column, pa.Array):
        return column
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
    )


def _numbers(column: pa.Array | pa.ChunkedArray) -> I64:
    """Numbers, dates, times and moments as int64, in their order."""
    array = _whole(column)
    kind = array.type
    if pa.types.is_temporal(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if array.type != pa.int64():
        array = array.cast(pa.int64())
    numbers: I64 = array.to_numpy(zero_copy_only=True)
    return numbers


def _packed(columns: Sequence[Sequence[I64]]) -> list[KeyArray] | None:
    """Several columns of each table as one number, or None where their ranges need more than 62 bits."""
    packed: list[KeyArray] = [np.zeros(len(parts[0]), np.int64) for parts in columns]
    filled = [parts for parts in columns if len(parts[0])]
    room = 1
    for at in range(len(columns[0])) if filled else ():
        low = min(int(parts[at].min()) for parts in filled)
        span = max(int(parts[at].max()) for parts in filled) - low + 1
        room *= span
        if room > _PACKED_MAX:
            return None
        packed = [whole * span + (parts[at] - low) for whole, parts in zip(packed, columns, strict=True)]
    return packed


def _bisect(field: Field, column: pa.ChunkedArray, value: pa.Array, *, right: bool) -> int:
    """Where in the sorted column the value belongs."""
    if isinstance(field.type, Primitive):
        side: Any = "right" if right else "left"
        return int(np.searchsorted(_numbers(column), _numbers(value)[0], side=side))
    wanted = value[0].as_py()
    low, high = 0, len(column)
    while low < high:
        middle = (low + high) // 2
        found = column[middle].as_py()
        if found < wanted or (right and found == wanted):
            low = middle + 1
        else:
            high = middle
    return low
