"""Opening of data files by their entry: the one place that knows all formats of runs."""

from __future__ import annotations

from lakehouse.format.metadata import FileEntry, FileFormat
from lakehouse.format.schema import TableSchema
from lakehouse.io import ObjectStore
from lakehouse.storage.files.parquet import open_parquet
from lakehouse.storage.files.reader import RunReader
from lakehouse.storage.files.sstable import open_sstable
from lakehouse.storage.metadata.caches import RunCaches

__all__ = ["open_run"]


async def open_run(
    store: ObjectStore, root: str, entry: FileEntry, schema: TableSchema, caches: RunCaches
) -> RunReader:
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
    if entry.format is FileFormat.SSTABLE:
        return await open_sstable(store, root, entry, schema, caches)
    return await open_parquet(store, root, entry, schema, caches)
