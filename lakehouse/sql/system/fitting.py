"""Fitting: what calls on tables return, as batches of the columns that a system table has for every table.

Invariant: columns that nobody asked for are not converted; columns that a table's format has not are null.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.sql.system.json_values import JSON, json_texts
from lakehouse.sql.system.masking import locations_masked

__all__ = ["fitted", "names_before"]


def fitted(
    rows: pa.Table, schema: pa.Schema, columns: Sequence[str], masked: Collection[str] = ()
) -> pa.RecordBatch:
    """Returns rows as one batch of these columns of a schema.

    Args:
        rows: columns by name; those that the schema has not are left out.
        schema: types.
        columns: names of the columns, in order.
        masked: columns whose values are locations, to be replaced by pseudonyms.
    """
    arrays = []
    for name in columns:
        kind = schema.field(name).type
        if name not in rows.column_names:
            arrays.append(pa.nulls(rows.num_rows, kind))
            continue
        found = _as(rows.column(name), kind)
        arrays.append(locations_masked(found) if name in masked else found)
    fields = [schema.field(name) for name in columns]
    # Without a column a batch would forget how many rows it has.
    counted = pa.record_batch([*arrays, pa.nulls(rows.num_rows)], pa.schema([*fields, ("", pa.null())]))
    return counted.select(list(range(len(arrays))))


def _as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    if kind == JSON:
        texts = column if pa.types.is_string(column.type) else json_texts(column)
        return pa.ExtensionArray.from_storage(JSON, _whole(texts))
    return _whole(column if column.type == kind else pc.cast(column, kind))


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def names_before(rows: pa.Table, names: Sequence[str], values: Sequence[str]) -> pa.Table:
    """Returns rows with columns in front of them that have one value each; without names as they are."""
    for at, (name, value) in enumerate(zip(names, values, strict=False)):
        rows = rows.add_column(at, name, pa.repeat(value, rows.num_rows))
    return rows
