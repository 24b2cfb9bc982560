"""Row counts of a table from its metadata alone.

Files record how many rows they store, which is more than the table has where rows replace or delete others.

Invariant: a returned number equals the count of a scan; where only reading would tell, it is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakehouse.format.metadata import FileEntry, Snapshot
from lakehouse.format.schema import TableSchema
from lakehouse.storage.metadata.manifests import with_position
from lakehouse.storage.metadata.run_order import units_of
from lakehouse.storage.scan.file_plan import plan_files
from lakehouse.storage.schema.row_ttl import lifetime
from lakehouse.storage.tables.view import View

__all__ = ["rows_of_files", "rows_of_snapshot", "rows_of_view"]


def _known_rows(entries: Sequence[FileEntry], schema: TableSchema) -> dict[str, int]:
    """Returns the rows that readers see of a file, by path, for the files whose keys are in no other run."""
    counted = [
        file.entry
        for unit in plan_files(entries, schema).units
        for file in unit.files
        if file.answered_by_stats
    ]
    if schema.primary_key:
        # A run has each key once, so that a unit of one run hides nothing.
        runs = (runs for runs in units_of(entries, schema).values() if len(runs) == 1)
        counted += [entry for (run,) in runs for entry in run]
    return {entry.path: entry.rows - entry.deletes for entry in counted}


def rows_of_files(view: View, files: Sequence[FileEntry]) -> Mapping[str, int]:
    """Returns the rows that readers see of each file of a state, by path, where metadata decide that.

    Empty where rows of the log, or a record TTL, may hide some.
    """
    hidden = view.shows is not None or (view.schema.primary_key and view.snapshot.segments)
    return {} if hidden else _known_rows(files, view.schema)


async def rows_of_view(view: View) -> int | None:
    """Returns the number of rows of a state; None where only reading files or log would tell."""
    files = await view.files()
    known = rows_of_files(view, files)
    return None if view.snapshot.segments else _total(files, known)


def _total(files: Iterable[FileEntry], known: Mapping[str, int]) -> int | None:
    """Returns the rows of several files together; None when those of one are not known."""
    counts = [known.get(entry.path) for entry in files]
    return None if None in counts else sum(count or 0 for count in counts)


def rows_of_snapshot(snapshot: Snapshot, schema: TableSchema) -> int | None:
    """Returns the number of rows of a snapshot from that object alone; None where it does not suffice."""
    if snapshot.segments or lifetime(schema, snapshot.time_ms) is not None:
        return None
    if not schema.primary_key:
        return snapshot.total.rows
    if snapshot.manifests:
        return None
    files = [with_position(entry, snapshot.id) for entry in snapshot.added]
    return _total(files, _known_rows(files, schema))
