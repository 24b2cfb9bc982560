"""Planning of a statement: what each reference reads, decided in one step or in two, and defined for DuckDB.

Small tables are handed over whole. Where a table has many files, DuckDB first plans the statement over
sources without rows; the columns and conditions that its scans need prune files by metadata and indexes, and
only what is left is opened.

Invariant: the definitions of a statement belong to its cursor, and end with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakehouse.config import SqlSettings
from lakehouse.errors import InvalidInputError, LakehouseError
from lakehouse.io.work import map_bounded
from lakehouse.sql.engine import SqlParameters, SqlStatement, failure_of
from lakehouse.sql.providers import PlanningSource, ScanNeeds, arrow_source, needs_of
from lakehouse.sql.relations.bound import BoundReference, BoundView
from lakehouse.sql.relations.counted_rows import CountedRows
from lakehouse.sql.relations.definitions import named_columns, relation_query, rows_query
from lakehouse.sql.relations.relation import PinnedRows, Relation, RelationReport
from lakehouse.sql.text import Cut, QueryTree, Splices, TableReference, quoted, renamed

__all__ = ["Planned", "RelationPlanner"]

_AT_ONCE = 8
_PLANNED_ROWS = 1_000_000
"""Rows that a reference has while it is planned; the real number decides when the statement runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A statement whose references are defined."""

    tree: QueryTree
    splices: Splices
    """Its text, with the names that DuckDB knows."""
    reports: tuple[RelationReport, ...] = ()
    """Reports of the tables that it reads, those below views too."""

    def located(self, error: LakehouseError) -> LakehouseError:
        """Returns an error of DuckDB's with its place in the user's text; any other as it is."""
        failure = failure_of(error)
        if failure is None or failure.offset is None:
            return error
        start, end = self.splices.origin(failure.offset, failure.length)
        known = [name for name in failure.candidates if not name.startswith("__")]
        near = f"; did you mean {' or '.join(known)}?" if known else ""
        told = self.tree.statement.error(f"{error.message.rstrip('!')}{near}", start, end)
        return type(error)(told.message, kind=error.kind, **{**error.context, **told.context})


class RelationPlanner:
    """Defines the references of one statement.

    Args:
        statement: in which they are defined.
        tree: names that the statement has.
        bound: what they stand for.
        settings: bounds.
    """

    def __init__(
        self,
        statement: SqlStatement,
        tree: QueryTree,
        bound: Sequence[BoundReference],
        settings: SqlSettings,
    ) -> None:
        self._statement, self._tree, self._bound, self._settings = statement, tree, bound, settings
        self._views = list(dict.fromkeys(_views(bound)))
        every = (*bound, *(one for view in self._views for one in view.references))
        self._leaves = [one for one in every if one.view is None]
        named: Sequence[BoundReference | BoundView] = [*self._leaves, *self._views]
        self._numbers = {one: number for number, one in enumerate(named)}

    async def plan(self, parameters: SqlParameters) -> Planned:
        """Defines everything, and returns the text that reads it."""
        needs = await self._needs(parameters) if self._is_planned_first else {}

        async def related(leaf: BoundReference) -> Relation | None:
            return None if leaf.rows is None else await _relation(leaf.rows, needs.get(leaf))

        found = [one async for one in map_bounded(related, self._leaves, _AT_ONCE, ordered=True)]
        for leaf, relation in zip(self._leaves, found, strict=True):
            await self._define(leaf, relation)
        splices = await self._define_views("r")
        reports = tuple(relation.report for relation in found if relation is not None)
        return Planned(tree=self._tree, splices=splices, reports=reports)

    @property
    def _is_planned_first(self) -> bool:
        """Whether planning may save more than its milliseconds: files, or all of a count."""
        files = max((leaf.rows.files for leaf in self._leaves if leaf.rows is not None), default=0)
        texts = [tree.statement.raw.lower() for tree in (self._tree, *(view.tree for view in self._views))]
        if any(b"pivot" in text for text in texts):  # DuckDB reads rows to know its columns
            return False
        return files > self._settings.plan_files or (files > 1 and any(b"count(" in text for text in texts))

    async def _define(self, leaf: BoundReference, relation: Relation | None) -> None:
        name = self._name(leaf, "r")
        provider = leaf.provider if relation is None else relation.provider
        rows = f"{name}_rows"
        if provider is not None:
            bytes_max = self._settings.source_bytes
            source = arrow_source(provider, self._statement.bridge, bytes_max=bytes_max)
            await self._statement.register(rows, source)
        if relation is None:
            query = rows_query(leaf.schema.names, rows)
        else:
            query = relation_query(relation, leaf.schema.names, rows, self._statement.files)
        await self._statement.define(name, query)

    async def _define_views(self, letter: str) -> Splices:
        """Defines the views of the catalog that are read, and returns the text of the statement."""
        for view in self._views:
            query = self._spliced(view.tree, view.references, letter).text
            name = f"__{letter}{self._numbers[view]}"
            await self._statement.define(name, named_columns(query, view.node.columns))
        return self._spliced(self._tree, self._bound, letter)

    def _spliced(self, tree: QueryTree, bound: Sequence[BoundReference], letter: str) -> Splices:
        tables = [one for one in bound if isinstance(one.reference, TableReference)]
        views = [self._name(one, letter) for one in tables]
        cuts = list(renamed(tree, views, [one.name for one in tables]))
        for one in bound:
            if not isinstance(one.reference, TableReference):
                alias = "" if one.reference.alias else f" AS {quoted(one.reference.name)}"
                text = quoted(self._name(one, letter)) + alias
                cuts.append(Cut(start=one.reference.call_start, end=one.reference.call_end, text=text))
        return Splices.of(tree.statement.raw, cuts)

    def _name(self, one: BoundReference, letter: str) -> str:
        return f"__{letter}{self._numbers[one if one.view is None else one.view]}"

    async def _needs(self, parameters: SqlParameters) -> Mapping[BoundReference, ScanNeeds]:
        """Returns what the scans of each reference need."""
        # One transaction with the run: now() is a constant of the plan that files are left out by.
        await self._statement.execute("BEGIN TRANSACTION")
        sources = {}
        for leaf in self._leaves:
            name = self._name(leaf, "p")
            # Names of columns end no such prefix, so that it is one reference's alone.
            source = PlanningSource(leaf.schema, _PLANNED_ROWS, f"{name}\x1f")
            sources[name] = source
            await self._statement.register(f"{name}_rows", source)
            query = rows_query(leaf.schema.names, f"{name}_rows", source.prefix)
            await self._statement.define(name, query)
        splices = await self._define_views("p")
        try:
            plan = await self._statement.plan(splices.text, parameters)
        except InvalidInputError as error:
            raise Planned(tree=self._tree, splices=splices).located(error) from None
        needs = needs_of(plan, sources)
        return {leaf: needs[self._name(leaf, "p")] for leaf in self._leaves}


def _views(bound: Sequence[BoundReference]) -> Iterator[BoundView]:
    """Yields all views that are read, each behind those that it reads."""
    for one in bound:
        if one.view is not None:
            yield from _views(one.view.references)
            yield one.view


async def _relation(rows: PinnedRows, needs: ScanNeeds | None) -> Relation:
    where = None if needs is None else needs.where
    if needs is not None and not needs.columns and where is None:
        count = rows.known_rows
        if count is not None:
            report = RelationReport(name=rows.name, files=rows.files, pruned={"count": rows.files})
            return Relation(provider=CountedRows(rows.schema, count), report=report)
    return await rows.relation(where)
