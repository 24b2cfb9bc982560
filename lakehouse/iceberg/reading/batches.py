"""Batches of pieces: how much of a file is read at once where all of it is looked at, and little kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakehouse.storage.files import Piece

__all__ = ["BATCH_ROWS", "batches"]

BATCH_ROWS = 1_000_000
"""Rows of a batch, a single piece excepted: some megabytes of a few columns, worth a request each."""


def batches(pieces: Sequence[Piece], rows_max: int = BATCH_ROWS) -> Iterator[list[int]]:
    """Yields the numbers of neighbouring pieces that have as many rows together, or less."""
    batch: list[int] = []
    rows = 0
    for number, piece in enumerate(pieces):
        if batch and rows + piece.rows > rows_max:
            yield batch
            batch, rows = [], 0
        batch.append(number)
        rows += piece.rows
    if batch:
        yield batch
