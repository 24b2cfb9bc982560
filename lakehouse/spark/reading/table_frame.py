"""Tables as data frames that read no more than they are asked for.

Spark asks a Python source for all columns of its schema, and counts on nothing less. So the columns of a data
frame are chosen when it is made::

    lakehouse.spark.table(spark, "sales.orders", columns=["id", "amount"], where="amount > 10")
    lakehouse.spark.create_view(spark, "orders", "sales.orders", columns=["id", "amount"])

Filters that Spark finds later are pushed down all the same. Of ten columns, two take a quarter of the time of
all: what costs is making rows of them in the JVM, twice what reading and decoding does.

Invariant: a data frame is of one snapshot, the one that was asked for or that was newest when it was made;
only with ``freshness="wal"`` it is what is newest whenever it is used.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr, to_sql
from lakehouse.spark.reading.arrow_frame import frame_of, parts_of
from lakehouse.spark.reading.options import ReadOptions
from lakehouse.spark.reading.reader import LakehouseReader, struct_asked, view_of
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.runtime.errors import plain_errors
from lakehouse.spark.runtime.session_connection import connection_of
from lakehouse.spark.runtime.sessions import NEEDED
from lakehouse.spark.runtime.tasks import cores_of
from lakehouse.storage.scan import Freshness
from lakehouse.storage.tables import time_ms_of

__all__ = ["create_view", "enable_pushdown", "table"]


def table(
    spark: SparkSession,
    name: str,
    *,
    connection: Connection | None = None,
    columns: Sequence[str] | None = None,
    where: Expr | str | None = None,
    version: int | None = None,
    timestamp: dt.datetime | int | str | None = None,
    tag: str | None = None,
    freshness: Freshness = "snapshot",
    incremental_from: int | None = None,
    incremental_to: int | None = None,
    relation: str | None = None,
    split_bytes: int | None = None,
    pin_s: float | None = None,
    pushdown: bool = True,
) -> DataFrame:
    """A table, or a part of it, as a data frame.

    Args:
        spark: the session; classic or Connect.
        name: ``database.table``.
        connection: the warehouse; None = the one that was registered.
        columns: names, in order; None = all.
        where: a condition, as SQL text or an expression of the engine.
        version: a snapshot by its id.
        timestamp: the last snapshot not after it: a datetime, ISO text (UTC unless it says), or milliseconds.
        tag: the snapshot of a tag.
        freshness: ``wal`` reads what the write-ahead log holds above the newest snapshot too.
        incremental_from: what changed since that snapshot; with a key net changes and their ``_change``,
            without one the rows that were added.
        incremental_to: up to that snapshot; None = the newest.
        relation: a relation of the table instead of its rows: ``files``, ``indexes``, ``manifests``,
            ``partitions``, ``schemas``, ``snapshots`` or ``tags``.
        split_bytes: about how many bytes of files a task reads; None = as the cores suggest.
        pin_s: seconds for which the snapshot is kept from the planning on; costs a commit. None = it is
            kept for a day when reading it takes longer than half of the table's ``delete_grace_s``.
        pushdown: whether conditions that Spark finds later, in queries that use the frame, leave files
            and rows out. False takes a shorter way for rows, by which a few columns come in two thirds of
            the time: for queries that need all that is asked for here. Columns without nulls are then
            declared as such.

    Example::

        paid = lakehouse.spark.table(spark, "sales.orders", columns=["id", "amount"], where="amount > 10")
    """
    if isinstance(columns, str) or (columns is not None and not columns):
        raise InvalidInputError(f"columns is a list of names with one at least, not {columns!r}")
    options: dict[str, Any] = {
        "columns": None if columns is None else json.dumps(list(columns)),
        "where": to_sql(where) if isinstance(where, Expr) else where,
        "version": version,
        "timestamp": None if timestamp is None else time_ms_of(timestamp),
        "tag": tag,
        "freshness": freshness,
        "incremental_from": incremental_from,
        "incremental_to": incremental_to,
        "relation": relation,
        "split_bytes": split_bytes,
        "pin": pin_s,
    }
    given = {key: str(value) for key, value in options.items() if value is not None}
    if not pushdown:
        return _direct(spark, name, ReadOptions.parse(given), connection_of(spark, connection))
    enable_pushdown(spark)
    target = {**_target(spark, connection), "table": name}
    with plain_errors():
        return spark.read.format("lakehouse").options(**target, **given).load()


def create_view(spark: SparkSession, view: str, name: str, **how: Any) -> DataFrame:
    """Makes a temporary view of a table for SQL; takes what :func:`table` takes.

    Example::

        lakehouse.spark.create_view(spark, "orders", "sales.orders", columns=["id", "amount"])
        spark.sql("SELECT sum(amount) FROM orders")
    """
    frame = table(spark, name, **how)
    frame.createOrReplaceTempView(view)
    return frame


def enable_pushdown(spark: SparkSession) -> None:
    """Lets Spark push filters down to Python sources, without which it refuses those that take them."""
    for key, value in NEEDED.items():
        if key.startswith("spark.sql.python."):
            spark.conf.set(key, value)


def _direct(spark: SparkSession, name: str, options: ReadOptions, connection: Connection) -> DataFrame:
    """Returns rows that are planned now, and read without Spark's interface for sources."""
    if options.relation is not None or options.incremental_from is not None or options.freshness == "wal":
        raise InvalidInputError(
            "pushdown=False is for rows of a snapshot: it goes with no relation, incremental_from or "
            "freshness='wal'"
        )
    lake = warehouse(connection)
    view = lake.call(view_of, lake.table(name), options)
    struct = struct_asked(view.schema, options.columns)
    # By its id, so that planning reads the snapshot whose columns were taken.
    pinned = replace(options, version=view.snapshot.id, timestamp=None, tag=None)
    reader = LakehouseReader(connection, name, pinned, struct, cores=cores_of(spark))
    return frame_of(spark, reader, parts_of(reader), struct)


def _target(spark: SparkSession, connection: Connection | None) -> dict[str, str]:
    """Returns the options that name the warehouse; none for the session's own, which its source knows."""
    chosen = connection_of(spark, connection)
    if connection is None:
        return {}
    options = {"warehouse": chosen.url, "storage_options": json.dumps(chosen.revealed_options())}
    return options | {f"setting.{key}": json.dumps(value) for key, value in chosen.settings.items()}
