"""Rows on their way to the tasks that write them: Arrow data, which Spark's shuffle looks at no further.

Rows that come from Spark are cut by tasks in Python, beside where they are made, and go through the shuffle
as a few large values. So they are turned from rows of the JVM into Arrow data once, not twice, and Spark
sorts nothing.

Invariant: all rows of a key go to one task; where a row goes is a function of its key.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.keys import buckets_of
from lakehouse.format.schema import TableSchema
from lakehouse.kernels.arrays import I32
from lakehouse.spark.runtime.arrow_batches import BATCH_ROWS
from lakehouse.spark.runtime.table_blobs import Parts, blobs, rows_of
from lakehouse.storage.rows import conform

__all__ = ["PACKED", "RANGE", "TASK", "Exchange", "buckets", "packed", "unpacked"]

TASK, _VALUE, _PART, _PARTS, _ROWS = (
    f"__lakehouse_{name}" for name in ("task", "value", "part", "parts", "rows")
)
PACKED = f"{TASK} int, {_VALUE} long, {_PART} int, {_PARTS} int, {_ROWS} binary"
"""Columns of packed rows: their task, the number of a value, a part's position in it, how many parts it has,
and the part's bytes."""
_PART_BYTES = 64 * 1024 * 1024 // BATCH_ROWS
"""Maximum bytes of a part: a batch of parts has 64 MiB at most."""
RANGE = "__lakehouse_range"
"""Name of the last column of rows whose bucket is cut: the number of the range that holds the key."""
_ARROW = pa.schema(
    {TASK: pa.int32(), _VALUE: pa.int64(), _PART: pa.int32(), _PARTS: pa.int32(), _ROWS: pa.binary()}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Assignment of rows to tasks, by their keys."""

    schema: TableSchema
    ranges: int = 1
    """Key ranges per bucket; with several, rows have the column :data:`RANGE`."""
    tasks: int
    """Number of tasks, at most one for each range of each bucket."""

    def places(self, rows: pa.Table) -> I32:
        """Returns the task of each row."""
        if self.tasks == 1:
            return np.zeros(rows.num_rows, np.int32)
        schema = self.schema
        cells = buckets(rows.select(schema.primary_key), schema).astype(np.int64) * self.ranges
        if self.ranges > 1:
            cells += rows.column(RANGE).to_numpy()
        # Neighbouring cells share a task: it gets whole buckets, or one range of one bucket.
        tasks: I32 = (cells * self.tasks // (schema.buckets * self.ranges)).astype(np.int32)
        return tasks


def buckets(keys: pa.Table, schema: TableSchema) -> I32:
    """Returns the bucket of each key; 0 for what is no key of the schema, which the writing task refuses."""
    numbers = np.zeros(keys.num_rows, np.int32)
    whole = keys.drop_null()
    try:
        whole = conform(whole, schema.key_schema())
    except InvalidInputError:
        return numbers
    of_whole = buckets_of(whole.columns, schema.key_fields, schema.buckets)
    if whole.num_rows == keys.num_rows:
        return of_whole
    valid = np.ones(keys.num_rows, bool)
    for column in keys.columns:
        valid &= column.is_valid().to_numpy()
    numbers[valid] = of_whole
    return numbers


def packed(exchange: Exchange, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Packs rows by task, for ``mapInArrow``: a table becomes one value for each task that it has rows of."""
    first = secrets.randbits(62)  # so that no two tasks give a value the same number
    for table in tables:
        places = exchange.places(table)
        rows = table.drop_columns([RANGE]) if exchange.ranges > 1 else table
        counts = np.bincount(places)
        tasks = np.flatnonzero(counts)
        if len(tasks) > 1:
            # Few bits are sorted by radix; a stable order keeps rows of a key as they came.
            order = np.argsort(places.astype(np.min_scalar_type(exchange.tasks)), kind="stable")
            rows = rows.take(pa.array(order))
        ends = np.cumsum(counts[tasks]).tolist()
        begins = [0, *ends[:-1]]
        parts = [rows.slice(begin, end - begin) for begin, end in zip(begins, ends, strict=True)]
        cut = Parts.cut(blobs(parts), _PART_BYTES)
        numbers = [tasks[cut.of], first + cut.of, cut.numbers, cut.counts]
        columns = [pa.array(values, field.type) for values, field in zip(numbers, _ARROW, strict=False)]
        yield pa.RecordBatch.from_arrays([*columns, cut.values], schema=_ARROW)
        first += len(parts)


def unpacked(batches: Iterable[pa.RecordBatch]) -> Generator[pa.Table, None, None]:
    """Unpacks rows in the task that they were packed for; parts may come in any order.

    Raises:
        InvalidInputError: a part is missing.
    """
    waiting: dict[int, dict[int, pa.Buffer]] = {}
    for batch in batches:
        numbers = (batch.column(name).to_pylist() for name in (_VALUE, _PART, _PARTS))
        for value, part, count, held in zip(*numbers, batch.column(_ROWS), strict=True):
            known = waiting.setdefault(value, {})
            known[part] = held.as_buffer()
            if len(known) == count:
                del waiting[value]
                yield rows_of(_joined([known[at] for at in range(count)]))
    if waiting:
        raise InvalidInputError(f"Spark's shuffle brought {len(waiting)} values without all of their parts")


def _joined(parts: list[pa.Buffer]) -> pa.Buffer:
    return parts[0] if len(parts) == 1 else pa.py_buffer(b"".join(parts))
