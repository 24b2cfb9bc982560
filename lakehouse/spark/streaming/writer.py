"""Streams into tables: each micro-batch is one commit, made once however often Spark tries it.

::

    lakehouse.spark.write_stream(events, "db.events", checkpoint="s3://bucket/checkpoints/events")

writes through ``foreachBatch``: rows of a key are brought together, as in ``lakehouse.spark.write``.
``events.writeStream.format("lakehouse")`` writes rows where they are, which suits tables without a key
and batches that have each key once.

A batch is committed as ``("spark:" + query id, batch id)``. The id is the query's own, which Spark keeps
in the checkpoint and tells every task; it survives restarts, and a new checkpoint makes a new query. A
writer idle for 7 days is forgotten: a batch whose commit was not acknowledged should be retried before.

==============  ===================================================================================
output mode     what becomes of the rows of a batch
==============  ===================================================================================
``append``      added; with a primary key they replace older ones of their keys
``update``      replace older ones of their keys; needs a primary key; ``write_stream`` only
``complete``    replace all rows of the table
==============  ===================================================================================

Invariant: a table holds the rows of a batch once or not at all, and batches in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery

from lakehouse.errors import InvalidInputError
from lakehouse.spark.reading.frames import is_classic
from lakehouse.spark.runtime.connection import Connection
from lakehouse.spark.runtime.session_connection import connection_of
from lakehouse.spark.writing.commit import WriteRequest
from lakehouse.spark.writing.frame_write import Write
from lakehouse.spark.writing.source_writer import TableTarget
from lakehouse.spark.writing.task import TaskFiles
from lakehouse.storage.rows import Missing, check_missing
from lakehouse.storage.write import WriterId

__all__ = ["LakehouseStreamWriter", "stream_writer_id", "write_stream"]

_QUERY = "sql.streaming.queryId"
_MODES = ("append", "update", "complete")


def stream_writer_id(query: str, batch: int) -> WriterId:
    """Returns the writer's id and the sequence under which a batch of a query is committed."""
    return f"spark:{query}", batch


class LakehouseStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """A streaming write, as Spark runs it."""

    def __init__(self, target: TableTarget) -> None:
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Uploads the rows of a task."""
        return self._target.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commits a batch once; one without rows leaves no snapshot, unless it empties the table."""
        queries = {message.query for message in messages if isinstance(message, TaskFiles)}
        if None in queries or len(queries) > 1:
            raise InvalidInputError(
                "Spark did not say which streaming query the tasks are of, so a batch could be written twice"
            )
        # Without a task there is nothing to add, and to replace all rows by none twice does no harm.
        writers = [stream_writer_id(query, batchId) for query in queries if query is not None]
        self._target.commit(messages, *writers)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Deletes what is known to be in no commit."""
        self._target.abort(messages)


def write_stream(
    df: DataFrame,
    name: str,
    *,
    checkpoint: str,
    output_mode: str = "append",
    operation: str | None = None,
    missing: Missing | None = None,
    connection: Connection | None = None,
    tasks: int | None = None,
    trigger: Mapping[str, object] | None = None,
    query_name: str | None = None,
    writer_id: str | None = None,
) -> StreamingQuery:
    """Starts a streaming query that writes into a table, bringing rows of a key together.

    Args:
        df: a streaming frame.
        name: ``database.table``.
        checkpoint: where Spark keeps the query's progress; a URL that Spark itself can reach.
        output_mode: ``append``, ``update`` or ``complete``.
        operation: ``append``, ``upsert``, ``delete`` or ``overwrite``; None = as the output mode says.
        missing: what becomes of columns that the frame lacks, as in ``lakehouse.spark.write(…).upsert``.
        connection: the warehouse; None = the session's.
        tasks: most tasks that write a batch; None = as many as the table has buckets, so that the keys of
            a batch need not be sampled, which computes it twice.
        trigger: of the query, such as ``{"availableNow": True}`` or ``{"processingTime": "10 seconds"}``.
        query_name: for people.
        writer_id: under which batches are committed; needed where Spark does not say the query's id
            (Spark Connect), and then to be as lasting as the checkpoint.

    Example::

        query = lakehouse.spark.write_stream(
            events, "db.events", checkpoint="s3://bucket/checkpoints/events", trigger={"availableNow": True}
        )
        query.awaitTermination()
    """
    if not df.isStreaming:
        raise InvalidInputError("this frame is no stream: use lakehouse.spark.write(df, …)")
    if output_mode not in _MODES:
        raise InvalidInputError(f"output_mode is one of {', '.join(_MODES)}, not {output_mode!r}")
    default = {"append": "append", "update": "upsert", "complete": "overwrite"}[output_mode]
    chosen = operation or default
    if chosen not in ("append", "upsert", "delete", "overwrite"):
        raise InvalidInputError(f"operation is append, upsert, delete or overwrite, not {operation!r}")
    check_missing(missing)
    if missing is not None and chosen not in ("append", "upsert"):
        raise InvalidInputError(f"missing={missing!r} goes with append and upsert, not with {chosen!r}")
    if not is_classic(df) and writer_id is None:
        raise InvalidInputError("Spark Connect does not say the id of a query: pass writer_id=")
    warehouse = connection_of(df.sparkSession, connection)
    each = _each_batch(name, warehouse, chosen, missing, tasks, writer_id)
    writer = df.writeStream.foreachBatch(each).outputMode(output_mode)
    writer = writer.option("checkpointLocation", checkpoint)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    if query_name is not None:
        writer = writer.queryName(query_name)
    return writer.start()


def _each_batch(
    name: str,
    connection: Connection,
    operation: str,
    missing: Missing | None,
    tasks: int | None,
    writer_id: str | None,
) -> Callable[[DataFrame, int], None]:
    def each(batch: DataFrame, number: int) -> None:
        writer = stream_writer_id(_query_id(), number) if writer_id is None else (writer_id, number)
        wanted = WriteRequest(
            operation=operation, missing=missing, writer=writer, leaves_trace=operation == "overwrite"
        )
        Write(batch, name, connection, tasks, once=tasks is None).run(wanted)

    return each


def _query_id() -> str:
    """Returns the id of the query whose batch this thread works on."""
    context = SparkContext._active_spark_context
    query = context.getLocalProperty(_QUERY) if context is not None else None
    if query is None:
        raise InvalidInputError(
            "Spark does not say which streaming query this is, so a batch could be written twice: pass "
            "writer_id="
        )
    return str(query)
