"""SystemScan without await: the twin of :mod:`lakehouse.catalog.system.information_schema`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/catalog/system/information_schema.py:
# edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Generator

import pyarrow as pa

from lakehouse.catalog.system import SystemScan as AsyncSystemScan
from lakehouse.catalog.system import SystemWarning
from lakehouse.sync.bridge import Bridge

__all__ = ["SystemScan"]


class SystemScan:
    """Rows of a relation of ``information_schema``, as record batches of an iteration."""

    def __init__(self, wrapped: AsyncSystemScan, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    @property
    def relation(self) -> str:
        """Name of the relation."""
        return self._wrapped.relation

    @property
    def schema(self) -> pa.Schema:
        """Columns and their types."""
        return self._wrapped.schema

    @property
    def warnings(self) -> list[SystemWarning]:
        """Problems met so far; whole when the iteration has ended."""
        return self._wrapped.warnings

    def __repr__(self) -> str:
        return repr(self._wrapped)

    def __iter__(self) -> Generator[pa.RecordBatch, None, None]:
        return self._bridge.iterate(self._wrapped.__aiter__)

    def to_arrow(self) -> pa.Table:
        """Returns all rows."""
        return self._bridge.call(self._wrapped.to_arrow)
