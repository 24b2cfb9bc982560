"""Rows on their way into the log: what is put becomes rows that fit, and puts become one batch."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.metadata import KIND_COLUMN, WalBatch
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import in_thread
from lakehouse.storage.merge.intake import RowIntake
from lakehouse.storage.merge.ordering import with_kinds
from lakehouse.storage.rows.fit_to_schema import with_columns
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.missing_columns import Missing

__all__ = ["log_batch", "put_weight", "rows_of"]

_PUT_BYTES_MAX = 512 * 1024 * 1024
_FEW_ROWS = 4_096
"""Rows up to which handing them to a thread takes longer than the work itself."""


async def rows_of(data: object, schema: TableSchema, *, deletes: bool, missing: Missing | None) -> pa.Table:
    """All rows handed in, checked; with their kinds when they delete."""
    intake = RowIntake(schema, deletes=deletes, missing=missing)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table) and data.num_rows <= _FEW_ROWS:
        rows = intake.of_table(data)
    else:
        rows = await intake.all_of(data, chunk_bytes=_PUT_BYTES_MAX)
    return rows.slice(0, 0) if intake.stores_nothing else rows


def put_weight(rows: pa.Table, schema: TableSchema) -> int:
    """Bytes of the rows of one put in the log, where the columns that they lack are null.

    Raises:
        InvalidInputError: no segment of the log holds so many.
    """
    lacking = [one.type for one in schema.arrow() if one.name not in rows.column_names]
    weight = int(rows.nbytes + rows.num_rows * sum(pa.nulls(1, kind).nbytes for kind in lacking))
    if weight > _PUT_BYTES_MAX:
        raise InvalidInputError(
            f"one put holds {weight:,} bytes, and a segment of the log at most {_PUT_BYTES_MAX:,}: "
            "write such amounts with append or upsert, or in smaller puts"
        )
    return weight


async def log_batch(tables: Sequence[pa.Table], schema: TableSchema) -> WalBatch:
    """The rows of some puts as one batch of the log, made in a thread where they are many."""
    if sum(table.num_rows for table in tables) <= _FEW_ROWS:
        return _batch(tables, schema)
    return await in_thread(_batch, tables, schema)


def _batch(tables: Sequence[pa.Table], schema: TableSchema) -> WalBatch:
    """Joins the rows of several puts, in their order, into one batch."""
    kinds = any(KIND_COLUMN in table.column_names for table in tables)
    names = schema.arrow().names
    filled = []
    for table in tables:
        table = with_columns(table, schema.arrow())
        if kinds and KIND_COLUMN not in table.column_names:
            table = with_kinds(table, None)
        # Keys to delete come in the order of the primary key.
        filled.append(table.select([*names, KIND_COLUMN] if kinds else names))
    if kinds:
        kind = filled[0].schema.field(KIND_COLUMN)
        arrow = pa.schema([*(one.with_nullable(True) for one in schema.arrow()), kind])
        filled = [table.cast(arrow) for table in filled]
    # Copied also where it is one table: rows are held after the acknowledgement, whatever the caller does
    # with its arrays by then, and a slice would hold all that it was cut from.
    rows = pa.concat_tables([*filled, filled[0].slice(0, 0)]).combine_chunks()
    if not schema.primary_key:
        return WalBatch(rows=rows)
    keys = KeyColumns(schema.key_fields).encoded(rows)
    low, high = pa.compute.min_max(keys).values()
    return WalBatch(rows=rows, min_key=low.as_py(), max_key=high.as_py())
