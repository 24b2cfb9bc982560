"""About how many bytes a row takes in memory: guessed from the files, then learned from what is read; and
how many rows a row group may have for it.

Invariant: an estimate is at least a byte; it bounds memory only as well as rows are alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import Field, TableOptions, arrow_type

__all__ = ["RowSize", "group_rows", "value_width"]

_TEXT_BYTES = 32
"""What a value without a fixed width is taken to need."""
_UNPACKED = 2
"""How much more rows take in memory than in a file."""
_GROUP_BYTES = 64 * 1024 * 1024
_GROUP_ROWS_LEAST = 8 * 1024
"""A group of fewer rows is not worth its metadata, however wide they are."""


def value_width(field: Field) -> int:
    """About how many bytes a value of the column takes, going by its type."""
    try:
        return max(1, int(arrow_type(field.type).bit_width) // 8)
    except ValueError:
        return _TEXT_BYTES


def group_rows(options: TableOptions, row_bytes: float) -> int:
    """Rows of a row group: as the options say, or as fit into what should be read at once."""
    fitting = int(_GROUP_BYTES / max(1.0, row_bytes))
    return min(options.parquet_row_group_rows, max(_GROUP_ROWS_LEAST, fitting))


class RowSize:
    """The size of rows of some columns of a table.

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
        self._guess = max(1.0, width, stored / max(1, rows) * share * _UNPACKED)
        self._rows = self._bytes = 0

    @property
    def bytes_per_row(self) -> float:
        """The mean of what was read, the guess before anything was."""
        return max(1.0, self._bytes / self._rows) if self._rows else self._guess

    def learn(self, table: pa.Table) -> None:
        """Takes rows that were read into account."""
        self._rows += table.num_rows
        self._bytes += table.nbytes
