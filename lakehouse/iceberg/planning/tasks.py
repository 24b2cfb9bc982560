"""Tasks of a scan: data files to read, each with the delete files that apply to it.

Invariant: a task says all that a reader needs of a file, so that it travels to another process alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["DeleteFile", "FileFormatName", "ScanTask"]

FileFormatName = Literal["parquet", "avro", "orc"]
"""Formats of data files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A file of rows, or row numbers, that are deleted in some data files."""

    kind: Literal["position", "equality", "vector"]
    path: str
    """As the manifest has it."""
    format: Literal["parquet", "avro", "orc", "puffin"] = "parquet"
    size: int
    """Bytes of the file."""
    rows: int
    """Its rows; of a vector, the rows that it deletes."""
    spec_id: int = 0
    sequence: int = 0
    """Data sequence number."""
    equality_ids: tuple[int, ...] = ()
    """Fields by which rows are compared, of equality deletes."""
    referenced: str | None = None
    """The only data file that it is about, where that is known."""
    offset: int | None = None
    """Place of the vector's blob in the file."""
    length: int | None = None
    """Bytes of the vector's blob."""
    path_bounds: tuple[str, str] | None = None
    """Least and greatest data path in it, where that is known of position deletes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """A data file to read."""

    path: str
    """As the manifest has it."""
    format: FileFormatName = "parquet"
    size: int
    """Bytes of the file."""
    rows: int
    """Rows of the file, deleted ones included."""
    spec_id: int = 0
    partition: tuple[Any, ...] = ()
    """Values of the partition, in the order of the spec's fields."""
    sequence: int = 0
    """Data sequence number."""
    first_row_id: int | None = None
    """Row id of its first row, from version 3 on."""
    deletes: tuple[DeleteFile, ...] = ()
    """Delete files that apply to it by the rules of sequence numbers and partitions."""
