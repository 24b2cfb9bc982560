"""LakeInventory without await: the twin of :mod:`lakehouse.lake.inventory`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/lake/inventory.py: edit that file, then run `make docs`.

from __future__ import annotations

from typing import Literal

from lakehouse.lake.inventory import LakeInventory as AsyncLakeInventory
from lakehouse.sync.bridge import Bridge
from lakehouse.sync.inventory import InventoryScan

__all__ = ["LakeInventory"]


class LakeInventory:
    """Base of ``Lake`` with its methods for manifests and files of all tables."""

    def __init__(self, wrapped: AsyncLakeInventory, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def manifests(
        self,
        name: str | None = None,
        *,
        concurrency: int | None = None,
        errors: Literal["collect", "raise"] = "collect",
    ) -> InventoryScan:
        """Streams a row for each manifest of the tables' newest snapshots: one request each, none if cached.

        The files that a row counts are those that are live by the manifest itself. Tables of ours have
        manifests only when they have many files: fewer stand in the snapshot.

        Args:
            name: only this database or table, catalog, or namespace or table of a catalog; None = all.
            concurrency: manifests read at once, and tables opened; None = the setting
                ``iceberg.manifest_concurrency``.
            errors: ``raise`` ends with the first problem; ``collect`` continues and reports problems.

        Example::

            scan = lake.manifests(concurrency=64)
            for batch in scan:
                print(batch.num_rows)
            print(scan.stats, scan.problems)
        """
        return InventoryScan(
            self._wrapped.manifests(name, concurrency=concurrency, errors=errors), self._bridge
        )

    def data_files(
        self,
        name: str | None = None,
        *,
        concurrency: int | None = None,
        errors: Literal["collect", "raise"] = "collect",
    ) -> InventoryScan:
        """Streams a row for each live file of the tables' newest snapshots, delete files of Iceberg's too.

        Args:
            name: only this database or table, catalog, or namespace or table of a catalog; None = all.
            concurrency: as for :meth:`manifests`.
            errors: as for :meth:`manifests`.

        Example::

            files = lake.data_files("sales").to_arrow()
        """
        return InventoryScan(
            self._wrapped.data_files(name, concurrency=concurrency, errors=errors), self._bridge
        )
