"""Reads a table, or what it says about itself, in Spark: the driver plans, executors scan.

Invariant: a read is of one snapshot, found when the data frame was made or, where its columns were given,
when the query is planned. What the reader carries to executors is values alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr
from lakehouse.format.file_entry import FileEntry
from lakehouse.format.table_schema import TableSchema
from lakehouse.spark.connection import Connection, warehouse
from lakehouse.spark.options import ReadOptions
from lakehouse.spark.types import arrow_for_spark, as_spark, struct_of
from lakehouse.storage.opened import OpenTable, View
from lakehouse.storage.reads import TableRuns, to_expr
from lakehouse.storage.scan import Scan

__all__ = ["LakehouseReader", "ScanPart", "ScanPlan", "view_of"]


async def view_of(core: OpenTable, options: ReadOptions) -> View:
    """The state of the table that the options ask for."""
    return await core.view(
        snapshot=options.version if options.version is not None else options.incremental_to,
        timestamp=options.timestamp,
        tag=options.tag,
        fresh=options.freshness == "wal",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """What every task of a read knows."""

    schema: TableSchema
    columns: tuple[str, ...]
    where: Expr | None


class ScanPart(InputPartition):  # type: ignore[misc]
    """What one task reads. Spark sends the reader off before it asks for its parts, so these say all."""

    def __init__(self, plan: ScanPlan, entries: tuple[FileEntry, ...]) -> None:
        super().__init__(None)
        self.plan, self.entries = plan, entries


class LakehouseReader(DataSourceReader):  # type: ignore[misc]
    """Reads the rows of one snapshot.

    Args:
        connection: the warehouse.
        table: its name.
        options: what is asked for.
        schema: the columns, as Spark wants them.
    """

    def __init__(self, connection: Connection, table: str, options: ReadOptions, schema: StructType) -> None:
        self._connection, self._table, self._options = connection, table, options
        self._arrow = arrow_for_spark(schema)
        self._struct = schema

    def partitions(self) -> Sequence[InputPartition]:
        """What the tasks read."""
        lake = warehouse(self._connection)
        core = lake.table(self._table)
        return lake.call(self._plan, core)

    async def _plan(self, core: OpenTable) -> list[InputPartition]:
        view = await view_of(core, self._options)
        where = to_expr(self._options.where)
        shows = view.shows
        if shows is not None:
            where = shows.also(where)
        plan = ScanPlan(schema=view.schema, columns=_columns(self._struct, view.schema), where=where)
        scan = Scan(
            await view.entries(),
            view.schema,
            TableRuns(core, view.schema),
            columns=plan.columns,
            where=where,
            settings=core.env.settings.table,
        )
        return [ScanPart(plan, tuple(file.entry for file in unit.files)) for unit in scan.files.units]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        if not isinstance(partition, ScanPart):
            return
        lake = warehouse(self._connection)
        core, planned = lake.table(self._table), partition.plan
        scan = Scan(
            partition.entries,
            planned.schema,
            TableRuns(core, planned.schema),
            columns=planned.columns,
            where=planned.where,
            settings=core.env.settings.table,
        )
        for table in lake.iterate(scan.tables):
            yield from as_spark(table, self._arrow).to_batches()


def _columns(struct: StructType, schema: TableSchema) -> tuple[str, ...]:
    """The table's columns that are asked for; names differ by case at most."""
    ours = {field.name.casefold(): field for field in struct_of(schema).fields}
    found: list[str] = []
    for field in struct.fields:
        known = ours.get(field.name.casefold())
        if known is None:
            raise InvalidInputError(
                f"there is no column {field.name!r}; there is {', '.join(one.name for one in ours.values())}",
                column=field.name,
            )
        if known.dataType != field.dataType:
            raise InvalidInputError(
                f"column {field.name!r} is {known.dataType.simpleString()} in the table, and "
                f"{field.dataType.simpleString()} is asked for: read it as it is and cast it in Spark",
                column=field.name,
            )
        found.append(known.name)
    return tuple(found)
