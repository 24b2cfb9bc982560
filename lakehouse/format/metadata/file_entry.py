"""Entries of data files in a snapshot: each file's place, its rows, and their positions in time.

Invariant: an entry suffices to decide, without opening the file, whether it may hold a key or a
value. Keys and bounds are order-preserving bytes (``docs/spec/v1/row-key.md``): comparing them as
bytes is comparing the values, whatever type the column was widened to since.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "KIND_COLUMN",
    "SEQUENCE_COLUMN",
    "ColumnStats",
    "FileEntry",
    "FileFormat",
    "IndexRef",
    "Level",
    "Position",
    "RowKind",
]

KIND_COLUMN = "_VALUE_KIND"
"""Column of rows under way and in files: an int8 of :class:`RowKind`; absent = all inserts."""
SEQUENCE_COLUMN = "_SEQUENCE_NUMBER"
"""Column of data files: the snapshot a row came with, null = that of the file's first position."""

Position = tuple[int, int, int]
"""Position in the order of a merge unit: (snapshot, 0 covered WAL segment | 1 own run, number)."""


class RowKind(enum.IntEnum):
    """Kind of a row: its effect on the older rows of its key."""

    INSERT = 0
    """A full row that hides everything older."""
    UPDATE = 1
    """An operand that is merged onto what is older."""
    DELETE = 2
    """The key has no row any more."""


class FileFormat(enum.StrEnum):
    """Format of a data file."""

    PARQUET = "parquet"
    SSTABLE = "sst"
    WAL = "wal"
    """Rows of a WAL segment, put into order in memory; never in a manifest or a snapshot."""


class Level(enum.IntEnum):
    """Stage of compaction of a file."""

    FRESH = 0
    """Written by a commit or a flush, not compacted yet."""
    COMPACTED = 1
    """Merged from several runs."""
    BOTTOM = 2
    """Merged with the oldest run of its merge unit: inserts only, nothing older below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStats:
    """Statistics of the values of one column of one file; rows of kind DELETE are left out."""

    nulls: int
    """Rows without a value."""
    low: bytes | None = None
    """Lower bound, inclusive; None = not known, or there is no value (``nulls`` = rows then)."""
    high: bytes | None = None
    """Upper bound, inclusive; None as for ``low``."""
    exact: bool = False
    """True if both bounds are values that occur, not cut ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRef:
    """A puffin file that belongs to a data file."""

    path: str
    size: int
    ids: tuple[int, ...] = ()
    """Ids of the index definitions whose indexes it holds, ascending."""
    footer_bytes: int = 0
    """Length of its footer in bytes; 0 = not known."""
    checksum: int | None = None
    """CRC32C of its footer, which has the checksums of the rest of the file."""
    reach: tuple[int, ...] = ()
    """For each of :attr:`ids` the bytes from the start of its blob to the end of the file; 0 = not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A data file of a snapshot. Its identity is its path."""

    path: str
    """Key relative to the table's directory."""
    partition: tuple[bytes, ...] = ()
    """Partition values, order-preserving bytes, in the order of the partition columns."""
    bucket: int = 0
    total_buckets: int = 1
    """Number of buckets when the file was written."""
    run: int = 0
    """Number of its run among its commit's runs in a merge unit; files of one run have disjoint keys."""
    at: int | None = None
    """Snapshot that added the entry; None = the one it is read from."""
    lo: Position | None = None
    """First position of its rows; None = inherited: ``(at, 1, run)``. Snapshot 0 stands for ``at``."""
    hi: Position | None = None
    """Last position of its rows; None = inherited."""
    level: Level = Level.FRESH
    format: FileFormat = FileFormat.PARQUET
    size: int
    """Size of the file in bytes."""
    rows: int
    """Rows of every kind."""
    deletes: int = 0
    """Rows of kind DELETE among them."""
    updates: int = 0
    """Rows of kind UPDATE among them."""
    min_key: bytes | None = None
    """Least row key; None in a table without a primary key."""
    max_key: bytes | None = None
    """Greatest row key."""
    stats: Mapping[int, ColumnStats] = field(default_factory=dict)
    """Statistics by field id; those of a missing field are not known."""
    schema_id: int = 0
    """Id of the schema its rows were written with."""
    checksum: int | None = None
    """CRC32C of the file."""
    index: IndexRef | None = None
