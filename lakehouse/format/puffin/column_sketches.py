"""Statistics files: one theta sketch for each column of a table, with what else was counted.

A statistics file is a puffin file with blobs of type ``apache-datasketches-theta-v1``. Iceberg's property
``ndv`` is the estimate; ``rows``, ``nulls``, ``low`` and ``high`` (hex of order-preserving bytes) are ours.
The file's property ``share`` says how much of the table was read, ``ndv-of-all`` estimates the whole then.

Invariant: all but the sketches themselves is read from the footer, and what is not a number or no hex there
is not known, never an error: statistics are a help and not the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lakehouse.format.puffin.builder import PuffinBuilder
from lakehouse.format.puffin.footer import BlobMeta, PuffinFooter
from lakehouse.format.puffin.theta_sketch import NDV, THETA_SKETCH, number_of_properties

__all__ = ["ColumnSketch", "SketchedTable", "encode_sketches", "sketches_of"]

_ROWS, _NULLS, _LOW, _HIGH, _SHARE = "rows", "nulls", "low", "high", "share"
_NDV_OF_ALL = "ndv-of-all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSketch:
    """Facts of one column."""

    field_id: int
    ndv: int | None
    """Estimated number of distinct values among the rows that were read; None = not known, as in all."""
    ndv_of_all: int | None = None
    """Estimated number among all rows, where a part of them was read."""
    rows: int | None = None
    """Number of rows that were read."""
    nulls: int | None = None
    """Number of those without a value."""
    low: bytes | None = None
    """Least value as order-preserving bytes, or a lower bound."""
    high: bytes | None = None
    """Greatest value, or an upper bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchedTable:
    """Facts of a statistics file."""

    snapshot: int
    """Id of the snapshot that was read."""
    share: float
    """Share of its rows that was read; 1 = all."""
    columns: Mapping[int, ColumnSketch]
    """Columns by field id."""


def encode_sketches(table: SketchedTable, sketches: Mapping[int, bytes], *, created_by: str) -> bytes:
    """Encodes a statistics file; ``sketches`` has the sketch of each of the table's columns by field id."""
    builder = PuffinBuilder(
        properties={"created-by": created_by, _SHARE: repr(table.share)}, allow_duplicates=True
    )
    chunks: list[bytes | memoryview] = []
    for number, column in table.columns.items():
        chunks += builder.add(
            THETA_SKETCH,
            sketches[number],
            fields=(number,),
            snapshot_id=table.snapshot,
            sequence_number=table.snapshot,
            properties=_properties(column),
        )
    return b"".join([*chunks, builder.finish()])


def _properties(column: ColumnSketch) -> dict[str, str]:
    numbers = {NDV: column.ndv, _NDV_OF_ALL: column.ndv_of_all, _ROWS: column.rows, _NULLS: column.nulls}
    bounds = {_LOW: column.low, _HIGH: column.high}
    return {name: str(number) for name, number in numbers.items() if number is not None} | {
        name: bound.hex() for name, bound in bounds.items() if bound is not None
    }


def sketches_of(footer: PuffinFooter) -> SketchedTable:
    """Returns the facts that a statistics file's footer tells, of files of other engines, too."""
    blobs = [blob for blob in footer.blobs if blob.type == THETA_SKETCH and len(blob.fields) == 1]
    return SketchedTable(
        snapshot=max((blob.snapshot_id for blob in blobs), default=0),
        share=_share(footer.properties.get(_SHARE)),
        columns={blob.fields[0]: _column(blob) for blob in blobs},
    )


def _column(blob: BlobMeta) -> ColumnSketch:
    told = blob.properties
    return ColumnSketch(
        field_id=blob.fields[0],
        ndv=number_of_properties(told),
        ndv_of_all=number_of_properties(told, _NDV_OF_ALL),
        rows=number_of_properties(told, _ROWS),
        nulls=number_of_properties(told, _NULLS),
        low=_bound(told.get(_LOW)),
        high=_bound(told.get(_HIGH)),
    )


def _bound(text: str | None) -> bytes | None:
    try:
        return None if text is None else bytes.fromhex(text)
    except ValueError:
        return None


def _share(text: str | None) -> float:
    try:
        share = 1.0 if text is None else float(text)
    except ValueError:
        return 1.0
    return share if math.isfinite(share) and 0 < share <= 1 else 1.0
