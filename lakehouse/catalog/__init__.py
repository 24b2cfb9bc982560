"""The catalog: names, nodes and snapshots of tables, out of our warehouse and of Iceberg's catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.inventory import InventoryScan, InventoryStats, TableProblem
    from lakehouse.catalog.pins import PinKind, SnapshotPin

__all__ = ["InventoryScan", "InventoryStats", "PinKind", "SnapshotPin", "TableProblem"]

__getattr__, __dir__ = door(
    __name__,
    {
        "lakehouse.catalog.inventory": "InventoryScan InventoryStats TableProblem",
        "lakehouse.catalog.pins": "PinKind SnapshotPin",
    },
)
