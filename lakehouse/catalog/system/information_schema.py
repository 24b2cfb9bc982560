"""Rows of ``information_schema``, computed from listings and nodes as Arrow batches.

Relations of names (``schemata``, ``tables``) load no table, however many there are. The others load table by
table, some at once, and give each one's rows as soon as it is there.

Invariant: a table or namespace that cannot be read costs a warning and its own rows, never those of others.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.nodes import RelationNode, RelationPath, TableNode, ViewNode
from lakehouse.catalog.sources.source import ListedName
from lakehouse.catalog.system.listing import ListedNamespace, RelationListing
from lakehouse.catalog.system.relations import RELATIONS, relation_schema
from lakehouse.catalog.system.type_text import columns_of
from lakehouse.errors import LakehouseError
from lakehouse.io.work import map_bounded
from lakehouse.storage.metadata import INFORMATION_SCHEMA

__all__ = ["RelationFilter", "SystemScan", "SystemWarning"]

_BATCH_ROWS = 4096
_CONCURRENCY = 16
_TYPES = {NodeKind.TABLE: "BASE TABLE", NodeKind.VIEW: "VIEW"}

_Row = tuple[Any, ...]
_Names = tuple[str, str, str]
"""Catalog, schema and name of a table."""
_OfNode = Callable[[_Names, RelationNode], Iterator[_Row]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemWarning:
    """Something whose rows are missing, because it could not be read."""

    catalog: str
    path: RelationPath
    """Namespaces and name; of a namespace that cannot be listed, its own; empty for a whole catalog."""
    kind: str
    """Kind of the error."""
    message: str

    def __str__(self) -> str:
        name = ".".join((self.catalog, *self.path) if self.catalog else self.path)
        return f"{name}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationFilter:
    """Narrows a scan by exact names, one or some; None = all. What is left out is not listed, nor loaded."""

    catalog: str | Collection[str] | None = None
    schema: str | Collection[str] | None = None
    table: str | Collection[str] | None = None

    def has_catalog(self, name: str) -> bool:
        """Returns whether rows of a catalog are wanted."""
        return _is_among(self.catalog, name)

    def has_schema(self, name: str) -> bool:
        """Returns whether rows of a namespace are wanted."""
        return _is_among(self.schema, name)

    def has_table(self, path: RelationPath) -> bool:
        """Returns whether rows of a relation are wanted."""
        return _is_among(self.table, path[-1])


def _is_among(wanted: str | Collection[str] | None, name: str) -> bool:
    return wanted is None or (name == wanted if isinstance(wanted, str) else name in wanted)


class SystemScan:
    """Rows of a relation of ``information_schema``, as record batches of an iteration.

    Args:
        relation: its name, such as ``tables``.
        listing: what it is computed from.
        where: narrows it by names.
        concurrency: tables loaded at once.
    """

    def __init__(
        self,
        relation: str,
        listing: RelationListing,
        *,
        where: RelationFilter | None = None,
        concurrency: int = _CONCURRENCY,
    ) -> None:
        self.relation = relation
        self.schema = relation_schema(relation)
        self.warnings: list[SystemWarning] = []
        """Problems met so far; whole when the iteration has ended."""
        self._listing = listing
        self._where = where or RelationFilter()
        self._concurrency = concurrency

    def __repr__(self) -> str:
        return f"SystemScan({INFORMATION_SCHEMA}.{self.relation}, {len(self.warnings)} warnings)"

    async def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        rows: list[_Row] = []
        async with aclosing(self._rows()) as found:
            async for row in found:
                rows.append(row)
                if len(rows) == _BATCH_ROWS:
                    yield self._batch(rows)
                    rows = []
        if rows:
            yield self._batch(rows)

    async def to_arrow(self) -> pa.Table:
        """Returns all rows."""
        return pa.Table.from_batches([batch async for batch in self], self.schema)

    def _batch(self, rows: Sequence[_Row]) -> pa.RecordBatch:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, self.schema.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    async def _rows(self) -> AsyncGenerator[_Row, None]:
        for row in self._own_rows():
            yield row
        of_node = _OF_NODES.get(self.relation)
        if self.relation == "schemata":
            found = self._schemata()
        else:
            found = self._tables() if of_node is None else self._loaded(of_node)
        # Closed at once, so that whoever leaves early leaves no load behind.
        async with aclosing(found) as rows:
            async for row in rows:
                yield row

    # --- names -----------------------------------------------------------------------

    async def _schemata(self) -> AsyncGenerator[_Row, None]:
        async with aclosing(self._namespaces()) as namespaces:
            async for namespace in namespaces:
                yield namespace.catalog, self._listing.shown(namespace.path)

    async def _tables(self) -> AsyncGenerator[_Row, None]:
        async with aclosing(self._names()) as names:
            async for namespace, listed in names:
                kind = None if listed.kind is None else _TYPES.get(listed.kind)
                yield *self._named(namespace.catalog, listed.path), kind

    async def _namespaces(self) -> AsyncGenerator[ListedNamespace, None]:
        for catalog in self._listing.catalogs():
            if not self._where.has_catalog(catalog):
                continue
            try:
                paths = await self._listing.namespaces(catalog)
            except LakehouseError as error:
                self._warn(catalog, (), error)
                continue
            for path in paths:
                if self._where.has_schema(self._listing.shown(path)):
                    yield ListedNamespace(catalog=catalog, path=path)

    async def _names(self) -> AsyncGenerator[tuple[ListedNamespace, ListedName], None]:
        async with aclosing(self._namespaces()) as namespaces:
            async for namespace in namespaces:
                async with aclosing(self._listed(namespace)) as names:
                    async for listed in names:
                        yield namespace, listed

    async def _listed(self, namespace: ListedNamespace) -> AsyncGenerator[ListedName, None]:
        try:
            async with aclosing(self._listing.relations(namespace)) as names:
                async for listed in names:
                    if self._where.has_table(listed.path):
                        yield listed
        except LakehouseError as error:
            self._warn(namespace.catalog, namespace.path, error)

    def _warn(self, catalog: str, path: RelationPath, error: LakehouseError) -> None:
        self.warnings.append(
            SystemWarning(catalog=catalog, path=path, kind=error.kind, message=error.message)
        )

    # --- nodes -----------------------------------------------------------------------

    async def _loaded(self, of_node: _OfNode) -> AsyncGenerator[_Row, None]:
        async def load(pair: tuple[ListedNamespace, ListedName]) -> list[_Row]:
            namespace, listed = pair
            try:
                node = await self._listing.relation(namespace.catalog, listed.path)
                return [*of_node(self._named(namespace.catalog, listed.path), node)]
            except LakehouseError as error:
                # What was dropped since it was listed is missing from nobody's rows.
                if error.context.get("missing") != "table":
                    self._warn(namespace.catalog, listed.path, error)
                return []

        async with aclosing(map_bounded(load, self._names(), self._concurrency)) as loaded:
            async for rows in loaded:
                for row in rows:
                    yield row

    def _named(self, catalog: str, path: RelationPath) -> _Names:
        return catalog, self._listing.shown(path[:-1]), path[-1]

    # --- what describes itself ---------------------------------------------------------

    def _own_rows(self) -> Iterator[_Row]:
        """Yields the rows about information_schema itself, which stands in the warehouse."""
        if not (self._where.has_catalog("") and self._where.has_schema(INFORMATION_SCHEMA)):
            return
        if self.relation == "schemata":
            yield "", INFORMATION_SCHEMA
        if self.relation not in ("tables", "columns"):
            return
        for name in sorted(RELATIONS):
            if not self._where.has_table((name,)):
                continue
            own = ("", INFORMATION_SCHEMA, name)
            if self.relation == "tables":
                yield *own, "SYSTEM VIEW"
                continue
            for number, (column, kind) in enumerate(RELATIONS[name].items(), 1):
                yield *own, column, number, None, "YES", str(kind), None, None


def _column_rows(names: _Names, node: RelationNode) -> Iterator[_Row]:
    if isinstance(node, ViewNode):
        for number, name in enumerate(node.columns, 1):
            yield *names, name, number, None, "YES", None, None, None
    if isinstance(node, TableNode):
        required = {*node.not_null, *node.primary_key}
        for number, column in enumerate(columns_of(node.schema_json), 1):
            nullable = "NO" if column.is_required or column.name in required else "YES"
            typed = (column.type, column.precision, column.scale)
            yield *names, column.name, number, None, nullable, *typed


def _view_rows(names: _Names, node: RelationNode) -> Iterator[_Row]:
    if isinstance(node, ViewNode):
        yield *names, node.sql, node.dialect, "NO", node.owner


def _key_of(names: _Names) -> _Names:
    """Returns the name of a table's primary key as a constraint."""
    return *names[:2], f"{names[2]}_pkey"


def _checks_of(names: _Names, node: TableNode) -> Iterator[tuple[_Names, str]]:
    """Yields the names of the constraints by which columns are not null, with the columns."""
    for column in node.not_null:
        yield (*names[:2], f"{names[2]}_{column}_not_null"), column


def _constraint_rows(names: _Names, node: RelationNode) -> Iterator[_Row]:
    if not isinstance(node, TableNode):
        return
    # Writers of our tables enforce their keys; Iceberg's identifier fields are a promise of its writers.
    enforced = "YES" if node.format == "lakehouse" else "NO"
    if node.primary_key:
        yield *_key_of(names), *names, "PRIMARY KEY", enforced
    for constraint, _ in _checks_of(names, node):
        yield *constraint, *names, "CHECK", "YES"


def _key_rows(names: _Names, node: RelationNode) -> Iterator[_Row]:
    if isinstance(node, TableNode):
        for number, column in enumerate(node.primary_key, 1):
            yield *_key_of(names), *names, column, number


def _usage_rows(names: _Names, node: RelationNode) -> Iterator[_Row]:
    if isinstance(node, TableNode):
        for column in node.primary_key:
            yield *names, column, *_key_of(names)
        for constraint, column in _checks_of(names, node):
            yield *names, column, *constraint


def _check_rows(names: _Names, node: RelationNode) -> Iterator[_Row]:
    if isinstance(node, TableNode):
        for constraint, column in _checks_of(names, node):
            quoted = column.replace('"', '""')
            yield *constraint, f'"{quoted}" IS NOT NULL'


_OF_NODES: dict[str, _OfNode] = {
    "columns": _column_rows,
    "views": _view_rows,
    "table_constraints": _constraint_rows,
    "key_column_usage": _key_rows,
    "constraint_column_usage": _usage_rows,
    "check_constraints": _check_rows,
}
"""Rows that a node makes, for relations that need nodes."""
