"""A view: one snapshot of a table with its schema.

Invariant: everything a :class:`View` says is of one snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.format.metadata import LiveFiles, SegmentRange, Snapshot
from lakehouse.format.schema import SchemaObject, TableOptions, TableSchema
from lakehouse.storage.metadata.manifests import Manifests
from lakehouse.storage.schema.row_ttl import Lifetime, lifetime
from lakehouse.storage.wal.log_memory import HeldRows
from lakehouse.storage.wal.segment_runs import SegmentRuns

__all__ = ["View"]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A snapshot with its schema, and access to its files and log segments."""

    snapshot: Snapshot
    schema_object: SchemaObject
    manifests: Manifests
    runs: SegmentRuns
    fresh: SegmentRange | None = None
    """Acknowledged WAL segments that the snapshot does not cover, for reads that include them."""
    held: HeldRows | None = None
    """The same rows in memory, where this process is the log's writer."""

    @property
    def schema(self) -> TableSchema:
        """The schema of the snapshot."""
        return self.schema_object.schema

    @property
    def options(self) -> TableOptions:
        """The table's options as of the snapshot."""
        return TableOptions.parse(self.schema.options)

    async def files(self) -> LiveFiles:
        """The live files."""
        return await self.manifests.entries(self.snapshot)

    @property
    def first_segment(self) -> int | None:
        """Number of the first WAL segment read in addition to the snapshot; None if there is none."""
        return None if self.fresh is None else self.fresh.first

    @property
    def shows(self) -> Lifetime | None:
        """Condition for rows that are not too old; None = all rows are shown."""
        return lifetime(self.schema, self.snapshot.time_ms)

    async def entries(self, *, held: bool = True) -> LiveFiles:
        """Returns all runs: live files, and WAL segments that are in no file yet.

        Args:
            held: whether rows of the view's ``held`` are among them, for callers that do not look there.
        """
        files, ranges = await self.files(), self.snapshot.with_positions().segments
        if self.fresh is not None and (held or self.held is None):
            ranges = (*ranges, self.fresh)
        if not ranges:
            return files
        return files.with_more(await self.runs.entries(ranges, self.schema, together=True))
