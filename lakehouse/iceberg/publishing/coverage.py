"""Coverage: which files of a snapshot Iceberg's readers may see, and what is left for a later publication.

A reader of Iceberg tables merges nothing: it shows every row of every file. So of a merge unit only runs from
the oldest one up are published, as far as each row in them is one that a scan would show:

* the oldest run, when it has inserts alone: a bottom run, or a first run that nothing was merged into yet;
* from version 3 of the format, where the newest row of a key stays (``deduplicate`` without a sequence), runs
  above it too: deletion vectors hide the rows that they replace, and rows that delete.

Runs end at the first SSTable, at rows of the write-ahead log that are in no file, and at a file whose columns
have defaults that the version cannot tell. Tables without a key have no order: every Parquet file counts.

Invariant: of each merge unit the published files hold the fold of its rows up to one moment.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lakehouse.format.metadata import FileEntry, FileFormat, Snapshot
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.storage.metadata import covered_intervals, interval, units_of

__all__ = ["VECTORS_VERSION", "Coverage", "Reason", "cover"]

VECTORS_VERSION = 3
"""First version of the format with deletion vectors."""


class Reason(enum.StrEnum):
    """Reason why a file is not published."""

    ABOVE = "above-bottom"
    """A run above the oldest one: a compaction merges it."""
    KINDS = "not-only-inserts"
    """Rows that delete or that are merged onto older ones: a compaction resolves them."""
    SSTABLE = "sstable"
    """No Parquet file, or above one that is none."""
    LOG = "log"
    """Above rows of the write-ahead log that are in no file yet: a flush writes them."""
    DEFAULT = "default"
    """Rows without a column whose default the format's version cannot tell, or above such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The files of a snapshot, parted into those that are published and the others."""

    units: tuple[tuple[tuple[FileEntry, ...], ...], ...]
    """Published runs of each merge unit, oldest first; of a table without a key each file alone."""
    left: tuple[tuple[FileEntry, Reason], ...]
    """Files that are not published, and why."""

    @property
    def files(self) -> list[FileEntry]:
        """The published files, those that only hide rows of others included."""
        return [entry for runs in self.units for run in runs for entry in run]

    @property
    def shown(self) -> list[FileEntry]:
        """The published files that readers learn of: those whose rows all delete have nothing to show."""
        return [entry for entry in self.files if entry.deletes < entry.rows]

    @property
    def hiding(self) -> list[tuple[tuple[FileEntry, ...], ...]]:
        """Published runs of merge units in which rows are hidden by others, or delete."""
        return [
            runs
            for runs in self.units
            if len(runs) > 1 or any(entry.deletes for run in runs for entry in run)
        ]


def cover(
    entries: Iterable[FileEntry],
    snapshot: Snapshot,
    schema: TableSchema,
    *,
    version: int,
    misses_default: Callable[[FileEntry], bool],
) -> Coverage:
    """Returns which of a snapshot's files are published.

    Args:
        entries: the live files, with their positions.
        snapshot: the snapshot.
        schema: its schema.
        version: version of Iceberg's format.
        misses_default: whether a file's rows have defaults that are not told.
    """
    if not schema.primary_key:
        return _of_rows(entries, misses_default)
    options = TableOptions.parse(schema.options)
    newest_stays = options.merge_engine == "deduplicate" and not options.sequence_field
    waiting = covered_intervals(snapshot)
    first_waiting = waiting[0][0] if waiting else None

    def reason(run: Sequence[FileEntry], at: int) -> Reason | None:
        """Why the run at that place of its merge unit is not published; None = it is."""
        hides = version >= VECTORS_VERSION and newest_stays
        if any(entry.format is not FileFormat.PARQUET for entry in run):
            return Reason.SSTABLE
        if first_waiting is not None and interval(run[0])[1] > first_waiting:
            return Reason.LOG
        if any(misses_default(entry) for entry in run):
            return Reason.DEFAULT
        if at and not hides:
            return Reason.ABOVE
        if any(entry.updates or (entry.deletes and not hides) for entry in run):
            return Reason.KINDS
        return None

    units, left = [], []
    for runs in units_of(entries, schema).values():
        published: list[tuple[FileEntry, ...]] = []
        stopped: Reason | None = None
        for at, run in enumerate(runs):
            stopped = stopped or reason(run, at)
            if stopped is None:
                published.append(tuple(run))
            else:
                left += [(entry, stopped) for entry in run]
        if published:
            units.append(tuple(published))
    return Coverage(units=tuple(units), left=tuple(left))


def _of_rows(entries: Iterable[FileEntry], misses_default: Callable[[FileEntry], bool]) -> Coverage:
    def reasons() -> Iterator[tuple[FileEntry, Reason | None]]:
        for entry in entries:
            if entry.format is not FileFormat.PARQUET:
                yield entry, Reason.SSTABLE
            else:
                yield entry, Reason.DEFAULT if misses_default(entry) else None

    judged = list(reasons())
    return Coverage(
        units=tuple(((entry,),) for entry, why in judged if why is None),
        left=tuple((entry, why) for entry, why in judged if why is not None),
    )
