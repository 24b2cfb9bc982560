"""TableScan without await: the twin of :mod:`lakehouse.storage.scan.table_scan`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/storage/scan/table_scan.py: edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakehouse.storage.scan import ScanReport
from lakehouse.storage.scan import TableScan as AsyncTableScan
from lakehouse.sync.bridge import Bridge

__all__ = ["TableScan"]


class TableScan:
    """The rows of a table that match a condition, as of one snapshot.

    Nothing is read before rows are asked for. Made by ``Table.scan``.

    Example::

        scan = table.scan(where="amount > 10", columns=["id", "amount"])
        for batch in scan.batches():
            print(batch.num_rows)
        print(scan.report)
    """

    def __init__(self, wrapped: AsyncTableScan, bridge: Bridge) -> None:
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

    def aggregate(
        self, wanted: Mapping[str, str | tuple[str, str]], *, group_by: Sequence[str] | str = ()
    ) -> pa.Table:
        """Counts, least and greatest values; files whose statistics hold the answer are not read.

        Args:
            wanted: by name ``"count"``, ``("count", column)`` (values that are not null),
                ``("min", column)`` or ``("max", column)``. NaN is above every number.
            group_by: partition columns; a row for each combination that has rows.

        Example::

            table.scan("id > 10").aggregate({"rows": "count", "most": ("max", "amount")})
        """
        return self._bridge.call(self._wrapped.aggregate, wanted, group_by=group_by)

    def explain(self) -> ScanReport:
        """Reports which files the scan would read and why it skips others; no data file is opened.

        After rows were read, :attr:`report` has their cost as well.
        """
        return self._bridge.call(self._wrapped.explain)
