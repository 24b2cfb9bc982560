"""Inventory: the manifests and the live files of all tables, streamed.

Words: *listed table* (a name, and how it is opened) → *stated manifest* (one that the newest snapshot of a
table names) → *row*. A *problem* is a table or manifest that could not be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.inventory.rows import FILES, MANIFESTS, InventoryShape
    from lakehouse.catalog.inventory.scan import InventoryScan, InventoryStats, ListedTable, TableProblem

__all__ = [
    "FILES", "MANIFESTS", "InventoryScan", "InventoryShape", "InventoryStats", "ListedTable", "TableProblem",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "rows": "FILES MANIFESTS InventoryShape",
        "scan": "InventoryScan InventoryStats ListedTable TableProblem",
    },
)
