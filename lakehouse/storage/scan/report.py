"""What a scan looked at, left out and paid.

Invariant: numbers are counted where the work is done, so a report says what was done so far,
whenever it is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse.io.cost import Cost
from lakehouse.storage.scan.sections import Section

__all__ = ["ScanReport"]


@dataclass(slots=True, kw_only=True)
class ScanReport:
    """Files, pieces, rows and requests of one scan."""

    files: int = 0
    """Live files of the snapshot."""
    files_pruned: Mapping[str, int] = field(default_factory=dict)
    """Files left out, by what told that they can be: partition, bucket, key range, stats, index."""
    files_keys_only: int = 0
    """Files of which no row is wanted and the keys are read, because they may hide older rows."""
    indexes_read: int = 0
    """Index files that were asked."""
    indexes_failed: int = 0
    """Index files that are missing or damaged: their data files were read without them."""
    rows_pruned_by_index: int = 0
    """Rows of the files to be read that their indexes exclude."""
    pieces: int = 0
    """Pieces of the files that were opened."""
    pieces_read: int = 0
    """Others have no row that is wanted, or hides one that is, or were not come to."""
    sections: int = 0
    """Ranges of keys that were read apart."""
    sections_merged: int = 0
    """Those in which runs overlap, so that rows were merged."""
    rows_read: int = 0
    """Rows of the pieces that were read, of every kind."""
    rows: int = 0
    """Rows returned."""
    cost: Cost = field(default_factory=Cost)
    """Requests and bytes, metadata of files included."""

    def saw(self, section: Section) -> None:
        """Counts a section that was read."""
        self.sections += 1
        self.sections_merged += section.merges
        self.rows_read += sum(sum(part.piece_rows) for part in section.fresh)
        self.pieces_read += sum(len(part.pieces) for part in section.fresh)

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "files": self.files,
            "files_pruned": dict(self.files_pruned),
            "files_read": self.files - sum(self.files_pruned.values()),
            "files_keys_only": self.files_keys_only,
            "indexes_read": self.indexes_read,
            "indexes_failed": self.indexes_failed,
            "rows_pruned_by_index": self.rows_pruned_by_index,
            "pieces": self.pieces,
            "pieces_read": self.pieces_read,
            "sections": self.sections,
            "sections_merged": self.sections_merged,
            "rows_read": self.rows_read,
            "rows": self.rows,
            **self.cost.as_dict(),
        }

    def __str__(self) -> str:
        pruned = ", ".join(f"{count} by {what}" for what, count in sorted(self.files_pruned.items()))
        return (
            f"{self.files} files, {pruned or 'none'} pruned, {self.files_keys_only} for their keys; "
            f"{self.sections} sections, {self.sections_merged} merged; "
            f"{self.rows_read:,} rows read, {self.rows:,} returned; {self.cost}"
        )
