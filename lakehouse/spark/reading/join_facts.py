"""Large sides of joins: our own tables, and Iceberg tables, planned with what is known of the small side.

Invariant: rows that may have a partner come out, of one snapshot, each once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakehouse.expr import Expr
from lakehouse.expr.nodes import all_given
from lakehouse.expr.runtime_filter import RuntimeFilter
from lakehouse.format.schema import TableSchema
from lakehouse.iceberg import IcebergPlan, TableState
from lakehouse.spark.reading.arrow_frame import frame_of, parts_of, tasks_frame
from lakehouse.spark.reading.iceberg_reader import IcebergReader, iceberg_struct
from lakehouse.spark.reading.options import ReadOptions
from lakehouse.spark.reading.reader import LakehouseReader
from lakehouse.spark.runtime.connection import Connection, Warehouse
from lakehouse.spark.runtime.tasks import cores_of
from lakehouse.spark.runtime.types import struct_of
from lakehouse.storage.schema import fields_named
from lakehouse.storage.tables import View

__all__ = ["Fact", "FactRows", "IcebergFact", "OwnFact", "Partners"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partners:
    """Conditions on the large side by the keys of the small one."""

    filters: Sequence[RuntimeFilter] = ()
    """All keys, as files are asked."""
    conditions: Sequence[Expr] = ()
    """Values or ranges, as rows are asked."""
    among: Mapping[str, pa.Array]
    """Values that rows are compared with before they go to the JVM, by column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRows:
    """Rows of the large side that may have a partner, and what was left out; see ``JoinReport``."""

    frame: DataFrame
    snapshot: int
    files: int
    files_pruned: Mapping[str, int]
    indexes_read: int = 0
    bytes: int
    bytes_left: int
    tasks: int


class Fact(Protocol):
    """The large side of a join."""

    @property
    def schema(self) -> TableSchema:
        """Columns of the table."""
        ...

    def struct(self, columns: Sequence[str] | None) -> StructType:
        """Returns the columns of these names as Spark has them; None = all."""
        ...

    def rows(self, struct: StructType, where: Expr | None, partners: Partners) -> FactRows:
        """Plans a read of these columns."""
        ...


class OwnFact:
    """One of our own tables.

    Args:
        spark: the session.
        lake: of the warehouse.
        connection: to it.
        name: of the table.
        view: the state that is read.
    """

    def __init__(
        self, spark: SparkSession, lake: Warehouse, connection: Connection, name: str, view: View
    ) -> None:
        self._spark, self._lake, self._connection = spark, lake, connection
        self._name, self._view = name, view

    @property
    def schema(self) -> TableSchema:
        """Columns of the table."""
        return self._view.schema

    def struct(self, columns: Sequence[str] | None) -> StructType:
        """Returns the columns of these names as Spark has them."""
        every = struct_of(self.schema)
        return StructType([every[field.name] for field in fields_named(self.schema, columns)])

    def rows(self, struct: StructType, where: Expr | None, partners: Partners) -> FactRows:
        """Plans a read with the conditions, which partitions, keys, statistics and indexes are asked."""
        options = ReadOptions(where=all_given(where, *partners.conditions), version=self._view.snapshot.id)
        reader = LakehouseReader(self._connection, self._name, options, struct, cores=cores_of(self._spark))
        parts = parts_of(reader)
        return FactRows(
            frame=frame_of(self._spark, reader, parts, struct, among=partners.among),
            snapshot=self._view.snapshot.id,
            files=reader.report.files,
            files_pruned=reader.report.files_pruned,
            indexes_read=reader.report.indexes_read,
            bytes=sum(entry.size for entry in self._lake.call(self._view.entries)),
            bytes_left=sum(part.split.size for part in parts),
            tasks=len(parts),
        )


class IcebergFact:
    """An Iceberg table.

    Args:
        spark: the session.
        state: of the table.
        filters: further runtime filters.
    """

    def __init__(self, spark: SparkSession, state: TableState, filters: Sequence[RuntimeFilter] = ()) -> None:
        self._spark, self._state, self._filters = spark, state, filters

    @property
    def schema(self) -> TableSchema:
        """Columns of the table."""
        return self._state.schema.table_schema

    def struct(self, columns: Sequence[str] | None) -> StructType:
        """Returns the columns of these names as Spark has them."""
        return iceberg_struct(self._state, columns)

    def rows(self, struct: StructType, where: Expr | None, partners: Partners) -> FactRows:
        """Plans a read; runtime filters are asked of partitions through all transforms, and of metrics."""
        reader = IcebergReader(self._state, ReadOptions(where=where), struct, cores=cores_of(self._spark))
        plan = reader.planned([*self._filters, *partners.filters])
        parts = reader.parts(plan, all_given(*partners.conditions))
        files, size = self._totals(plan)
        pruned = files - len(plan)
        return FactRows(
            frame=tasks_frame(self._spark, reader, parts, struct, among=partners.among),
            snapshot=-1 if plan.snapshot is None else plan.snapshot.id,
            files=files,
            files_pruned={"plan": pruned} if pruned else {},
            bytes=size,
            bytes_left=plan.bytes,
            tasks=len(parts),
        )

    def _totals(self, plan: IcebergPlan) -> tuple[int, int]:
        """Returns the files of the snapshot and their bytes: as its summary says, else of manifests read."""
        summary = {} if plan.snapshot is None else plan.snapshot.summary
        files, size = (summary.get(f"total-{what}", "") for what in ("data-files", "files-size"))
        known = plan.files_pruned + len(plan)
        # The size includes delete files.
        return (
            int(files) if files.isdecimal() else known,
            max(int(size) if size.isdecimal() else 0, plan.bytes),
        )
