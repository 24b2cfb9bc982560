"""TableRelations without await: the twin of :mod:`lakehouse.storage.table_relations`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/storage/table_relations.py: edit that file, then run `make docs`.

from __future__ import annotations

import pyarrow as pa

from lakehouse.storage.table_relations import TableRelations as AsyncTableRelations
from lakehouse.sync.bridge import Bridge

__all__ = ["TableRelations"]


class TableRelations:
    """Base of ``Table`` with its methods for metadata relations."""

    def __init__(self, wrapped: AsyncTableRelations, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def snapshots(self) -> pa.Table:
        """One row per snapshot, oldest first; ``rows`` is null where metadata does not hold it.

        ``stored_rows`` are those in files, with rows that others replace or delete; ``added_rows`` and
        ``removed_rows`` count stored ones too.
        """
        return self._bridge.call(self._wrapped.snapshots)

    def schemas(self) -> pa.Table:
        """One row per schema that led to the newest, oldest first; without those that a rollback undid."""
        return self._bridge.call(self._wrapped.schemas)

    def files(self, *, snapshot: int | None = None) -> pa.Table:
        """One row per data file of a snapshot; ``rows`` is null where rows of other files may hide some."""
        return self._bridge.call(self._wrapped.files, snapshot=snapshot)

    def manifests(self, *, snapshot: int | None = None) -> pa.Table:
        """One row per manifest of a snapshot; recent files are listed in the snapshot itself."""
        return self._bridge.call(self._wrapped.manifests, snapshot=snapshot)

    def partitions(self, *, snapshot: int | None = None) -> pa.Table:
        """One row per partition that has files; ``rows`` is null where counting them takes a scan."""
        return self._bridge.call(self._wrapped.partitions, snapshot=snapshot)

    def tags(self) -> pa.Table:
        """One row per tag and pin."""
        return self._bridge.call(self._wrapped.tags)
