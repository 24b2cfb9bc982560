"""Reading of Iceberg tables: tasks of a plan become rows, through the engine's own scan.

Words: *task* (a data file to read) → *delete* (a row number, or values of columns, that hide rows of it) →
*selection* (its rows that are left). *Positions* and *vectors* name rows by number, *equality deletes* by
values. *Lineage* is the id of a row and the commit that changed it last. *Naming* says which names stand for
which columns in files that have no field ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.iceberg.reading.lineage import CHANGED, ROW_ID
    from lakehouse.iceberg.reading.naming import NAME_MAPPING
    from lakehouse.iceberg.reading.scan_of_tasks import Reading, task_scan

__all__ = ["CHANGED", "NAME_MAPPING", "ROW_ID", "Reading", "task_scan"]

__getattr__, __dir__ = door(
    __name__,
    {"lineage": "CHANGED ROW_ID", "naming": "NAME_MAPPING", "scan_of_tasks": "Reading task_scan"},
)
