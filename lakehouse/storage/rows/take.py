"""Selection of rows by their numbers, in any order: the one copy that a write makes of the rows it sorts.

Invariant: the result equals that of Arrow's ``take_from_tables``; only the way there differs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.kernels.arrays import I64

__all__ = ["take_from_tables", "take_rows", "without_columns"]

_INLINE_BYTES = 12
"""Maximum bytes of a text that an Arrow string view holds itself."""


def take_rows(column: pa.ChunkedArray, rows: pa.Array) -> pa.Array:
    """Returns the values of these rows, whose numbers are int64 without nulls.

    Short texts are taken as views, which have one width: this needs a third of the time, since Arrow's own
    way through offsets waits for memory several times for each value.
    """
    values = column.combine_chunks()
    if not (pa.types.is_string(values.type) and _is_short(values)):
        return values.take(rows)
    views = values.cast(pa.string_view())
    _, words, *texts = views.buffers()
    # A view has 16 bytes, moved as two words; longer texts stay where they are, in ``texts``.
    pairs = np.frombuffer(words, np.int64).reshape(-1, 2)[views.offset : views.offset + len(views)]
    views = pa.py_buffer(pairs.take(rows.to_numpy(), axis=0))
    return pa.Array.from_buffers(pa.string_view(), len(rows), [None, views, *texts]).cast(pa.string())


def _is_short(values: pa.Array) -> bool:
    """Returns whether there is no null and texts are short on average."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)
    first, last = offsets[values.offset], offsets[values.offset + len(values)]
    return values.null_count == 0 and int(last - first) <= _INLINE_BYTES * len(values)


def without_columns(rows: int) -> pa.Table:
    """Returns a table that has rows and no column."""
    return pa.table({"": pa.nulls(rows)}).select([])


def take_from_tables(tables: Sequence[pa.Table], rows: I64 | None) -> pa.Table:
    """Returns these rows of the tables, numbered through them, in this order; None = all of them."""
    if not tables[0].num_columns:
        return without_columns(sum(table.num_rows for table in tables) if rows is None else len(rows))
    whole = pa.concat_tables(tables)
    if rows is None:
        return whole
    numbers = pa.array(rows)
    # Column by column, so that no more than one is in memory a third time.
    columns = [pc.take(_whole(column), numbers, boundscheck=False) for column in whole.columns]
    return pa.table(columns, schema=whole.schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
