"""Report of a scan: files, pieces and rows read and left out, and their cost.

Invariant: numbers are counted where the work is done, so a report covers the work done so far,
whenever it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse.io.cost import Cost
from lakehouse.io.work import Report
from lakehouse.storage.scan.sections import Section

__all__ = ["ScanReport"]


@dataclass(slots=True, kw_only=True)
class ScanReport(Report):
    """Files, pieces, rows and requests of one scan."""

    files: int = 0
    """Number of live files of the snapshot."""
    files_pruned: Mapping[str, int] = field(default_factory=dict)
    """Pruned files counted by reason: partition, bucket, key range, stats, index."""
    files_keys_only: int = 0
    """Files without a wanted row whose keys are read, because they may hide older rows."""
    indexes_read: int = 0
    """Index files that were read."""
    indexes_failed: int = 0
    """Index files that are missing or damaged: their data files were read without them."""
    rows_pruned_by_index: int = 0
    """Rows of the files to be read that their indexes exclude."""
    pieces: int = 0
    """Number of pieces of the files that were opened."""
    pieces_read: int = 0
    """Pieces whose rows were read; the others were pruned, hide no wanted row, or lie behind the limit."""
    sections: int = 0
    """Ranges of keys that were read separately."""
    sections_merged: int = 0
    """Sections in which runs overlap, so that rows were merged."""
    rows_read: int = 0
    """Rows of the pieces that were read, of every kind."""
    rows: int = 0
    """Number of rows returned."""
    cost: Cost = field(default_factory=Cost)
    """Requests and bytes of the scan, metadata of files included."""

    def saw(self, section: Section) -> None:
        """Counts a section that was read."""
        self.sections += 1
        self.sections_merged += section.merges
        self.rows_read += sum(sum(part.piece_rows) for part in section.fresh)
        self.pieces_read += sum(len(part.pieces) for part in section.fresh)

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as plain data."""
        return {**Report.as_dict(self), "files_read": self.files - sum(self.files_pruned.values())}

    def __str__(self) -> str:
        pruned = ", ".join(f"{count} by {what}" for what, count in sorted(self.files_pruned.items()))
        return (
            f"{self.files} files, {pruned or 'none'} pruned, {self.files_keys_only} for their keys; "
            f"{self.sections} sections, {self.sections_merged} merged; "
            f"{self.rows_read:,} rows read, {self.rows:,} returned; {self.cost}"
        )
