"""Files that pyarrow wrote in a store of their own, and scans of them."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.cache import CacheBudget
from lakehouse.config import TableSettings
from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema.table_schema import schema_from_arrow
from lakehouse.io.decorators import InstrumentedStore
from lakehouse.storage.files.foreign import ForeignFiles, foreign_entry
from lakehouse.storage.metadata.caches import RunCaches
from lakehouse.storage.scan import Scan
from lakehouse.testing import RecordingStore, memory_store

__all__ = ["ROWS", "SCHEMA", "plain", "scanned", "source", "written"]

_PLACE = pa.struct({"x": pa.int32(), "y": pa.list_(pa.int64())})
ROWS = pa.table(
    {
        "id": pa.array(range(1_000), pa.int64()),
        "name": pa.array([None if n % 10 == 3 else f"n{n:04}" for n in range(1_000)], pa.string()),
        "score": pa.array([float("nan") if n == 150 else n / 2 for n in range(1_000)], pa.float64()),
        "place": pa.array([{"x": n, "y": [n]} for n in range(1_000)], _PLACE),
    }
)
SCHEMA = schema_from_arrow(ROWS.schema)


async def written(rows: pa.Table = ROWS, **options: Any) -> tuple[RecordingStore, FileEntry]:
    """A store with the rows as a file that pyarrow wrote, and an entry for it."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, **{"row_group_size": 100, **options})
    store = RecordingStore(InstrumentedStore(memory_store()))
    await store.put("in/a.parquet", sink.getvalue())
    store.clear()
    return store, foreign_entry("in/a.parquet", size=len(sink.getvalue()), rows=rows.num_rows)


def source(store: RecordingStore, **options: Any) -> ForeignFiles:
    """The source of such files."""
    return ForeignFiles(store, RunCaches(CacheBudget()), settings=TableSettings(), **options)


async def scanned(scan: Scan) -> pa.Table:
    """All rows of a scan."""
    return pa.concat_tables([scan.schema.empty_table(), *[table async for table in scan.tables()]])


def plain(rows: pa.Table) -> list[dict[str, object]]:
    """The rows as Python has them, with a NaN that is equal to itself."""
    found: list[dict[str, object]] = rows.to_pylist()
    return [{name: "nan" if value != value else value for name, value in row.items()} for row in found]
