"""Tables as values of a column of bytes, as they go through Spark's shuffle.

A value is an Arrow stream. Its length is counted before it is written, so it is written once, where it stays:
a buffer that grows and is copied into the column then takes twenty times as long.

Invariant: a value says everything about its rows, their schema included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["blobs", "rows_of"]


def blobs(tables: Sequence[pa.Table]) -> pa.BinaryArray:
    """A value for each table; they have less than 2 GiB together."""
    ends = np.zeros(len(tables) + 1, np.int32)
    np.cumsum([_size(table) for table in tables], out=ends[1:])
    values = pa.allocate_buffer(int(ends[-1]))
    sink = pa.FixedSizeBufferWriter(values)
    for table in tables:
        _write(table, sink)
    return pa.BinaryArray.from_buffers(pa.binary(), len(tables), [None, pa.py_buffer(ends), values])


def rows_of(value: pa.BinaryScalar) -> pa.Table:
    """The table again, whose columns point into the value."""
    return pa.ipc.open_stream(value.as_buffer()).read_all()


def _size(table: pa.Table) -> int:
    counted = pa.MockOutputStream()
    _write(table, counted)
    size: int = counted.size()
    return size


def _write(table: pa.Table, sink: Any) -> None:
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)  # io-ok: into a sink in memory
