"""Writer behind ``df.write.format("lakehouse")``: tasks write rows where they are, the driver commits once.

Spark gives a Python source no say in where rows are. So rows of a key may come to several tasks, and
then nothing says which is the newer: such a write is refused, naming a key. It is looked for only where
key ranges of different tasks overlap. ``lakehouse.spark.write(df, …)`` brings rows together first, and
is the better way into tables with a key.

``mode("append")`` adds rows, ``mode("overwrite")`` replaces all; ``option("operation", …)`` says more.

Invariant: one commit or none. Spark calls :meth:`abort` also after a commit that raised, in another
process: files are deleted there only when a task had not ended, and so no commit was begun.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lakehouse.errors import InternalError, InvalidInputError, LakehouseError, NotFoundError
from lakehouse.spark.reading.frames import refuse_differences
from lakehouse.spark.reading.options import WriteOptions
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.runtime.errors import carried
from lakehouse.spark.writing.commit import (
    WriteRequest,
    begin_write,
    finish_write,
    refuse_lost_columns,
    undo_write,
)
from lakehouse.spark.writing.task import TaskFiles, WriteJob, write_task
from lakehouse.storage.rows import refuse_keep
from lakehouse.storage.scan import to_expr
from lakehouse.storage.tables import OpenTable
from lakehouse.storage.write import WriterId, check_writer

__all__ = ["LakehouseWriter", "TableTarget", "wanted_by"]


class TableTarget:
    """A table that a writer of Spark's writes into: planned in one process, committed in another.

    Args:
        connection: its warehouse.
        name: ``database.table``.
        wanted: what to do.
        schema: the columns of the rows.
    """

    def __init__(self, connection: Connection, name: str, wanted: WriteRequest, schema: StructType) -> None:
        self._connection, self._name, self.wanted = connection, name, wanted
        table = warehouse(connection).table(name)
        base = warehouse(connection).call(begin_write, table, wanted)
        self._uuid, self.base = table.uuid, base
        deletes = wanted.operation == "delete"
        fields = base.schema.key_fields if deletes else base.schema.fields
        refuse_differences(schema, fields, name)
        refuse_lost_columns(wanted, base.schema, schema.names)
        self._job = WriteJob(
            connection=connection,
            root=table.root,
            schema=base.schema,
            deletes=deletes,
            unique=not deletes,
            where=wanted.where,
        )

    def write(self, batches: Iterator[pa.RecordBatch]) -> TaskFiles:
        """Uploads the rows of a task; called in the task."""
        if self.base.recorded is not None:
            return TaskFiles()
        with carried():
            return write_task(self._job, batches)

    def commit(self, messages: Sequence[WriterCommitMessage | None], writer: WriterId | None = None) -> None:
        """Commits what the tasks uploaded, unless it was committed before; called in the driver."""
        if self.base.recorded is not None:
            return
        done = _files(messages)
        with carried():
            table = self._table()
            wanted = self.wanted if writer is None else dataclasses.replace(self.wanted, writer=writer)
            try:
                warehouse(self._connection).call(finish_write, table, self.base, wanted, done, apart=True)
            except InvalidInputError as error:
                raise _advised_error(error) from error

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Deletes files when some task did not end, and so nothing was committed; called in the driver."""
        if None in messages:
            warehouse(self._connection).call(undo_write, self._table(), _files(messages))

    def _table(self) -> OpenTable:
        error = NotFoundError(
            f"table {self._name} was dropped while it was written, and another one has its name now",
            table=self._name,
        )
        return warehouse(self._connection).same_table(self._name, self._uuid, error)


class LakehouseWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """A batch write, as Spark runs it."""

    def __init__(self, target: TableTarget) -> None:
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Uploads the rows of a task."""
        return self._target.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits the files of all tasks, in one commit."""
        self._target.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Deletes what is known to be in no commit."""
        self._target.abort(messages)


def wanted_by(options: WriteOptions, *, overwrite: bool, streams: bool = False) -> WriteRequest:
    """Returns the write that options and mode ask for; for a stream, ``complete`` is to overwrite."""
    operation = options.operation or ("overwrite" if overwrite else "append")
    if overwrite and operation not in ("overwrite", "overwrite_partitions"):
        raise InvalidInputError(
            f"mode('overwrite') and operation {operation!r} do not go together: use mode('append')"
        )
    refuse_keep(
        options.missing,
        "Spark runs the tasks of a data source once, so it cannot; use lakehouse.spark.write(df, …)"
        ".upsert(missing='keep')",
    )
    writer = None
    if options.writer_id is not None and options.writer_sequence is not None:
        writer = options.writer_id, options.writer_sequence
    check_writer(writer)
    if streams and writer is not None:
        raise InvalidInputError("a stream writes under its own id: leave writer_id and writer_sequence out")
    return WriteRequest(
        operation=operation,
        where=to_expr(options.where),
        writer=writer,
        missing=options.missing,
        message=options.message,
        leaves_trace=not streams or overwrite,
    )


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[TaskFiles]:
    files = []
    for message in messages:
        if isinstance(message, TaskFiles):
            files.append(message)
        elif message is not None:
            raise InternalError(f"Spark handed over a message of another writer: {type(message).__name__}")
    return files


def _advised_error(error: LakehouseError) -> LakehouseError:
    """Returns the error, with the way out where only this way of writing has it."""
    if "key" in error.context and isinstance(error, InvalidInputError):
        return InvalidInputError(
            f"{error.message}: lakehouse.spark.write(df, …) does", kind=error.kind, **error.context
        )
    return error
