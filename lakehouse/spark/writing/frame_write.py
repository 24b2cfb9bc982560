"""Writes of data frames: rows are brought together by key, tasks upload, and the driver commits once.

::

    lakehouse.spark.write(df, "sales.orders").create(primary_key="id", bucket=8)
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
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame

from lakehouse.errors import CommitUnknownError, InvalidInputError
from lakehouse.expr import Expr
from lakehouse.format.schema import Engine, Field
from lakehouse.spark.reading.frames import column, fitted
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.runtime.session_connection import connection_of
from lakehouse.spark.runtime.types import schema_of
from lakehouse.spark.writing.commit import WriteBase, WriteRequest, refuse_lost_columns
from lakehouse.spark.writing.job import run_write
from lakehouse.spark.writing.merge import Merge
from lakehouse.spark.writing.shuffle import ShuffledRows, shuffled
from lakehouse.storage.rows import Missing, check_missing
from lakehouse.storage.scan import to_expr
from lakehouse.storage.tables import CommitResult
from lakehouse.storage.write import WriterId

__all__ = ["Write", "write"]


def write(
    df: DataFrame, name: str, *, connection: Connection | None = None, tasks: int | None = None
) -> Write:
    """Begins a write of a frame into a table; methods of what it returns say what to do there.

    Args:
        df: the rows; columns are found by name.
        name: ``database.table``.
        connection: its warehouse; None = the session's.
        tasks: most tasks that write; None = as many as the size asks for, at most
            ``spark.sql.shuffle.partitions`` unless each had more rows than ``write.buffer_bytes`` then.

    Example::

        done = lakehouse.spark.write(df, "sales.orders").upsert()
        print(done.snapshot, done.rows)
    """
    return Write(df, name, connection_of(df.sparkSession, connection), tasks)


class Write:
    """Writes of a frame into a table. Made by :func:`write`; each method is one commit.

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

    def create(
        self,
        *,
        primary_key: Sequence[str] | str = (),
        partition_by: Sequence[str] | str = (),
        bucket: int = 1,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
        indexes: Mapping[Any, Any] | None = None,
        message: str | None = None,
    ) -> CommitResult:
        """Makes the table, with the frame's columns, and adds the rows; a table of that name is an error.

        The arguments are those of ``create_table``. The table is dropped again when its rows cannot be
        written.

        Example::

            lakehouse.spark.write(df, "sales.orders").create(primary_key="id", bucket=8)
        """
        lake = warehouse(self._connection)
        schema = schema_of(self._df.schema)
        lake.call(
            lake.lake.create_table,
            self._name,
            schema,
            primary_key=primary_key,
            partition_by=partition_by,
            bucket=bucket,
            options=options,
            comment=comment,
            indexes=indexes,
        )
        try:
            return self.append(message=message)
        except CommitUnknownError:
            raise  # the rows may be in the table, which therefore stays
        except BaseException:
            lake.call(lake.lake.drop_table, self._name)
            raise

    def append(
        self,
        *,
        missing: Missing | None = None,
        writer: WriterId | None = None,
        message: str | None = None,
    ) -> CommitResult:
        """Adds rows; with a primary key, a row replaces the older one of its key.

        ``missing`` is that of :meth:`upsert`.
        """
        return self.run(WriteRequest(operation="append", missing=missing, writer=writer, message=message))

    def upsert(
        self,
        *,
        missing: Missing | None = None,
        writer: WriterId | None = None,
        message: str | None = None,
    ) -> CommitResult:
        """Adds rows that replace the older ones of their keys, without reading these.

        Args:
            missing: what becomes of columns without a default that the frame lacks: ``error`` refuses it,
                ``null`` writes null, ``keep`` reads the older rows and keeps what they have, as a merge
                that updates and inserts does, which takes each key once. None is ``error`` where older
                rows would lose a value, and leaves to merge engines what these leave as it is.
            writer: (id, sequence) of this write.
            message: for people.
        """
        return self.run(WriteRequest(operation="upsert", missing=missing, writer=writer, message=message))

    def delete(self, *, writer: WriterId | None = None, message: str | None = None) -> CommitResult:
        """Deletes the rows whose keys are in the frame; its other columns do not matter."""
        return self.run(WriteRequest(operation="delete", writer=writer, message=message))

    def overwrite(
        self,
        where: Expr | str | None = None,
        *,
        writer: WriterId | None = None,
        message: str | None = None,
    ) -> CommitResult:
        """Replaces all rows, or those that match a condition, which all rows of the frame must match."""
        return self.run(
            WriteRequest(operation="overwrite", where=to_expr(where), writer=writer, message=message)
        )

    def overwrite_partitions(
        self, *, writer: WriterId | None = None, message: str | None = None
    ) -> CommitResult:
        """Replaces all rows of every partition that the frame has rows of."""
        return self.run(WriteRequest(operation="overwrite_partitions", writer=writer, message=message))

    def merge(self, on: str | Sequence[str] | Column) -> Merge:
        """Updates, deletes and inserts by comparing the frame, ``source``, with the table, ``target``.

        Args:
            on: columns that both have, or a condition such as ``source.id = target.id``. On the primary
                key, only rows with keys of the frame are read.

        Example::

            (
                lakehouse.spark.write(changes, "sales.orders")
                .merge(on="id")
                .when_matched_delete("source.op = 'delete'")
                .when_matched_update()
                .when_not_matched_insert("source.op <> 'delete'")
                .run()
            )
        """
        return Merge(self._df, self._name, self._connection, on, tasks=self._tasks)

    def run(self, wanted: WriteRequest) -> CommitResult:
        """Runs the write that one of the other methods describes."""
        check_missing(wanted.missing)
        if wanted.missing == "keep" and (merge := self._keeping()) is not None:
            return merge.run_as(dataclasses.replace(wanted, operation="merge", missing=None))

        def rows(base: WriteBase) -> ShuffledRows:
            return self._prepared(base, wanted)

        return run_write(self._name, self._connection, wanted, rows)

    def _keeping(self) -> Merge | None:
        """Returns the merge that keeps values of older rows; None where the table's engine does so itself."""
        lake = warehouse(self._connection)
        schema = lake.call(lake.table(self._name).newest).schema
        if not schema.primary_key:
            raise InvalidInputError(f"missing='keep' needs a primary key, and {self._name} has none")
        if schema.merging.engine is not Engine.DEDUPLICATE:
            return None
        merge = Merge(
            fitted(self._df, schema.fields, self._name),
            self._name,
            self._connection,
            list(schema.primary_key),
            tasks=self._tasks,
        )
        return merge.when_matched_update().when_not_matched_insert()

    def _prepared(self, base: WriteBase, wanted: WriteRequest) -> ShuffledRows:
        """Prepares the frame as tasks write it: the table's names, rows of a key together."""
        df, schema = self._df, base.schema
        fields: Sequence[Field] = schema.fields
        if wanted.operation == "delete":
            fields = schema.key_fields
            folded = {field.name.casefold() for field in fields}
            df = df.select(*(column(name) for name in df.columns if name.casefold() in folded))
        rows = fitted(df, fields, self._name)
        refuse_lost_columns(wanted, schema, rows.columns)
        return shuffled(rows, schema, tasks=self._tasks, once=self._once)
