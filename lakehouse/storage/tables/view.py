"""A view: one snapshot of a table with its schema.

Invariant: everything a :class:`View` says is of one snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.format.metadata import FileEntry, SegmentRange, Snapshot
from lakehouse.format.schema import SchemaObject, TableOptions, TableSchema
from lakehouse.storage.metadata.manifests import Manifests
from lakehouse.storage.schema.row_ttl import Lifetime, lifetime
from lakehouse.storage.wal.segment_runs import SegmentRuns

__all__ = ["View"]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A snapshot with its schema."""

    snapshot: Snapshot
    schema_object: SchemaObject
    manifests: Manifests
    runs: SegmentRuns
    fresh: SegmentRange | None = None
    """Acknowledged WAL segments that the snapshot does not cover, for reads that are to see them."""

    @property
    def schema(self) -> TableSchema:
        """The schema that the snapshot reads with."""
        return self.schema_object.schema

    @property
    def options(self) -> TableOptions:
        """The table's options as of the snapshot."""
        return TableOptions.parse(self.schema.options)

    async def files(self) -> tuple[FileEntry, ...]:
        """The live files."""
        return await self.manifests.entries(self.snapshot)

    @property
    def first_segment(self) -> int | None:
        """Number of the first segment that is read above the snapshot; None = none is."""
        return None if self.fresh is None else self.fresh.first

    @property
    def shows(self) -> Lifetime | None:
        """Which of its rows are not too old; None = all."""
        return lifetime(self.schema, self.snapshot.time_ms)

    async def entries(self) -> tuple[FileEntry, ...]:
        """All runs: live files, and WAL segments that are in no file yet."""
        files, ranges = await self.files(), self.snapshot.carried().segments
        if self.fresh is not None:
            ranges = (*ranges, self.fresh)
        return (*files, *await self.runs.entries(ranges, self.schema, together=True)) if ranges else files
