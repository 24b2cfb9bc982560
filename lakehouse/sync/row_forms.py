"""RowForms without await: the twin of :mod:`lakehouse.storage.scan.row_forms`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/storage/scan/row_forms.py: edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pyarrow as pa

from lakehouse.storage.scan import RowForms as AsyncRowForms
from lakehouse.storage.scan import ScanReport
from lakehouse.sync.bridge import Bridge

__all__ = ["RowForms"]


class RowForms:
    """Rows that match a condition, to be taken in any form; nothing is read before."""

    def __init__(self, wrapped: AsyncRowForms, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    @property
    def report(self) -> ScanReport:
        """Report of the last reading: files looked at and left out, rows read, cost."""
        return self._wrapped.report

    def tables(self) -> Generator[pa.Table, None, None]:
        """The rows in tables as they are read, in bounded memory."""
        return self._bridge.iterate(self._wrapped.tables)

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """The rows as record batches, in bounded memory.

        Rows come by bucket, and by key within one; an append-only table's as they were written.
        """
        return self._bridge.iterate(self._wrapped.batches)

    def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        return self._bridge.call(self._wrapped.to_arrow)

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame."""
        return self._bridge.call(self._wrapped.to_pandas)

    def to_polars(self) -> Any:
        """All rows as a polars DataFrame."""
        return self._bridge.call(self._wrapped.to_polars)

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dicts."""
        return self._bridge.call(self._wrapped.to_pylist)

    def to_duckdb(self, name: str = "rows", connection: Any = None) -> Any:
        """All rows as a table of a DuckDB connection, which is returned.

        Args:
            name: of the table in DuckDB.
            connection: an open one; a new one in memory when not given.
        """
        return self._bridge.call(self._wrapped.to_duckdb, name, connection)

    def count(self) -> int:
        """Number of rows; reads keys and the condition's columns only, where statistics do not suffice."""
        return self._bridge.call(self._wrapped.count)

    def explain(self) -> ScanReport:
        """Reports which files the scan would read and why it skips others; no data file is opened.

        After rows were read, :attr:`report` has their cost as well.
        """
        return self._bridge.call(self._wrapped.explain)
