"""Running of one query: its names are bound and pinned, then DuckDB gets a turn, then rows come.

Invariant: whatever is entered for a query is left again, at its end or with its result, in reverse order:
guards of what is read stay until DuckDB reads no more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from lakehouse.catalog import Query
from lakehouse.catalog.nodes import RelationPath
from lakehouse.errors import LakehouseError
from lakehouse.io import Cost
from lakehouse.io.cost import counting
from lakehouse.sql.engine import BatchStream, SqlStatement
from lakehouse.sql.relations import Binder, NameScope, Planned, RelationPlanner
from lakehouse.sql.session.host import SqlHost
from lakehouse.sql.session.parameters import values_for
from lakehouse.sql.session.result import OpenRows, SqlResult
from lakehouse.sql.system import SystemTables
from lakehouse.sql.text import QueryTree

__all__ = ["QueryRun"]

_EXPLAINED = pa.schema({"part": pa.string(), "text": pa.string()})
"""Columns of the result of EXPLAIN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRun:
    """All that a query of a session is run with.

    Args:
        host: the lake.
        query: pins its tables; None = a query of its own.
        paths: where names are looked for.
        configured: settings of DuckDB that the session has.
    """

    host: SqlHost
    query: Query | None
    paths: tuple[RelationPath, ...]
    configured: Mapping[str, str]

    async def rows(self, tree: QueryTree, given: Mapping[str, Any]) -> SqlResult:
        """Runs a query; returns when its first rows are there, or all of them where they are few.

        Args:
            tree: names that its text has.
            given: values of parameters by name.
        """
        cost, systems = Cost(), dict[Query, SystemTables]()
        values = values_for(tree, given)
        async with AsyncExitStack() as stack:
            with counting(cost):
                statement, planned = await self._begun(tree, given, stack, systems)
                batches = await _LocatedRows.begun(statement, planned, values)
                fetched, is_whole = await _fetched(batches, self.host.settings.sql.result_buffer_bytes)
            rest = None if is_whole else OpenRows(batches, stack.pop_all())
        return SqlResult(
            batches.schema,
            fetched,
            rest,
            cost=cost,
            references=planned.reports,
            warnings=[system.warnings for system in systems.values()],
        )

    async def explained(self, tree: QueryTree, given: Mapping[str, Any], *, analyze: bool) -> SqlResult:
        """Says what each reference of a query is read as, and DuckDB's plan; ``analyze`` runs it."""
        cost, systems = Cost(), dict[Query, SystemTables]()
        values = values_for(tree, given)
        async with AsyncExitStack() as stack:
            with counting(cost):
                statement, planned = await self._begun(tree, given, stack, systems)
                head = "EXPLAIN ANALYZE " if analyze else "EXPLAIN "
                try:
                    rows = await statement.execute(head + planned.splices.text, values)
                except LakehouseError as error:
                    raise planned.located(error) from None
            parts = [("reference", str(report)) for report in planned.reports]
            # Its virtual paths mean nothing to anybody.
            parts += [(str(part), statement.files.named_in(str(text))[1]) for part, text in rows]
        if analyze:
            parts.append(("cost", str(cost)))
        columns = [pa.array(column) for column in zip(*parts, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=_EXPLAINED)
        return SqlResult(_EXPLAINED, [batch], None, cost=cost, references=planned.reports)

    async def _begun(
        self,
        tree: QueryTree,
        given: Mapping[str, Any],
        stack: AsyncExitStack,
        systems: dict[Query, SystemTables],
    ) -> tuple[SqlStatement, Planned]:
        """Binds and pins what a query names, waits for a turn, and defines its names."""
        settings = self.host.settings.sql

        def begin() -> Awaitable[Query]:
            return stack.enter_async_context(self.host.graph.queries.begin())

        def system(query: Query) -> SystemTables:
            if query not in systems:
                systems[query] = SystemTables(self.host, query)
            return systems[query]

        binder = Binder(
            query=await begin() if self.query is None else self.query,
            begin=begin,
            system=system,
            text_max_bytes=settings.text_max_bytes,
        )
        bound = await binder.bind(tree, NameScope(paths=self.paths, parameters=given))
        for rows in binder.tables:
            await stack.enter_async_context(rows.reading())
        # The turn comes last: who waits for one holds no other, and metadata are read without.
        statement = await stack.enter_async_context(self.host.sql_instance.statement())
        for name, value in self.configured.items():
            await statement.configure(name, value)
        planner = RelationPlanner(statement, tree, bound, settings)
        return statement, await planner.plan(values_for(tree, given))


class _LocatedRows:
    """Rows of a query, whose errors show their place in the user's text.

    Args:
        stream: DuckDB's.
        planned: the query.
    """

    def __init__(self, stream: BatchStream, planned: Planned) -> None:
        self._stream, self._planned = stream, planned
        self.schema = stream.schema

    @classmethod
    async def begun(cls, statement: SqlStatement, planned: Planned, values: Mapping[str, Any]) -> Self:
        """Begins to run a query."""
        try:
            return cls(await statement.stream(planned.splices.text, values), planned)
        except LakehouseError as error:
            raise planned.located(error) from None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        try:
            return await anext(self._stream)
        except LakehouseError as error:
            raise self._planned.located(error) from None


async def _fetched(batches: AsyncIterator[pa.RecordBatch], most: int) -> tuple[list[pa.RecordBatch], bool]:
    """Returns the first batches, about as many bytes as asked for, and whether they are all."""
    found, size = list[pa.RecordBatch](), 0
    async for batch in batches:
        found.append(batch)
        size += batch.nbytes
        if size > most:
            return found, False
    return found, True
