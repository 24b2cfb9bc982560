"""Pieces that are read at once, and the numbers of their rows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.iceberg.reading.batches import batches, row_numbers
from lakehouse.storage.files import Piece


@given(st.lists(st.integers(1, 12)), st.integers(1, 20))
def test_batches_are_neighbours_and_as_large_as_they_may_be(rows: list[int], most: int) -> None:
    """Every piece is in one batch; only a single piece is larger, and two neighbours never fit into one."""
    pieces = [Piece(rows=count, first_row=0, size=1) for count in rows]
    found = list(batches(pieces, range(len(rows)), most))
    assert [number for batch in found for number in batch] == list(range(len(rows)))
    sizes = [sum(rows[number] for number in batch) for batch in found]
    assert all(size <= most or len(batch) == 1 for size, batch in zip(sizes, found, strict=True))
    assert all(size + rows[batch[0]] > most for size, batch in zip(sizes, found[1:], strict=False))


def test_rows_are_counted_through_the_file() -> None:
    """Pieces that are left out between others leave a gap in the numbers."""
    pieces = [Piece(rows=2, first_row=first, size=1) for first in (0, 2, 4)]
    assert row_numbers(pieces, [0, 2]).tolist() == [0, 1, 4, 5]
    assert row_numbers(pieces, []).tolist() == []
