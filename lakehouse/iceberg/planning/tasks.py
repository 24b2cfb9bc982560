"""Tasks of a scan: data files to read, each with the delete files that apply to it.

Invariant: a task says all that a reader needs of a file, so that it travels to another process alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr

__all__ = ["DeleteFile", "DeleteFormatName", "FileFormatName", "ScanTask", "data_format", "delete_format"]

FileFormatName = Literal["parquet", "avro", "orc"]
"""Formats of data files."""
DeleteFormatName = Literal["parquet", "avro", "orc", "puffin"]
"""Formats of delete files; only deletion vectors are in puffin files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A file of rows, or row numbers, that are deleted in some data files."""

    kind: Literal["position", "equality", "vector"]
    path: str
    """As the manifest has it."""
    format: DeleteFormatName = "parquet"
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
    residual: Expr | None = None
    """Condition that its rows have still to be asked; None = all that are not deleted match."""
    split_offsets: tuple[int, ...] = ()
    """Places where the file can be cut."""
    start: int = 0
    """Where the share of the file that is to be read begins: row groups that begin within it."""
    length: int | None = None
    """Bytes of that share; None = up to the end of the file."""


def data_format(name: str, path: str) -> FileFormatName:
    """Returns the format of a data file, which must be one that is read."""
    found: FileFormatName = _known_format(name, path, get_args(FileFormatName))
    return found


def delete_format(name: str, path: str) -> DeleteFormatName:
    """Returns the format of a delete file, which must be one that is read."""
    found: DeleteFormatName = _known_format(name, path, get_args(DeleteFormatName))
    return found


def _known_format(name: str, path: str, known: Sequence[str]) -> Any:
    if name not in known:
        raise InvalidInputError(
            f"{path} is of format {name}, and {', '.join(known)} are read: have its writer rewrite it",
            path=path,
            format=name,
        )
    return name
