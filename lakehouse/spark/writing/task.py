"""Task of a write: turns batches into data files, and names them in a message to the driver.

Rows that come sorted by key are cut between keys, so that however large a task is, its files are one
run. A task holds no more than ``write.buffer_bytes`` of the table several times over, and less where
``spark.executor.pyspark.memory`` leaves little room.

Invariant: a task's message names every file that it uploaded and that nobody deleted. An error that
another try cannot mend is in the message; all others are raised, for Spark to try again.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from lakehouse.errors import (
    AlreadyExistsError,
    CorruptionError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
)
from lakehouse.expr import Expr
from lakehouse.format.keys import RowKeyCodec
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.io.cost import Cost, measure
from lakehouse.kernels.arrays import Mask
from lakehouse.spark.runtime.connection import Connection, Warehouse, warehouse
from lakehouse.spark.runtime.errors import carried
from lakehouse.spark.runtime.worker_memory import task_memory
from lakehouse.spark.writing.exchange import unpacked
from lakehouse.spark.writing.key_sort import in_key_order
from lakehouse.storage.files import UploadedFiles, delete_files, write_rows
from lakehouse.storage.rows import conform, same_key_error
from lakehouse.storage.write import KeySpan, matching_rows

__all__ = [
    "ACTION",
    "DELETE",
    "NOTHING",
    "PUT",
    "TaskFiles",
    "WriteJob",
    "outcomes",
    "together",
    "write_task",
]

ACTION = "__lakehouse_action"
"""Name of the column that says what is to be done with a row: one of the numbers below."""
PUT, DELETE, NOTHING = 0, 1, 2
_FINAL = (InvalidInputError, AlreadyExistsError, CorruptionError, NotFoundError)
"""Errors that come again however often a task is tried."""
_TABLE_ROWS = 1 << 17
_TABLE_BYTES = 16 << 20
"""Bytes (above: rows) up to which batches are put together: they are small, and each step has its price."""
_TABLES_PER_BUFFER = 4
_SORTED_BYTES_MAX = 1 << 30
"""Maximum bytes of rows that are sorted at once: Arrow counts the bytes of a column of text in 31 bits."""
_BUFFERS = 5
"""Number of buffers of rows that a task holds: one fills, two are written, and what is copied of them, for
files or for sorting, is two more."""
_BUFFER_BYTES_MIN = 1 << 20
"""Bytes of a buffer, at least, however little memory there is."""
_OUTCOME = pa.schema({"outcome": pa.binary()})


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteJob:
    """The part of a write that all its tasks share."""

    connection: Connection
    root: str
    """Directory of the table."""
    schema: TableSchema
    """Schema that all tasks write with, whatever is committed meanwhile."""
    deletes: bool = False
    """True: rows are keys to be deleted."""
    mixed: bool = False
    """True: rows carry :data:`ACTION`."""
    by_key: bool = False
    """True: all rows of a key come to one task, and sorted by key unless the task sorts them."""
    sorts: bool = False
    """True: the task sorts rows by key."""
    packed: bool = False
    """True: rows come as :mod:`lakehouse.spark.writing.exchange` packs them."""
    unique: bool = False
    """True: several rows of a key are an error."""
    where: Expr | None = None
    """Condition that every row must match."""


@dataclass(frozen=True, kw_only=True)
class TaskFiles(WriterCommitMessage):  # type: ignore[misc]
    """Message of a task that has ended: its files, or its error."""

    written: UploadedFiles = dataclasses.field(default_factory=UploadedFiles)
    deleted: UploadedFiles = dataclasses.field(default_factory=UploadedFiles)
    """Files of rows that delete, of a task whose rows were mixed."""
    error: LakehouseError | None = None
    """Error that another try cannot mend; then there are no files."""
    cost: Cost = dataclasses.field(default_factory=Cost)
    looked_at: KeySpan | None = None
    """First and last key, inclusive, of all mixed rows of a task, also of those to which nothing was done."""
    query: str | None = None
    """Id of the streaming query that the task belongs to."""


def outcomes(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs a write's task in ``mapInArrow``; yields its message, pickled, in one row."""
    with carried():
        message = pickle.dumps(write_task(job, batches))
    yield pa.RecordBatch.from_arrays([pa.array([message], pa.binary())], schema=_OUTCOME)


def write_task(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> TaskFiles:
    """Uploads the rows of one task."""
    context = TaskContext.get()
    query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
    lake = warehouse(job.connection)
    task = _Task(job, lake)
    try:
        return TaskFiles(
            written=lake.call(task.write, task.tables(batches), deletes=job.deletes),
            deleted=task.deleted(),
            cost=task.cost,
            looked_at=task.looked_at,
            query=query,
        )
    except _FINAL as error:
        task.undo()
        return TaskFiles(error=error, cost=task.cost, query=query)
    except BaseException:
        # Spark tries the task again, which uploads files of its own.
        task.undo()
        raise


class _Task:
    """One task under way."""

    def __init__(self, job: WriteJob, lake: Warehouse) -> None:
        self._job, self._lake = job, lake
        options = TableOptions.parse(job.schema.options)
        buffer_bytes = _buffer_bytes(options, cached=lake.lake.settings.cache.max_bytes)
        self._options = dataclasses.replace(options, write_buffer_bytes=buffer_bytes)
        self.cost = Cost()
        self.looked_at: KeySpan | None = None
        self._deletes: list[pa.Table] = []
        self._deleted: list[UploadedFiles] = []
        self._uploaded: list[UploadedFiles] = []

    async def write(self, rows: Iterable[pa.Table], *, deletes: bool) -> UploadedFiles:
        """Uploads rows, or keys to be deleted."""
        job, data = self._job, rows
        if job.where is not None:
            limit = self._options.write_buffer_bytes
            data = matching_rows(rows, job.schema, job.where, chunk_bytes=limit)  # type: ignore[assignment]
        with measure() as cost:
            try:
                written = await write_rows(
                    self._lake.lake.store,
                    job.root,
                    job.schema,
                    self._options,
                    data,
                    deletes=deletes,
                    unique=job.unique and not deletes,
                    settings=self._lake.lake.settings.table,
                )
            finally:
                self.cost += cost
        self._uploaded.append(written)
        return written

    def tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yields the rows to write, sorted and checked as the job asks, in tables of a good size."""
        job, room = self._job, self._options.write_buffer_bytes
        # Smaller than a buffer, so that nobody cuts them again, between rows of a key.
        tables = unpacked(batches) if job.packed else together(batches, room // _TABLES_PER_BUFFER)
        if job.sorts:
            tables = in_key_order(tables, job.schema, min(room, _SORTED_BYTES_MAX))
        elif job.by_key:
            tables = _between_keys(tables, job.schema.primary_key)
        if job.mixed:
            tables = self._acted_upon(tables)
        if job.by_key and job.unique:
            tables = _each_key_once(tables, job.schema.primary_key)
        elif job.by_key and not job.deletes:
            tables = _ties_broken(tables, job.schema)
        return self._without_deletes(tables) if job.mixed else tables

    def _acted_upon(self, tables: Iterable[pa.Table]) -> Generator[pa.Table, None, None]:
        """Yields rows to which something is done; of all others only the range of their keys counts."""
        codec, of_key = RowKeyCodec(self._job.schema.key_fields), self._job.schema.key_schema()
        for table in tables:
            keys = conform(table.select(self._job.schema.primary_key), of_key)
            low, high = pc.min_max(codec.encode(keys.columns).cast(pa.large_binary())).as_py().values()
            if self.looked_at is not None:
                low, high = min(low, self.looked_at[0]), max(high, self.looked_at[1])
            self.looked_at = low, high
            kept = table.filter(pc.not_equal(table.column(ACTION), NOTHING))
            if kept.num_rows:
                yield kept

    def _without_deletes(self, tables: Iterable[pa.Table]) -> Generator[pa.Table, None, None]:
        """Yields rows that do not delete; keeps the others, and writes them whenever they fill a buffer."""
        for table in tables:
            is_deleted = pc.equal(table.column(ACTION), DELETE)
            rows = table.drop_columns([ACTION])
            if pc.any(is_deleted).as_py():
                self._deletes.append(rows.filter(is_deleted).select(self._job.schema.primary_key))
                if sum(keys.nbytes for keys in self._deletes) > self._options.write_buffer_bytes:
                    self._flush_deletes()
                rows = rows.filter(pc.invert(is_deleted))
            if rows.num_rows:
                yield rows

    def _flush_deletes(self) -> None:
        if self._deletes:
            self._deleted.append(self._lake.call(self.write, self._deletes, deletes=True))
            self._deletes = []

    def deleted(self) -> UploadedFiles:
        """Writes the last rows that delete; returns the files of all of them."""
        self._flush_deletes()
        return UploadedFiles.joined(self._deleted)

    def undo(self) -> None:
        """Deletes the files of writes that were completed; one that failed has deleted its own already."""
        paths = UploadedFiles.joined(self._uploaded).paths
        self._lake.call(delete_files, self._lake.lake.store, self._job.root, paths)


def _buffer_bytes(options: TableOptions, *, cached: int) -> int:
    """Returns the bytes of a buffer: the table's, or what the memory of this worker has room for."""
    wanted = options.write_buffer_bytes
    room = task_memory(_BUFFERS * wanted, 1, cached=cached)
    return min(wanted, max(_BUFFER_BYTES_MIN, room // _BUFFERS))


def together(batches: Iterable[pa.RecordBatch], most: int = _TABLE_BYTES) -> Generator[pa.Table, None, None]:
    """Puts batches together into tables of a good size."""
    waiting: list[pa.RecordBatch] = []
    rows = weight = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        rows += batch.num_rows
        weight += batch.nbytes
        if rows >= _TABLE_ROWS or weight >= min(most, _TABLE_BYTES):
            yield pa.Table.from_batches(waiting)
            waiting, rows, weight = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _between_keys(tables: Iterable[pa.Table], key: tuple[str, ...]) -> Generator[pa.Table, None, None]:
    """Cuts rows sorted by key so that all rows of a key are in one table."""
    kept: pa.Table | None = None
    for table in tables:
        whole = table if kept is None else pa.concat_tables([kept, table])
        begin = _last_key_begins(whole, key)
        if begin:
            yield whole.slice(0, begin)
        kept = whole.slice(begin)
    if kept is not None and kept.num_rows:
        yield kept


def _last_key_begins(rows: pa.Table, key: tuple[str, ...]) -> int:
    """Returns the first row with the key of the last one; the number of rows where that key has a null."""
    low: int = 0
    high: int = rows.num_rows - 1
    last = [rows.column(name)[high] for name in key]
    if not all(value.is_valid for value in last):
        return high + 1  # a null is no key: there is nothing to keep together
    while low < high:
        middle = (low + high) // 2
        if all(rows.column(name)[middle] == value for name, value in zip(key, last, strict=True)):
            high = middle
        else:
            low = middle + 1
    return low


def _each_key_once(tables: Iterable[pa.Table], key: tuple[str, ...]) -> Generator[pa.Table, None, None]:
    """Refuses keys that several rows have, which stand beside each other in one table."""
    for table in tables:
        repeated = np.flatnonzero(_has_key_before(table, key))
        if len(repeated):
            raise same_key_error({name: table.column(name)[int(repeated[0])].as_py() for name in key})
        yield table


def _ties_broken(tables: Iterable[pa.Table], schema: TableSchema) -> Generator[pa.Table, None, None]:
    """Sorts the rows of each key by the sequence field, then by all columns, nulls first.

    Spark sorts by key alone much faster, and few keys have several rows. Where there are nested columns,
    which have no order here, Spark has sorted by all of them (:mod:`lakehouse.spark.writing.shuffle`).
    """
    sequence = next((rule.sequence for rule in schema.merging.rules.values() if rule.sequence), ())
    for table in tables:
        types = {field.name: field.type for field in table.schema}
        names = [name for name in dict.fromkeys((*sequence, *types)) if name in types]
        by = [name for name in names if not pa.types.is_map(types[name]) and name not in schema.primary_key]
        has_before = _has_key_before(table, schema.primary_key)
        if not by or not has_before.any() or any(pa.types.is_nested(types[name]) for name in by):
            yield table
            continue
        tied = has_before.copy()
        tied[:-1] |= has_before[1:]
        rows = np.flatnonzero(tied)
        tied_rows = table.take(pa.array(rows))
        keys = [pa.array(np.cumsum(~has_before)[rows])]
        for name in by:  # what is null is false in front of its column, and comes first
            keys += [tied_rows.column(name).is_valid(), tied_rows.column(name)]
        numbered = pa.table(keys, names=[str(place) for place in range(len(keys))])
        order = pc.sort_indices(numbered, [(name, "ascending") for name in numbered.column_names])
        places = np.arange(table.num_rows)
        places[rows] = rows[order.to_numpy()]
        yield table.take(pa.array(places))


def _has_key_before(table: pa.Table, key: tuple[str, ...]) -> Mask:
    """Marks rows, which are sorted by key, that have the key of the row before."""
    same: Mask = np.zeros(table.num_rows, bool)
    if table.num_rows > 1:
        same[1:] = True
        for name in key:
            column = table.column(name)
            equal = pc.equal(column.slice(1), column.slice(0, table.num_rows - 1)).fill_null(False)
            same[1:] &= equal.to_numpy()
    return same
