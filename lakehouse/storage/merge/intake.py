"""Intake of the rows of a write: fitted to the table's schema, with the kinds that they are stored with."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.metadata import RowKind
from lakehouse.format.schema import TableSchema
from lakehouse.storage.merge.engines import merge_engine
from lakehouse.storage.merge.ordering import with_kinds
from lakehouse.storage.rows.fit_to_schema import conform
from lakehouse.storage.rows.input_tables import fitted_chunks
from lakehouse.storage.rows.missing_columns import Missing, refusing_missing

__all__ = ["RowIntake"]


class RowIntake:
    """Makes of the rows handed in what a table stores: inserts, operands of its merge engine, or deletes.

    Args:
        schema: of the table.
        deletes: whether the rows are keys (the columns of the primary key alone) to be deleted.
        missing: treatment of columns that rows lack, except for ``keep``, which needs a base.

    Raises:
        InvalidInputError: rows of a table without a key are to be deleted.
    """

    def __init__(self, schema: TableSchema, *, deletes: bool, missing: Missing | None) -> None:
        if deletes and not schema.primary_key:
            raise InvalidInputError("rows are deleted by key, and the table has no primary key")
        self._engine, self._deletes = merge_engine(schema), deletes
        self._schema = schema.key_schema() if deletes else schema
        self._check = None if deletes else refusing_missing(schema, missing)

    @property
    def stores_nothing(self) -> bool:
        """Whether the rows delete, in a table that ignores deletes."""
        return self._deletes and self._engine.ignores_deletes

    def chunks(self, data: object, *, chunk_bytes: int) -> AsyncGenerator[pa.Table, None]:
        """Yields the rows of any accepted input as tables of bounded size."""
        return fitted_chunks(data, self._schema, chunk_bytes=chunk_bytes, check=self._check, fit=self._stored)

    async def all_of(self, data: object, *, chunk_bytes: int) -> pa.Table:
        """Returns all rows as one table."""
        tables = [rows async for rows in self.chunks(data, chunk_bytes=chunk_bytes)]
        return pa.concat_tables(tables) if tables else self.of_table(self._schema.arrow().empty_table())

    def of_table(self, table: pa.Table) -> pa.Table:
        """Returns the rows of a table; computes, for a thread where they are many."""
        if self._check is not None and table.num_rows:
            self._check(table.column_names, None)
        return self._stored(table, self._schema)

    def _stored(self, table: pa.Table, schema: TableSchema, *, first_row: int = 0) -> pa.Table:
        rows = conform(table, schema, first_row=first_row)
        return with_kinds(rows, RowKind.DELETE) if self._deletes else self._engine.operands(rows)
