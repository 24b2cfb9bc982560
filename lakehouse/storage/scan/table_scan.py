"""Reads of a table as of a snapshot: lookups, and scans with their arguments and the forms of their rows.

Invariant: one :class:`TableScan` reads one snapshot, chosen when it first reads anything,
however often and in whatever forms its rows are taken.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr, parse_where
from lakehouse.expr.nodes import all_given
from lakehouse.expr.runtime_filter import RuntimeFilter
from lakehouse.io.work import in_thread
from lakehouse.storage.scan.aggregate import AggregateQuery
from lakehouse.storage.scan.lookup import Lookup, LookupPlan
from lakehouse.storage.scan.row_forms import RowForms, check_wanted
from lakehouse.storage.scan.scan import Scan
from lakehouse.storage.schema.row_ttl import shown_where
from lakehouse.storage.tables.long_reads import reading
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View

__all__ = ["Freshness", "TableScan", "is_fresh", "table_lookup", "to_expr"]

Freshness = Literal["snapshot", "wal"]
"""``snapshot`` reads one snapshot; ``wal`` also reads the write-ahead log above the newest."""


def is_fresh(freshness: object) -> bool:
    """Returns whether a freshness is ``wal``; InvalidInputError when it is neither word."""
    if freshness not in ("snapshot", "wal"):
        raise InvalidInputError(f"freshness is 'snapshot' or 'wal', not {freshness!r}")
    return freshness == "wal"


def to_expr(where: Expr | str | None) -> Expr | None:
    """Returns a condition as an expression; text is parsed as SQL."""
    if where is None or isinstance(where, Expr):
        return where
    if isinstance(where, str):
        return parse_where(where)
    raise InvalidInputError(
        f"a condition is SQL text such as \"amount > 10\", or lakehouse.col('amount') > 10, not {where!r}"
    )


async def table_lookup(table: OpenTable, view: View, *, of_one: bool = False) -> Lookup:
    """Returns a lookup in a state of a table; its plan is kept with the metadata of the snapshot.

    Args:
        table: the table.
        view: the state.
        of_one: whether it is for a single key, which is looked for among the rows that the view holds.
    """
    snapshot, held = view.snapshot, view.held if of_one else None

    async def load(_: object) -> LookupPlan:
        return LookupPlan(await view.entries(held=held is None), view.schema, shows=view.shows)

    if view.fresh is not None and held is None:  # no other read will be of this state
        plan = await load(None)
    else:
        key = (table.root, snapshot.id, snapshot.token)
        plan = await table.env.caches.lookups.get(key, load, tags=table.tags) or await load(None)
    return Lookup(plan.entries, plan.schema, table, plan=plan, held=held)


class TableScan(RowForms):
    """The rows of a table that match a condition, as of one snapshot.

    Nothing is read before rows are asked for. Made by ``Table.scan``.

    Example::

        scan = table.scan(where="amount > 10", columns=["id", "amount"])
        async for batch in scan.batches():
            print(batch.num_rows)
        print(scan.report)
    """

    def __init__(
        self,
        table: OpenTable,
        *,
        where: Expr | str | None,
        columns: Sequence[str] | None,
        limit: int | None,
        snapshot: int | None,
        timestamp: dt.datetime | int | str | None,
        tag: str | None,
        freshness: Freshness = "snapshot",
        within_s: float | None = None,
        runtime_filters: Sequence[RuntimeFilter] = (),
    ) -> None:
        super().__init__()
        check_wanted(columns, limit)
        for one in runtime_filters:
            if not isinstance(one, RuntimeFilter):
                raise InvalidInputError(
                    f"a runtime filter is made by RuntimeFilter.in_, .range, .bloom, .prefix or .predicate, "
                    f"not {one!r}"
                )
        self._filters = tuple(runtime_filters)
        self._table = table
        self._where, self._limit = to_expr(where), limit
        self._columns = None if columns is None else tuple(columns)
        self._find_view = partial(
            table.read_view,
            snapshot=snapshot,
            timestamp=timestamp,
            tag=tag,
            fresh=is_fresh(freshness),
            within_s=within_s,
        )
        self._view: View | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidInputError(
            f"a scan of {self._table.name} cannot be pickled: pickle the table and scan it there, by "
            "snapshot= where both are to read the same"
        )

    async def _read_view(self) -> View:
        if self._view is None:
            self._view = await self._find_view()
        return self._view

    @asynccontextmanager
    async def _reading(self, columns: Sequence[str] | None = None) -> AsyncGenerator[Scan, None]:
        """Gives a scan, planned and not begun, of a snapshot that stays while the block runs."""
        view = await self._read_view()
        arrow = view.schema.arrow()
        where = all_given(self._where, *(one.to_condition(arrow) for one in self._filters))
        async with reading(self._table, view):
            scan = Scan(
                await view.entries(),
                view.schema,
                self._table,
                columns=self._columns if columns is None else columns,
                where=shown_where(where, view.shows),
                limit=self._limit,
            )
            self.report = scan.report
            await scan.prune_by_indexes(self._table)
            yield scan

    async def aggregate(
        self, wanted: Mapping[str, str | tuple[str, str]], *, group_by: Sequence[str] | str = ()
    ) -> pa.Table:
        """Counts, least and greatest values; files whose statistics hold the answer are not read.

        Args:
            wanted: by name ``"count"``, ``("count", column)`` (values that are not null),
                ``("min", column)`` or ``("max", column)``. NaN is above every number.
            group_by: partition columns; a row for each combination that has rows.

        Example::

            await table.scan("id > 10").aggregate({"rows": "count", "most": ("max", "amount")})
        """
        if self._limit is not None:
            raise InvalidInputError("aggregate() is about all rows that match: leave out the limit")
        question = AggregateQuery.parse((await self._read_view()).schema, wanted, group_by)
        async with self._reading(columns=question.columns) as scan:
            answers, rest = question.from_statistics(scan.files.units)
            # Only the files whose statistics do not hold the answer are scanned.
            scan.files = replace(scan.files, units=tuple(rest))
            async with aclosing(scan.tables()) as tables:
                async for table in tables:
                    await in_thread(answers.add_rows, table)
        return answers.table()
