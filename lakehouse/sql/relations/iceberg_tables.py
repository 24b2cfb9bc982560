"""Iceberg tables as relations: files without deletes go to DuckDB, the rest through our own scan.

DuckDB finds the columns of plain files by name. So a table's files are plain only while every schema that
it ever had calls its columns as the one that is read does, with the same ids and types: then no file can
hold another column under a name, and one that lacks a column is an error rather than nulls.

Invariant: a relation shows what a scan of the snapshot with its condition shows, and maybe rows that do not
match the condition.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext

import pyarrow as pa

from lakehouse.expr import Expr, to_sql
from lakehouse.format.schema import BinaryType, DataType, Field, children
from lakehouse.iceberg import IcebergPlan, IcebergSchema, IcebergTable, ScanTask, TableMetadata
from lakehouse.iceberg.reading import NAME_MAPPING, task_scan
from lakehouse.sql.relations.duckdb_types import column_text
from lakehouse.sql.relations.relation import PlainFile, PlainFiles, Relation, RelationReport

__all__ = ["IcebergProvider", "IcebergRows"]

_UUID_BYTES = 16


class IcebergRows:
    """Rows of an Iceberg table at a snapshot: a ``PinnedRows``.

    Args:
        table: the table, which has the snapshot as its current one.
        plan: plan of all its rows.
    """

    def __init__(self, table: IcebergTable, plan: IcebergPlan) -> None:
        self._table, self._plan = table, plan
        self._columns = _columns(plan.schema, table.metadata)

    @classmethod
    async def of(cls, table: IcebergTable) -> IcebergRows:
        """Reads the manifests of a table."""
        return cls(table, await table.plan())

    @property
    def name(self) -> str:
        """Full name of the table."""
        return self._table.name

    @property
    def schema(self) -> pa.Schema:
        """Columns that are shown; those of types that are not read are left out."""
        return self._plan.schema.table_schema.arrow()

    @property
    def files(self) -> int:
        """Number of live data files."""
        return len(self._plan)

    @property
    def known_rows(self) -> int | None:
        """Number of rows, where no delete file applies."""
        tasks = self._plan.tasks()
        return None if any(task.deletes for task in tasks) else sum(task.rows for task in tasks)

    def reading(self) -> AbstractAsyncContextManager[None]:
        """Protects nothing: files of Iceberg tables are their writers' to delete."""
        return nullcontext()

    async def relation(self, where: Expr | None) -> Relation:
        """Returns the files that may have rows that match, as plain files and as rows of the others."""
        plan = self._plan if where is None else await self._table.plan(where)
        tasks = plan.tasks()
        plain = [task for task in tasks if self._is_plain(task)]
        rest = [task for task in tasks if not self._is_plain(task)]
        snapshot = plan.snapshot
        return Relation(
            plain=(self._plain_files(plain, self._columns),) if plain and self._columns else (),
            provider=IcebergProvider(self._table, plan.schema, rest) if rest or not plain else None,
            report=RelationReport(
                name=self.name,
                at="" if snapshot is None else f"snapshot {snapshot.id}",
                files=len(self._plan),
                plain=len(plain),
                merged=len(rest),
                pruned={} if len(plan) == len(self._plan) else {"plan": len(self._plan) - len(plan)},
                where="" if where is None else to_sql(where),
            ),
        )

    def _is_plain(self, task: ScanTask) -> bool:
        return self._columns is not None and task.format == "parquet" and not task.deletes

    def _plain_files(self, tasks: Sequence[ScanTask], columns: tuple[str, ...]) -> PlainFiles:
        locations = self._table.reading.locations
        places = [(locations.find(task.path), task.size) for task in tasks]
        files = (PlainFile(store=place.store, key=place.key, size=size) for place, size in places)
        return PlainFiles(files=tuple(files), columns=columns)


def _columns(shown: IcebergSchema, metadata: TableMetadata) -> tuple[str, ...] | None:
    """Returns the SELECT list for all files of a table; None = our own reader has to read them."""
    schemas = metadata.schemas.values()
    is_stable = all(_has(schema.fields, field) for schema in schemas for field in shown.fields)
    if NAME_MAPPING in metadata.properties or not is_stable:
        return None
    texts = [None if _is_uuid(field.type) else column_text(field, field) for field in shown.fields]
    found = tuple(text for text in texts if text is not None)
    return found if found and len(found) == len(texts) else None


def _has(fields: Sequence[Field], wanted: Field) -> bool:
    """Returns whether a column was there under the same id, name and type."""
    return any((one.id, one.name, one.type) == (wanted.id, wanted.name, wanted.type) for one in fields)


def _is_uuid(kind: DataType) -> bool:
    """Returns whether values may be UUIDs, which are bytes to us and a type of its own to DuckDB."""
    return kind == BinaryType(_UUID_BYTES) or any(_is_uuid(field.type) for field in children(kind))


class IcebergProvider:
    """Rows of data files that are filtered or converted: a ``TableProvider``.

    Args:
        table: the table, which has the snapshot as its current one.
        schema: columns that are shown.
        tasks: data files, with the deletes that apply to them.
    """

    def __init__(self, table: IcebergTable, schema: IcebergSchema, tasks: Sequence[ScanTask]) -> None:
        self._table, self._fields = table, schema.table_schema
        self._paths = frozenset(task.path for task in tasks)
        self._rows = sum(task.rows for task in tasks)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table."""
        return self._fields.arrow()

    @property
    def rows(self) -> int:
        """Rows of the files, deleted ones included."""
        return self._rows

    def applies(self, where: Expr) -> bool:
        """Returns True: a scan applies every condition that can be written."""
        return True

    async def scan(self, columns: Sequence[str], where: Expr | None) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yields the rows that match."""
        # Planned with the condition: a task says which part of it its rows have still to be asked.
        tasks = [task for task in (await self._table.plan(where)).tasks() if task.path in self._paths]
        asked = where if any(task.residual is not None for task in tasks) else None
        scan = task_scan(tasks, self._table.reading, columns=columns, where=asked)
        async with aclosing(scan.tables()) as tables:
            async for table in tables:
                for batch in table.to_batches():
                    yield batch
