"""Counts, least and greatest values of a table: from statistics in the driver, from rows in executors.

Files whose statistics answer are not read; see :mod:`lakehouse.storage.scan.aggregate`. Once a table is
compacted, the statistics of all its files do, and no task is started.

Invariant: the answer is that of Spark's aggregate over all rows of the same snapshot.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr
from lakehouse.io.work import in_thread
from lakehouse.log import get_logger
from lakehouse.spark.reading.reader import split_bytes_of
from lakehouse.spark.reading.table_reader import scan_of
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.runtime.errors import plain_errors
from lakehouse.spark.runtime.session_connection import connection_of
from lakehouse.spark.runtime.tasks import cores_of, run_tasks
from lakehouse.spark.runtime.types import struct_of_arrow
from lakehouse.storage.scan import (
    OPENED_MAX,
    AggregateQuery,
    PartialAggregates,
    Scan,
    Split,
    plan_splits,
    planned_bytes,
    to_expr,
)
from lakehouse.storage.schema import shown_where
from lakehouse.storage.tables import OpenTable, grace_s_of, holding, reading

__all__ = ["aggregate", "count"]

_log = get_logger(__name__)


def aggregate(
    spark: SparkSession,
    name: str,
    wanted: Mapping[str, str | tuple[str, str]],
    *,
    where: Expr | str | None = None,
    group_by: Sequence[str] | str = (),
    version: int | None = None,
    timestamp: dt.datetime | int | str | None = None,
    tag: str | None = None,
    connection: Connection | None = None,
) -> DataFrame:
    """Counts, least and greatest values, in one row or one for each group.

    Args:
        spark: the session.
        name: ``database.table``.
        wanted: by name ``"count"``, ``("count", column)`` (values that are not null), ``("min", column)``
            or ``("max", column)``. NaN is above every number.
        where: a condition, best on partition columns: files of which some rows match are read.
        group_by: partition columns.
        version: id of a snapshot.
        timestamp: the last snapshot not after it.
        tag: the snapshot of that tag.
        connection: the warehouse; the session's when not given.

    Example::

        aggregate(spark, "sales.orders", {"rows": "count", "last": ("max", "ts")}, group_by="day").show()
    """
    answers = _answers(
        spark, name, wanted, where, group_by, (version, timestamp, tag), connection_of(spark, connection)
    )
    rows = answers.table()
    return spark.createDataFrame(rows, struct_of_arrow(rows.schema))


def count(
    spark: SparkSession,
    name: str,
    where: Expr | str | None = None,
    *,
    version: int | None = None,
    timestamp: dt.datetime | int | str | None = None,
    tag: str | None = None,
    connection: Connection | None = None,
) -> int:
    """Returns the number of rows that match; the arguments are those of :func:`aggregate`."""
    answers = _answers(
        spark, name, {"n": "count"}, where, (), (version, timestamp, tag), connection_of(spark, connection)
    )
    return int(answers.table().column("n")[0].as_py())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rest:
    """The part of a query that statistics leave open, as it travels to tasks."""

    connection: Connection
    name: str
    table: uuid.UUID
    snapshot: int
    question: AggregateQuery
    where: Expr | None


def _answers(
    spark: SparkSession,
    name: str,
    wanted: Mapping[str, str | tuple[str, str]],
    where: Expr | str | None,
    group_by: Sequence[str] | str,
    at: tuple[int | None, dt.datetime | int | str | None, str | None],
    connection: Connection,
) -> PartialAggregates:
    lake = warehouse(connection)
    table = lake.table(name)
    view = lake.call(partial(table.view, snapshot=at[0], timestamp=at[1], tag=at[2]))

    async def plan() -> tuple[PartialAggregates, list[Split], Expr | None]:
        question = AggregateQuery.parse(view.schema, wanted, group_by)
        shown = shown_where(to_expr(where), view.shows)
        # One split of all files, to plan with: nothing reads it, so its size does not matter.
        scan = _scan(table, Split(entries=tuple(await view.entries()), size=0), question, shown)
        await scan.prune_by_indexes(table)
        # Only the units that statistics leave open are divided among tasks.
        answers, left = question.from_statistics(scan.files.units)
        pieces = await scan.pieces(OPENED_MAX)
        size = split_bytes_of(planned_bytes(left, pieces), cores_of(spark))
        return answers, plan_splits(left, size, pieces=pieces), shown

    answers, splits, shown = lake.call(plan)
    rest = _Rest(
        connection=connection,
        name=name,
        table=table.uuid,
        snapshot=view.snapshot.id,
        question=answers.question,
        where=shown,
    )
    with plain_errors(), lake.hold(reading, table, view):
        for done in run_tasks(spark, partial(_read, rest), splits):
            answers.merge(done.value)
    _log.info("answered", table=name, tasks=len(splits), rows_read=answers.rows_read)
    return answers


def _scan(table: OpenTable, split: Split, question: AggregateQuery, where: Expr | None) -> Scan:
    return scan_of(table, split, question.schema, columns=question.columns, where=where)


def _read(rest: _Rest, split: Split) -> PartialAggregates:
    """Reads the rows of a split and returns their aggregates; runs in an executor."""
    lake = warehouse(rest.connection)
    error = InvalidInputError(f"{rest.name} is another table than it was when the query was planned")
    table = lake.same_table(rest.name, rest.table, error)

    async def read() -> PartialAggregates:
        answers = PartialAggregates(rest.question)
        scan = _scan(table, split, rest.question, rest.where)
        async with holding(table, rest.snapshot, grace_s=grace_s_of(rest.question.schema)):
            await scan.prune_by_indexes(table)
            async with aclosing(scan.tables()) as tables:
                async for rows in tables:
                    await in_thread(answers.add_rows, rows)
        return answers

    return lake.call(read)
