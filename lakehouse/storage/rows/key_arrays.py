"""Row keys as arrays that are quick to sort, and the place of a key among sorted rows.

Invariant: arrays of one call compare among each other as the encoded row keys do. They are the columns
themselves where one suffices (numbers, times, text or bytes), several columns of numbers packed into
one where their values fit, and the encoded row keys otherwise.
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
"""Sortable keys of rows: int64 numbers, or an Arrow array of text or bytes."""

_PACKED_MAX = 1 << 62
"""Maximum number of different packed keys: they fit a signed 64-bit integer with room to spare."""


class KeyColumns:
    """Key columns of a schema, which turn tables of rows into key arrays."""

    __slots__ = ("codec", "fields", "name_set", "names")

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self.names = tuple(field.name for field in fields)
        self.name_set = frozenset(self.names)
        self.codec = RowKeyCodec(self.fields)

    def arrays(self, tables: Sequence[pa.Table]) -> list[KeyArray]:
        """Returns a key array for each table; all of them compare with each other."""
        if len(self.fields) == 1 and isinstance(self.fields[0].type, StringType | BinaryType):
            return [_whole(table.column(self.names[0])) for table in tables]
        if all(isinstance(field.type, Primitive) for field in self.fields):
            columns = [[_numbers(table.column(name)) for name in self.names] for table in tables]
            if len(self.fields) == 1:
                return [parts[0] for parts in columns]
            if (packed := _packed(columns)) is not None:
                return packed
        # Encoding works for every key, also of other types and of columns too wide to pack, but is slower.
        return [self.encoded(table) for table in tables]

    def encoded(self, table: pa.Table) -> pa.Array:
        """Returns the encoded row keys."""
        return self.codec.encode([_whole(table.column(name)) for name in self.names])

    def rows_below(self, table: pa.Table, key: bytes, *, included: bool = False) -> int:
        """Returns the number of rows of a sorted table with row keys below this (``included``: or equal)."""
        low, high = 0, table.num_rows
        parts = self.codec.decode(pa.array([key], pa.binary()))
        # Narrow the rows down column by column, to those whose leading columns equal the key's.
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
    """Returns the column as one array, copied only if it has several chunks."""
    if isinstance(column, pa.Array):
        return column
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
    )


def _numbers(column: pa.Array | pa.ChunkedArray) -> I64:
    """Converts integers, dates, times and timestamps to int64, which keeps their order."""
    array = _whole(column)
    kind = array.type
    if pa.types.is_temporal(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if array.type != pa.int64():
        array = array.cast(pa.int64())
    numbers: I64 = array.to_numpy(zero_copy_only=True)
    return numbers


def _packed(columns: Sequence[Sequence[I64]]) -> list[KeyArray] | None:
    """Packs several columns of each table into one number; None where their ranges need more than 62 bits."""
    packed: list[KeyArray] = [np.zeros(len(parts[0]), np.int64) for parts in columns]
    filled = [parts for parts in columns if len(parts[0])]
    room = 1
    for at in range(len(columns[0])) if filled else ():
        # The range over all tables, so that packed keys of one compare with those of another.
        low = min(int(parts[at].min()) for parts in filled)
        span = max(int(parts[at].max()) for parts in filled) - low + 1
        room *= span
        if room > _PACKED_MAX:
            return None
        packed = [whole * span + (parts[at] - low) for whole, parts in zip(packed, columns, strict=True)]
    return packed


def _bisect(field: Field, column: pa.ChunkedArray, value: pa.Array, *, right: bool) -> int:
    """Returns the place of a value in a sorted column: before its equals, or with ``right`` behind them."""
    if isinstance(field.type, Primitive):
        side: Any = "right" if right else "left"
        return int(np.searchsorted(_numbers(column), _numbers(value)[0], side=side))
    wanted = value[0].as_py()
    low, high = 0, len(column)
    while low < high:
        middle = (low + high) // 2
        probed = column[middle].as_py()
        if probed < wanted or (right and probed == wanted):
            low = middle + 1
        else:
            high = middle
    return low
