"""Rows of several parts in one numbering: where a row is, and which of them indexes leave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.format.metadata import RowKind
from lakehouse.index.search import RowSelection
from lakehouse.kernels.arrays import I64
from lakehouse.storage.scan.section_rows import PartHits, PartRows, among_wanted, candidates, hits
from lakehouse.storage.scan.sections import SectionPart
from tests.kit.memory_runs import MemoryRun, MemoryRuns
from tests.kit.run_histories import SCHEMA, run_table

RUNS = MemoryRuns(SCHEMA, piece_rows=3)


def file_of(rows: int) -> MemoryRun:
    """Returns a file of so many rows, in pieces of three."""
    table = run_table({key: (RowKind.INSERT, key, "") for key in range(rows)})
    return RUNS.files[RUNS.add(table, lo=(1, 1, 0), hi=(1, 1, 0)).path]


def part_rows(*piece_rows: int, skipped: int = 0, more: int = 0, **about: Any) -> PartRows:
    """Returns the rows of a part without the first ``skipped`` and the last ``more``."""
    facts: dict[str, Any] = {"reader": None, "pieces": tuple(range(len(piece_rows))), "wanted": True, **about}
    part = SectionPart(piece_rows=piece_rows, low=b"", high=b"", age=0, matches=False, spans=False, **facts)
    table = pa.table({"row": range(skipped, sum(piece_rows) - more)})
    return PartRows(part=part, table=table, skipped=skipped, rest=facts["reader"])


def rows_of(*numbers: int) -> I64:
    """Returns numbers of rows."""
    return np.array(numbers, np.int64)


def test_rows_are_located_in_their_parts() -> None:
    """A surviving row is found with its number in its part, its place among all, and its piece."""
    parts = [part_rows(3, 2), part_rows(2), part_rows(4, 2, skipped=1, more=1)]
    first, last = hits(parts, rows_of(8, 0, 4, 10))
    assert (first.of, first.places.tolist()) == (parts[0], [1, 2])
    assert (first.rows.tolist(), first.pieces.tolist()) == ([0, 4], [0, 1])
    assert (last.of, last.places.tolist()) == (parts[2], [0, 3])
    assert (last.rows.tolist(), last.pieces.tolist()) == ([2, 4], [0, 1])


def test_no_rows_are_in_no_part() -> None:
    """Parts without a surviving row are left out."""
    assert hits([part_rows(3), part_rows(2)], rows_of()) == []


def test_rows_are_renumbered_among_the_pieces_that_are_read() -> None:
    """A row moves down by the rows of the pieces before its own that nobody reads."""
    (found,) = hits([part_rows(3, 2, 4, 1)], rows_of(1, 6, 8))
    assert found.pieces.tolist() == [0, 2]
    assert found.rows_in_pieces().tolist() == [1, 4, 6]


def test_rows_of_the_last_piece_alone_begin_at_0() -> None:
    """Rows of one piece are numbered from its begin."""
    found = PartHits(of=part_rows(3, 2, 4), places=rows_of(0, 1), rows=rows_of(5, 8), pieces=rows_of(2))
    assert found.rows_in_pieces().tolist() == [0, 3]


def test_rows_of_unwanted_parts_drop_out() -> None:
    """Rows of parts that were read for their keys are left out, the others numbered without them."""
    parts = [part_rows(2), part_rows(3, wanted=False), part_rows(2)]
    assert among_wanted(parts, rows_of(0, 3, 6, 1, 5)).tolist() == [0, 3, 1, 2]


def test_indexes_say_which_rows_may_match() -> None:
    """A part's rows are looked up in its file's selection by piece and place; files without one match."""
    file, free = file_of(9), file_of(2)
    parts = [
        part_rows(3, 3, skipped=1, more=1, reader=file, pieces=(1, 2)),
        part_rows(2, reader=free),
    ]
    selections = {file.entry.path: RowSelection.of_rows([0, 4, 7, 8], 9)}
    found = candidates(parts, selections)
    assert found is not None
    assert found.tolist() == [True, False, False, True, True, True]


def test_where_all_rows_may_match_there_is_no_mask() -> None:
    """Selections of whole files, and of all rows that were read, leave every row."""
    file = file_of(9)
    parts = [part_rows(3, reader=file, pieces=(1,))]
    assert candidates(parts, {}) is None
    assert candidates(parts, {file.entry.path: RowSelection.every(9)}) is None
    assert candidates(parts, {file.entry.path: RowSelection.of([(2, 7)], 9)}) is None
