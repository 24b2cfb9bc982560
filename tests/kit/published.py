"""Published tables as a reader of another program sees them: pyiceberg, by the metadata file alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import StaticTable

from lakehouse.lake import Lake, connect
from lakehouse.storage.table import Table

__all__ = ["ROWS", "iceberg_rows", "iceberg_table", "lake_at", "numbered", "our_rows", "sorted_rows"]

ROWS = pa.schema({"id": pa.int64(), "v": pa.string()})
"""Columns of most tables that are published in tests."""


def lake_at(path: Path, **options: Any) -> Lake:
    """A warehouse in a directory, which pyiceberg can read."""
    return connect(path.as_uri(), **options)


def numbered(first: int, end: int, text: str = "v") -> list[dict[str, Any]]:
    """Rows with these keys."""
    return [{"id": number, "v": f"{text}{number}"} for number in range(first, end)]


def iceberg_table(metadata: str) -> StaticTable:
    """The published table, opened by pyiceberg."""
    return StaticTable.from_metadata(metadata)


def iceberg_rows(
    metadata: str, *, snapshot: int | None = None, where: str | None = None
) -> list[dict[str, Any]]:
    """Rows that pyiceberg reads, in the order of all their values."""
    scan = iceberg_table(metadata).scan(snapshot_id=snapshot)
    return sorted_rows((scan.filter(where) if where else scan).to_arrow())


def sorted_rows(table: pa.Table | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in the order of all their values."""
    rows = table.to_pylist() if isinstance(table, pa.Table) else table
    return sorted(rows, key=lambda row: repr(sorted(row.items())))


async def our_rows(table: Table, snapshot: int) -> list[dict[str, Any]]:
    """Rows of a snapshot by our own scan."""
    return sorted_rows(await table.scan(snapshot=snapshot).to_arrow())
