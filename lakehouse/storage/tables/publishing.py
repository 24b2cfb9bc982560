"""Publication of tables for readers of other formats: its report, and where what publishes is found.

Tables know no other format. The lake, which stands above both, puts what publishes into the environment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from lakehouse.io.work import DryRunReport, Report

if TYPE_CHECKING:
    from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["PublishReport", "Publisher", "PublishingLag"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PublishingLag(Report):
    """The part of a snapshot that readers of the published table do not see yet."""

    files: int = 0
    rows: int = 0
    """Rows of every kind in these files."""
    bytes: int = 0
    segments: int = 0
    """Segments of the write-ahead log that the snapshot covers and that are in no file."""
    since: int | None = None
    """Id of the first snapshot of which some rows are not published; None = all are."""
    snapshots: int = 0
    """Number of snapshots from that one to the newest."""
    age_s: float | None = None
    """Seconds from that snapshot to the newest; None = all is published, or it has expired."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Number of files by the reason why they are not published."""

    def __bool__(self) -> bool:
        """Whether something is not published."""
        return bool(self.files or self.segments)

    def __str__(self) -> str:
        if not self:
            return "all is published"
        why = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.reasons.items()))
        log = f", {self.segments:,} segments of the log" if self.segments else ""
        age = "" if self.age_s is None else f", {self.age_s:,.0f} s old"
        return (
            f"not published: {self.files:,} files ({why or 'none'}), {self.rows:,} rows{log}, "
            f"since snapshot {self.since}{age}"
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PublishReport(DryRunReport):
    """Result of a publication, or with ``dry_run`` what it would cover."""

    snapshot: int
    """Id of the snapshot that is published, ours and the published table's."""
    changed: bool = False
    """True when this very call published something."""
    version: int = 0
    """Number of the published metadata file; 0 = there is none yet."""
    metadata: str = ""
    """URL of that file; empty where there is none."""
    format_version: int = 2
    """Version of Iceberg's format."""
    files: int = 0
    """Number of data files that readers of the published table see."""
    rows: int = 0
    """Number of rows that they see; in a dry run of version 3, which reads no keys, at most so many."""
    bytes: int = 0
    added: int = 0
    """Data files that the publication before did not have."""
    removed: int = 0
    """Data files that the publication before had."""
    manifests: int = 0
    """Number of manifests that were written."""
    vectors: int = 0
    """Number of data files with a deletion vector."""
    lag: PublishingLag = field(default_factory=PublishingLag)
    """The part of the snapshot that is not published."""

    def __str__(self) -> str:
        state = self._did("published", "publish") if self.changed or self.dry_run else "is published already"
        changes = (
            f" ({self.added:,} files added, {self.removed:,} removed, {self.manifests:,} manifests written)"
            if self.changed
            else ""
        )
        return (
            f"snapshot {self.snapshot} {state}: {self.files:,} files, {self.rows:,} rows{changes}; "
            f"{self.lag}; {self.cost}"
        )


class Publisher(Protocol):
    """Function that publishes a table."""

    def __call__(
        self, table: OpenTable, *, format_version: int | None = None, dry_run: bool = False
    ) -> Awaitable[PublishReport]:
        """Publishes the newest snapshot, in the version of the format that the table's options say."""
        ...
