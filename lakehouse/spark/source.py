"""The data source ``lakehouse``: what ``spark.read.format("lakehouse")`` and ``df.write`` find.

``register(spark, "s3://bucket/warehouse")`` makes a session know the source and where its tables are::

    lakehouse.spark.register(spark, "s3://bucket/warehouse")
    spark.read.format("lakehouse").load("sales.orders")
    spark.read.format("lakehouse").load("s3://bucket/iceberg/sales/orders")  # an Iceberg table

Without it, Spark finds the source by the name of the package ``pyspark_lakehouse``, and the options
``warehouse``, ``storage.<name>`` and ``setting.<name>`` say where. Spark asks a source written in Python
for all the columns of its schema, so ``.schema("id long, amount double")`` and
``.option("columns", "id, amount")`` are how to read fewer.

Spark makes a source in a Python process of its own for each data frame, asks it for columns, and sends it to
where queries are planned.

Invariant: a data frame whose columns Spark asked for is of the snapshot that was newest then, however often
it is used. One whose columns were given with ``.schema(…)`` is of the snapshot that is newest when a query
is planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse.errors import InvalidInputError
from lakehouse.iceberg import TableState
from lakehouse.spark.reading.iceberg_reader import IcebergReader, iceberg_struct, state_of
from lakehouse.spark.reading.options import ReadOptions, WriteOptions, iceberg_target, target_of
from lakehouse.spark.reading.reader import LakehouseReader, struct_asked, view_of
from lakehouse.spark.reading.relations import RelationReader, relation_struct
from lakehouse.spark.reading.table_frame import enable_pushdown
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.runtime.errors import carried
from lakehouse.spark.runtime.session_connection import remember
from lakehouse.spark.streaming.increments_reader import IncrementReader
from lakehouse.spark.streaming.reader import LakehouseStreamReader
from lakehouse.spark.streaming.writer import LakehouseStreamWriter
from lakehouse.spark.writing.source_writer import LakehouseWriter, TableTarget, wanted_by
from lakehouse.storage.cdc import CHANGE_COLUMN
from lakehouse.storage.tables import View

__all__ = ["LakehouseSource", "register"]

_CHANGE = StructField(CHANGE_COLUMN, StringType(), nullable=False)


class LakehouseSource(DataSource):  # type: ignore[misc]
    """Tables of a warehouse, as a data source of Spark."""

    default: ClassVar[Connection | None] = None
    """Warehouse of the session, for options that name none."""
    cores: ClassVar[int | None] = None
    """Number of tasks that run at once; None = not known."""
    _snapshot: int | None = None
    """Id of the snapshot that :meth:`schema` looked at, which the reader then reads."""
    _state: TableState | None = None
    """State of the Iceberg table that :meth:`schema` looked at."""

    @classmethod
    def name(cls) -> str:
        """Returns ``lakehouse``."""
        return "lakehouse"

    def schema(self) -> StructType:
        """Returns the columns of the table, or those that the options name."""
        with carried():
            options = ReadOptions.parse(self.options)
            target = iceberg_target(self.options, self.default)
            if target is not None:
                self._state = state_of(target, options)
                return iceberg_struct(self._state, options.columns)
            connection, table = self._target()
            lake = warehouse(connection)
            view = lake.call(view_of, lake.table(table), options)
            if options.relation is not None:
                return relation_struct(options.relation, view)
            if options.freshness == "snapshot":
                self._snapshot = view.snapshot.id
            return _struct(view, options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads rows, what changed between two snapshots, or what the table says about itself."""
        with carried():
            options = ReadOptions.parse(self.options)
            target = iceberg_target(self.options, self.default)
            if target is not None:
                return IcebergReader(
                    self._state or state_of(target, options), options, schema, cores=self.cores
                )
            connection, table = self._target()
            if options.relation is not None:
                return RelationReader(connection, table, options, schema)
            if options.incremental_from is not None:
                if self._snapshot is not None:
                    options = replace(
                        options, incremental_to=self._snapshot, version=None, timestamp=None, tag=None
                    )
                return IncrementReader(connection, table, options, schema)
            if self._snapshot is not None:
                options = replace(options, version=self._snapshot, timestamp=None, tag=None)
            return LakehouseReader(connection, table, options, schema, cores=self.cores)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Reads what comes to a table."""
        with carried():
            connection, table = self._target()
            options = ReadOptions.parse(self.options)
            return LakehouseStreamReader(connection, table, options, schema, cores=self.cores)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Writes rows where they are."""
        with carried():
            return LakehouseWriter(self._written(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Writes the batches of a query, each once."""
        with carried():
            return LakehouseStreamWriter(self._written(schema, overwrite, streams=True))

    def _written(self, schema: StructType, overwrite: bool, *, streams: bool = False) -> TableTarget:
        connection, table = self._target()
        wanted = wanted_by(WriteOptions.parse(self.options), overwrite=overwrite, streams=streams)
        return TableTarget(connection, table, wanted, schema)

    def _target(self) -> tuple[Connection, str]:
        if iceberg_target(self.options, self.default) is not None:
            raise InvalidInputError("Iceberg tables are read, and not written or streamed")
        return target_of(self.options, self.default)


def _struct(view: View, options: ReadOptions) -> StructType:
    """Returns the columns of a read, with the kind of change where changes are read."""
    fields = struct_asked(view.schema, options.columns).fields
    is_changes = options.changes or (options.incremental_from is not None and view.schema.primary_key)
    return StructType([*fields, _CHANGE] if is_changes else list(fields))


def register(
    spark: SparkSession,
    warehouse: str | Connection | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    catalogs: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Makes the data source ``lakehouse`` known to a session, and where its tables are.

    Args:
        spark: the session; classic or Connect.
        warehouse: a URL such as ``s3://bucket/warehouse``, or a connection; None = options say it.
        storage_options: fsspec's, such as ``endpoint_url``.
        settings: bounds, such as ``{"cache.max_bytes": …}``.
        catalogs: catalogs of Iceberg tables by name, with the properties that ``lake.attach_catalog`` takes.

    Example::

        lakehouse.spark.register(spark, "s3://bucket/warehouse")
        orders = spark.read.format("lakehouse").load("sales.orders")
    """
    chosen: Connection | None = None
    if isinstance(warehouse, Connection):
        if storage_options or settings or catalogs:
            raise InvalidInputError("a connection has its storage options, settings and catalogs itself")
        chosen = warehouse
    elif warehouse is not None:
        chosen = Connection(
            url=warehouse,
            storage_options=storage_options or {},
            settings=settings or {},
            catalogs=catalogs or {},
        )
    if chosen is not None:
        remember(spark, chosen)
    enable_pushdown(spark)
    context = getattr(spark, "sparkContext", None)  # Connect has none
    known = {"default": chosen, "cores": None if context is None else context.defaultParallelism}
    # A class of its own is pickled by value where its module does not have it, so that it travels as it is.
    spark.dataSource.register(
        type("LakehouseSource", (LakehouseSource,), {**known, "__module__": "__main__"})
    )
