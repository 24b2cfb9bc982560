"""Admission of sections: how many a scan has in memory at once, and how large they are.

Invariant: sections under way need no more than ``scan_memory_bytes``, one alone excepted.
"""

from __future__ import annotations

import anyio
import pyarrow as pa

from lakehouse.config import TableSettings
from lakehouse.storage.rows.row_size import RowSize
from lakehouse.storage.scan.sections import Section

__all__ = ["Gate", "Work"]

_COPIES = 2
"""Copies of a row in memory while it is merged: as it was read, and as it is returned."""


_LARGE_SECTIONS = 4
"""Number of sections of the target size that have room at once: one is read while another is merged."""


class Work:
    """A section and then its rows: held by nobody else, so that what was taken out can be forgotten."""

    __slots__ = ("_section", "table", "weight")

    def __init__(self, section: Section, weight: int) -> None:
        self._section: Section | None = section
        self.weight = weight
        self.table: pa.Table | None = None

    def take_section(self) -> Section:
        """Returns the section, once."""
        section, self._section = self._section, None
        assert section is not None
        return section

    def take_table(self) -> pa.Table:
        """Returns the section's rows, once they were read."""
        table, self.table = self.table, None
        assert table is not None
        return table


class Gate:
    """Lets sections begin while there is room for their rows, and of a limited scan few at first."""

    def __init__(self, settings: TableSettings, size: RowSize, limit: int | None) -> None:
        self._settings = settings
        self._size = size
        self._limit = limit
        self._window = settings.scan_concurrency if limit is None else 1
        self._inside = 0
        self._held = 0
        self._left = anyio.Event()

    @property
    def target_rows(self) -> int:
        """Number of rows that the next section should have."""
        share = self._settings.scan_memory_bytes / min(_LARGE_SECTIONS, self._settings.scan_concurrency)
        rows = max(1, int(share / _COPIES / self._size.bytes_per_row))
        return rows if self._limit is None else min(rows, self._limit * self._window)

    def weight(self, section: Section) -> int:
        """Estimates the bytes that the section needs on top of those before."""
        rows = sum(sum(part.piece_rows) for part in section.fresh)
        return int(rows * self._size.bytes_per_row * _COPIES)

    async def enter(self, weight: int) -> None:
        """Waits until there is room; one section may be under way whatever its weight."""
        room = self._settings.scan_memory_bytes
        while self._inside and (self._inside >= self._window or self._held + weight > room):
            self._left = anyio.Event()
            await self._left.wait()
        self._inside += 1
        self._held += weight

    def leave(self, weight: int) -> None:
        """Releases the room of a section that was handed out."""
        self._inside -= 1
        self._held -= weight
        self._window = min(self._settings.scan_concurrency, self._window * 2)
        self._left.set()
