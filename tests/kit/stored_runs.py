"""Commits of rows as real data files in a store that writes down its requests."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa

from lakehouse.cache import CacheBudget
from lakehouse.config import TableSettings
from lakehouse.format.metadata.file_entry import FileEntry
from lakehouse.format.schema.table_options import TableOptions
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.io.decorators import InstrumentedStore
from lakehouse.storage.files.open import open_run
from lakehouse.storage.files.reader import RunReader
from lakehouse.storage.files.row_writer import write_rows
from lakehouse.storage.metadata.caches import RunCaches
from lakehouse.testing import RecordingStore, memory_store

__all__ = ["StoredRuns"]

ROOT = "db/t-00000000"


class StoredRuns:
    """The data files of one table; opens them."""

    def __init__(self, schema: TableSchema, **options: Any) -> None:
        self.schema = schema
        self.options = dataclasses.replace(TableOptions(), **options)
        self.store = RecordingStore(InstrumentedStore(memory_store()))
        self.entries: list[FileEntry] = []
        self._caches = RunCaches(CacheBudget())
        self._commits = 0

    async def add(self, rows: pa.Table, *, deletes: bool = False, **options: Any) -> list[FileEntry]:
        """A commit of these rows, whose requests do not count."""
        self._commits += 1
        chosen = dataclasses.replace(self.options, **options)
        written = await write_rows(self.store, ROOT, self.schema, chosen, rows, deletes=deletes)
        fresh = [
            dataclasses.replace(
                entry,
                at=self._commits,
                lo=(self._commits, 1, entry.run),
                hi=(self._commits, 1, entry.run),
            )
            for entry in written.entries
        ]
        self.entries += fresh
        self.store.clear()
        return fresh

    def forget(self) -> None:
        """Empties the caches."""
        self._caches = RunCaches(CacheBudget())
        self.store.clear()

    settings = TableSettings()
    """Bounds on reads."""

    async def open(self, entry: FileEntry, schema: TableSchema | None = None) -> RunReader:
        """The reader of a file."""
        return await open_run(self.store, ROOT, entry, schema or self.schema, self._caches)

    def gets(self, entry: FileEntry | None = None) -> int:
        """Read requests so far, of one file or of all."""
        return sum(entry is None or call.key.endswith(entry.path) for call in self.store.calls)
