"""A table of three rows, for tests of scans."""

from __future__ import annotations

from lakehouse.io import ObjectStore
from lakehouse.storage.table import Table
from tests.kit.streaming import made, some
from tests.kit.worlds import table_of

__all__ = ["ROWS", "filled"]

ROWS = [(1, "a", 10), (2, "b", None), (3, "b", 30)]


async def filled(store: ObjectStore | None = None) -> Table:
    """Returns a table of these rows, opened by a process of its own."""
    table = await table_of(store or await made("append-only"))
    await table.append(some(*ROWS))
    return table
