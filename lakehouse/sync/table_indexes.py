"""TableIndexes without await: the twin of :mod:`lakehouse.storage.table_indexes`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/storage/table_indexes.py: edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakehouse.expr import Expr
from lakehouse.io.work import ProgressCallback
from lakehouse.storage.maintenance import RebuildResult
from lakehouse.storage.table_indexes import TableIndexes as AsyncTableIndexes
from lakehouse.storage.tables import CommitResult
from lakehouse.sync.bridge import Bridge

__all__ = ["TableIndexes"]


class TableIndexes:
    """Base of ``Table`` with its methods for indexes."""

    def __init__(self, wrapped: AsyncTableIndexes, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def indexes(self, *, snapshot: int | None = None) -> pa.Table:
        """One row per index of a snapshot: target, kind, options, and how many files have it."""
        return self._bridge.call(self._wrapped.indexes, snapshot=snapshot)

    def add_index(self, target: str | Sequence[str], kind: str, **options: Any) -> CommitResult:
        """Adds an index, for files that are written from now on.

        Args:
            target: a column, ``"host, path"``, ``"payload#/user/id"``, or an expression such as
                ``"lower(host)"``.
            kind: ``bloom``, ``inverted`` or ``fulltext``.
            options: of the kind; see ``docs/guides/indexes.md``.

        Example::

            table.add_index("amount", "inverted")
        """
        return self._bridge.call(self._wrapped.add_index, target, kind, **options)

    def alter_index(
        self, target: str | Sequence[str], kind: str | None = None, **options: Any
    ) -> CommitResult:
        """Gives an index other options; files indexed with the old ones are read without it.

        Args:
            target: as in ``add_index``.
            kind: needed where the target has several indexes.
            options: those that change.
        """
        return self._bridge.call(self._wrapped.alter_index, target, kind, **options)

    def drop_index(self, target: str | Sequence[str], kind: str | None = None) -> CommitResult:
        """Drops an index.

        Args:
            target: as in ``add_index``.
            kind: needed where the target has several indexes.
        """
        return self._bridge.call(self._wrapped.drop_index, target, kind)

    def rebuild_indexes(
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

            print(table.rebuild_indexes(dry_run=True))
        """
        return self._bridge.call(
            self._wrapped.rebuild_indexes, where, every=every, dry_run=dry_run, progress=progress
        )
