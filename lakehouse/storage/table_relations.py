"""Metadata relations of a table, as methods of ``Table``: snapshots, schemas, files, partitions, tags.

Invariant: metadata alone is read, and each relation is of one state.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

import pyarrow as pa

from lakehouse.io.work import map_bounded
from lakehouse.storage.scan.known_rows import rows_of_files, rows_of_snapshot
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.relations import (
    files_relation,
    manifests_relation,
    partitions_relation,
    schemas_relation,
    snapshots_relation,
    tags_relation,
)
from lakehouse.storage.tables.view import View

__all__ = ["TableRelations"]


class TableRelations:
    """Base of ``Table`` with its methods for metadata relations."""

    _table: OpenTable
    _max_staleness: float | None

    def _read_view(self, snapshot: int | None = None) -> Awaitable[View]:
        return self._table.read_view(snapshot=snapshot, within_s=self._max_staleness)

    @property
    def _read_concurrency(self) -> int:
        return self._table.settings.read_concurrency

    async def snapshots(self) -> pa.Table:
        """One row per snapshot, oldest first; ``rows`` is null where metadata does not hold it.

        ``stored_rows`` are those in files, with rows that others replace or delete; ``added_rows`` and
        ``removed_rows`` count stored ones too.
        """
        head = (await self._read_view()).snapshot
        kept = sorted({ref.snapshot for ref in head.refs.values()} | set(range(head.earliest, head.id + 1)))
        read = partial(self._table.snapshots.snapshot, head=head)
        snapshots = [snapshot async for snapshot in map_bounded(read, kept, self._read_concurrency)]
        schemas = {snapshot.schema.path: snapshot.schema for snapshot in snapshots}
        read_schemas = map_bounded(self._table.schemas.read, schemas.values(), self._read_concurrency)
        known = dict(zip(schemas, [stored.schema async for stored in read_schemas], strict=True))
        rows = {
            snapshot.id: rows_of_snapshot(snapshot, known[snapshot.schema.path]) for snapshot in snapshots
        }
        return snapshots_relation(snapshots, head, rows)

    async def schemas(self) -> pa.Table:
        """One row per schema that led to the newest, oldest first; without those that a rollback undid."""
        newest = (await self._read_view()).schema_object
        read_older = map_bounded(self._table.schemas.read, newest.ancestors, self._read_concurrency)
        older = [stored async for stored in read_older]
        return schemas_relation([*older, newest])

    async def files(self, *, snapshot: int | None = None) -> pa.Table:
        """One row per data file of a snapshot; ``rows`` is null where rows of other files may hide some."""
        view = await self._read_view(snapshot)
        files = await view.files()
        return files_relation(files, view.schema, rows_of_files(view, files))

    async def manifests(self, *, snapshot: int | None = None) -> pa.Table:
        """One row per manifest of a snapshot; recent files are listed in the snapshot itself."""
        return manifests_relation((await self._read_view(snapshot)).snapshot)

    async def partitions(self, *, snapshot: int | None = None) -> pa.Table:
        """One row per partition that has files; ``rows`` is null where counting them takes a scan."""
        view = await self._read_view(snapshot)
        files, is_all = await view.files(), not view.snapshot.segments
        rows = rows_of_files(view, files)
        return partitions_relation(files, view.schema, rows, is_all=is_all)

    async def tags(self) -> pa.Table:
        """One row per tag and pin."""
        return tags_relation((await self._read_view()).snapshot)
