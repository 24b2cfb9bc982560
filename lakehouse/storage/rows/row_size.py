"""Estimates of the bytes that a row takes in memory, from its files and then from rows read.

A row group's number of rows follows from them.

Invariant: an estimate is at least one byte; it bounds memory only as well as rows are alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import Field, TableOptions, arrow_type

__all__ = ["RowSize", "group_rows", "value_width"]

_TEXT_BYTES = 32
"""Bytes assumed for a value without a fixed width."""
_UNPACKED = 2
"""Factor by which rows take more memory than space in a file."""
_GROUP_BYTES = 64 * 1024 * 1024
"""Bytes of rows that a row group may hold in memory, as it is read at once."""
_GROUP_ROWS_LEAST = 8 * 1024
"""Minimum rows of a row group: with fewer, its metadata costs too much, however wide the rows are."""


def value_width(field: Field) -> int:
    """Estimates the bytes of a value of the column, by its type."""
    try:
        return max(1, int(arrow_type(field.type).bit_width) // 8)
    except ValueError:
        return _TEXT_BYTES


def group_rows(options: TableOptions, row_bytes: float) -> int:
    """Returns the rows of a row group: as the options set, or as many as may be read at once."""
    fitting = int(_GROUP_BYTES / max(1.0, row_bytes))
    return min(options.parquet_row_group_rows, max(_GROUP_ROWS_LEAST, fitting))


class RowSize:
    """Estimate of the size of rows of some columns of a table.

    Args:
        fields: the columns that are read; repetitions count once.
        every: all columns of the table.
        entries: the files they are read from.
    """

    def __init__(self, fields: Iterable[Field], every: Sequence[Field], entries: Iterable[FileEntry]) -> None:
        width = sum(value_width(field) for field in {field.id: field for field in fields}.values())
        share = width / sum(map(value_width, every))
        stored = rows = 0
        for entry in entries:
            stored += entry.size
            rows += entry.rows
        # The larger of two guesses: by the columns' types, and by the files' bytes.
        self._guess = max(1.0, width, stored / max(1, rows) * share * _UNPACKED)
        self._rows = self._bytes = 0

    @property
    def bytes_per_row(self) -> float:
        """Mean of the rows read; a guess from the files' sizes before any was."""
        return max(1.0, self._bytes / self._rows) if self._rows else self._guess

    def learn(self, table: pa.Table) -> None:
        """Includes rows that were read in the mean."""
        self._rows += table.num_rows
        self._bytes += table.nbytes
