"""Bound references: what each name of a statement stands for, and which state of every table.

Words: a *scope* says where names are looked for and as of when. A *bound* reference is a table, rows that the
system computes, or a view, whose own references are bound in a scope of their own.

Invariant: a view is bound once for each time that it is read at, however many ways lead to it; chains of
views end, or are errors.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from lakehouse.catalog import Query, RelationNode, TableNode, ViewNode
from lakehouse.catalog.graph import parse_name
from lakehouse.catalog.nodes import RelationPath
from lakehouse.errors import InvalidInputError, LakehouseError, NotFoundError
from lakehouse.iceberg import IcebergTable
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.sql.providers import TableProvider
from lakehouse.sql.relations.iceberg_tables import IcebergRows
from lakehouse.sql.relations.names import candidates, find_relation
from lakehouse.sql.relations.own_tables import OwnRows
from lakehouse.sql.relations.relation import PinnedRows
from lakehouse.sql.relations.travel import NOW, Travel, travel_of
from lakehouse.sql.text import (
    FunctionReference,
    QueryTree,
    SqlText,
    StatementKind,
    StatementText,
    TableReference,
    references_in,
    statement_in,
)

__all__ = ["Binder", "BoundReference", "BoundView", "NameScope", "SystemRelations"]

_VIEWS_DEEP = 64
"""Views that read one another in a chain at most."""
_VIEWS_WIDE = 1_000
"""Views that a statement reads at most, one that is read by several ways counted for each of them."""
_AT_ONCE = 16
_DIALECT = "duckdb"
_FUNCTIONS = frozenset({"index_metas"})
"""Table functions of the system; all others are DuckDB's."""


class SystemRelations(Protocol):
    """Relations that the system computes."""

    def provider(self, path: RelationPath, /) -> TableProvider | None:
        """Returns the rows of a name; None where it is none of the system's."""
        ...

    def function(self, name: str, url: str, **arguments: object) -> TableProvider | None:
        """Returns the rows of a table function; None where it is none of the system's."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NameScope:
    """Where names are looked for, and as of when."""

    paths: tuple[RelationPath, ...] = ()
    """Databases, or catalogs with a namespace, the likeliest first."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Values of parameters by name, for times; those written ``?`` are called by their number."""
    travel: Travel = NOW
    """Moment that a view is read at, which goes for all that it reads."""
    views: tuple[ViewNode, ...] = ()
    """Views that led here, the outermost first."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundReference:
    """A reference of a text, and what it stands for."""

    reference: TableReference | FunctionReference
    name: RelationPath
    """Full name of what it stands for."""
    rows: PinnedRows | None = None
    """Rows of a table."""
    provider: TableProvider | None = None
    """Rows that the system computes."""
    view: BoundView | None = None

    @property
    def schema(self) -> pa.Schema:
        """Columns, except of a view, which DuckDB knows alone."""
        found = self.provider if self.rows is None else self.rows
        return pa.schema([]) if found is None else found.schema


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundView:
    """A view with what its text reads."""

    node: ViewNode
    tree: QueryTree
    references: tuple[BoundReference, ...]
    width: int = 1
    """Views that are read by it, itself included, each as often as ways lead to it."""


@dataclass(slots=True, kw_only=True)
class Binder:
    """Binds the references of one statement."""

    query: Query
    """Query whose state the references read that ask for no other."""
    begin: Callable[[], Awaitable[Query]]
    """Begins another query, for references that ask for a state of their own; it ends with the statement."""
    system: Callable[[Query], SystemRelations]
    """Gives the relations of the system as a query shows them."""
    text_max_bytes: int
    _queries: dict[Travel, Query] = field(default_factory=dict)
    _beginning: asyncio.Lock = field(default_factory=asyncio.Lock)
    _rows: dict[object, PinnedRows] = field(default_factory=dict)
    _views: dict[object, BoundView] = field(default_factory=dict)
    _expanding: asyncio.Lock = field(default_factory=asyncio.Lock)
    _turns: defaultdict[object, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    @property
    def tables(self) -> list[PinnedRows]:
        """Rows of the tables that were bound, each state of a table once."""
        return list(self._rows.values())

    async def bind(self, tree: QueryTree, scope: NameScope) -> tuple[BoundReference, ...]:
        """Resolves and pins all references of a text at once.

        Raises:
            NotFoundError: nothing has a name; the message shows where it stands.
            InvalidInputError: a name or a time cannot be read.
        """

        async def one(reference: TableReference) -> BoundReference:
            try:
                return await self._bound(reference, scope)
            except (NotFoundError, InvalidInputError) as error:
                raise _located(error, tree.statement, reference) from error

        for file in tree.files:
            raise tree.statement.error(
                "files are not read by their paths in SQL: make a table of them", file.start, file.end
            )
        # Below a view one after another, so that none is expanded twice.
        at_once = 1 if scope.views else _AT_ONCE
        tables = map_bounded(one, tree.tables, at_once, ordered=True)
        bound = [reference async for reference in tables]
        calls = [(call, self._called(call, tree.statement)) for call in tree.functions]
        bound += [
            BoundReference(reference=call, name=(call.name,), provider=provider)
            for call, provider in calls
            if provider is not None
        ]
        return tuple(bound)

    def _called(self, call: FunctionReference, text: StatementText) -> TableProvider | None:
        """Returns the rows of a table function of ours; None = the function is DuckDB's."""
        if call.name not in _FUNCTIONS:
            return None
        by_place = [one for one in call.arguments if not one.name]
        if len(by_place) != 1 or not all(one.constant for one in call.arguments):
            raise text.error(
                f"{call.name} takes a URL, and named arguments behind it; all of them are constants",
                call.start,
                call.call_end,
            )
        named = {one.name.lower(): one.value for one in call.arguments if one.name}
        try:
            return self.system(self.query).function(call.name, by_place[0].value, **named)
        except (NotFoundError, InvalidInputError) as error:
            raise _located(error, text, call) from error

    async def _bound(self, reference: TableReference, scope: NameScope) -> BoundReference:
        names = candidates(reference.parts, scope.paths)
        travel = scope.travel if reference.at is None else travel_of(reference.at, scope.parameters)
        query = await self._query(travel)
        system = self.system(query)
        for name in names:
            provider = system.provider(name)
            if provider is not None:
                await _pin_below(query, name, travel)
                return BoundReference(reference=reference, name=name, provider=provider)
        node = await find_relation(self.query, names)
        if isinstance(node, ViewNode):
            # Only the outermost takes turns: views that read each other would wait for one another.
            async with contextlib.nullcontext() if scope.views else self._expanding:
                view = await self._view(node, travel, scope)
            return BoundReference(reference=reference, name=_path(node), view=view)
        return BoundReference(reference=reference, name=_path(node), rows=await self._table(node, travel))

    async def _query(self, travel: Travel) -> Query:
        """Returns the query that a state is read by: each that is asked for has its own.

        With one for all, ``t FOR VERSION AS OF 1`` would decide what ``t`` means elsewhere in the statement.
        """
        if travel == NOW:
            return self.query
        async with self._beginning:
            if travel not in self._queries:
                self._queries[travel] = await self.begin()
            return self._queries[travel]

    async def _table(self, node: RelationNode, travel: Travel) -> PinnedRows:
        if not isinstance(node, TableNode):
            what = node.kind.value.replace("_", " ")
            raise InvalidInputError(f"{node.display} is a {what}, whose rows SQL does not read")
        query, key = await self._query(travel), (node.id, travel)
        await travel.pin(query, node.id)
        async with self._turns[key]:
            rows = self._rows.get(key)
            if rows is None:
                table, pin = await query.pinned_table(node.id)
                if isinstance(table, IcebergTable):
                    rows = await IcebergRows.of(table)
                else:
                    rows = await OwnRows.at(table.core, pin.snapshot)
                self._rows[key] = rows
            return rows

    async def _view(self, node: ViewNode, travel: Travel, scope: NameScope) -> BoundView:
        chain = (*scope.views, node)
        if any(one.id == node.id for one in scope.views) or len(chain) > _VIEWS_DEEP:
            way = " → ".join(one.display for one in chain[-_VIEWS_DEEP:])
            what = "reads itself" if len(chain) <= _VIEWS_DEEP else "nests too deep"
            raise InvalidInputError(f"the view {node.display} {what}: {way}")
        if travel.is_version:
            raise InvalidInputError(
                f"{node.display} is a view and has no {travel}: ask for a moment (FOR TIMESTAMP AS OF …), "
                "which goes for all tables that it reads"
            )
        known = self._views.get((node.id, travel))
        if known is None:
            made = await self._expanded(node, NameScope(paths=_paths(node), travel=travel, views=chain))
            known = self._views[node.id, travel] = made
        return known

    async def _expanded(self, node: ViewNode, scope: NameScope) -> BoundView:
        text = node.texts.get(_DIALECT) or (node.sql if node.dialect == _DIALECT else None)
        if text is None:
            known = ", ".join(sorted({node.dialect, *node.texts}))
            raise InvalidInputError(
                f"the view {node.display} is written in {known}, and SQL runs in {_DIALECT}: give it a text "
                f"for that dialect too (lake.create_view(…, or_replace=True))"
            )
        try:
            tree = await in_thread(_query_in, text, self.text_max_bytes)
            references = await self.bind(tree, scope)
        except (NotFoundError, InvalidInputError) as error:
            context = {name: value for name, value in error.context.items() if name not in _PLACE}
            raise type(error)(
                f"in the view {node.display}: {error.message}", kind=error.kind, **context
            ) from error
        width = 1 + sum(one.view.width for one in references if one.view is not None)
        if width > _VIEWS_WIDE:
            raise InvalidInputError(f"the view {node.display} reads {width:,} views: {_VIEWS_WIDE:,} at most")
        return BoundView(node=node, tree=tree, references=references, width=width)


async def _pin_below(query: Query, name: RelationPath, travel: Travel) -> None:
    """Pins the table of ``table$relation`` as of a time, which its provider then reads."""
    if travel == NOW:
        return
    base, dollar, _ = name[-1].rpartition("$")
    if not dollar:
        raise InvalidInputError(f"{'.'.join(name)} shows what is known now: it has no older states")
    await travel.pin(query, (*name[:-1], base))


def _query_in(text: str, max_bytes: int) -> QueryTree:
    """Parses the text of a view; in a thread, since DuckDB does it."""
    statement = statement_in(SqlText.of(text, max_bytes=max_bytes))
    if statement.kind is not StatementKind.QUERY:
        raise statement.error(f"a view is a query, and this is {statement.kind.value}", 0)
    return references_in(statement)


_PLACE = ("offset", "length", "line", "column")


def _paths(node: ViewNode) -> tuple[RelationPath, ...]:
    """Returns where names of a view's text are looked for: by its search path, or beside itself."""
    return tuple(map(parse_name, node.search_path)) or (node.path[:-1],)


def _path(node: RelationNode) -> RelationPath:
    """Returns the full name of a node."""
    return parse_name(node.display)


def _located(
    error: LakehouseError, text: StatementText, reference: TableReference | FunctionReference
) -> LakehouseError:
    """Returns an error that shows the reference that it is about."""
    told = text.error(error.message, reference.start, reference.end)
    return type(error)(told.message, kind=error.kind, **{**error.context, **told.context})
