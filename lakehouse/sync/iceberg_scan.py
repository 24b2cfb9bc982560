"""IcebergScan without await: the twin of :mod:`lakehouse.iceberg.scan`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/iceberg/scan.py: edit that file, then run `make docs`.

from __future__ import annotations

from lakehouse.iceberg.planning import IcebergPlan
from lakehouse.iceberg.scan import IcebergScan as AsyncIcebergScan
from lakehouse.sync.bridge import Bridge
from lakehouse.sync.row_forms import RowForms

__all__ = ["IcebergScan"]


class IcebergScan(RowForms):
    """The rows of an Iceberg table that match a condition, as of one snapshot, deleted ones left out.

    Nothing is read before rows are asked for. Made by ``IcebergTable.scan``.
    """

    _wrapped: AsyncIcebergScan

    def __init__(self, wrapped: AsyncIcebergScan, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def plan(self) -> IcebergPlan:
        """The plan of the scan: the files that it reads."""
        return self._bridge.call(self._wrapped.plan)
