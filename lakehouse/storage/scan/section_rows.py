"""Rows of several parts as one numbered sequence, and the columns of those that stay.

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
    """The rows of a part that lie in a section."""

    part: SectionPart
    table: pa.Table
    skipped: int = 0
    """Rows of the part before them."""
    rest: RunReader
    """Where further columns of them are read."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartHits:
    """Those of the rows that stay that are in one part."""

    of: PartRows
    places: I64
    """Their places among all that stay."""
    rows: I64
    """Their numbers in the part."""
    pieces: I64
    """The pieces of the part they are in, each once, ascending."""

    def rows_in_pieces(self) -> I64:
        """The numbers of the rows when only these pieces are read."""
        counts = np.asarray(self.of.part.piece_rows)
        begins = np.cumsum(counts) - counts
        hit = counts[self.pieces]
        shift = begins[self.pieces] - (np.cumsum(hit) - hit)
        moved: I64 = self.rows - shift[np.searchsorted(begins[self.pieces], self.rows, side="right") - 1]
        return moved


def among_wanted(parts: Sequence[PartRows], rows: I64) -> I64:
    """The rows that are of wanted parts, numbered through those alone."""
    counts = [one.table.num_rows for one in parts]
    wanted = np.repeat([one.part.wanted for one in parts], counts)
    numbers = np.cumsum(wanted) - 1
    kept: I64 = numbers[rows[wanted[rows]]]
    return kept


def candidates(parts: Sequence[PartRows], selections: Mapping[str, RowSelection]) -> Mask | None:
    """Which rows may match, going by what indexes say of the files; None = any may."""
    found: list[Mask] = []
    for rows in parts:
        said = selections.get(rows.part.reader.entry.path)
        if said is None or said.is_all:
            found.append(np.ones(rows.table.num_rows, np.bool_))
            continue
        of_file = said.mask()
        pieces = [rows.part.reader.pieces[number] for number in rows.part.pieces]
        of_part = np.concatenate(
            [of_file[piece.first_row : piece.first_row + piece.rows] for piece in pieces]
        )
        found.append(of_part[rows.skipped : rows.skipped + rows.table.num_rows])
    return None if all(mask.all() for mask in found) else np.concatenate(found)


def hits(parts: Sequence[PartRows], rows: I64) -> list[PartHits]:
    """Where rows that stay are, part by part; parts without any are left out."""
    found = []
    begin = 0
    for one in parts:
        end = begin + one.table.num_rows
        places = np.flatnonzero((rows >= begin) & (rows < end))
        if len(places):
            within = rows[places] - begin + one.skipped
            ends = np.cumsum(one.part.piece_rows)
            pieces = np.unique(np.searchsorted(ends, within, side="right"))
            found.append(PartHits(of=one, places=places, rows=within, pieces=pieces))
        begin = end
    return found
