"""Interface of data files, whatever their format: pieces that can be read separately.

Rows are passed as Arrow tables with the columns of a schema, and the column ``_VALUE_KIND`` (int8 of
``RowKind``) where some row is no insert. Within a file they are sorted by row key, one row per key.

Invariant: a reader returns columns by field id, typed and named as asked, whatever schema the file
was written with; it reads no byte of a column or piece that was not asked for, metadata aside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from lakehouse.config import TableSettings
from lakehouse.format.metadata import ColumnStats, FileEntry
from lakehouse.format.schema import Field, TableSchema
from lakehouse.kernels.arrays import I64

__all__ = ["EVERY_KEY", "EVERY_ROW", "KeyRange", "Piece", "RowRange", "RunReader", "RunSource", "has_keys"]

RowRange = tuple[int, int]
"""Range of a file's row numbers, [first, second): the pieces whose first row is in it."""
EVERY_ROW: RowRange = (0, 1 << 62)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a file that is read at once: a row group, or some neighbouring blocks."""

    rows: int
    first_row: int
    """Number of its first row in the file."""
    size: int
    """Estimated bytes that a read of all its columns fetches."""
    start: int = 0
    """Place of its first byte in the file, where the format tells."""
    min_key: bytes | None = None
    """Row key of its first row; None in append-only tables."""
    max_key: bytes | None = None
    """Row key of its last row."""
    stats: Mapping[int, ColumnStats] = field(default_factory=dict)
    """Statistics of columns, by field id, where the format keeps them per piece."""


class RunReader(Protocol):
    """One open data file; its metadata is in memory."""

    @property
    def entry(self) -> FileEntry: ...

    @property
    def pieces(self) -> Sequence[Piece]:
        """The file's pieces, in key order (row order in append-only tables)."""
        ...

    async def read(
        self,
        fields: Sequence[Field],
        pieces: Sequence[int] | None = None,
        *,
        kinds: bool = False,
        rows: I64 | None = None,
    ) -> pa.Table:
        """Reads these columns of these pieces (None = all), with ``_VALUE_KIND`` last when asked for.

        ``rows`` are the numbers of the rows to return, ascending, counted through the pieces; None = all.
        """
        ...

    async def load(
        self, fields: Sequence[Field], pieces: Sequence[int] | None = None, *, kinds: bool = False
    ) -> RunReader:
        """Fetches these columns of these pieces; returns a reader of them that fetches nothing else.

        A format that does not store columns separately returns itself.
        """
        ...

    async def get(self, key: bytes, fields: Sequence[Field]) -> pa.Table:
        """Returns the row of that row key, with its ``_VALUE_KIND``, as a table of one row, or of none."""
        ...


class RunSource(Protocol):
    """Opener of a table's data files."""

    @property
    def settings(self) -> TableSettings:
        """Bounds on the reads of the table."""
        ...

    async def open(self, entry: FileEntry, schema: TableSchema) -> RunReader:
        """Opens a reader of a file, for reads with a schema."""
        ...


KeyRange = tuple[bytes | None, bytes | None]
"""Range of row keys, [first, second); None = no bound on that side."""


EVERY_KEY: KeyRange = (None, None)


def has_keys(part: FileEntry | Piece, keys: KeyRange) -> bool:
    """Returns whether a file or a piece of one may have a key of the range; without a primary key it may."""
    low, end = keys
    return (low is None or part.max_key is None or part.max_key >= low) and (
        end is None or part.min_key is None or part.min_key < end
    )
