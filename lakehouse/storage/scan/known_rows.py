"""How many rows a table has, as far as its metadata tells: files say how many rows are stored, which is more
where rows replace or delete others.

Invariant: a number that is given is what a scan would count; where that takes reading, there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakehouse.format.metadata import FileEntry, Snapshot
from lakehouse.format.schema import TableSchema
from lakehouse.storage.metadata.manifests import placed
from lakehouse.storage.metadata.run_order import units_of
from lakehouse.storage.scan.file_plan import plan_files
from lakehouse.storage.schema.row_ttl import lifetime
from lakehouse.storage.tables.view import View

__all__ = ["rows_of_files", "rows_of_snapshot", "rows_of_view"]


def _known_rows(entries: Sequence[FileEntry], schema: TableSchema) -> dict[str, int]:
    """The rows that a table has of its files, by path: of those whose keys are in no other run."""
    found = [file.entry for unit in plan_files(entries, schema).units for file in unit.files if file.told]
    if schema.primary_key:
        # A run has a key once, in whichever of its files.
        runs = (runs for runs in units_of(entries, schema).values() if len(runs) == 1)
        found += [entry for (run,) in runs for entry in run]
    return {one.path: one.rows - one.deletes for one in found}


def rows_of_files(view: View, files: Sequence[FileEntry]) -> Mapping[str, int]:
    """The same of the files of a state; none where rows of the log or their age may hide some."""
    hidden = view.shows is not None or (view.schema.primary_key and view.snapshot.segments)
    return {} if hidden else _known_rows(files, view.schema)


async def rows_of_view(view: View) -> int | None:
    """The rows of a state; None where files and log do not tell."""
    files = await view.files()
    known = rows_of_files(view, files)
    return None if view.snapshot.segments else _total(files, known)


def _total(files: Iterable[FileEntry], known: Mapping[str, int]) -> int | None:
    """The rows of several files; None when one of them is not known."""
    found = [known.get(one.path) for one in files]
    return None if None in found else sum(one or 0 for one in found)


def rows_of_snapshot(snapshot: Snapshot, schema: TableSchema) -> int | None:
    """The rows of a snapshot, going by that object alone."""
    if snapshot.segments or lifetime(schema, snapshot.time_ms) is not None:
        return None
    if not schema.primary_key:
        return snapshot.total.rows
    if snapshot.manifests:
        return None
    files = [placed(one, snapshot.id) for one in snapshot.added]
    return _total(files, _known_rows(files, schema))
