"""The job of a write: tasks upload, the driver commits, and runs it again where that is called for.

Invariant: what is returned is of the one commit that was made; files of attempts before it are deleted,
or in no message.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import operator
import pickle
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from lakehouse.errors import ConflictError
from lakehouse.format.schema import TableOptions
from lakehouse.spark.runtime.arrow_batches import bounded_by_rows
from lakehouse.spark.runtime.connection import Connection, Warehouse, warehouse
from lakehouse.spark.runtime.errors import plain_errors
from lakehouse.spark.writing.commit import WriteBase, WriteRequest, begin_write, finish_write
from lakehouse.spark.writing.shuffle import ShuffledRows
from lakehouse.spark.writing.task import TaskFiles, WriteJob, outcomes
from lakehouse.storage.tables import CommitResult, OpenTable, grace_s_of, holding
from lakehouse.storage.write import check_message, check_writer

__all__ = ["run_write"]


def run_write(
    name: str,
    connection: Connection,
    wanted: WriteRequest,
    rows: Callable[[WriteBase], ShuffledRows],
    *,
    unique: bool = False,
) -> CommitResult:
    """Runs the job of a write and commits.

    It is run once more when the schema was changed under it, and a merge also when rows that it looked at
    may have changed.

    Args:
        name: the table.
        connection: its warehouse.
        wanted: what to do.
        rows: brings the rows to the tasks that write them, given what the table is.
        unique: several rows of a key are an error.
    """
    check_writer(wanted.writer)
    check_message(wanted.message)
    lake = warehouse(connection)
    table = lake.table(name)
    base = lake.call(begin_write, table, wanted)
    merges = wanted.operation == "merge"
    tries = TableOptions.parse(base.schema.options).commit_max_retries if merges else 1
    while base.recorded is None:
        try:
            with _held(lake, table, base) if merges else contextlib.nullcontext():
                shuffled = rows(base)
                job = WriteJob(
                    connection=connection,
                    root=table.root,
                    schema=base.schema,
                    deletes=wanted.operation == "delete",
                    mixed=merges,
                    by_key=bool(base.schema.primary_key),
                    sorts=shuffled.sorts,
                    packed=shuffled.packed,
                    unique=unique or merges,
                    where=wanted.where,
                )
                done = _uploaded(shuffled.rows, job)
                result = lake.call(finish_write, table, base, wanted, done)
                cost = functools.reduce(operator.add, [task.cost for task in done], result.cost)
                return dataclasses.replace(result, cost=cost)
        except ConflictError:
            newest = lake.call(begin_write, table, wanted)
            if not tries or (not merges and newest.snapshot.schema == base.snapshot.schema):
                raise
            tries, base = tries - 1, newest
    return CommitResult(snapshot=base.recorded, changed=False)


def _held(lake: Warehouse, table: OpenTable, base: WriteBase) -> contextlib.AbstractContextManager[object]:
    """Keeps the files that are read, however long the job takes."""
    return lake.hold(holding, table, base.snapshot.id, grace_s=grace_s_of(base.schema))


def _uploaded(rows: DataFrame, job: WriteJob) -> list[TaskFiles]:
    """Runs the tasks; returns their messages, in the order of the partitions."""

    def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from outcomes(job, batches)

    with plain_errors(), bounded_by_rows(rows.sparkSession):
        collected = rows.mapInArrow(each, "outcome binary").collect()
    return [pickle.loads(bytes(row.outcome)) for row in collected]  # noqa: S301 - ours
