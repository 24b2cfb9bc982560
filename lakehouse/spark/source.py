"""The data source ``lakehouse``: what ``spark.read.format("lakehouse")`` and ``df.write`` find.

Spark makes one in a Python process of its own for each data frame, asks it for columns, and sends it to where
queries are planned. ``register(spark, "s3://bucket/warehouse")`` makes a session know the source and where
its tables are::

    lakehouse.spark.register(spark, "s3://bucket/warehouse")
    spark.read.format("lakehouse").load("sales.orders")

Without it, Spark finds the source by the name of the package ``pyspark_lakehouse``, and options say where.

Invariant: a data frame whose columns Spark asked for is of the snapshot that was newest then, however often
it is used. One whose columns were given with ``.schema(…)`` is of the snapshot that is newest when a query
is planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from lakehouse.spark.connection import Connection, warehouse
from lakehouse.spark.options import ReadOptions, target_of
from lakehouse.spark.reader import LakehouseReader, view_of
from lakehouse.spark.registered import remember
from lakehouse.spark.session import NEEDED
from lakehouse.spark.stream_reader import LakehouseStreamReader
from lakehouse.spark.types import struct_of
from lakehouse.storage.changes import CHANGE_COLUMN

__all__ = ["LakehouseSource", "register"]


class LakehouseSource(DataSource):  # type: ignore[misc]
    """Tables of a warehouse."""

    default: ClassVar[Connection | None] = None
    """The warehouse of the session, where options name none."""
    _snapshot: int | None = None
    """What :meth:`schema` found, for the reader."""

    @classmethod
    def name(cls) -> str:
        """``lakehouse``."""
        return "lakehouse"

    def schema(self) -> StructType:
        """The columns of the table, of those that the options name."""
        connection, table = self._target()
        options = ReadOptions.parse(self.options)
        lake = warehouse(connection)
        view = lake.call(view_of, lake.table(table), options)
        if options.freshness == "snapshot":
            self._snapshot = view.snapshot.id
        struct = struct_of(view.schema)
        if options.columns is not None:
            struct = StructType([struct[name] for name in options.columns])
        return struct.add(CHANGE_COLUMN, "string", nullable=False) if options.changes else struct

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads rows."""
        connection, table = self._target()
        options = ReadOptions.parse(self.options)
        if self._snapshot is not None:
            options = replace(options, version=self._snapshot, timestamp=None, tag=None)
        return LakehouseReader(connection, table, options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Reads what comes to the table."""
        connection, table = self._target()
        return LakehouseStreamReader(connection, table, ReadOptions.parse(self.options), schema)

    def _target(self) -> tuple[Connection, str]:
        return target_of(self.options, self.default)


def register(
    spark: SparkSession,
    warehouse: str | Connection | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Makes the data source ``lakehouse`` known to a session, and where its tables are.

    Args:
        spark: the session; classic or Connect.
        warehouse: a URL such as ``s3://bucket/warehouse``, or a connection; None = options say it.
        storage_options: fsspec's, such as ``endpoint_url``.
        settings: bounds, such as ``{"cache.max_bytes": …}``.

    Example::

        lakehouse.spark.register(spark, "s3://bucket/warehouse")
        orders = spark.read.format("lakehouse").load("sales.orders")
    """
    known: type[LakehouseSource] = LakehouseSource
    if warehouse is not None:
        found = (
            warehouse
            if isinstance(warehouse, Connection)
            else Connection(url=warehouse, storage_options=storage_options or {}, settings=settings or {})
        )
        remember(spark, found)
        # A class of its own, which is pickled by value, so that what it knows travels with it.
        known = type("LakehouseSource", (LakehouseSource,), {"default": found, "__module__": "__main__"})
    for key, value in NEEDED.items():
        if key.startswith("spark.sql.python."):
            spark.conf.set(key, value)
    spark.dataSource.register(known)
