"""Parquet's statistics of one row group, as bounds in order-preserving bytes.

They are converted when they are asked for: a file may have thousands of row groups, and a scan asks for
one column or two.

Invariant: bounds are never narrower than the values. Parquet leaves NaNs out of its bounds; a chunk
that holds one has NaN for its high bound. Rows of kind DELETE are included, so there may be more
nulls and wider bounds than without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from lakehouse.format.keys.order_value import NAN_BYTES, encode_value
from lakehouse.format.metadata.file_entry import ColumnStats
from lakehouse.format.parquet.leaf_columns import LeafColumns
from lakehouse.format.parquet.run_footer import HAS_NAN, RunFooter
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

    def __init__(self, footer: RunFooter, columns: LeafColumns, group: int) -> None:
        self._footer = footer
        self._columns = columns
        self._group = group

    def __getitem__(self, number: int) -> ColumnStats:
        leaf, kind = self._columns.flat[number]
        stats = self._footer.metadata.row_group(self._group).column(leaf).statistics
        if not stats.has_min_max:
            return ColumnStats(nulls=stats.null_count)  # no value, NaNs alone, or one of more than 4 KiB
        has_nan = bool(self._footer.pieces.flags[self._group, leaf] & HAS_NAN)
        return ColumnStats(
            nulls=stats.null_count,
            low=_bound(stats.min_raw, kind),
            high=NAN_BYTES if has_nan else _bound(stats.max_raw, kind),
            exact=True,
        )

    def __iter__(self) -> Iterator[int]:
        return iter(self._columns.flat)

    def __len__(self) -> int:
        return len(self._columns.flat)


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
