"""Reads the changes between two snapshots in Spark, as one batch of the table's stream.

A table with a key delivers net changes with the column ``_change`` (insert, update_before, update_after,
delete), as ``Table.changes`` has them; a table without one delivers the rows that were added.

Invariant: the rows are those that a stream from the first snapshot has read once it is at the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lakehouse.errors import InvalidInputError
from lakehouse.spark.reading.table_reader import TableReader
from lakehouse.spark.runtime.connection import warehouse
from lakehouse.spark.runtime.errors import carried
from lakehouse.spark.streaming.offsets import StreamOffset
from lakehouse.spark.streaming.reader import LakehouseStreamReader
from lakehouse.storage.cdc import CHANGE_COLUMN, token_of
from lakehouse.storage.tables import OpenTable

__all__ = ["IncrementReader"]


class IncrementReader(TableReader, DataSourceReader):  # type: ignore[misc]
    """Reads what came between two snapshots."""

    def _prepare(self) -> None:
        # A stream refuses bounds among its options: the two positions of the batch are the bounds.
        streamed = replace(
            self._options,
            incremental_from=None,
            incremental_to=None,
            pin_s=None,
            changes=CHANGE_COLUMN in self._struct.fieldNames(),
        )
        self._stream = LakehouseStreamReader(self._connection, self._table, streamed, self._struct)

    def partitions(self) -> Sequence[InputPartition]:
        """Plans the parts that tasks read."""
        with carried():
            lake = warehouse(self._connection)
            start, end = lake.call(self._offsets, lake.table(self._table))
            return self._stream.partitions(start, end)

    async def _offsets(self, table: OpenTable) -> tuple[dict[str, Any], dict[str, Any]]:
        first, last = self._options.incremental_from, self._options.incremental_to
        before, after = await table.view(snapshot=first), await table.view(snapshot=last)
        if before.snapshot.id > after.snapshot.id:
            raise InvalidInputError(
                f"changes from snapshot {before.snapshot.id} to {after.snapshot.id} go back: swap them"
            )
        start, end = (StreamOffset(at=token_of(table, view)) for view in (before, after))
        return start.to_json(), end.to_json()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the rows of a part."""
        return self._stream.read(partition)
