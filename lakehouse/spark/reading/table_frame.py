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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr, to_sql
from lakehouse.expr.runtime_filter import RuntimeFilter
from lakehouse.spark.reading.arrow_frame import frame_of, parts_of, tasks_frame
from lakehouse.spark.reading.iceberg_reader import IcebergReader, iceberg_struct, state_of
from lakehouse.spark.reading.options import IcebergTarget, ReadOptions, iceberg_target, is_iceberg
from lakehouse.spark.reading.reader import LakehouseReader, struct_asked, view_of
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.runtime.errors import plain_errors
from lakehouse.spark.runtime.session_connection import connection_of, known_connection
from lakehouse.spark.runtime.sessions import NEEDED
from lakehouse.spark.runtime.tasks import cores_of
from lakehouse.storage.scan import Freshness
from lakehouse.storage.tables import time_ms_of

__all__ = ["applied_filters", "create_view", "enable_pushdown", "iceberg_named", "table"]


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
    ref: str | None = None,
    freshness: Freshness = "snapshot",
    incremental_from: int | None = None,
    incremental_to: int | None = None,
    relation: str | None = None,
    split_bytes: int | None = None,
    pin_s: float | None = None,
    pushdown: bool = True,
    runtime_filters: Sequence[RuntimeFilter] | Literal["off"] = (),
    locations: Sequence[str] = (),
    moved: bool = False,
) -> DataFrame:
    """A table, or a part of it, as a data frame.

    Args:
        spark: the session; classic or Connect.
        name: ``database.table``; of Iceberg tables the URL or ``catalog.namespace.table``.
        connection: the warehouse; None = the one that was registered.
        columns: names, in order; None = all.
        where: a condition, as SQL text or an expression of the engine.
        version: a snapshot by its id.
        timestamp: the last snapshot not after it: a datetime, ISO text (UTC unless it says), or milliseconds.
        tag: the snapshot of a tag.
        ref: the snapshot of a branch or a tag of an Iceberg table.
        freshness: ``wal`` reads what the write-ahead log holds above the newest snapshot too.
        incremental_from: what changed since that snapshot; with a key net changes and their ``_change``,
            without one the rows that were added.
        incremental_to: up to that snapshot; None = the newest.
        relation: a relation of the table instead of its rows: ``files``, ``indexes``, ``manifests``,
            ``partitions``, ``schemas``, ``snapshots`` or ``tags``.
        split_bytes: about how many bytes of files a task reads; None = as the cores suggest.
        pin_s: seconds for which the snapshot is kept from the planning on; costs a commit. None = it is
            kept for a day when reading it takes longer than half of the table's ``delete_grace_s``.
        pushdown: whether conditions that Spark finds later leave files and rows out. False takes a shorter
            way for rows, by which a few columns come in two thirds of the time: for queries that need all
            that is asked for here. Columns without nulls are then declared as such.
        runtime_filters: filters by which files of an Iceberg table are left out; rows of the others are not
            asked. With them the table is planned now, as with ``pushdown=False``.
        locations: further places where files of an Iceberg table may be, as URLs.
        moved: an Iceberg table was copied to where it is read.

    Example::

        paid = lakehouse.spark.table(spark, "sales.orders", columns=["id", "amount"], where="amount > 10")
    """
    at = {"version": version, "tag": tag, "ref": ref, "freshness": freshness, "relation": relation}
    since = {"incremental_from": incremental_from, "incremental_to": incremental_to}
    given = _given(columns, where, timestamp, {**at, **since, "split_bytes": split_bytes, "pin": pin_s})
    target = iceberg_named(spark, name, connection, locations=locations, moved=moved)
    if target is not None:
        return _iceberg(spark, target, given, connection, runtime_filters, pushdown=pushdown)
    if applied_filters(runtime_filters):
        raise InvalidInputError("runtime_filters are for Iceberg tables: of our own say it by where=")
    return _own(spark, name, given, connection, pushdown=pushdown)


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


def iceberg_named(
    spark: SparkSession,
    name: str,
    connection: Connection | None,
    *,
    locations: Sequence[str] = (),
    moved: bool = False,
) -> IcebergTarget | None:
    """Returns the Iceberg table of a name; None = the name is that of one of our tables."""
    given = {"table": name}
    if locations:
        given["locations"] = json.dumps(list(locations))
    if moved:
        given["moved"] = "true"
    default = connection
    if connection is None and is_iceberg(name):
        default = known_connection(spark)
    return iceberg_target(given, default)


def _given(
    columns: Sequence[str] | None,
    where: Expr | str | None,
    timestamp: dt.datetime | int | str | None,
    others: Mapping[str, Any],
) -> dict[str, str]:
    """Returns what is asked for as options of the source."""
    if isinstance(columns, str) or (columns is not None and not columns):
        raise InvalidInputError(f"columns is a list of names with one at least, not {columns!r}")
    options = {
        "columns": None if columns is None else json.dumps(list(columns)),
        "where": to_sql(where) if isinstance(where, Expr) else where,
        "timestamp": None if timestamp is None else time_ms_of(timestamp),
        **others,
    }
    return {key: str(value) for key, value in options.items() if value is not None}


def _own(
    spark: SparkSession, name: str, given: Mapping[str, str], connection: Connection | None, *, pushdown: bool
) -> DataFrame:
    if not pushdown:
        return _direct(spark, name, ReadOptions.parse(given), connection_of(spark, connection))
    connection_of(spark, connection)  # refused here, where the caller sees it
    named = {} if connection is None else {"warehouse": connection.url, **_reached(connection)}
    return _load(spark, {"table": name, **named, **given})


def _iceberg(
    spark: SparkSession,
    target: IcebergTarget,
    given: Mapping[str, str],
    connection: Connection | None,
    filters: Sequence[RuntimeFilter] | Literal["off"],
    *,
    pushdown: bool,
) -> DataFrame:
    if applied_filters(filters) or not pushdown:
        return _tasks(spark, target, ReadOptions.parse(given), filters)
    named = {"table": target.name or target.connection.url}
    if target.moved:
        named["moved"] = "true"
    if target.locations:
        named["locations"] = json.dumps(list(target.locations))
    if connection is not None:
        named |= {"warehouse": connection.url, **_reached(connection)}
    return _load(spark, {**named, **given})


def _load(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    enable_pushdown(spark)
    with plain_errors():
        return spark.read.format("lakehouse").options(**options).load()


def _tasks(
    spark: SparkSession,
    target: IcebergTarget,
    options: ReadOptions,
    filters: Sequence[RuntimeFilter] | Literal["off"],
) -> DataFrame:
    """Returns rows of an Iceberg table that is planned now."""
    state = state_of(target, options)
    struct = iceberg_struct(state, options.columns)
    reader = IcebergReader(state, options, struct, cores=cores_of(spark))
    parts = reader.parts(reader.planned(applied_filters(filters)))
    return tasks_frame(spark, reader, parts, struct)


def applied_filters(filters: Sequence[RuntimeFilter] | Literal["off"]) -> Sequence[RuntimeFilter]:
    """Returns the runtime filters that are to be applied."""
    if isinstance(filters, str):
        if filters != "off":
            raise InvalidInputError(f"runtime_filters is a list of filters or 'off', not {filters!r}")
        return ()
    return filters


def _reached(connection: Connection) -> dict[str, str]:
    """Returns the options that say how a warehouse is reached, and which catalogs it has."""
    options = {
        "storage_options": json.dumps(connection.revealed_options()),
        "catalogs": json.dumps(connection.catalogs),
    }
    return options | {f"setting.{key}": json.dumps(value) for key, value in connection.settings.items()}
