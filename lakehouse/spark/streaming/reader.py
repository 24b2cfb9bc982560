"""Streams of what comes to a table: ``spark.readStream.format("lakehouse").load("db.t")``.

A stream delivers the rows that the table holds when it begins, and then what commits bring, each row
once, over restarts too. ``starting`` says where it begins:

=================  ==========================================================================
``initial``        with all rows of the newest snapshot; what follows is changes (the default)
``latest``         with what is committed from now on
``earliest``       with what was committed after the earliest snapshot that is kept
a snapshot's id    with what was committed after it
ISO text           with what was committed after that moment
=================  ==========================================================================

A table with a primary key delivers the rows that batches inserted or changed, as they are after the
batch, once for each key; deleted rows are not shown. With ``changes=true`` a column ``_change`` says
what happened (insert, update_before, update_after, delete), so that a reader can follow exactly. A
table without a key delivers the rows that were added; rows that are taken away are not shown, and rows of
the write-ahead log come when they are flushed. Compaction never shows.

``max_files_per_trigger``, ``max_rows_per_trigger`` and ``max_bytes_per_trigger`` bound a batch: by what
commits wrote, before keys are compared. A commit that is larger is cut between files (with a key:
between files that share no keys), so that a batch has one such piece at least.

Invariant: the rows of a batch follow from its two positions; see :mod:`lakehouse.spark.streaming.plan`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr, matching
from lakehouse.io.work import in_thread
from lakehouse.spark.reading.options import ReadOptions
from lakehouse.spark.reading.reader import columns_asked, split_bytes_of
from lakehouse.spark.reading.table_reader import TableReader, scan_of
from lakehouse.spark.runtime.connection import Warehouse, warehouse
from lakehouse.spark.runtime.errors import carried
from lakehouse.spark.runtime.types import as_spark
from lakehouse.spark.streaming.offsets import StreamOffset
from lakehouse.spark.streaming.plan import StreamPlan, StreamWork
from lakehouse.storage.cdc import CHANGE_COLUMN, Limit, net_changes
from lakehouse.storage.scan import bind_where, to_expr
from lakehouse.storage.schema import shown_where
from lakehouse.storage.tables import OpenTable, grace_s_of, holding

__all__ = ["LakehouseStreamReader", "StreamPart"]

_SHOWN = ("insert", "update_after")


class StreamPart(InputPartition):  # type: ignore[misc]
    """The work of one task, and the id of the table."""

    def __init__(self, table: UUID, work: StreamWork) -> None:
        super().__init__(None)
        self.table, self.work = table, work


@dataclass(slots=True)
class _Planning:
    """State of the process that plans a query; workers have none."""

    lake: Warehouse
    table: OpenTable
    plan: StreamPlan
    upto: int | None = None
    """Id of the last snapshot that batches may take; None = no end."""


class LakehouseStreamReader(TableReader, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads what comes to a table."""

    _planning: _Planning | None

    def _prepare(self) -> None:
        fields = self._struct.fields
        self._columns = StructType([field for field in fields if field.name != CHANGE_COLUMN])
        _check(self._options)

    def _planned(self) -> _Planning:
        if self._planning is None:
            lake = warehouse(self._connection)
            table = lake.table(self._table)
            schema = lake.call(table.newest).schema
            if self._options.changes and not schema.primary_key:
                raise InvalidInputError(f"changes=true needs a primary key, and {table.name} has none")
            plan = StreamPlan(
                table,
                columns_asked(self._columns, schema),
                starting=self._options.starting,
                where=to_expr(self._options.where),
                split_bytes=lambda total: self._options.split_bytes or split_bytes_of(total, self._cores),
            )
            self._planning = _Planning(lake, table, plan)
        return self._planning

    # --- the driver ---------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the position before the beginning; the first batch finds where that is."""
        return StreamOffset().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Returns one of the limits that the options set; all of them are kept to."""
        options = self._options
        if options.max_files is not None:
            return ReadMaxFiles(options.max_files)
        if options.max_rows is not None:
            return ReadMaxRows(options.max_rows)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's
        """Returns the end of the batch that begins at a position."""
        with carried():
            begin = StreamOffset.from_json(start)
            known = self._planned()
            end = known.lake.call(known.plan.end_of_batch, begin, self._limit(limit), known.upto)
            # Spark compares texts: an end that is where it began must be what Spark gave.
            return start if end == begin.place else end.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Leaves what is committed from now on to the next run."""
        with carried():
            known = self._planned()
            known.upto = known.lake.call(known.plan.newest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plans what the tasks of a batch read."""
        with carried():
            known = self._planned()
            first, last = StreamOffset.from_json(start), StreamOffset.from_json(end)
            work = known.lake.call(known.plan.work, first, last)
            return [StreamPart(known.table.uuid, task) for task in work]

    def _limit(self, limit: ReadLimit) -> Limit | None:
        if isinstance(limit, ReadAllAvailable):
            return None
        # Spark hands back one of the limits; the others are the options' own.
        options = self._options
        return Limit(
            files=limit.max_files if isinstance(limit, ReadMaxFiles) else options.max_files,
            rows=limit.max_rows if isinstance(limit, ReadMaxRows) else options.max_rows,
            size=limit.max_bytes if isinstance(limit, ReadMaxBytes) else options.max_bytes,
        )

    # --- executors ----------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the rows of a part."""
        if not isinstance(partition, StreamPart):
            return
        with carried():
            lake, table = self._opened(
                partition.table, "the batch was planned: begin a new stream, with a new checkpoint"
            )
            where = to_expr(self._options.where)
            rows = _compared if partition.work.compared else _held
            columns = columns_asked(self._columns, partition.work.schema)
            for arrow_rows in lake.iterate(rows, table, partition.work, columns, where):
                yield from self._batches(arrow_rows, columns)

    def _batches(self, table: pa.Table, columns: Sequence[str]) -> list[pa.RecordBatch]:
        kinds = table.column(CHANGE_COLUMN) if CHANGE_COLUMN in table.column_names else None
        if not self._options.changes and kinds is not None:
            table = table.filter(pc.is_in(kinds, pa.array(_SHOWN)))
        elif self._options.changes and kinds is None:
            table = table.append_column(CHANGE_COLUMN, pa.repeat(pa.scalar(_SHOWN[0]), table.num_rows))
        named = iter(columns)
        wanted = [name if name == CHANGE_COLUMN else next(named) for name in self._struct.fieldNames()]
        rows = as_spark(table.select(wanted), self._arrow)
        batches: list[pa.RecordBatch] = rows.to_batches(max_chunksize=self._options.batch_rows)
        return batches


async def _held(
    table: OpenTable, work: StreamWork, columns: Sequence[str], where: Expr | None
) -> AsyncGenerator[pa.Table, None]:
    """Yields the rows that files hold."""
    shown = shown_where(where, work.shows[1])
    scan = scan_of(table, work.split, work.schema, columns=columns, where=shown)
    hold = holding(table, work.snapshot, grace_s=grace_s_of(work.schema))
    async with hold, aclosing(scan.tables()) as tables:
        async for rows in tables:
            yield rows


async def _compared(
    table: OpenTable, work: StreamWork, columns: Sequence[str], where: Expr | None
) -> AsyncGenerator[pa.Table, None]:
    """Yields net changes between two states."""
    changes = net_changes(
        work.before, work.split.entries, work.schema, table, shows=work.shows, keys=work.split.keys
    )
    bound = None if where is None else bind_where(where, work.schema)
    hold = holding(table, work.snapshot, grace_s=grace_s_of(work.schema))
    async with hold, aclosing(changes) as tables:
        async for rows in tables:
            if bound is not None:
                rows = rows.filter(await in_thread(matching, bound, rows))
            yield rows.select([*columns, CHANGE_COLUMN])


def _check(options: ReadOptions) -> None:
    """Refuses options that only a read of one snapshot has."""
    alone = ("version", "timestamp", "tag", "incremental_from", "incremental_to", "relation")
    given = [name for name in alone if getattr(options, name) is not None]
    if given or options.freshness != "snapshot":
        raise InvalidInputError(
            f"a stream takes no option {(given or ['freshness'])[0]!r}: it follows the table; say where it "
            "begins with .option('starting', …): initial, latest, earliest, a snapshot's id or a moment"
        )
