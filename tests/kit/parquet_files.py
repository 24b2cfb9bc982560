"""Parquet files in a store of their own, with the entries a snapshot would have of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import google_crc32c
import numpy as np
import pyarrow as pa

from lakehouse.cache import CacheBudget
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.metadata.file_entry import KIND_COLUMN, FileEntry
from lakehouse.format.parquet.writer import ParquetOptions, encode_parquet
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.io.decorators import InstrumentedStore
from lakehouse.storage.files.parquet import ParquetRun, open_parquet
from lakehouse.storage.metadata.caches import RunCaches
from lakehouse.testing import RecordingStore, memory_store

__all__ = ["ROOT", "StoredFile", "key_of", "stored"]

ROOT = "db/t-01020304"
PATH = "data/bucket-0/file.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file in a store, and what opens it."""

    store: RecordingStore
    entry: FileEntry
    schema: TableSchema
    caches: RunCaches
    data: bytes

    async def open(self, schema: TableSchema | None = None) -> ParquetRun:
        """A reader of it, made with its own schema or a later one."""
        return await open_parquet(self.store, ROOT, self.entry, schema or self.schema, self.caches)

    async def put(self, data: bytes) -> None:
        """Other bytes in its place."""
        await self.store.put(f"{ROOT}/{self.entry.path}", data)
        self.store.clear()

    def afresh(self, **changes: object) -> StoredFile:
        """The same file with empty caches, and a changed entry."""
        return replace(self, caches=RunCaches(CacheBudget()), entry=replace(self.entry, **changes))


def key_of(schema: TableSchema, *values: object) -> bytes:
    """The row key of these values."""
    return RowKeyCodec(schema.key_fields).encode_one(values)


async def stored(
    rows: pa.Table, schema: TableSchema, *, group_rows: int = 131_072, codec: str = "zstd"
) -> StoredFile:
    """The rows as a file in a new store that has counted no request yet."""
    options = ParquetOptions(row_group_rows=group_rows, compression=codec)
    data = encode_parquet(rows, schema, options).to_pybytes()
    kinds = rows[KIND_COLUMN].to_numpy() if KIND_COLUMN in rows.column_names else np.zeros(rows.num_rows, int)
    keys: list[bytes | None] = [None, None]
    if schema.primary_key:
        columns = [rows[name].take([0, rows.num_rows - 1]) for name in schema.primary_key]
        keys = RowKeyCodec(schema.key_fields).encode(columns).to_pylist()
    entry = FileEntry(
        path=PATH,
        size=len(data),
        rows=rows.num_rows,
        updates=int((kinds == 1).sum()),
        deletes=int((kinds == 2).sum()),
        min_key=keys[0],
        max_key=keys[1],
        schema_id=schema.id,
        checksum=google_crc32c.value(data),
    )
    file = StoredFile(
        store=RecordingStore(InstrumentedStore(memory_store())),
        entry=entry,
        schema=schema,
        caches=RunCaches(CacheBudget()),
        data=data,
    )
    await file.put(data)
    return file
