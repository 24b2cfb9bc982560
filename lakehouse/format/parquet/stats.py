"""Parquet's statistics of one row group, as bounds in order-preserving bytes.

They are converted when they are asked for: a file may have thousands of row groups, and a scan asks for
one column or two. Of files that other programs wrote, columns whose statistics tell too little are left out.

Invariant: bounds are never narrower than the values. Parquet leaves NaNs out of its bounds; a chunk
that holds one has NaN for its high bound. Rows of kind DELETE are included, so there may be more
nulls and wider bounds than without them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa

from lakehouse.format.keys.order_value import NAN_BYTES, encode_value
from lakehouse.format.metadata.file_entry import ColumnStats
from lakehouse.format.parquet.file_footer import FileFooter
from lakehouse.format.parquet.leaf_columns import LeafColumns
from lakehouse.format.schema.types import DecimalType, Primitive

__all__ = ["GroupStats"]

# All integers and times have the bytes of an int64, decimals those of their unscaled value.
_INTEGER = Primitive("int64")
_DOUBLE = Primitive("double")
_UNSCALED = DecimalType(38, 0)


class GroupStats(Mapping[int, ColumnStats]):
    """Statistics of the columns of one row group that are not nested, by field id.

    Args:
        footer: footer of the file.
        columns: columns of the file.
        group: number of the row group.
    """

    __slots__ = ("_columns", "_footer", "_group")

    def __init__(self, footer: FileFooter, columns: LeafColumns, group: int) -> None:
        self._footer = footer
        self._columns = columns
        self._group = group

    def __getitem__(self, number: int) -> ColumnStats:
        leaf, kind = self._columns.flat[number]
        footer, stats = self._footer, self._told(leaf)
        if stats is None:
            raise KeyError(number)
        low, high = (stats.min_raw, stats.max_raw) if stats.has_min_max else (None, None)
        if low is None or low != low or high != high:
            # No value, NaNs alone, one of more than 4 KiB, or a writer that took NaNs for values.
            return ColumnStats(nulls=stats.null_count)
        if isinstance(low, float):
            low = low or -0.0  # some writers let either zero be the least value
        return ColumnStats(
            nulls=stats.null_count,
            low=_bound(low, kind),
            high=NAN_BYTES if footer.may_have_nan(self._group, leaf) else _bound(high, kind),
            exact=footer.is_sealed,  # other programs cut bounds of texts without saying so
        )

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers())

    def __len__(self) -> int:
        return len(self._numbers())

    def _numbers(self) -> Collection[int]:
        """Returns the ids of the columns that have statistics; the engine's own files have all of them."""
        flat = self._columns.flat
        if self._footer.is_sealed:
            return flat
        return [number for number, (leaf, _) in flat.items() if self._told(leaf) is not None]

    def _told(self, leaf: int) -> Any:
        """Returns Parquet's statistics of a leaf; None where some other program counted no nulls."""
        stats = self._footer.metadata.row_group(self._group).column(leaf).statistics
        return None if stats is None or not stats.has_null_count else stats


def _bound(raw: Any, kind: pa.DataType) -> bytes:
    """Encodes a bound, given as Parquet stores it, in order-preserving bytes."""
    if pa.types.is_decimal(kind):
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        return encode_value(unscaled, _UNSCALED)
    if pa.types.is_floating(kind):
        return encode_value(raw, _DOUBLE)
    if pa.types.is_boolean(kind):
        return bytes([raw])
    return raw if isinstance(raw, bytes) else encode_value(raw, _INTEGER)
