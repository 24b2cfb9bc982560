"""IndexMetaScan without await: the twin of :mod:`lakehouse.index.metas.enumerate`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/index/metas/enumerate.py: edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Generator

import pyarrow as pa

from lakehouse.index.metas import COMPACT, FileProblem, RowShape, ScanStats
from lakehouse.index.metas import IndexMetaScan as AsyncIndexMetaScan
from lakehouse.index.models import IndexEntry
from lakehouse.sync.bridge import Bridge

__all__ = ["IndexMetaScan"]


class IndexMetaScan:
    """A scan: iterate it once, then read ``stats`` and ``problems``."""

    def __init__(self, wrapped: AsyncIndexMetaScan, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    @property
    def stats(self) -> ScanStats:
        """Grows while the scan runs."""
        return self._wrapped.stats

    @property
    def problems(self) -> list[FileProblem]:
        """The first 10,000 problems, one per bad file; ``stats`` counts all of them."""
        return self._wrapped.problems

    def __iter__(self) -> Generator[IndexEntry, None, None]:
        return self._bridge.iterate(self._wrapped.__aiter__)

    def batches(
        self, shape: RowShape = COMPACT, *, rows: int = 8192
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yields the entries as rows of a shape, in batches of ``rows`` rows (the last may be smaller).

        Entries whose metadata could not be read in full are left out, except in GreptimeDB's shape.
        """
        return self._bridge.iterate(self._wrapped.batches, shape, rows=rows)

    def to_arrow(self, shape: RowShape = COMPACT) -> pa.Table:
        """Returns all entries as one table; see :meth:`batches`."""
        return self._bridge.call(self._wrapped.to_arrow, shape)
