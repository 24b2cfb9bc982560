"""Rows, schemas and files that tests of SSTables share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.metadata.file_entry import KIND_COLUMN, FileEntry, FileFormat, RowKind
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import Field, Primitive, StringType
from lakehouse.kernels.compiled import Loops, numba_available

__all__ = ["SCHEMA", "WAYS", "entry_of", "looped", "rows_of", "with_kinds"]

SCHEMA = TableSchema(
    fields=(
        Field(id=1, name="id", type=Primitive("int64"), required=True),
        Field(id=2, name="amount", type=Primitive("double")),
        Field(id=3, name="note", type=StringType()),
    ),
    primary_key=("id",),
    highest_field_id=3,
)
WAYS = ("interpreted", "compiled") if numba_available() else ("interpreted",)
"""How loops run here."""

_compiled_for = Loops.compiled_for


@contextmanager
def looped(way: str) -> Iterator[None]:
    """Runs all loops this way, however little work there is."""

    def compiled_for(self: Loops, work: int, *, wanted: bool | None = None) -> Any:
        return _compiled_for(self, work, wanted=way == "compiled")

    with mock.patch.object(Loops, "compiled_for", compiled_for):
        yield


def rows_of(count: int, *, step: int = 2) -> pa.Table:
    """Rows of the schema, their ids 0, 2, 4 …; every seventh row has no amount."""
    ids = np.arange(count) * step
    return pa.table(
        {
            "id": ids,
            "amount": pa.array([None if at % 7 == 3 else at / 4 for at in range(count)], pa.float64()),
            "note": pa.array([f"note {at % 100}" for at in range(count)]),
        }
    ).cast(SCHEMA.arrow())


def with_kinds(rows: pa.Table, kinds: Sequence[int]) -> pa.Table:
    """The rows with these kinds."""
    return rows.append_column(KIND_COLUMN, pa.array(kinds, pa.int8()))


def entry_of(data: bytes, rows: pa.Table, schema: TableSchema = SCHEMA, **about: Any) -> FileEntry:
    """What a snapshot says of a file."""
    kinds = rows.column(KIND_COLUMN).to_pylist() if KIND_COLUMN in rows.column_names else []
    low = high = None
    if schema.primary_key and rows.num_rows:
        keys = RowKeyCodec(schema.key_fields).encode([rows.column(name) for name in schema.primary_key])
        low, high = keys[0].as_py(), keys[-1].as_py()
    known: dict[str, Any] = {
        "path": "data/bucket-0/x.sst",
        "format": FileFormat.SSTABLE,
        "size": len(data),
        "rows": rows.num_rows,
        "deletes": kinds.count(RowKind.DELETE),
        "updates": kinds.count(RowKind.UPDATE),
        "min_key": low,
        "max_key": high,
    }
    return FileEntry(**(known | about))
