"""Partitioning of input rows into runs: the last row of each key, in key order, by partition and bucket.

Invariant: the parts of one call hold every key once, whatever partition its rows were in, so that no
two files of a run in a merge unit share a key. Parts of a table without a key keep the order of their
rows. Rows are copied once, when they are written, and not at all when they are in order already.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakehouse.format.keys import RowKeyCodec, buckets_of, encode_values
from lakehouse.format.schema import Field, TableSchema
from lakehouse.kernels.arrays import I32, I64
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.key_sort import last_of_each

__all__ = ["PartitionRows", "RunNumbers", "joined", "partition_rows"]

_FEW = 1 << 16
"""Maximum number of groups whose codes fit 16 bits: Numpy sorts those by radix, in a fraction of the time."""

_Group = tuple[tuple[bytes, ...], int]
"""Partition and bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRows:
    """Rows of one partition and bucket, and the order in which they are written."""

    partition: tuple[bytes, ...] = ()
    bucket: int = 0
    source: pa.Table
    """Rows of all parts of a call, one chunk per column."""
    order: pa.Array | None = None
    """Numbers of this part's rows in ``source``, with a key by key and one each. None = all rows in order."""

    def __len__(self) -> int:
        return self.source.num_rows if self.order is None else len(self.order)

    def slice(self, begin: int, count: int) -> PartitionRows:
        """Returns the part of ``count`` rows from row ``begin`` on, in the order of writing."""
        if self.order is None:
            return replace(self, source=self.source.slice(begin, count))
        return replace(self, order=self.order.slice(begin, count))

    def rows(self) -> pa.Table:
        """Returns the rows in order; they are copied here, and only if they are out of order."""
        return self.source if self.order is None else self.source.take(self.order)

    def key_range(self, codec: RowKeyCodec, names: Sequence[str]) -> tuple[bytes, bytes]:
        """Returns the row keys of the first and the last row."""
        keys = [self.source.column(name) for name in names]
        places = [0, self.source.num_rows - 1] if self.order is None else [self.order[0], self.order[-1]]
        ends = pa.array(places, pa.int64())
        low, high = codec.encode([column.take(ends) for column in keys]).to_pylist()
        return low, high


def joined(tables: list[pa.Table]) -> pa.Table:
    """Concatenates the rows of tables into one chunk per column.

    The list is emptied and released column by column, so that memory does not hold everything twice.
    """
    schema = tables[0].schema
    waiting = [[table.column(place) for table in tables] for place in reversed(range(len(schema)))]
    tables.clear()
    columns = []
    while waiting:
        chunks = [chunk for column in waiting.pop() for chunk in column.chunks]
        columns.append(chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks))
        del chunks
    return pa.Table.from_arrays(columns, schema=schema)


def partition_rows(
    rows: pa.Table, schema: TableSchema, *, partition_fields: Sequence[Field]
) -> list[PartitionRows]:
    """Splits rows by partition and bucket; parts come in the order of both.

    Args:
        rows: columns of the schema, at least those of the key and the partition, of one chunk each.
        schema: has the key and the number of buckets.
        partition_fields: the schema's partition columns, or none for rows whose partition is not known.
    """
    order: I64 | None = None
    if schema.primary_key:
        (keys,) = KeyColumns(schema.key_fields).arrays([rows])
        order = last_of_each(keys)
    by_bucket = bool(schema.primary_key) and schema.buckets > 1
    if not partition_fields and not by_bucket:
        return [PartitionRows(source=rows, order=None if order is None else pa.array(order))]
    # Computed in the order of the input, which needs no copy of the columns, and permuted afterwards.
    codes, groups = _groups(rows, schema, partition_fields, by_bucket)
    if order is not None:
        codes = codes[order]
    if len(groups) > 1:
        # Stable, so that within a partition and bucket rows keep the order of their keys.
        places = np.argsort(codes.astype(np.uint16) if len(groups) <= _FEW else codes, kind="stable")
        order = places if order is None else order[places]
    counts = np.bincount(codes, minlength=len(groups)).tolist()
    whole = PartitionRows(source=rows, order=None if order is None else pa.array(order))
    begins = itertools.accumulate(counts, initial=0)
    return [
        replace(whole.slice(begin, count), partition=partition, bucket=bucket)
        for (partition, bucket), begin, count in zip(groups, begins, counts, strict=False)
        if count
    ]


def _groups(
    rows: pa.Table, schema: TableSchema, partition_fields: Sequence[Field], by_bucket: bool
) -> tuple[I64, list[_Group]]:
    """Returns the group number of each row, and the groups (partition and bucket) in order."""
    codes = np.zeros(rows.num_rows, np.int64)
    groups: list[_Group] = [((), 0)]
    for field in partition_fields:
        column = rows.column(field.name).combine_chunks().dictionary_encode()
        values = encode_values(column.dictionary, field.type).to_pylist()
        codes, pairs = _combined(codes, column.indices.to_numpy(), len(values))
        groups = [((*groups[before][0], values[value]), 0) for before, value in pairs]
    if by_bucket:
        columns = [rows.column(name) for name in schema.primary_key]
        buckets = buckets_of(columns, schema.key_fields, schema.buckets)
        codes, pairs = _combined(codes, buckets, schema.buckets)
        groups = [(groups[before][0], bucket) for before, bucket in pairs]
    places = sorted(range(len(groups)), key=groups.__getitem__)
    renumbered = np.empty(len(groups), np.int64)
    renumbered[places] = np.arange(len(groups))
    return renumbered[codes], [groups[place] for place in places]


def _combined(codes: I64, values: I32, count: int) -> tuple[I64, list[tuple[int, int]]]:
    """Numbers the occurring pairs of a code and one of ``count`` values; returns numbers and pairs."""
    both = pa.array(codes * count + values).dictionary_encode()
    pairs = [divmod(pair, count) for pair in both.dictionary.to_pylist()]
    return both.indices.to_numpy().astype(np.int64), pairs


class RunNumbers:
    """Numbers the runs of one write in each merge unit: later runs win.

    Rows whose keys are all above those of the run so far belong to the same run, so presorted input is one
    run however many buffers it fills; other rows begin another run.
    """

    def __init__(self) -> None:
        self._runs: dict[object, tuple[int, bytes]] = {}

    def next(self, unit: object, low: bytes, high: bytes) -> int:
        """Returns the run number of further rows of a merge unit, whose keys are from ``low`` to ``high``."""
        known = self._runs.get(unit)
        run = 0 if known is None else known[0] if low > known[1] else known[0] + 1
        self._runs[unit] = (run, high)
        return run
