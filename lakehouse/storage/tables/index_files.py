"""Source of the index files to which the newest snapshots of a warehouse's tables refer.

Invariant: every file is listed once, by the newest snapshot of the table it belongs to. Of a table that the
caller may not see, only the name is read.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing

import google_crc32c

from lakehouse.errors import FormatError, NotFoundError
from lakehouse.format.metadata import FileEntry
from lakehouse.index.metas import FileProblem, IndexFile, IsVisible
from lakehouse.index.models import IndexFileLocator
from lakehouse.index.region_ids import region_id_of
from lakehouse.io.store import ObjectStore
from lakehouse.storage.metadata.paths import join
from lakehouse.storage.metadata.table_name import TableName
from lakehouse.storage.tables.create import open_table
from lakehouse.storage.tables.names import Names
from lakehouse.storage.tables.open_tables import Environment, OpenTable
from lakehouse.storage.tables.view import View

__all__ = ["SnapshotIndexSource", "TableIndexSource", "table_id"]


def table_id(table: uuid.UUID) -> int:
    """Returns the 32-bit number of a table in rows of metadata: the CRC32C of its uuid's bytes."""
    return int(google_crc32c.value(table.bytes))


class TableIndexSource:
    """Source of index files; see :class:`lakehouse.index.metas.sources.GuardedSource`.

    Args:
        env: environment of the connection.
        names: names of databases and tables.
        database: only this database; None = all.
        table: only this table of the database; None = all.
    """

    def __init__(
        self, env: Environment, names: Names, *, database: str | None = None, table: str | None = None
    ) -> None:
        self._env, self._names = env, names
        self._database, self._table = database, table

    @property
    def store(self) -> ObjectStore:
        """Store that holds the files."""
        return self._env.store

    def files(self) -> AsyncIterator[IndexFile | FileProblem]:
        """Yields the files table by table, in the order of the manifests."""
        return self._files(None)

    def visible_files(self, is_visible: IsVisible) -> AsyncIterator[IndexFile | FileProblem]:
        """Yields the files of the tables that the caller may see, in the same order."""
        return self._files(is_visible)

    async def _files(self, is_visible: IsVisible | None) -> AsyncIterator[IndexFile | FileProblem]:
        async for name in self._tables():
            directory = ""
            try:
                table = await open_table(self._env, self._names, name)
                directory = join(table.root, "")
                if is_visible is not None and not await is_visible(directory):
                    continue
                files = await _index_files(table, await table.newest())
            except NotFoundError as missing:
                # The absence of a table is an error only where that table was named.
                if missing.kind == "missing-bucket" or self._table is not None:
                    raise
                continue  # dropped meanwhile
            except FormatError as error:
                # One damaged table must not hide the files of all others.
                yield FileProblem.of(str(error.context.get("key", directory)), error, table_dir=directory)
                continue
            for file in files:
                yield file

    async def _tables(self) -> AsyncIterator[TableName]:
        if self._database is not None and self._table is not None:
            yield TableName(self._database, self._table)
            return
        databases = [self._database] if self._database is not None else self._names.databases()
        for database in [name async for name in _each(databases)]:
            async with aclosing(self._names.tables(database)) as tables:
                async for name in tables:
                    yield name


class SnapshotIndexSource:
    """Source of the index files to which one snapshot of an open table refers.

    Args:
        table: open.
        snapshot: id; None = the newest.
    """

    def __init__(self, table: OpenTable, snapshot: int | None = None) -> None:
        self._table, self._snapshot = table, snapshot

    @property
    def store(self) -> ObjectStore:
        """Store that holds the files."""
        return self._table.env.store

    async def files(self) -> AsyncIterator[IndexFile | FileProblem]:
        """Yields the files in the order of the manifests."""
        view = await self._table.read_view(snapshot=self._snapshot)
        for file in await _index_files(self._table, view):
            yield file


async def _index_files(table: OpenTable, view: View) -> list[IndexFile]:
    number = table_id(table.uuid)
    return [_index_file(table.root, number, entry) for entry in await view.files() if entry.index is not None]


async def _each(names: list[str] | AsyncIterator[str]) -> AsyncIterator[str]:
    if isinstance(names, list):
        for name in names:
            yield name
    else:
        async for name in names:
            yield name


def _index_file(root: str, table: int, entry: FileEntry) -> IndexFile:
    index = entry.index
    assert index is not None
    key = join(root, index.path)
    return IndexFile(
        locator=IndexFileLocator(
            table_dir=join(root, ""),
            region_id=region_id_of(table, entry.bucket),
            file_id=entry.path.rpartition("/")[2].partition(".")[0],
            index_file_path=key,
            index_file_size=index.size,
        ),
        size=index.size,
        tail_bytes=index.footer_bytes or None,
    )
