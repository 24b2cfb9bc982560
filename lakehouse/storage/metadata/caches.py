"""Caches of tables in a process: their metadata, and footers and blocks of their data files.

Keys begin with the table's directory, those of data files with ``(root, path, …)``. Directories carry a
uuid and paths are written once, so no entry ever goes stale; what is deleted is forgotten when room is
needed. The newest snapshot is not in here.

Invariant: all of them together hold no more than their budget; metadata of data files is weighed apart,
so that rows passing through do not hide what it costs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from lakehouse.cache import CacheBudget, CacheRegion, CacheSpec, identity_tags, weigh
from lakehouse.format.metadata import ColumnarEntries, FileEntry, FileStats, Snapshot
from lakehouse.format.schema import SchemaObject

__all__ = ["RunCaches", "TableCaches"]

_ENTRY_BYTES = 1_200
"""Estimated bytes of an entry in memory, statistics of some columns included."""
_BARE_ENTRY_BYTES = 680
"""Bytes of an entry besides its path, its keys and its statistics; measured, as the next ones are."""
_STATS_BYTES, _OWN_STATS_BYTES = 64, 260
"""Bytes of an entry's statistics, and of those of one column that the entry holds itself."""
_SHARED_STATS_BYTES = 110
"""Bytes of the statistics of one column and entry in a table of them, once they are collected too."""
_SNAPSHOT_BYTES = 2_000
_PATH_BYTES, _MANIFEST_BYTES = 200, 320
_BOUNDS_BYTES = 200
"""Estimated bytes of what a lookup adds to an entry, to find it by its keys."""


def _weigh_files(entries: Iterable[FileEntry]) -> int:
    total = 0
    for entry in entries:
        per_column = _SHARED_STATS_BYTES if isinstance(entry.stats, FileStats) else _OWN_STATS_BYTES
        keys = len(entry.min_key or b"") + len(entry.max_key or b"")
        total += _BARE_ENTRY_BYTES + len(entry.path) + keys + _STATS_BYTES + per_column * len(entry.stats)
    return total


def _weigh_entries(entries: ColumnarEntries) -> int:
    return _ENTRY_BYTES + _weigh_files(entries)


def _weigh_snapshot(snapshot: Snapshot) -> int:
    paths = len(snapshot.removed) + len(snapshot.gone or ())
    named = _PATH_BYTES * paths + _MANIFEST_BYTES * len(snapshot.manifests)
    return _SNAPSHOT_BYTES + _weigh_files(snapshot.added) + named


def _weigh_lookup(plan: Any) -> int:
    return _SNAPSHOT_BYTES + (_ENTRY_BYTES + _BOUNDS_BYTES) * len(plan.entries)


_SCHEMAS = CacheSpec(name="table-schemas")
_SNAPSHOTS = CacheSpec(name="table-snapshots", weigh=_weigh_snapshot)
_MANIFESTS = CacheSpec(name="table-manifests", weigh=_weigh_entries)
_LOOKUPS = CacheSpec(name="table-lookups", weigh=_weigh_lookup)


class TableCaches:
    """Caches under one budget, shared by all tables of a connection; entries are tagged with their tables.

    Args:
        budget: bytes that they share with the caches of other layers.
        group: whose tables they are, where not everybody may be given them.
    """

    def __init__(self, budget: CacheBudget, *, group: str | None = None) -> None:
        self.snapshots: CacheRegion[tuple[str, int], Snapshot] = budget.region(_SNAPSHOTS, group=group)
        self.runs = RunCaches(budget, group=group)
        self.schemas: CacheRegion[tuple[str, str], SchemaObject] = budget.region(_SCHEMAS, group=group)
        self.manifests: CacheRegion[tuple[str, str], ColumnarEntries] = budget.region(_MANIFESTS, group=group)
        self.lookups: CacheRegion[tuple[str, int, str], Any] = budget.region(_LOOKUPS, group=group)
        """Plans of lookups by (root, id, token) of the snapshot."""

    def forget(self, table: uuid.UUID) -> None:
        """Removes the entries of one table."""
        # Data files stay: nobody asks for them again under this directory, and room is made when it is
        # needed.
        for tag in identity_tags(table):
            self.schemas.invalidate_tag(tag)
            self.snapshots.invalidate_tag(tag)
            self.manifests.invalidate_tag(tag)
            self.lookups.invalidate_tag(tag)


def _weigh(value: Any) -> int:
    """Returns ``value.weight`` if set, which covers C++ objects that ``weigh`` cannot see; else weighs it."""
    said = getattr(value, "weight", None)
    return said if isinstance(said, int) else weigh(value)


_METADATA = CacheSpec(name="run-metadata", weigh=_weigh)


_BLOCKS = CacheSpec(name="run-data", weigh=_weigh)


class RunCaches:
    """The two caches of an engine's data files.

    Args:
        budget: bytes that they share, among themselves and with the caches of other layers.
        group: whose files they are, where not everybody may be given them.
    """

    __slots__ = ("blocks", "metadata")

    def __init__(self, budget: CacheBudget, *, group: str | None = None) -> None:
        self.metadata: CacheRegion[Any, Any] = budget.region(_METADATA, group=group)
        """Parsed footers and indexes by ``(root, path)``."""
        self.blocks: CacheRegion[Any, Any] = budget.region(_BLOCKS, group=group)
        """Bytes and decoded rows by ``(root, path, …)``."""
