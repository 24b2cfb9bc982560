"""InventoryScan without await: the twin of :mod:`lakehouse.catalog.inventory.scan`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/catalog/inventory/scan.py: edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Generator

import pyarrow as pa

from lakehouse.catalog.inventory import InventoryScan as AsyncInventoryScan
from lakehouse.catalog.inventory import InventoryStats, TableProblem
from lakehouse.sync.bridge import Bridge

__all__ = ["InventoryScan"]


class InventoryScan:
    """A scan of manifests or files: iterate it once, then read ``stats`` and ``problems``."""

    def __init__(self, wrapped: AsyncInventoryScan, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    @property
    def stats(self) -> InventoryStats:
        """Grows while the scan runs."""
        return self._wrapped.stats

    @property
    def problems(self) -> list[TableProblem]:
        """The first 10,000 problems; ``stats`` counts all."""
        return self._wrapped.problems

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows."""
        return self._wrapped.schema

    def __iter__(self) -> Generator[pa.RecordBatch, None, None]:
        return self._bridge.iterate(self._wrapped.__aiter__)

    def batches(self, *, rows: int = 8192) -> Generator[pa.RecordBatch, None, None]:
        """Yields the rows in batches of ``rows`` rows (the last may be smaller), as they are read."""
        return self._bridge.iterate(self._wrapped.batches, rows=rows)

    def to_arrow(self) -> pa.Table:
        """Returns all rows as one table."""
        return self._bridge.call(self._wrapped.to_arrow)
