"""Rows of a plan as a data frame, past Spark's interface for sources.

Spark asks a source in Python for its metrics a hundred rows after the other, which takes as long as reading
two columns does. Rows that functions make take a shorter way; but Spark cannot push conditions into a
function: those that it finds in a query, it evaluates itself.

Columns of which statistics say that no row lacks a value are declared so, which spares the JVM a look at
every value: a sixth of its time.

Invariant: each part is read by a task of its own, and its rows come out once.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from lakehouse.iceberg import ScanTask
from lakehouse.index.search import RowSelection
from lakehouse.spark.reading.iceberg_reader import IcebergReader, TasksPart
from lakehouse.spark.reading.reader import LakehouseReader, ScanPart
from lakehouse.storage.scan import Split

__all__ = ["frame_of", "parts_of", "sent_frame", "tasks_frame"]


def parts_of(reader: LakehouseReader) -> list[ScanPart]:
    """Plans a read and returns its parts."""
    return [part for part in reader.partitions() if isinstance(part, ScanPart)]


def frame_of(
    spark: SparkSession,
    reader: LakehouseReader,
    parts: Sequence[ScanPart],
    struct: StructType,
    *,
    among: Mapping[str, pa.Array] | None = None,
) -> DataFrame:
    """Returns the rows of parts as a data frame.

    Args:
        spark: the session; classic or Connect.
        reader: has planned the parts.
        parts: of one plan.
        struct: the columns; those without nulls in any file come out as such.
        among: values by column; only rows that have one of them in each column come out.
    """
    if not parts:
        return spark.createDataFrame([], struct)
    # Once for all of them: the condition may be large.
    plan = parts[0].plan

    def read(sent: tuple[Split, Mapping[str, RowSelection]]) -> Iterator[pa.RecordBatch]:
        return reader.read(ScanPart(plan, *sent))

    sent = [(part.split, part.selections) for part in parts]
    return sent_frame(spark, read, sent, _as_held(struct, parts), among=among)


def sent_frame(
    spark: SparkSession,
    read: Callable[[Any], Iterator[pa.RecordBatch]],
    items: Sequence[Any],
    struct: StructType,
    *,
    among: Mapping[str, pa.Array] | None = None,
) -> DataFrame:
    """Returns the rows that a function reads in executors, given an item for each task.

    Args:
        spark: the session; classic or Connect.
        read: yields the rows of an item.
        items: values that can be pickled.
        struct: the columns.
        among: values by column; only rows that have one of them in each column come out.
    """
    if not items:
        return spark.createDataFrame([], struct)
    sent = [pickle.dumps(item) for item in items]
    wanted = among or {}

    def read_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in read(pickle.loads(sent[number])):  # noqa: S301 - written by the driver
                    for name, values in wanted.items():
                        rows = rows.filter(pc.is_in(rows.column(name), values))
                    yield rows

    return spark.range(0, len(sent), 1, len(sent)).mapInArrow(read_all, struct)


def tasks_frame(
    spark: SparkSession,
    reader: IcebergReader,
    parts: Sequence[TasksPart],
    struct: StructType,
    *,
    among: Mapping[str, pa.Array] | None = None,
) -> DataFrame:
    """Returns the rows of parts of an Iceberg plan; the arguments are those of :func:`frame_of`."""
    if not parts:
        return spark.createDataFrame([], struct)
    plan = parts[0].plan

    def read(tasks: Sequence[ScanTask]) -> Iterator[pa.RecordBatch]:
        return reader.read(TasksPart(plan, tasks))

    return sent_frame(spark, read, [part.tasks for part in parts], struct, among=among)


def _as_held(struct: StructType, parts: Sequence[ScanPart]) -> StructType:
    """Returns the columns, not nullable where the statistics of all files count no null."""
    schema = parts[0].plan.schema
    if not schema.merging.picks_one_row:
        return struct  # values are computed, and may be null without one that is
    entries = {entry.path: entry for part in parts for entry in part.split.entries}.values()
    ids = {field.name.casefold(): field.id for field in schema.fields}
    held = StructType()
    for column in struct.fields:
        known = [entry.stats.get(ids[column.name.casefold()]) for entry in entries]
        is_full = all(stats is not None and stats.nulls == 0 for stats in known)
        held.add(StructField(column.name, column.dataType, column.nullable and not is_full, column.metadata))
    return held
