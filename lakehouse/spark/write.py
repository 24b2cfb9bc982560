"""Writes of data frames: rows are brought together by key, tasks upload, and the driver commits once.

::

    lakehouse.spark.write(df, "sales.orders").upsert()
    lakehouse.spark.write(df, "sales.orders").overwrite("day = DATE '2026-11-18'")
    lakehouse.spark.write(keys, "sales.orders").delete()

Of several rows of a key in one frame the one stays that sorts last by the table's sequence field and
then by all columns, nulls first: the same whatever the partitions of the frame.

A write with ``writer=(id, sequence)`` is made once, however often the job is run. Without it, a job
that is run again after :class:`~lakehouse.errors.CommitUnknownError` may write twice.

Invariant: a write is one commit or none. Files that no commit can have taken are deleted as far as the
driver knows them; those of tasks that Spark killed stay until ``remove_orphans``.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from lakehouse.errors import ConflictError
from lakehouse.expr import Expr
from lakehouse.format.types import Field
from lakehouse.spark.connection import Connection, warehouse
from lakehouse.spark.errors import plain_errors
from lakehouse.spark.frames import column, fitted
from lakehouse.spark.registered import connection_of
from lakehouse.spark.spread import spread
from lakehouse.spark.task_write import TaskFiles, WriteJob, outcomes
from lakehouse.spark.write_commit import Wanted, WriteBase, begin_write, finish_write, undo_write
from lakehouse.storage.commit_result import CommitResult
from lakehouse.storage.reads import to_expr
from lakehouse.storage.writes import WriterId, check_writer

__all__ = ["Write", "run_write", "write"]


def write(
    df: DataFrame, name: str, *, connection: Connection | None = None, tasks: int | None = None
) -> Write:
    """A frame on its way into a table; what it returns says what to do there.

    Args:
        df: the rows; columns are found by name.
        name: ``database.table``.
        connection: its warehouse; None = the session's.
        tasks: most tasks that write; None = as many as the size asks for, at most
            ``spark.sql.shuffle.partitions``.

    Example::

        done = lakehouse.spark.write(df, "sales.orders").upsert()
        print(done.snapshot, done.rows)
    """
    return Write(df, name, connection_of(df.sparkSession, connection), tasks)


class Write:
    """What can be done with a frame and a table. Made by :func:`write`; each method is one commit.

    All take ``writer=(id, sequence)``, which makes the job safe to repeat, and a ``message`` for
    people, which the snapshot keeps.
    """

    def __init__(
        self,
        df: DataFrame,
        name: str,
        connection: Connection,
        tasks: int | None = None,
        *,
        once: bool = False,
    ) -> None:
        self._df, self._name, self._connection = df, name, connection
        self._tasks, self._once = tasks, once

    def append(self, *, writer: WriterId | None = None, message: str | None = None) -> CommitResult:
        """Adds rows; with a primary key, a row replaces the older one of its key."""
        return self.run(Wanted(operation="append", writer=writer, message=message))

    def upsert(self, *, writer: WriterId | None = None, message: str | None = None) -> CommitResult:
        """Adds rows that replace the older ones of their keys, without reading these."""
        return self.run(Wanted(operation="upsert", writer=writer, message=message))

    def delete(self, *, writer: WriterId | None = None, message: str | None = None) -> CommitResult:
        """Deletes the rows whose keys are in the frame; its other columns do not matter."""
        return self.run(Wanted(operation="delete", writer=writer, message=message))

    def overwrite(
        self,
        where: Expr | str | None = None,
        *,
        writer: WriterId | None = None,
        message: str | None = None,
    ) -> CommitResult:
        """Replaces all rows, or those that match a condition, which all rows of the frame must match."""
        return self.run(Wanted(operation="overwrite", where=to_expr(where), writer=writer, message=message))

    def overwrite_partitions(
        self, *, writer: WriterId | None = None, message: str | None = None
    ) -> CommitResult:
        """Replaces all rows of every partition that the frame has rows of."""
        return self.run(Wanted(operation="overwrite_partitions", writer=writer, message=message))

    def run(self, wanted: Wanted) -> CommitResult:
        """What the other methods do."""

        def rows(base: WriteBase) -> DataFrame:
            return self._prepared(base, wanted)

        return run_write(self._name, self._connection, wanted, rows)

    def _prepared(self, base: WriteBase, wanted: Wanted) -> DataFrame:
        """The frame as tasks write it: the table's names, brought together by key."""
        df, schema = self._df, base.schema
        fields: Sequence[Field] = schema.fields
        if wanted.operation == "delete":
            fields = schema.key_fields
            folded = {field.name.casefold() for field in fields}
            df = df.select(*(column(one) for one in df.columns if one.casefold() in folded))
        return spread(fitted(df, fields, self._name), schema, tasks=self._tasks, once=self._once)


def run_write(
    name: str,
    connection: Connection,
    wanted: Wanted,
    rows: Callable[[WriteBase], DataFrame],
    *,
    mixed: bool = False,
) -> CommitResult:
    """Runs the job of a write and commits; once more when the schema was changed under it.

    Args:
        name: the table.
        connection: its warehouse.
        wanted: what to do.
        rows: makes the rows that tasks write, given what the table is.
        mixed: whether they carry the column that says which delete their keys.
    """
    check_writer(wanted.writer)
    lake = warehouse(connection)
    core = lake.table(name)
    base = lake.call(begin_write, core, wanted)
    while base.recorded is None:
        job = WriteJob(
            connection=connection,
            root=core.root,
            schema=base.schema,
            deletes=wanted.operation == "delete",
            mixed=mixed,
            by_key=bool(base.schema.primary_key),
            unique=mixed,
            where=wanted.where,
        )
        done = _uploaded(rows(base), job)
        failed = [one.error for one in done if one.error is not None]
        if failed:
            lake.call(undo_write, core, done)
            raise failed[0]
        try:
            result = lake.call(finish_write, core, base, wanted, done)
        except ConflictError:
            newest = lake.call(begin_write, core, wanted)
            if newest.snapshot.schema == base.snapshot.schema:
                raise
            base = newest
            continue
        cost = functools.reduce(operator.add, [one.cost for one in done], result.cost)
        return dataclasses.replace(result, cost=cost)
    return CommitResult(snapshot=base.recorded, changed=False)


def _uploaded(rows: DataFrame, job: WriteJob) -> list[TaskFiles]:
    """What the tasks say, in the order of the partitions."""

    def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from outcomes(job, batches)

    with plain_errors():
        found = rows.mapInArrow(each, "outcome binary").collect()
    return [pickle.loads(bytes(row.outcome)) for row in found]  # noqa: S301 - ours
