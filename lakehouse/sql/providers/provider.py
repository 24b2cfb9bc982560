"""Providers: what has the rows of one reference of a statement.

Invariant: a provider keeps nothing between scans, for DuckDB may scan one reference twice, or plan it and not
scan it at all.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

import pyarrow as pa

from lakehouse.expr import Expr

__all__ = ["TableProvider"]


class TableProvider(Protocol):
    """The rows of one reference of a statement, as DuckDB may ask for them."""

    @property
    def schema(self) -> pa.Schema:
        """Columns in order; a dictionary column is text that DuckDB gets encoded."""

    @property
    def rows(self) -> int:
        """How many rows there may be; DuckDB chooses the sides of joins by it."""

    def applies(self, where: Expr) -> bool:
        """Returns whether a scan leaves out exactly the rows for which this is not true, as DuckDB would."""

    def scan(self, columns: Sequence[str], where: Expr | None) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yields the rows for which the condition is true.

        Args:
            columns: names of the columns to yield, in this order; a batch without columns still has its
                ``num_rows``.
            where: conditions that :meth:`applies` took, joined; they may read other columns too.
        """
