"""What a process remembers of tables' metadata.

Invariant: everything in here is named by a key that is never written twice, so nothing in here can be
out of date; the newest snapshot is not in here.
"""

from __future__ import annotations

from lakehouse.cache import CacheBudget, CacheRegion, CacheSpec
from lakehouse.format.metadata.file_entry import FileEntry
from lakehouse.format.metadata.snapshot import Snapshot
from lakehouse.format.schema.schema_object import SchemaObject
from lakehouse.storage.metadata.run_caches import RunCaches

__all__ = ["TableCaches"]

_ENTRY_BYTES = 1_200
"""About what an entry takes in memory, statistics of some columns included."""
_SNAPSHOT_BYTES = 2_000


def _weigh_entries(entries: tuple[FileEntry, ...]) -> int:
    return _ENTRY_BYTES * (1 + len(entries))


def _weigh_snapshot(snapshot: Snapshot) -> int:
    paths = len(snapshot.removed) + len(snapshot.gone or ()) + len(snapshot.manifests)
    return _SNAPSHOT_BYTES + _ENTRY_BYTES * len(snapshot.added) + 200 * paths


_SCHEMAS = CacheSpec(name="table-schemas", prefix_length=1)
_SNAPSHOTS = CacheSpec(name="table-snapshots", prefix_length=1, weigh=_weigh_snapshot)
_MANIFESTS = CacheSpec(name="table-manifests", prefix_length=1, weigh=_weigh_entries)


class TableCaches:
    """The caches of one budget, shared by all its tables."""

    def __init__(self, budget: CacheBudget) -> None:
        self.snapshots: CacheRegion[tuple[str, int], Snapshot] = budget.region(_SNAPSHOTS)
        self.runs = RunCaches(budget)
        self.schemas: CacheRegion[tuple[str, str], SchemaObject] = budget.region(_SCHEMAS)
        self.manifests: CacheRegion[tuple[str, str], tuple[FileEntry, ...]] = budget.region(_MANIFESTS)

    def forget(self, root: str) -> None:
        """Drops what is held of one table."""
        self.schemas.invalidate_prefix((root,))
        self.snapshots.invalidate_prefix((root,))
        self.manifests.invalidate_prefix((root,))
