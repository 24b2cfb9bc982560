"""Rows of several parts as one numbered sequence, and the columns of the rows that survive a merge.

Invariant: rows are numbered through the parts in the order given; a row keeps its columns, wherever
and whenever they are fetched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakehouse.index.search import RowSelection
from lakehouse.kernels.arrays import I64, Mask
from lakehouse.storage.files.reader import RunReader
from lakehouse.storage.scan.sections import SectionPart

__all__ = ["PartHits", "PartRows", "among_wanted", "candidates", "hits"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartRows:
    """Rows of a part that lie in a section."""

    part: SectionPart
    table: pa.Table
    skipped: int = 0
    """Number of rows of the part before them."""
    rest: RunReader
    """Reader of their other columns."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartHits:
    """The surviving rows of one part."""

    of: PartRows
    places: I64
    """Their places among all surviving rows."""
    rows: I64
    """Their numbers in the part."""
    pieces: I64
    """Numbers of the part's pieces they are in, each once, ascending."""

    def rows_in_pieces(self) -> I64:
        """Returns the numbers that the rows have when only these pieces are read."""
        # Each row moves down by the rows of the pieces that are left out before its own.
        counts = np.asarray(self.of.part.piece_rows)
        begins = np.cumsum(counts) - counts
        hit = counts[self.pieces]
        shift = begins[self.pieces] - (np.cumsum(hit) - hit)
        moved: I64 = self.rows - shift[np.searchsorted(begins[self.pieces], self.rows, side="right") - 1]
        return moved


def among_wanted(parts: Sequence[PartRows], rows: I64) -> I64:
    """Returns the rows that are of wanted parts, numbered through those parts alone."""
    counts = [part.table.num_rows for part in parts]
    wanted = np.repeat([part.part.wanted for part in parts], counts)
    numbers = np.cumsum(wanted) - 1
    kept: I64 = numbers[rows[wanted[rows]]]
    return kept


def candidates(parts: Sequence[PartRows], selections: Mapping[str, RowSelection]) -> Mask | None:
    """Returns which rows may match according to the indexes of their files; None = any may."""
    masks: list[Mask] = []
    for rows in parts:
        selection = selections.get(rows.part.reader.entry.path)
        if selection is None or selection.is_all:
            masks.append(np.ones(rows.table.num_rows, np.bool_))
            continue
        of_file = selection.mask()
        pieces = [rows.part.reader.pieces[number] for number in rows.part.pieces]
        of_part = np.concatenate(
            [of_file[piece.first_row : piece.first_row + piece.rows] for piece in pieces]
        )
        masks.append(of_part[rows.skipped : rows.skipped + rows.table.num_rows])
    return None if all(mask.all() for mask in masks) else np.concatenate(masks)


def hits(parts: Sequence[PartRows], rows: I64) -> list[PartHits]:
    """Locates surviving rows in their parts, part by part; parts without any are left out."""
    hits_by_part = []
    begin = 0
    for part_rows in parts:
        end = begin + part_rows.table.num_rows
        places = np.flatnonzero((rows >= begin) & (rows < end))
        if len(places):
            within = rows[places] - begin + part_rows.skipped
            ends = np.cumsum(part_rows.part.piece_rows)
            pieces = np.unique(np.searchsorted(ends, within, side="right"))
            hits_by_part.append(PartHits(of=part_rows, places=places, rows=within, pieces=pieces))
        begin = end
    return hits_by_part
