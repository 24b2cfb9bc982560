"""Readers of a table, in the driver and in executors: what all of them know, and how they open it.

Invariant: what is planned stays in the process that planned it; a reader travels with what it was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from pyspark.sql.types import StructType

from lakehouse.config import TableSettings
from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr
from lakehouse.format.schema import TableSchema
from lakehouse.spark.reading.options import ReadOptions
from lakehouse.spark.runtime.connection import Connection, Warehouse, warehouse
from lakehouse.spark.runtime.types import arrow_for_spark
from lakehouse.storage.scan import Scan, Split
from lakehouse.storage.tables import OpenTable

__all__ = ["TableReader", "scan_of"]


class TableReader:
    """A reader of a table.

    Args:
        connection: the warehouse.
        table: its name.
        options: what is asked for.
        schema: the columns, as Spark wants them.
        cores: how many tasks run at once, where that is known.
    """

    def __init__(
        self,
        connection: Connection,
        table: str,
        options: ReadOptions,
        schema: StructType,
        *,
        cores: int | None = None,
    ) -> None:
        self._connection, self._table, self._options = connection, table, options
        self._struct, self._cores = schema, cores
        self._arrow = arrow_for_spark(schema)
        self._planning: Any = None
        self._prepare()

    def _prepare(self) -> None:
        """Prepares what a reader of this kind has besides; refuses options that it does not take."""

    def __getstate__(self) -> dict[str, Any]:
        # What is planned travels with the parts.
        return {**self.__dict__, "_planning": None}

    def _opened(self, known: UUID, otherwise: str) -> tuple[Warehouse, OpenTable]:
        """Opens the table, if it is still the one that was planned with.

        Args:
            known: its id.
            otherwise: what is wrong and what to do when it is another by now.
        """
        lake = warehouse(self._connection)
        error = InvalidInputError(
            f"{self._table} is another table than it was when {otherwise}", table=self._table
        )
        return lake, lake.same_table(self._table, known, error)


def scan_of(
    table: OpenTable,
    split: Split,
    schema: TableSchema,
    *,
    columns: Sequence[str],
    where: Expr | None,
    settings: TableSettings | None = None,
) -> Scan:
    """Returns a scan of the rows of a split; None for ``settings`` = those of the table's connection."""
    return Scan(
        split.entries,
        schema,
        table,
        columns=columns,
        where=where,
        keys=split.keys,
        rows=split.rows,
        settings=settings,
    )
