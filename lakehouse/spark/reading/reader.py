"""Reads a table in Spark: the driver plans and cuts, executors scan.

The driver asks manifests, statistics and indexes which files and rows may match, and cuts what is left into
splits. A split goes to its task with all that was found out, so that executors list nothing and ask no
index again; they fetch and decode ahead of what Spark takes from them.

Invariant: a read is of one snapshot, found when the data frame was made or, where its columns were given,
when the query is planned. What is carried to executors is values alone.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr
from lakehouse.expr.nodes import all_given
from lakehouse.format.schema import TableSchema
from lakehouse.index.search import RowSelection
from lakehouse.spark.reading.filters import translated
from lakehouse.spark.reading.options import ReadOptions
from lakehouse.spark.reading.table_reader import TableReader, scan_of
from lakehouse.spark.runtime.connection import Warehouse, warehouse
from lakehouse.spark.runtime.errors import carried
from lakehouse.spark.runtime.types import as_spark, struct_of
from lakehouse.storage.indexes import IndexAnswers
from lakehouse.storage.rows import value_width
from lakehouse.storage.scan import OPENED_MAX, Scan, ScanReport, Split, opened_splits, planned_bytes, to_expr
from lakehouse.storage.schema import shown_where
from lakehouse.storage.tables import (
    PIN_S,
    OpenTable,
    View,
    grace_s_of,
    holding,
    make_pin,
    reading,
    until_pinned_s,
)
from lakehouse.suggest import suggestion

__all__ = [
    "AHEAD_BYTES",
    "LakehouseReader",
    "ScanPart",
    "ScanPlan",
    "batch_rows",
    "columns_asked",
    "share_read",
    "split_bytes_of",
    "struct_asked",
    "view_of",
]

_SPLIT_BYTES = 32 * 1024 * 1024
"""Bytes of files per task where nobody knows how many cores there are."""
_SPLIT_MIN, _SPLIT_MAX = 4 * 1024 * 1024, 128 * 1024 * 1024
"""Bounds of the bytes of files per task."""
_SPLITS_PER_CORE = 3
"""Maximum tasks per core: several, so that a core whose share takes longer does not hold the others up."""
_SPLIT_WORTH = 16 * 1024 * 1024
"""Bytes of files per core that are worth the price of one more task."""
_BATCH_BYTES = 4 * 1024 * 1024
"""Bytes of a batch on its way to the JVM, about: smaller ones cost up to a fifth more time, larger ones only
memory."""
_BATCH_ROWS_MIN = 1024
"""Rows of such a batch, at least."""
_BYTES_PER_S = 4 * 1024 * 1024
"""Bytes of files that a task reads per second, at least, with what Spark does to the rows: by it, reads that
will take long are pinned when they are planned. Others that take long all the same are pinned by tasks."""
_CORES_UNKNOWN = 8
"""Tasks taken to run at once where nobody knows."""
AHEAD_BYTES = 64 * 1024 * 1024
"""Maximum bytes of rows that a task decodes ahead; rows that the processor's caches still have cost half."""


async def view_of(table: OpenTable, options: ReadOptions) -> View:
    """Returns the state of the table that the options ask for."""
    options.refuse_given(("ref",), "only Iceberg tables have branches: use tag, version or timestamp")
    return await table.view(
        snapshot=options.version if options.version is not None else options.incremental_to,
        timestamp=options.timestamp,
        tag=options.tag,
        fresh=options.freshness == "wal",
    )


def split_bytes_of(total: int, cores: int | None) -> int:
    """Returns how many bytes of files a task should read, of so many in all."""
    if cores is None:
        return _SPLIT_BYTES
    each = min(max(total // (cores * _SPLIT_WORTH), 1), _SPLITS_PER_CORE)
    return min(max(-(-total // (cores * each)), _SPLIT_MIN), _SPLIT_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """The part of a plan that all tasks of a read share."""

    table: uuid.UUID
    snapshot: int
    schema: TableSchema
    columns: tuple[str, ...]
    where: Expr | None
    """Condition on rows: the reader's, and that of the rows which the snapshot shows; None = all rows."""
    segment: int | None = None
    """First segment of the write-ahead log that is read above the snapshot; None = none is."""
    planned_ms: int = 0
    """Time of planning in milliseconds since 1970, by the store's clock where that is known."""
    pin: str
    """Name of the pin that is made when the read takes long."""


class ScanPart(InputPartition):  # type: ignore[misc]
    """The rows that one task reads.

    Spark sends the reader off before it asks for its parts, so the parts say all that is planned.
    """

    def __init__(self, plan: ScanPlan, split: Split, selections: Mapping[str, RowSelection]) -> None:
        super().__init__(None)
        self.plan, self.split, self.selections = plan, split, selections


class LakehouseReader(TableReader, DataSourceReader):  # type: ignore[misc]
    """Reads the rows of one snapshot."""

    _planning: tuple[Warehouse, OpenTable, View] | None

    def _prepare(self) -> None:
        self._filters: list[Expr] = []
        self.report = ScanReport()
        """Counts of what planning looked at and left out."""

    # --- the driver ---------------------------------------------------------------

    def _planned(self) -> tuple[Warehouse, OpenTable, View]:
        if self._planning is None:
            lake = warehouse(self._connection)
            table = lake.table(self._table)
            self._planning = lake, table, lake.call(view_of, table, self._options)
        return self._planning

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Takes the filters that mean the same here; yields the others, which Spark evaluates."""
        with carried():
            schema = self._planned()[2].schema
            for pushed in filters:
                where = translated(pushed, schema)
                if where is None:
                    yield pushed
                else:
                    self._filters.append(where)

    def partitions(self) -> Sequence[InputPartition]:
        """Plans the parts that tasks read."""
        with carried():
            lake, table, view = self._planned()
            return lake.call(self._parts, table, view)

    async def _parts(self, table: OpenTable, view: View) -> list[InputPartition]:
        async with reading(table, view):
            return await self._parts_of(table, view)

    async def _parts_of(self, table: OpenTable, view: View) -> list[InputPartition]:
        where = all_given(to_expr(self._options.where), *self._filters)
        plan = ScanPlan(
            table=table.uuid,
            snapshot=view.snapshot.id,
            schema=view.schema,
            columns=columns_asked(self._struct, view.schema),
            where=shown_where(where, view.shows),
            segment=view.first_segment,
            planned_ms=table.snapshots.time.now_ms(),
            pin=f"pin-{uuid.uuid4().hex}",
        )
        if self._options.pin_s is not None:
            await make_pin(table, view.snapshot.id, name=plan.pin, ttl_s=self._options.pin_s)
        scan = Scan(await view.entries(), view.schema, table, columns=plan.columns, where=plan.where)
        self.report = scan.report
        await scan.prune_by_indexes(table)
        rows = scan.selections
        splits = await self._splits(scan, table, plan)
        expected_s = sum(split.size for split in splits) / (_BYTES_PER_S * (self._cores or _CORES_UNKNOWN))
        if self._options.pin_s is None and expected_s > until_pinned_s(view.options.delete_grace_s):
            await make_pin(table, view.snapshot.id, name=plan.pin, ttl_s=PIN_S)
        return [
            ScanPart(plan, split, {file.path: rows[file.path] for file in split.entries if file.path in rows})
            for split in splits
        ]

    async def _splits(self, scan: Scan, table: OpenTable, plan: ScanPlan) -> list[Split]:
        units = scan.files.units
        pieces = await scan.pieces(OPENED_MAX)
        # When few columns are read, a task of the same size has more files.
        share = share_read(plan.columns, plan.where, plan.schema)
        total = int(planned_bytes(units, pieces) * share)
        size = self._options.split_bytes or int(split_bytes_of(total, self._cores) / share)
        return await opened_splits(units, size, table, plan.schema, pieces=pieces)

    # --- executors ----------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the rows of a part."""
        if not isinstance(partition, ScanPart):
            return  # Spark makes one of its own where there are none
        with carried():
            lake, table = self._opened(
                partition.plan.table,
                "the query was planned: it was dropped or renamed meanwhile; make the data frame anew",
            )
            for arrow_rows in lake.iterate(_tables, table, partition):
                rows = self._options.batch_rows or batch_rows(arrow_rows)
                yield from as_spark(arrow_rows, self._arrow).to_batches(max_chunksize=rows)


async def _tables(table: OpenTable, part: ScanPart) -> AsyncGenerator[pa.Table, None]:
    """Yields the rows of a part, decoded some way ahead of their consumer."""
    plan, split, settings = part.plan, part.split, table.settings
    ahead = replace(settings, scan_memory_bytes=min(settings.scan_memory_bytes, AHEAD_BYTES))
    scan = scan_of(table, split, plan.schema, columns=plan.columns, where=plan.where, settings=ahead)
    if part.selections:
        # The driver has asked the indexes: its answers are repeated here.
        scan.use_answers(IndexAnswers(rows=part.selections))
    hold = holding(
        table,
        plan.snapshot,
        grace_s=grace_s_of(plan.schema),
        segment=plan.segment,
        age_s=(table.snapshots.time.now_ms() - plan.planned_ms) / 1000,
        pin=plan.pin,
    )
    async with hold, aclosing(scan.tables()) as tables:
        async for rows in tables:
            yield rows


def batch_rows(table: pa.Table) -> int:
    """Returns how many rows a batch on its way to the JVM has, by the width of these."""
    size: int = table.nbytes
    return max(_BATCH_ROWS_MIN, _BATCH_BYTES * int(table.num_rows) // max(1, size))


def share_read(columns: Sequence[str], where: Expr | None, schema: TableSchema) -> float:
    """Estimates the share of the bytes of files that is read, by the widths of columns."""
    names = {*columns, *(() if where is None else where.columns())}
    read = sum(value_width(field) for field in schema.fields if field.name in names)
    return max(0.05, read / sum(value_width(field) for field in schema.fields))


def struct_asked(schema: TableSchema, columns: Sequence[str] | None) -> StructType:
    """Returns the columns of these names, in their order; None = all."""
    every = struct_of(schema)
    if columns is None:
        return every
    known = {field.name.casefold(): field for field in every.fields}
    unknown = [name for name in columns if name.casefold() not in known]
    if unknown:
        raise InvalidInputError(
            f"there is no column {unknown[0]!r}; {suggestion(unknown[0], every.fieldNames())}",
            column=unknown[0],
        )
    return StructType([known[name.casefold()] for name in dict.fromkeys(columns)])


def columns_asked(struct: StructType, schema: TableSchema) -> tuple[str, ...]:
    """Returns the table's columns that are asked for; names differ by case at most."""
    ours = {field.name.casefold(): field for field in struct_of(schema).fields}
    names: list[str] = []
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
        names.append(known.name)
    return tuple(names)
