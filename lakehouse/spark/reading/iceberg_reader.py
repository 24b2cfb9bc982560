"""Reads Iceberg tables in Spark: the driver plans and cuts, executors read data files and their deletes.

Files are planned as ``IcebergTable.plan`` does it, with the filters that Spark pushes down and with runtime
filters, and divided into tasks by bytes; a task says all that an executor needs of its files. Executors open
the table's places themselves, with the options that the driver has.

Types are those of our own tables: ``uuid`` and ``fixed`` are binary, moments with a zone ``timestamp``, those
without ``timestamp_ntz``. Spark has no moments with nanoseconds: such columns are refused by name.

Invariant: a read is of one snapshot, found when the data frame was made or, where its columns were given,
when the query is planned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from lakehouse import iceberg
from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr
from lakehouse.expr.nodes import all_given
from lakehouse.expr.runtime_filter import RuntimeFilter
from lakehouse.format.schema import Field, TableSchema, walk
from lakehouse.iceberg import IcebergPlan, ScanTask, TableState
from lakehouse.lake import Lake
from lakehouse.spark.reading.filters import translated
from lakehouse.spark.reading.options import IcebergTarget, ReadOptions
from lakehouse.spark.reading.reader import (
    AHEAD_BYTES,
    batch_rows,
    columns_asked,
    share_read,
    split_bytes_of,
    struct_asked,
)
from lakehouse.spark.runtime.connection import warehouse
from lakehouse.spark.runtime.errors import carried
from lakehouse.spark.runtime.iceberg_files import table_files
from lakehouse.spark.runtime.types import arrow_for_spark, as_spark
from lakehouse.storage.scan import to_expr
from lakehouse.sync.bridge import Bridge

__all__ = ["IcebergReader", "TasksPart", "TasksPlan", "iceberg_struct", "state_of"]

_OPEN_COST = 1 << 20
"""Least bytes that a file counts for: what its footer and its deletes cost in requests."""
_OF_OUR_TABLES = (
    *("freshness", "incremental_from", "incremental_to", "relation", "pin_s"),
    *("starting", "changes", "max_files", "max_rows", "max_bytes"),
)
_NANOSECONDS = ("timestamp_ns", "timestamp_ns_ntz")


async def _named(lake: Lake, target: IcebergTarget, options: ReadOptions) -> TableState:
    name = str(target.name)
    catalog, known = name.partition(".")[0], target.connection.catalogs
    if catalog in known and catalog not in await lake.catalogs():
        await lake.attach_catalog(catalog, known[catalog])
    table = await lake.table(name)
    if not isinstance(table, iceberg.IcebergTable):
        raise InvalidInputError(f"{name} is no Iceberg table", table=name)
    return _asked_for(table, options)


def _asked_for(table: iceberg.IcebergTable, options: ReadOptions) -> TableState:
    return table.state(
        snapshot=options.version, timestamp=options.timestamp, tag=options.tag, ref=options.ref
    )


async def _opened(target: IcebergTarget, options: ReadOptions) -> TableState:
    opening = iceberg.open(
        target.connection.url,
        storage_options=target.connection.storage_options,
        locations=target.locations,
        moved=target.moved,
        settings=dict(target.connection.settings),
    )
    async with await opening as table:
        return _asked_for(table, options)


def state_of(target: IcebergTarget, options: ReadOptions) -> TableState:
    """Opens a table, and returns the state that the options ask for.

    Raises:
        InvalidInputError: there are options that Iceberg tables do not have, or no such snapshot.
        NotFoundError: there is no table.
    """
    options.refuse_given(_OF_OUR_TABLES, "Iceberg tables are read as of a snapshot, and have no such option")
    if target.name is not None:
        lake = warehouse(target.connection)
        return lake.call(_named, lake.lake, target, options)
    # A loop of its own: no lake is needed to open a table that no catalog is asked for.
    bridge = Bridge(contextlib.nullcontext())
    try:
        return bridge.call(_opened, target, options)
    finally:
        bridge.close()


def iceberg_struct(state: TableState, columns: Sequence[str] | None) -> StructType:
    """Returns the columns of these names, in their order; None = all.

    Raises:
        InvalidInputError: a column is unknown, or of a type that is not read or that Spark does not have.
    """
    state.schema.check_read(columns)
    known = _known_to_spark(state)
    shown = {field.name for field in known.fields}
    asked = {name.casefold() for name in (state.schema.names if columns is None else columns)}
    for field in state.schema.fields:
        if field.name not in shown and field.name.casefold() in asked:
            raise InvalidInputError(
                f"column {field.name!r} has moments with nanoseconds, which Spark does not have: name other "
                "columns by columns=",
                column=field.name,
            )
    return struct_asked(known, columns)


def _known_to_spark(state: TableState) -> TableSchema:
    """Returns the columns without those that hold moments with nanoseconds."""
    schema = state.schema.table_schema
    return replace(schema, fields=tuple(field for field in schema.fields if not _has_nanoseconds(field)))


def _has_nanoseconds(column: Field) -> bool:
    return any(getattr(field.type, "name", "") in _NANOSECONDS for _, field in walk((column,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksPlan:
    """The part of a plan that all tasks of a read share."""

    state: TableState
    columns: tuple[str, ...]
    where: Expr | None
    """Condition by which rows of files are tested that have a residual."""
    among: Expr | None = None
    """Condition by which all rows are tested besides."""


class TasksPart(InputPartition):  # type: ignore[misc]
    """Data files, or shares of them, that one task of Spark reads."""

    def __init__(self, plan: TasksPlan, tasks: Sequence[ScanTask]) -> None:
        super().__init__(None)
        self.plan, self.tasks = plan, tuple(tasks)


class IcebergReader(DataSourceReader):  # type: ignore[misc]
    """Reads the rows of one snapshot of an Iceberg table.

    Args:
        state: of the table.
        options: what is asked for.
        struct: the columns, as Spark wants them.
        cores: how many tasks run at once, where that is known.
    """

    def __init__(
        self, state: TableState, options: ReadOptions, struct: StructType, *, cores: int | None = None
    ) -> None:
        self.state, self._options, self._cores = state, options, cores
        self._arrow = arrow_for_spark(struct)
        self._shown = _known_to_spark(state)
        self._columns = columns_asked(struct, self._shown)
        self._filters: list[Expr] = []

    # --- the driver ---------------------------------------------------------------

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Takes the filters that mean the same here; yields the others, which Spark evaluates."""
        with carried():
            for pushed in filters:
                where = translated(pushed, self._shown)
                if where is None:
                    yield pushed
                else:
                    self._filters.append(where)

    def partitions(self) -> Sequence[InputPartition]:
        """Plans the parts that tasks read."""
        with carried():
            return self.parts(self.planned())

    def planned(self, filters: Sequence[RuntimeFilter] = ()) -> IcebergPlan:
        """Plans the files that may hold rows that match, and that runtime filters let through."""
        files = table_files(self.state)
        return files.call(files.plan, self.state, self._where, filters)

    def parts(self, plan: IcebergPlan, among: Expr | None = None) -> list[TasksPart]:
        """Divides a plan among tasks; ``among`` is a further condition that rows are tested by."""
        shared = TasksPlan(state=self.state, columns=self._columns, where=self._where, among=among)
        share = share_read(self._columns, all_given(self._where, among), self.state.schema.table_schema)
        size = self._options.split_bytes
        if size is None:
            total = max(plan.bytes, len(plan) * _OPEN_COST)
            size = int(split_bytes_of(int(total * share), self._cores) / share)
        splits = plan.splits(target_size=size, open_cost=min(_OPEN_COST, size))
        return [TasksPart(shared, tasks) for tasks in splits]

    @property
    def _where(self) -> Expr | None:
        return all_given(to_expr(self._options.where), *self._filters)

    # --- executors ----------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the rows of a part."""
        if not isinstance(partition, TasksPart):
            return  # Spark makes one of its own where there are none
        with carried():
            plan, tasks = partition.plan, partition.tasks
            if plan.among is not None:
                # Tasks without a residual are not tested at all.
                tasks = tuple(
                    replace(task, residual=plan.among) if task.residual is None else task for task in tasks
                )
            files = table_files(plan.state)
            found = files.iterate(
                files.tables,
                plan.state,
                tasks,
                columns=plan.columns,
                where=all_given(plan.where, plan.among),
                ahead_bytes=AHEAD_BYTES,
            )
            for rows in found:
                most = self._options.batch_rows or batch_rows(rows)
                yield from as_spark(rows, self._arrow).to_batches(max_chunksize=most)
