"""Reads of a table as of a snapshot: the arguments of a scan, and the forms that its rows are returned in.

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
from lakehouse.io.cost import counting
from lakehouse.io.work import in_thread
from lakehouse.storage.scan.aggregate import AggregateQuery
from lakehouse.storage.scan.report import ScanReport
from lakehouse.storage.scan.scan import Scan
from lakehouse.storage.schema.row_ttl import shown_where
from lakehouse.storage.tables.long_reads import reading
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View

__all__ = ["Freshness", "TableScan", "is_fresh", "to_expr"]

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


class TableScan:
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
    ) -> None:
        _check(columns, limit)
        self._table = table
        self._where, self._limit = to_expr(where), limit
        self._columns = None if columns is None else tuple(columns)
        self._find_view = partial(
            table.view, snapshot=snapshot, timestamp=timestamp, tag=tag, fresh=is_fresh(freshness)
        )
        self._view: View | None = None
        self.report = ScanReport()
        """Report of the last reading: files looked at and left out, rows read, and their cost."""

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
        async with reading(self._table, view):
            scan = Scan(
                await view.entries(),
                view.schema,
                self._table,
                columns=self._columns if columns is None else columns,
                where=shown_where(self._where, view.shows),
                limit=self._limit,
            )
            self.report = scan.report
            await scan.prune_by_indexes(self._table)
            yield scan

    async def tables(self) -> AsyncGenerator[pa.Table, None]:
        """The rows in tables as they are read, in bounded memory."""
        async with self._reading() as scan, aclosing(scan.tables()) as tables:
            async for table in tables:
                yield table

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """The rows as record batches, in bounded memory.

        Rows come by bucket, and by key within one; an append-only table's as they were written.
        """
        async with aclosing(self.tables()) as tables:
            async for table in tables:
                for batch in table.to_batches():
                    yield batch

    async def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        async with self._reading() as scan:
            tables = [table async for table in scan.tables()]
        return pa.concat_tables(tables) if tables else scan.schema.empty_table()

    async def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame."""
        rows = await self.to_arrow()
        return await in_thread(rows.to_pandas)

    async def to_polars(self) -> Any:
        """All rows as a polars DataFrame."""
        try:
            import polars as pl
        except ImportError as error:
            raise _missing_package_error("polars") from error
        rows = await self.to_arrow()
        return await in_thread(pl.from_arrow, rows)

    async def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dicts."""
        rows = await self.to_arrow()
        dicts: list[dict[str, Any]] = await in_thread(rows.to_pylist)
        return dicts

    async def to_duckdb(self, name: str = "rows", connection: Any = None) -> Any:
        """All rows as a table of a DuckDB connection, which is returned.

        Args:
            name: of the table in DuckDB.
            connection: an open one; a new one in memory when not given.
        """
        try:
            import duckdb
        except ImportError as error:
            raise _missing_package_error("duckdb") from error
        rows = await self.to_arrow()
        database = connection if connection is not None else duckdb.connect()
        database.register(name, rows)
        return database

    async def count(self) -> int:
        """Number of rows; reads keys and the condition's columns only, where statistics do not suffice."""
        async with self._reading(columns=()) as scan:
            return await scan.count()

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

    async def explain(self) -> ScanReport:
        """Reports which files the scan would read and why it skips others; no data file is opened.

        After rows were read, :attr:`report` has their cost as well.
        """
        self.report = ScanReport()
        with counting(self.report.cost):
            async with self._reading() as scan:
                return scan.report


def _check(columns: object, limit: object) -> None:
    if isinstance(columns, str):
        raise InvalidInputError(f"columns is a list of names, not the text {columns!r}")
    if columns is not None and not columns:
        raise InvalidInputError("columns names no column: leave it out for all, or count() the rows")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidInputError(f"limit is a number of rows from 0, not {limit!r}")


def _missing_package_error(package: str) -> InvalidInputError:
    return InvalidInputError(f"this needs the {package} package: pip install {package}", kind="missing-extra")
