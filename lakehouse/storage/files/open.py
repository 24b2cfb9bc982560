"""Opening of data files by their entry: the one place that knows all formats of runs."""

from __future__ import annotations

from collections.abc import Awaitable

from lakehouse.format.metadata import FileEntry, FileFormat
from lakehouse.format.schema import TableSchema
from lakehouse.io import ObjectStore
from lakehouse.storage.files.parquet import open_parquet
from lakehouse.storage.files.reader import RunReader
from lakehouse.storage.files.sstable import open_sstable
from lakehouse.storage.metadata.caches import RunCaches

__all__ = ["open_run"]


def open_run(
    store: ObjectStore, root: str, entry: FileEntry, schema: TableSchema, caches: RunCaches
) -> Awaitable[RunReader]:
    """Opens a reader of the file; costs a request or two unless its metadata is cached.

    Args:
        store: the store that holds the table.
        root: the table's directory in the store, without a slash at the end; may be empty.
        entry: the file.
        schema: the schema that reads are made with; its key is the table's.
        caches: shared by all files of the store.

    Raises:
        CorruptionError: the object is damaged, or not the file that the entry describes.
        NotFoundError: there is no such object.
    """
    opener = open_sstable if entry.format is FileFormat.SSTABLE else open_parquet
    return opener(store, root, entry, schema, caches)
