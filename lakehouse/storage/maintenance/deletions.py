"""Deletions of a table's objects, in batches, counted and told.

Invariant: a dry run deletes nothing, and counts what would be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse.io.store import ObjectStore
from lakehouse.io.work import ProgressReporter
from lakehouse.storage.metadata.paths import join

__all__ = ["Deletions"]


class Deletions:
    """Deletes objects of one table, batch by batch, and counts them.

    Args:
        store: the store that holds the table.
        root: the table's directory.
        reporter: receives the progress.
        dry_run: whether to count only, and delete nothing.
    """

    def __init__(self, store: ObjectStore, root: str, reporter: ProgressReporter, *, dry_run: bool) -> None:
        self._store, self._root, self._reporter, self._dry_run = store, root, reporter, dry_run
        self.objects = 0
        self.bytes = 0

    async def delete(self, objects: Iterable[tuple[str, int]]) -> int:
        """Deletes paths, each given with the bytes of its object; returns how many they were."""
        batch = list(objects)
        if batch and not self._dry_run:
            await self._store.delete_many(join(self._root, path) for path, _ in batch)
        self.objects += len(batch)
        self.bytes += sum(size for _, size in batch)
        if batch:
            self._reporter.step("delete", len(batch))
        return len(batch)
