"""Tables as values of a column of bytes, as they go through Spark's shuffle.

A value is an Arrow stream, and may be cut into parts for the way. Its length is counted before it is written,
so it is written once, where it stays: a buffer that grows and is copied into the column then takes twenty
times as long.

Invariant: a value says everything about its rows, their schema included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.kernels.arrays import I64

__all__ = ["Parts", "blobs", "rows_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Values cut into parts; each array has one item per part."""

    of: I64
    """Index of the value that the part belongs to."""
    numbers: I64
    """Position of the part within its value, from 0."""
    counts: I64
    """Number of parts of that value."""
    values: pa.BinaryArray

    @classmethod
    def cut(cls, values: pa.BinaryArray, most: int) -> Parts:
        """Cuts values into parts of ``most`` bytes at most, which share the memory of the values."""
        _, offsets, held = values.buffers()
        ends = np.frombuffer(offsets, np.int32)[: len(values) + 1].astype(np.int64)
        # An empty value has a part too, or it would be lost on the way.
        counts = np.maximum(1, -(-np.diff(ends) // most))
        of = np.repeat(np.arange(len(values)), counts)
        numbers = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        cuts = np.concatenate((ends[:1], np.minimum(ends[of] + (numbers + 1) * most, ends[of + 1])))
        buffers = [None, pa.py_buffer(cuts.astype(np.int32)), held]
        parts = pa.BinaryArray.from_buffers(pa.binary(), len(of), buffers)
        return cls(of=of, numbers=numbers, counts=counts[of], values=parts)


def blobs(tables: Sequence[pa.Table]) -> pa.BinaryArray:
    """Encodes each table as one value; together they must be below 2 GiB, as offsets have 31 bits."""
    ends = np.zeros(len(tables) + 1, np.int32)
    np.cumsum([_size(table) for table in tables], out=ends[1:])
    values = pa.allocate_buffer(int(ends[-1]))
    sink = pa.FixedSizeBufferWriter(values)
    for table in tables:
        _write(table, sink)
    return pa.BinaryArray.from_buffers(pa.binary(), len(tables), [None, pa.py_buffer(ends), values])


def rows_of(value: pa.Buffer) -> pa.Table:
    """Decodes a value into a table whose columns point into its memory."""
    return pa.ipc.open_stream(value).read_all()


def _size(table: pa.Table) -> int:
    counted = pa.MockOutputStream()
    _write(table, counted)
    size: int = counted.size()
    return size


def _write(table: pa.Table, sink: Any) -> None:
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)  # io-ok: into a sink in memory
