"""Parquet files that other programs wrote, as a source of a scan.

Such files are found by what their table says of them (path, size, rows) and hold columns under field ids or,
where they have none, under names. Nothing in them is sealed: pages are checked against checksums that they
may have, sizes against the footer, and texts for being UTF-8.

Invariant: a file whose size, rows or types are not what was said of it is refused when it is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakehouse.config import TableSettings
from lakehouse.format.metadata import ColumnStats, FileEntry
from lakehouse.format.parquet import FileFooter
from lakehouse.format.schema import Field, TableSchema
from lakehouse.index.search import RowSelection
from lakehouse.io import ObjectStore
from lakehouse.storage.files.parquet import ParquetRun, open_parquet
from lakehouse.storage.files.reader import RunReader
from lakehouse.storage.files.selected_rows import SelectedRows
from lakehouse.storage.metadata.caches import RunCaches

__all__ = ["ForeignFiles", "foreign_entry"]


def foreign_entry(
    path: str, *, size: int, rows: int, stats: Mapping[int, ColumnStats] | None = None
) -> FileEntry:
    """Returns the entry of a file for a scan; such files hide no rows of each other.

    Args:
        path: key of the object.
        size: bytes of the file.
        rows: its rows.
        stats: bounds and nulls of columns by field id, as far as they are known.
    """
    return FileEntry(path=path, at=1, size=size, rows=rows, stats=stats or {})


class ForeignFiles:
    """Opens files that other programs wrote: a :class:`~lakehouse.storage.files.reader.RunSource`.

    Args:
        store: the store that has them; the paths of their entries are keys in it.
        caches: shared by all files of the store.
        selections: rows to read of some files, by path; their entries are made by
            :func:`~lakehouse.storage.files.selected_rows.entry_of_selected`. Others are read whole.
        home: what tells the store's keys from those of others in the caches.
        naming: fields that columns of files without field ids are found for, by name; a field may be there
            under several names. None = those of the schema; none at all = such files are refused.
        settings: bounds on the reads.
    """

    __slots__ = ("_caches", "_home", "_naming", "_selections", "_store", "settings")

    def __init__(
        self,
        store: ObjectStore,
        caches: RunCaches,
        *,
        selections: Mapping[str, RowSelection] | None = None,
        home: str = "",
        naming: Sequence[Field] | None = None,
        settings: TableSettings,
    ) -> None:
        self._store, self._caches = store, caches
        self._home, self._naming = home, naming
        self._selections = selections or {}
        self.settings = settings

    async def open(self, entry: FileEntry, schema: TableSchema) -> RunReader:
        """Opens a reader of a file; one request, two when its footer is long, none when it is cached.

        Args:
            entry: the file, see :func:`foreign_entry`.
            schema: the schema that reads are made with: no primary key; columns are found by
                field id or by name.

        Raises:
            CorruptionError: the object is damaged, or another one than the entry describes.
            InvalidInputError: it is encrypted or in several objects, or a column has another type.
            NotFoundError: there is no such object.
        """
        selection = self._selections.get(entry.path)
        if selection is None:
            return await self._open(entry, schema)
        whole = await self._open(replace(entry, rows=selection.total_rows), schema)
        return SelectedRows(whole, entry, selection)

    async def _open(self, entry: FileEntry, schema: TableSchema) -> ParquetRun:
        return await open_parquet(
            self._store,
            "",
            entry,
            schema,
            self._caches,
            footer=FileFooter,
            home=self._home,
            naming=self._naming,
        )
