"""Providers of system tables: rows of one table at its pin, of all tables, of the lake.

Each is a ``TableProvider``: its schema is known without I/O, and nothing is read before ``scan`` is iterated.

Invariant: a table that cannot be read costs its own rows and a warning; only that of
``table$files`` itself is an error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa

from lakehouse.catalog import PlannerGraph, Query
from lakehouse.catalog.graph import parse_name
from lakehouse.catalog.nodes import RelationPath
from lakehouse.catalog.pins import SnapshotPin
from lakehouse.catalog.system import SystemScan
from lakehouse.errors import LakehouseError
from lakehouse.expr import Expr
from lakehouse.iceberg import IcebergTable
from lakehouse.io.work import map_bounded
from lakehouse.sql.system.complaints import Complaints
from lakehouse.sql.system.fitting import fitted, names_before
from lakehouse.sql.system.name_conditions import is_about, names_wanted, selected
from lakehouse.sql.system.table_relations import ReadTable, TableRelation
from lakehouse.storage.table import Table
from lakehouse.storage.tables import OpenTable

__all__ = ["NAME_COLUMNS", "AllTablesProvider", "InformationProvider", "LoadedProvider", "OneTableProvider"]

_Named = tuple[str, str, str]
"""Catalog, database and name of a table."""

NAME_COLUMNS = ("catalog_name", "database_name", "table_name")
"""Columns that say which table a row of ``system.<name>`` is about; the warehouse's catalog is empty."""
_TABLES = "information_schema.tables"
_TABLE_NAMES = ("table_catalog", "table_schema", "table_name")
_SCHEMA_NAMES = ("catalog_name", "schema_name")
_READABLE = ("BASE TABLE", None)
_ROWS = 10_000
"""Estimate of rows: nobody knows them before they are read."""


class LoadedProvider:
    """Rows that the process knows, or that one call returns.

    Args:
        schema: columns.
        load: returns the rows, with these columns.
        locations: columns whose values are locations that are masked.
    """

    rows = _ROWS

    def __init__(
        self, schema: pa.Schema, load: Callable[[], Awaitable[pa.Table]], locations: Sequence[str] = ()
    ) -> None:
        self.schema, self._load, self._locations = schema, load, locations

    def applies(self, where: Expr) -> bool:
        """Returns False: DuckDB filters."""
        return False

    async def scan(self, columns: Sequence[str], where: Expr | None) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yields the rows as one batch."""
        yield fitted(await self._load(), self.schema, columns, self._locations)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reading of one relation, as both providers of relations of tables do it."""

    relation: TableRelation
    graph: PlannerGraph
    complaints: Complaints

    def read(
        self, catalog: str, path: RelationPath, table: Table | IcebergTable, pin: SnapshotPin | None = None
    ) -> ReadTable:
        def complain(kind: str, message: str) -> None:
            self.complaints.add(catalog, path, kind, message)

        return ReadTable(
            table=table,
            pin=pin,
            is_masked=self.complaints.is_masked,
            metas=self.graph.layers.puffin,
            complain=complain,
        )

    def batch(self, rows: pa.Table, schema: pa.Schema, columns: Sequence[str]) -> pa.RecordBatch:
        masked = self.relation.locations if self.complaints.is_masked else ()
        return fitted(rows, schema, columns, masked)


class OneTableProvider:
    """Rows of ``table$relation``, of the snapshot that a query has pinned.

    Args:
        relation: of the table.
        query: resolves and pins the table.
        path: parts of the table's full name.
        graph: of the account.
        complaints: takes warnings.
    """

    rows = _ROWS

    def __init__(
        self,
        relation: TableRelation,
        query: Query,
        path: RelationPath,
        *,
        graph: PlannerGraph,
        complaints: Complaints,
    ) -> None:
        self.schema = relation.schema
        self._query, self._path = query, path
        self._reading = _Reading(relation, graph, complaints)

    def applies(self, where: Expr) -> bool:
        """Returns False: DuckDB filters."""
        return False

    async def scan(self, columns: Sequence[str], where: Expr | None) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yields the rows of the pinned snapshot."""
        table, pin = await self._query.pinned_table(self._path)
        read = self._reading.read("", self._path, table, pin)
        async with aclosing(self._reading.relation.rows(read)) as found:
            async for rows in found:
                yield self._reading.batch(rows, self.schema, columns)


class AllTablesProvider:
    """Rows of ``system.relation``: of the newest snapshot of every table that the account sees.

    Args:
        relation: of each table.
        graph: of the account.
        complaints: takes warnings.
        is_named: whether columns say which table a row is of.
    """

    rows = _ROWS

    def __init__(
        self, relation: TableRelation, *, graph: PlannerGraph, complaints: Complaints, is_named: bool = True
    ) -> None:
        self._names = NAME_COLUMNS if is_named else ()
        named = [pa.field(name, pa.string(), nullable=False) for name in self._names]
        self.schema = pa.schema([*named, *relation.schema])
        self._graph, self._complaints = graph, complaints
        self._reading = _Reading(relation, graph, complaints)

    def applies(self, where: Expr) -> bool:
        """Returns whether a condition is about names of tables, so that others need not be loaded."""
        return is_about(where, self._names)

    async def scan(self, columns: Sequence[str], where: Expr | None) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yields the rows of table after table."""
        tables = (
            self._large(columns, where) if self._reading.relation.is_large else self._small(columns, where)
        )
        async with aclosing(tables) as batches:
            async for batch in batches:
                yield batch

    async def _small(
        self, columns: Sequence[str], where: Expr | None
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        async def load(path: _Named) -> list[pa.RecordBatch]:
            return [batch async for batch in self._rows_of(path, columns)]

        at_once = self._graph.layers.settings.catalog.load_concurrency
        async with aclosing(map_bounded(load, self._paths(where), at_once)) as loaded:
            async for found in loaded:
                for batch in found:
                    yield batch

    async def _large(
        self, columns: Sequence[str], where: Expr | None
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        async with aclosing(self._paths(where)) as paths:
            async for path in paths:
                async with aclosing(self._rows_of(path, columns)) as batches:
                    async for batch in batches:
                        yield batch

    async def _paths(self, where: Expr | None) -> AsyncGenerator[_Named, None]:
        """Lists the tables that a condition selects by their names; none is loaded."""
        listed = _listing(self._graph, _TABLES, zip(_TABLE_NAMES, NAME_COLUMNS, strict=True), where)
        try:
            async with aclosing(aiter(listed)) as batches:
                async for batch in batches:
                    named = selected(where, batch.rename_columns([*NAME_COLUMNS, "table_type"]))
                    for row in named.to_pylist():
                        if row.pop("table_type") in _READABLE:
                            yield tuple(row.values())
        finally:
            self._complaints.add_all(listed.warnings)

    async def _rows_of(self, named: _Named, columns: Sequence[str]) -> AsyncGenerator[pa.RecordBatch, None]:
        catalog, database, name = named
        path = (*parse_name(database), name)
        try:
            opened = await self._graph.open((catalog, *path) if catalog else path)
            table = Table(opened) if isinstance(opened, OpenTable) else opened
            read = self._reading.read(catalog, path, table)
            async with aclosing(self._reading.relation.rows(read)) as found:
                async for rows in found:
                    yield self._reading.batch(names_before(rows, self._names, named), self.schema, columns)
        except LakehouseError as error:
            self._complaints.add_error(catalog, path, error)


class InformationProvider:
    """Rows of a relation of ``information_schema``, which the catalog computes.

    Args:
        name: of the relation.
        schema: its columns.
        graph: of the account.
        complaints: takes warnings.
    """

    rows = _ROWS

    def __init__(self, name: str, schema: pa.Schema, *, graph: PlannerGraph, complaints: Complaints) -> None:
        self.schema = schema
        self._name, self._graph, self._complaints = name, graph, complaints
        known = _SCHEMA_NAMES if name == "schemata" else _TABLE_NAMES
        self._names = [column for column in known if column in schema.names]

    def applies(self, where: Expr) -> bool:
        """Returns whether a condition is about names, so that other tables need not be loaded."""
        return is_about(where, self._names)

    async def scan(self, columns: Sequence[str], where: Expr | None) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yields the rows as the catalog computes them."""
        pairs = zip(_TABLE_NAMES, self._names, strict=False)
        listed = _listing(self._graph, f"information_schema.{self._name}", pairs, where)
        try:
            async with aclosing(aiter(listed)) as batches:
                async for batch in batches:
                    yield selected(where, batch).select(list(columns))
        finally:
            self._complaints.add_all(listed.warnings)


def _listing(
    graph: PlannerGraph, relation: str, columns: Iterable[tuple[str, str]], where: Expr | None
) -> SystemScan:
    """Returns a relation of information_schema, narrowed by the names that a condition asks for."""
    wanted = {name: names_wanted(where, column) for name, column in columns}
    catalog, schema, table = (wanted.get(name) for name in _TABLE_NAMES)
    return graph.system_rows(relation, catalog=catalog, schema=schema, table=table)
