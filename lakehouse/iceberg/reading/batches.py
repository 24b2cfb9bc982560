"""Batches of pieces: how much of a file is read at once where all of it is looked at, and little kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lakehouse.kernels.arrays import I64
from lakehouse.storage.files import Piece

__all__ = ["BATCH_ROWS", "batches", "row_numbers"]

BATCH_ROWS = 1_000_000
"""Rows of a batch, a single piece excepted: some megabytes of a few columns, worth a request each."""


def batches(
    pieces: Sequence[Piece], numbers: Sequence[int], rows_max: int = BATCH_ROWS
) -> Iterator[list[int]]:
    """Yields the numbers of pieces, some at a time, that have as many rows together, or less."""
    batch: list[int] = []
    rows = 0
    for number in numbers:
        if batch and rows + pieces[number].rows > rows_max:
            yield batch
            batch, rows = [], 0
        batch.append(number)
        rows += pieces[number].rows
    if batch:
        yield batch


def row_numbers(pieces: Sequence[Piece], numbers: Sequence[int]) -> I64:
    """Returns the numbers of all rows of some pieces, counted through the file."""
    chosen = [pieces[number] for number in numbers]
    ranges = [np.arange(piece.first_row, piece.first_row + piece.rows) for piece in chosen]
    every: I64 = np.concatenate(ranges) if ranges else np.empty(0, np.int64)
    return every
