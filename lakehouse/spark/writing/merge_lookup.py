"""Lookup of a merge on the primary key, in tasks: finds the table's row for each row of the source.

Rows of the source come sorted by key, and of the table's files only the pieces are read that may hold
their keys. The driver has listed the files; a task lists nothing.

Invariant: each row of the source comes out once, beside the row of its key in the snapshot, or null.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakehouse.errors import NotFoundError
from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.runtime.errors import carried
from lakehouse.spark.writing.task import together
from lakehouse.storage.rows import KeyColumns, conform, take_from_tables
from lakehouse.storage.scan import FoundRows, Lookup
from lakehouse.storage.schema import Lifetime

__all__ = ["SOURCE", "TARGET", "LookupJob", "beside_target"]

SOURCE, TARGET = "source", "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupJob:
    """The files and columns in which tasks of a merge look rows up."""

    connection: Connection
    name: str
    table: uuid.UUID
    entries: tuple[FileEntry, ...]
    """Entries of the table's files, without statistics, which lookups do not need."""
    schema: TableSchema
    shows: Lifetime | None
    columns: tuple[str, ...]
    """Columns of the table that the merge needs."""
    target: pa.Field
    """Field of the struct column ``target``, with the types that Spark takes."""


def beside_target(job: LookupJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turns rows ``(source, key columns…)`` into rows ``(source, target)``."""
    lake = warehouse(job.connection)
    error = NotFoundError(f"table {job.name} was dropped while rows were merged into it", table=job.name)
    table, schema = lake.same_table(job.name, job.table, error), job.schema
    lookup = Lookup(job.entries, schema, table, shows=job.shows)
    keys = KeyColumns(schema.key_fields)
    fields = [schema.field(name) for name in job.columns]
    with carried():
        for arrow_rows in together(batches):
            wanted = conform(arrow_rows.select(schema.primary_key), schema.key_schema()).combine_chunks()
            rows = lake.call(lookup.find, wanted, fields)
            targets = _struct(rows, rows.places(keys, wanted), job.target)
            whole = pa.table(
                [arrow_rows.column(SOURCE), targets],
                schema=pa.schema([arrow_rows.schema.field(SOURCE), job.target]),
            )
            yield from whole.combine_chunks().to_batches()


def _struct(found: FoundRows, places: pa.Array, field: pa.Field) -> pa.Array:
    """Returns the rows as one struct column, null where there is no row."""
    missing = np.asarray(places.is_null())
    if not found.rows.num_rows:
        return pa.nulls(len(places), field.type)
    # Where there is no row the first one stands in, hidden by the mask.
    rows = take_from_tables([found.rows], places.fill_null(0).to_numpy())
    columns: Sequence[pa.Array] = [
        column.cast(part.type) if column.type != part.type else column
        for column, part in zip((column.combine_chunks() for column in rows.columns), field.type, strict=True)
    ]
    return pa.StructArray.from_arrays(
        [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns],
        fields=list(field.type),
        mask=pa.array(missing),
    )
