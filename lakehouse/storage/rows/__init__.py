"""Rows in memory: taken in, fitted to a schema, sorted by key, cut by partition and bucket.

Words: *input* (whatever a user hands in) → *chunk* (an Arrow table of bounded size) → *conformed* rows
(typed as the schema has them) → *part* (rows of one partition and bucket, in key order).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.rows.column_mismatches import column_differences
    from lakehouse.storage.rows.duplicate_keys import same_key_error
    from lakehouse.storage.rows.fit_to_schema import conform
    from lakehouse.storage.rows.key_arrays import KeyColumns
    from lakehouse.storage.rows.key_sort import by_key
    from lakehouse.storage.rows.missing_columns import Missing, check_missing, refuse_keep, refusing_missing
    from lakehouse.storage.rows.partitioner import joined
    from lakehouse.storage.rows.row_size import RowSize, value_width
    from lakehouse.storage.rows.take import take_from_tables, take_rows

__all__ = [
    "KeyColumns",
    "Missing",
    "RowSize",
    "by_key",
    "check_missing",
    "column_differences",
    "conform",
    "joined",
    "refuse_keep",
    "refusing_missing",
    "same_key_error",
    "take_from_tables",
    "take_rows",
    "value_width",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "column_mismatches": "column_differences",
        "duplicate_keys": "same_key_error",
        "fit_to_schema": "conform",
        "key_arrays": "KeyColumns",
        "key_sort": "by_key",
        "missing_columns": "Missing check_missing refuse_keep refusing_missing",
        "partitioner": "joined",
        "row_size": "RowSize value_width",
        "take": "take_rows take_from_tables",
    },
)
