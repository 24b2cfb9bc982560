"""Reader of small Parquet files whole, with a bound on the memory of the result.

Few bytes of Parquet may stand for any number of rows, and for rows of any size. So the footer's counts
are checked before anything is decoded, and rows are decoded a few at a time.

Invariant: no more than ``bytes_max`` and one slice of rows is ever in memory.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["read_bounded"]

_SLICE_ROWS = 8192
_VALUE_BYTES = 1
"""Minimum bytes of a value in memory, nulls included, in any type."""


def read_bounded(file: pq.ParquetFile, *, bytes_max: int) -> pa.Table:
    """Returns all rows of a file; ValueError when they take more than ``bytes_max`` bytes in memory."""
    metadata = file.metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(metadata.num_columns)]
    values = sum(chunk.num_values for chunk in chunks)
    if metadata.num_rows < 0 or values < 0 or (values + metadata.num_rows) * _VALUE_BYTES > bytes_max:
        raise ValueError(f"it says that it has {values:,} values, more than {bytes_max:,} bytes hold")
    # A dictionary has a value once and rows repeat it; no value is larger than its column's pages.
    largest = max((chunk.total_uncompressed_size for chunk in chunks), default=0)
    rows = min(max(bytes_max // max(largest, 1), 1), _SLICE_ROWS)
    slices: list[pa.RecordBatch] = []
    room = bytes_max
    # Threads take longer to begin than to read so little.
    for batch in file.iter_batches(batch_size=rows, use_threads=False):  # io-ok: bytes in memory
        room -= batch.nbytes
        if room < 0:
            raise ValueError(f"its rows take more than {bytes_max:,} bytes in memory")
        slices.append(batch)
    return pa.Table.from_batches(slices, file.schema_arrow)
