"""Some rows of a data file, as if the file had no others.

A table format that deletes by row number keeps its data files and says which rows of them are left. A scan
reads those through this reader, and need not know.

Invariant: rows and pieces are counted without the rows that are left out. Statistics never claim more than
is true of the rest: bounds may be wider than its values, and nulls are told only where none or all are null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.metadata import ColumnStats, FileEntry
from lakehouse.format.schema import Field
from lakehouse.index.search import RowSelection
from lakehouse.kernels.arrays import I64
from lakehouse.storage.files.reader import Piece, RunReader

__all__ = ["SelectedRows", "entry_of_selected"]


def entry_of_selected(entry: FileEntry, selection: RowSelection) -> FileEntry:
    """Returns the entry of a file, for a scan of the selected rows."""
    rows = selection.row_count
    return replace(entry, rows=rows, stats=_stats_of_some(entry.stats, rows, entry.rows))


class SelectedRows:
    """The selected rows of an open file: see :class:`~lakehouse.storage.files.reader.RunReader`.

    Args:
        inner: the reader of the whole file, which has neither keys nor rows of several kinds.
        entry: the entry to show, see :func:`entry_of_selected`.
        selection: the rows.
    """

    __slots__ = ("_inner", "_numbers", "_selection", "_within", "entry", "pieces")

    def __init__(self, inner: RunReader, entry: FileEntry, selection: RowSelection) -> None:
        self._inner, self.entry, self._selection = inner, entry, selection
        mask = selection.mask()
        self._numbers: list[int] = []
        """Numbers of the file's pieces that have a selected row."""
        self._within: list[I64] = []
        """Selected rows of each of these, counted from its first."""
        pieces: list[Piece] = []
        first_row = 0
        for number, piece in enumerate(inner.pieces):
            within = np.flatnonzero(mask[piece.first_row : piece.first_row + piece.rows])
            if len(within):
                self._numbers.append(number)
                self._within.append(within)
                stats = _stats_of_some(piece.stats, len(within), piece.rows)
                pieces.append(replace(piece, rows=len(within), first_row=first_row, stats=stats))
                first_row += len(within)
        self.pieces = tuple(pieces)

    async def read(
        self,
        fields: Sequence[Field],
        pieces: Sequence[int] | None = None,
        *,
        kinds: bool = False,
        rows: I64 | None = None,
    ) -> pa.Table:
        """Reads these columns of these pieces (None = all); ``rows`` are counted through selected rows."""
        chosen = range(len(self.pieces)) if pieces is None else pieces
        numbers = [self._numbers[piece] for piece in chosen]
        counts = [self._inner.pieces[number].rows for number in numbers]
        begins = np.cumsum(counts) - counts
        of_file = [self._within[piece] + begin for piece, begin in zip(chosen, begins, strict=True)]
        every: I64 = np.concatenate(of_file) if of_file else np.empty(0, np.int64)
        if rows is not None:
            every = every[rows]
        whole = len(every) == sum(counts)
        return await self._inner.read(fields, numbers, kinds=kinds, rows=None if whole else every)

    async def load(
        self, fields: Sequence[Field], pieces: Sequence[int] | None = None, *, kinds: bool = False
    ) -> SelectedRows:
        """Fetches these columns of these pieces; returns a reader of them that fetches nothing else."""
        numbers = self._numbers if pieces is None else [self._numbers[piece] for piece in pieces]
        inner = await self._inner.load(fields, numbers, kinds=kinds)
        return SelectedRows(inner, self.entry, self._selection)

    async def get(self, key: bytes, fields: Sequence[Field]) -> pa.Table:
        """Refuses to look up a key: files whose rows are selected by number have none."""
        raise InvalidInputError(f"{self.entry.path} is read by row number and has no keys to look up")


def _stats_of_some(stats: Mapping[int, ColumnStats], some: int, rows: int) -> dict[int, ColumnStats]:
    """Returns what statistics of all rows tell about some of them."""
    if some == rows:
        return dict(stats)
    told: dict[int, ColumnStats] = {}
    for number, column in stats.items():
        nulls = {0: 0, rows: some}.get(column.nulls)
        if nulls is None and some > 1:
            nulls = 1  # stands for neither none nor all
        if nulls is not None:
            told[number] = replace(column, nulls=nulls, exact=False)
    return told
