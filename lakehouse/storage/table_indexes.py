"""Indexes of a table and their changes, as methods of ``Table``.

Invariant: a change of indexes is a commit like any other change of the schema. Existing files
keep the index files they have until :meth:`TableIndexes.rebuild_indexes` or compaction writes them anew;
an index that a file lacks is not asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakehouse.expr import Expr
from lakehouse.io.work import ProgressCallback
from lakehouse.storage.commit.alter import Alter
from lakehouse.storage.maintenance.index_rebuild import RebuildResult, rebuild_indexes
from lakehouse.storage.schema.index_evolution import AddIndex, AlterIndex, DropIndex, IndexChange
from lakehouse.storage.tables.commit_result import CommitResult, commit_change
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.relations import indexes_relation

__all__ = ["TableIndexes"]


class TableIndexes:
    """Base of ``Table`` with its methods for indexes."""

    _table: OpenTable
    _max_staleness: float | None

    async def indexes(self, *, snapshot: int | None = None) -> pa.Table:
        """One row per index of a snapshot: target, kind, options, and how many files have it."""
        view = await self._table.read_view(snapshot=snapshot, within_s=self._max_staleness)
        return indexes_relation(await view.files(), view.schema)

    async def add_index(self, target: str | Sequence[str], kind: str, **options: Any) -> CommitResult:
        """Adds an index, for files that are written from now on.

        Args:
            target: a column, ``"host, path"``, ``"payload#/user/id"``, or an expression such as
                ``"lower(host)"``.
            kind: ``bloom``, ``inverted`` or ``fulltext``.
            options: of the kind; see ``docs/guides/indexes.md``.

        Example::

            await table.add_index("amount", "inverted")
        """
        return await self._change_indexes(AddIndex(target, kind, options))

    async def alter_index(
        self, target: str | Sequence[str], kind: str | None = None, **options: Any
    ) -> CommitResult:
        """Gives an index other options; files indexed with the old ones are read without it.

        Args:
            target: as in ``add_index``.
            kind: needed where the target has several indexes.
            options: those that change.
        """
        return await self._change_indexes(AlterIndex(target, kind, options))

    async def drop_index(self, target: str | Sequence[str], kind: str | None = None) -> CommitResult:
        """Drops an index.

        Args:
            target: as in ``add_index``.
            kind: needed where the target has several indexes.
        """
        return await self._change_indexes(DropIndex(target, kind))

    async def rebuild_indexes(
        self,
        where: Expr | str | None = None,
        *,
        every: bool = False,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> RebuildResult:
        """Writes the index files of data files that have none, or not those that the table has now.

        Commits in steps. Files that compaction or an overwrite removes meanwhile are skipped.

        Args:
            where: a condition on partition columns; None = the whole table.
            every: also rewrite the index files of data files whose indexes are up to date.
            dry_run: change nothing and report the work to be done.
            progress: called with the progress made.

        Example::

            print(await table.rebuild_indexes(dry_run=True))
        """
        return await rebuild_indexes(self._table, where, every=every, dry_run=dry_run, progress=progress)

    async def _change_indexes(self, change: IndexChange) -> CommitResult:
        return await commit_change(self._table, Alter(self._table.schemas, self._table.snapshots, (change,)))
