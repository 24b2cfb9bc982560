"""Blind writes: rows, or keys of rows to be deleted, are added without looking at older rows.

Invariant: of the rows of a key in one call, and in calls after each other, the last one stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.format.metadata import CommitKind
from lakehouse.format.schema import Engine
from lakehouse.storage.commit.changes import AddFiles, FilesChange
from lakehouse.storage.rows.missing_columns import Missing
from lakehouse.storage.tables.view import View
from lakehouse.storage.write.keeping_writes import keeping_change
from lakehouse.storage.write.table_write import TableWrite

__all__ = ["BlindWrite"]


@dataclass(kw_only=True)
class BlindWrite(TableWrite):
    """Write that adds rows; the existing ones are read only for values that it has to keep."""

    kind: CommitKind
    """Kind of the snapshot."""
    deletes: bool = False
    """True when the rows are keys to be deleted."""
    clears: bool = False
    """True to remove every older row in the same commit."""
    missing: Missing | None = "null"
    """Treatment of columns that rows lack."""

    async def change(self, view: View) -> FilesChange:
        """Uploads the rows; returns the change that adds them."""
        missing = self.missing
        if missing == "keep":
            if view.schema.merging.engine is Engine.DEDUPLICATE:
                return await keeping_change(self.table, view, self.data, self.kind)
            # Other engines keep values by themselves; columns in which they would store null are refused.
            missing = None
        written = await self.table.write(view, self.data, deletes=self.deletes, missing=missing)
        return AddFiles(kind=self.kind, written=written, clears=self.clears)
