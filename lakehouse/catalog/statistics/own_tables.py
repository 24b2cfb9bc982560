"""Facts of our own tables: from the entries of a snapshot, and from the newest statistics file.

Invariant: nothing but metadata is read: manifests, which caches mostly have, and the footer of one file.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse.catalog.statistics.values import ColumnFacts, TableStats
from lakehouse.errors import FormatError, NotFoundError
from lakehouse.format.keys import decode_value
from lakehouse.format.metadata import FileEntry
from lakehouse.format.puffin import ColumnSketch, SketchedTable, sketches_of
from lakehouse.format.schema import Field
from lakehouse.storage.metadata import has_rows_of, read_statistics
from lakehouse.storage.scan import rows_of_files
from lakehouse.storage.tables import OpenTable, View

__all__ = ["own_facts"]


async def own_facts(table: OpenTable, snapshot: int, columns: Sequence[str]) -> TableStats:
    """Returns the facts of a snapshot that metadata tells of the table and these columns."""
    view = await table.read_view(snapshot=snapshot)
    files = list(await view.files())
    known = rows_of_files(view, files)
    is_exact = not view.snapshot.segments and all(entry.path in known for entry in files)
    stored = sum(entry.rows - entry.deletes for entry in files)
    sketched, is_current = await _sketched(table, view)
    fields = {field.name: field for field in view.schema.fields}
    return TableStats(
        snapshot=snapshot,
        rows=sum(known.values()) if is_exact else None if view.snapshot.segments else stored,
        rows_are_exact=is_exact,
        bytes=sum(entry.size for entry in files),
        columns={
            name: _column(fields[name], files, sketched, view, exact=is_exact, current=is_current)
            for name in columns
            if name in fields
        },
    )


def _column(
    field: Field,
    files: Sequence[FileEntry],
    sketched: SketchedTable | None,
    view: View,
    *,
    exact: bool,
    current: bool,
) -> ColumnFacts:
    sketch = None if sketched is None else sketched.columns.get(field.id)
    stats = [entry.stats.get(field.id) for entry in files if entry.rows > entry.deletes]
    found = [one for one in stats if one is not None]
    is_whole = len(found) == len(stats) and not view.snapshot.segments
    lows = [one.low for one in found if one.low is not None]
    highs = [one.high for one in found if one.high is not None]
    # A file whose values are all null has no bounds, and needs none.
    has_bounds = is_whole and len(lows) == len(highs) and bool(lows)
    return ColumnFacts(
        nulls=sum(one.nulls for one in found) if is_whole else None,
        low=decode_value(min(lows), field.type) if has_bounds else None,
        high=decode_value(max(highs), field.type) if has_bounds else None,
        has_bounds=has_bounds,
        is_exact=exact and all(one.exact or one.low is None for one in found),
        ndv=None if sketch is None else sketch.ndv if sketch.ndv_of_all is None else sketch.ndv_of_all,
        ndv_snapshot=None if sketched is None else sketched.snapshot,
        ndv_is_current=current,
        is_sampled=sketched is not None and sketched.share < 1,
        is_counted=sketched is not None and sketched.share == 1.0 and _is_small(sketch),
    )


def _is_small(sketch: ColumnSketch | None) -> bool:
    """Returns whether a sketch of so many values keeps the hash of each."""
    return sketch is not None and sketch.ndv is not None and sketch.ndv <= _COUNTED_MAX


_COUNTED_MAX = 4096


async def _sketched(table: OpenTable, view: View) -> tuple[SketchedTable | None, bool]:
    """Returns what the best statistics file says, and whether it is of the rows of the view."""
    head = table.snapshots.known
    refs = [one.statistics for one in (view.snapshot, head) if one is not None and one.statistics is not None]
    if not refs:
        return None, False
    # The newest one is best, unless an older one is of this very snapshot.
    ref = next((one for one in refs if one.snapshot == view.snapshot.id), refs[-1])
    try:
        read = await read_statistics(table.env.store, table.root, ref)
    except (FormatError, NotFoundError):
        return None, False
    return sketches_of(read.footer), await has_rows_of(table.snapshots, view.snapshot, ref.snapshot)
