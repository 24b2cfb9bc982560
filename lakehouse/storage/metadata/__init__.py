"""Metadata of a table in its bucket: where each object is, and how it is read, kept and written.

Words: *path* (key within a table's directory) → *dense log* (objects numbered without gaps) → *snapshot* →
*manifest* → *entry*. A *run* is the files of one interval of positions, a *merge unit* the runs that may
share keys. The *store's clock* is the one that times of snapshots are of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.metadata.caches import RunCaches, TableCaches
    from lakehouse.storage.metadata.paths import DATABASE_MARKER
    from lakehouse.storage.metadata.run_order import Interval, covered_intervals
    from lakehouse.storage.metadata.table_name import TableName

__all__ = [
    "DATABASE_MARKER", "Interval", "RunCaches", "TableCaches", "TableName", "covered_intervals",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "caches": "RunCaches TableCaches",
        "paths": "DATABASE_MARKER",
        "run_order": "Interval covered_intervals",
        "table_name": "TableName",
    },
)
