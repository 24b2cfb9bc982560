"""Columns that a file lacks and its task knows: values of identity partitions, and the lineage of rows.

A file that came into a table without being rewritten need not hold its partition columns. Row ids and the
commits of last changes stand in files that were rewritten; of other rows they follow from the file.

Invariant: a value that stands in a file wins over what its task says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import Field, Primitive
from lakehouse.iceberg.planning.tasks import ScanTask
from lakehouse.iceberg.reading.batches import row_numbers
from lakehouse.kernels.arrays import I64
from lakehouse.storage.files import Piece, RunReader

__all__ = ["CHANGED", "LINEAGE", "ROW_ID", "FilledRows"]

ROW_ID = Field(id=2_147_483_540, name="_row_id", type=Primitive("int64"))
"""Number of a row that it keeps through rewrites."""
CHANGED = Field(id=2_147_483_539, name="_last_updated_sequence_number", type=Primitive("int64"))
"""Sequence number of the commit that changed a row last."""
LINEAGE = (ROW_ID, CHANGED)


class FilledRows:
    """An open data file with the columns that its task knows: a ``RunReader``.

    Args:
        inner: the file, whose pieces are in the order of its rows.
        task: of the file.
        constants: values of columns that the file may lack, by field id.
    """

    __slots__ = ("_constants", "_inner", "_task", "entry", "pieces")

    def __init__(self, inner: RunReader, task: ScanTask, constants: Mapping[int, Any]) -> None:
        self._inner, self._task, self._constants = inner, task, constants
        self.entry: FileEntry = inner.entry
        self.pieces: Sequence[Piece] = inner.pieces

    async def read(
        self,
        fields: Sequence[Field],
        pieces: Sequence[int] | None = None,
        *,
        kinds: bool = False,
        rows: I64 | None = None,
    ) -> pa.Table:
        """Reads columns of pieces, with what the task knows where the file has nothing."""
        table = await self._inner.read(self._asked(fields), pieces, kinds=kinds, rows=rows)
        for at, field in enumerate(fields):
            if field.id == ROW_ID.id and self._task.first_row_id is not None:
                ids = self._row_numbers(pieces, rows) + self._task.first_row_id
                table = _filled(table, at, pa.array(ids))
            elif field.id == CHANGED.id and self._task.first_row_id is not None:
                table = _filled(table, at, self._task.sequence)
        return table

    async def load(
        self, fields: Sequence[Field], pieces: Sequence[int] | None = None, *, kinds: bool = False
    ) -> FilledRows:
        """Fetches columns of pieces; returns a reader of them that fetches nothing else."""
        inner = await self._inner.load(self._asked(fields), pieces, kinds=kinds)
        return FilledRows(inner, self._task, self._constants)

    async def get(self, key: bytes, fields: Sequence[Field]) -> pa.Table:
        """Refuses to look up a key: files of Iceberg tables have none."""
        return await self._inner.get(key, fields)

    def _asked(self, fields: Sequence[Field]) -> tuple[Field, ...]:
        known = self._constants
        return tuple(
            replace(field, initial_default=known[field.id]) if field.id in known else field
            for field in fields
        )

    def _row_numbers(self, pieces: Sequence[int] | None, rows: I64 | None) -> I64:
        numbers = row_numbers(self.pieces, range(len(self.pieces)) if pieces is None else pieces)
        return numbers if rows is None else numbers[rows]


def _filled(table: pa.Table, at: int, value: Any) -> pa.Table:
    return table.set_column(at, table.schema.field(at), pc.coalesce(table.column(at), value))
