"""Statistics of columns, as manifests keep them: bounds and null counts.

Long text and bytes are cut: the low bound to its first bytes, the high one to a short value above
everything that begins like it. Text is cut between characters, so that a bound is text too. The rules
are in ``docs/spec/v1/row-key.md``.

Invariant: no row that is not deleted has a value below ``low`` or above ``high``; where no bound fits
the bytes allowed, it is None. A NaN is above every number, so a column that has one has it as its high
bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.expr.required import prefix_successor
from lakehouse.format.keys.order_value import encode_value
from lakehouse.format.metadata.file_entry import KIND_COLUMN, ColumnStats, RowKind
from lakehouse.format.schema.types import (
    BinaryType,
    DataType,
    Field,
    ListType,
    MapType,
    StringType,
    StructType,
)

__all__ = ["merge_stats", "stats_of"]

_TEXT_BYTES = 16
_CODE_POINT_MAX = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def stats_of(
    table: pa.Table, fields: Sequence[Field], *, text_bytes: int = _TEXT_BYTES
) -> dict[int, ColumnStats]:
    """Returns the statistics of the columns of these rows, by field id; rows of kind DELETE are left out.

    Args:
        table: rows under way; columns are found by their names in ``fields``, missing ones left out.
        fields: top-level fields.
        text_bytes: maximum bytes of a bound of text or binary.
    """
    names = set(table.column_names)
    wanted = [field for field in fields if field.name in names]
    columns = table.select([field.name for field in wanted])
    if KIND_COLUMN in names:
        live = pc.not_equal(table.column(KIND_COLUMN), pa.scalar(int(RowKind.DELETE), pa.int8()))
        if not pc.all(live, min_count=0).as_py():
            columns = columns.filter(live)
    return {
        field.id: _stats(column, field.type, text_bytes)
        for field, column in zip(wanted, columns.columns, strict=True)
    }


def _stats(column: pa.ChunkedArray, kind: DataType, text_bytes: int) -> ColumnStats:
    nulls = column.null_count
    if nulls == len(column) or isinstance(kind, ListType | MapType | StructType):
        return ColumnStats(nulls=nulls)
    ends = _float_ends(column) if pa.types.is_floating(column.type) else _ends(column)
    low, high = (encode_value(value, kind) for value in ends)
    if not isinstance(kind, StringType | BinaryType) or max(len(low), len(high)) <= text_bytes:
        return ColumnStats(nulls=nulls, low=low, high=high, exact=True)
    is_text = isinstance(kind, StringType)
    return ColumnStats(
        nulls=nulls, low=_cut(low, text_bytes, is_text), high=_raised(high, text_bytes, is_text)
    )


def _ends(column: pa.ChunkedArray) -> tuple[object, object]:
    ends = pc.min_max(column)
    return ends["min"], ends["max"]


def _float_ends(column: pa.ChunkedArray) -> tuple[object, object]:
    # numpy is ten times as fast as the kernel, which also skips NaNs silently.
    numbers = column.drop_null().to_numpy()
    low, high = numbers.min(), numbers.max()
    if np.isnan(low):  # as both are when there is one
        low = np.fmin.reduce(numbers)
    return float(low), float(high)


def _cut(value: bytes, size: int, is_text: bool) -> bytes:
    """Returns the first ``size`` bytes of a value; text is cut between characters and may be shorter."""
    cut = value[:size]
    return cut.decode(errors="ignore").encode() if is_text and len(cut) < len(value) else cut


def _raised(value: bytes, size: int, is_text: bool) -> bytes | None:
    """Returns the value, or a short one above everything that begins like it; None if there is none."""
    if len(value) <= size:
        return value
    cut = _cut(value, size, is_text)
    if not is_text:
        return prefix_successor(cut)
    text = cut.decode().rstrip(chr(_CODE_POINT_MAX))
    if not text:
        return None
    after = ord(text[-1]) + 1  # a surrogate would not be text: the next character is behind them
    return (text[:-1] + chr(_SURROGATES.stop if after in _SURROGATES else after)).encode()


def merge_stats(parts: Iterable[tuple[int, Mapping[int, ColumnStats]]]) -> dict[int, ColumnStats]:
    """Returns the statistics of the rows of all parts together, from those of each.

    Args:
        parts: for each its number of rows that are not of kind DELETE, and its statistics by field id.
    """
    kept = [(rows, stats) for rows, stats in parts if rows]
    if not kept:
        return {}
    known = set.intersection(*(set(stats) for _, stats in kept))
    return {id_: _merged([(rows, stats[id_]) for rows, stats in kept]) for id_ in sorted(known)}


def _merged(parts: list[tuple[int, ColumnStats]]) -> ColumnStats:
    nulls = sum(stats.nulls for _, stats in parts)
    with_values = [stats for rows, stats in parts if stats.nulls < rows]
    lows = [stats.low for stats in with_values if stats.low is not None]
    highs = [stats.high for stats in with_values if stats.high is not None]
    # One part with values but without a bound leaves the whole without that bound.
    return ColumnStats(
        nulls=nulls,
        low=min(lows) if lows and len(lows) == len(with_values) else None,
        high=max(highs) if highs and len(highs) == len(with_values) else None,
        exact=bool(with_values) and all(stats.exact for stats in with_values),
    )
