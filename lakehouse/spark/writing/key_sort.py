"""Rows of a task in the order in which they are written: by bucket, then by key.

Rows that fit into memory are sorted there. Of more, sorted stretches are put aside on the executor's disk,
where Spark keeps its shuffles, and merged.

Invariant: all rows of a key come in one table, and tables follow each other by bucket and key; no more than
twice the room given is held, and the rows of one key.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lakehouse.format.keys import buckets_of
from lakehouse.format.schema import TableSchema
from lakehouse.io.spill import Spill
from lakehouse.storage.rows import KeyColumns, by_key, conform, joined, take_rows

__all__ = ["in_key_order", "order_key"]

_Batches: TypeAlias = "Iterator[tuple[pa.Table, bool]]"
"""Rows of a sorted stretch; with each batch, whether others follow."""

_BATCH_ROWS_MIN = 16
"""Rows of a batch that is put aside, at least, however wide they are."""
_BATCHES = 64
"""Batches that fill the room: while stretches are merged, one batch of each is in memory."""


def order_key(schema: TableSchema) -> tuple[str, ...]:
    """Returns the key's columns, the partition's first where each partition has merge units of its own."""
    if not schema.key_holds_partition:
        return schema.primary_key
    return tuple(dict.fromkeys((*schema.partition_by, *schema.primary_key)))


def in_key_order(
    tables: Iterable[pa.Table], schema: TableSchema, room: int
) -> Generator[pa.Table, None, None]:
    """Yields all rows, sorted by bucket and key.

    Args:
        tables: rows of whole keys, in any order; columns named as in the schema.
        schema: of the table, which has a primary key.
        room: bytes of rows that may wait in memory.

    Raises:
        InvalidInputError: a key does not fit the schema, as null does not.
    """
    sort = _Sort(schema)
    waiting: list[pa.Table] = []
    weight = 0
    aside: dict[int, list[int]] = {}
    with closing(Spill(_spill_folder())) as spill:

        def put_aside() -> None:
            for bucket, rows in sort.by_bucket(joined(waiting)):
                step = max(_BATCH_ROWS_MIN, rows.num_rows * (room // _BATCHES) // max(1, rows.nbytes))
                aside.setdefault(bucket, []).append(spill.put(rows, step))

        for table in tables:
            if waiting and weight + table.nbytes > room:
                put_aside()
                weight = 0
            waiting.append(table)
            weight += table.nbytes
        if not aside:
            if waiting:
                yield sort.sorted(joined(waiting))
            return
        if waiting:
            put_aside()
        for bucket in sorted(aside):
            yield from sort.merged([spill.batches(number) for number in aside[bucket]])


class _Sort:
    """Order of a table's rows: by bucket, then by key."""

    def __init__(self, schema: TableSchema) -> None:
        self._schema, self._key_schema = schema, schema.key_schema()
        self._keys = KeyColumns([schema.field(name) for name in order_key(schema)])

    def sorted(self, rows: pa.Table) -> pa.Table:
        """Sorts rows by bucket and key; their columns have one chunk each."""
        order, _ = self._order(rows)
        return rows if order is None else _gathered(rows, order)

    def by_bucket(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Sorts rows likewise; yields the number and the rows of each bucket that has some."""
        order, counts = self._order(rows)
        if order is not None:
            rows = _gathered(rows, order)
        begin = 0
        for bucket, count in enumerate(counts):
            if count:
                yield bucket, rows.slice(begin, count)
            begin += count

    def merged(self, runs: Iterable[_Batches]) -> Iterator[pa.Table]:
        """Merges sorted runs of one bucket."""
        heads = [_Head(run) for run in runs]
        while heads:
            # All rows of keys below the least of the last keys have been read, but for runs that have ended.
            last = [(self._last_key(head.rows), head) for head in heads if head.more]
            end = min((key for key, _ in last), default=None)
            parts = [head.take(self._below(head.rows, end)) for head in heads]
            parts = [part for part in parts if part.num_rows]
            if parts:
                yield self.sorted(joined(parts))
            for key, head in last:
                if key == end:
                    head.read()
            heads = [head for head in heads if head.rows.num_rows or head.more]

    def _below(self, rows: pa.Table, end: bytes | None) -> int:
        """Returns how many rows have keys below ``end``; None = all of them."""
        return rows.num_rows if end is None else self._keys.rows_below(self._fitted(rows), end)

    def _fitted(self, rows: pa.Table) -> pa.Table:
        return conform(rows.select(self._schema.primary_key), self._key_schema)

    def _last_key(self, rows: pa.Table) -> bytes:
        key: bytes = self._keys.encoded(self._fitted(rows.slice(rows.num_rows - 1)))[0].as_py()
        return key

    def _order(self, rows: pa.Table) -> tuple[pa.Array | None, list[int]]:
        """Returns row numbers by bucket and key (None = in place), and how many rows each bucket has."""
        schema, keys = self._schema, self._fitted(rows)
        (numbers,) = self._keys.arrays([keys])
        by_keys = by_key(numbers)
        order = None if by_keys is None else by_keys[0]
        if schema.buckets == 1:
            return None if order is None else pa.array(order), [rows.num_rows]
        codes = buckets_of(keys.columns, schema.key_fields, schema.buckets)
        counts = np.bincount(codes, minlength=schema.buckets).tolist()
        if max(counts) < rows.num_rows:
            if order is None:
                order = np.arange(rows.num_rows)
            order = order[np.argsort(codes[order].astype(np.min_scalar_type(schema.buckets)), kind="stable")]
        return None if order is None else pa.array(order), counts


class _Head:
    """Next rows of a run: one at least while others follow."""

    def __init__(self, run: _Batches) -> None:
        self._run = run
        self.rows, self.more = next(run)

    def read(self) -> None:
        """Appends the next batch of the run."""
        rows, self.more = next(self._run)
        self.rows = pa.concat_tables([self.rows, rows])

    def take(self, count: int) -> pa.Table:
        """Removes that many rows from the front and returns them."""
        front, self.rows = self.rows.slice(0, count), self.rows.slice(count)
        return front


def _gathered(rows: pa.Table, order: pa.Array) -> pa.Table:
    """Returns the rows in another order; columns are copied one after the other."""
    return pa.Table.from_arrays([take_rows(column, order) for column in rows.columns], schema=rows.schema)


def _spill_folder() -> str | None:
    """Returns the folder where Spark spills on this machine, as workers find it in their environment."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
