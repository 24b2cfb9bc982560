"""Forms that the rows of a scan are returned in: Arrow, batches, pandas, polars, dicts, DuckDB, a number.

Invariant: each form is one reading, and ``report`` is about the last.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.io.cost import counting
from lakehouse.io.work import in_thread
from lakehouse.storage.scan.report import ScanReport
from lakehouse.storage.scan.scan import Scan

__all__ = ["RowForms", "check_wanted"]


class RowForms(abc.ABC):
    """Rows that match a condition, to be taken in any form; nothing is read before."""

    def __init__(self) -> None:
        self.report = ScanReport()
        """Report of the last reading: files looked at and left out, rows read, and their cost."""

    @abc.abstractmethod
    def _reading(self, columns: Sequence[str] | None = None) -> AbstractAsyncContextManager[Scan]:
        """Gives a scan, planned and not begun, that may be executed while the block runs; sets ``report``.

        Args:
            columns: names in place of those that the caller asked for.
        """

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

    async def explain(self) -> ScanReport:
        """Reports which files the scan would read and why it skips others; no data file is opened.

        After rows were read, :attr:`report` has their cost as well.
        """
        self.report = ScanReport()
        with counting(self.report.cost):
            async with self._reading() as scan:
                return scan.report


def check_wanted(columns: object, limit: object) -> None:
    """Refuses columns and a limit that no scan can have been meant with."""
    if isinstance(columns, str):
        raise InvalidInputError(f"columns is a list of names, not the text {columns!r}")
    if columns is not None and not columns:
        raise InvalidInputError("columns names no column: leave it out for all, or count() the rows")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidInputError(f"limit is a number of rows from 0, not {limit!r}")


def _missing_package_error(package: str) -> InvalidInputError:
    return InvalidInputError(f"this needs the {package} package: pip install {package}", kind="missing-extra")
