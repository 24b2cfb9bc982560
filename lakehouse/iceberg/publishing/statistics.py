"""Statistics of a table as Iceberg's readers find them: our own file, named by the published metadata.

The file stays where it is. Its blobs are those of Iceberg, and field ids are the same; what its footer says
of snapshot and sequence is in our numbering, so metadata state both anew, in Iceberg's.

Invariant: only what is true of the published rows is named: a file of these very rows, of all of them, and of
a snapshot that is published without lag. The hold of the snapshot keeps the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.errors import FormatError, NotFoundError
from lakehouse.format.metadata import StatisticsRef
from lakehouse.format.puffin import THETA_SKETCH, sketches_of
from lakehouse.iceberg.publishing.coverage import Coverage
from lakehouse.iceberg.publishing.documents import Published
from lakehouse.iceberg.publishing.store import PublishedStore
from lakehouse.storage.metadata import StatisticsFooter, has_rows_of, read_statistics
from lakehouse.storage.tables import OpenTable, View

__all__ = ["statistics_of"]


async def statistics_of(
    table: OpenTable, place: PublishedStore, view: View, coverage: Coverage, before: Published
) -> Mapping[str, Any] | None:
    """Returns what to tell of a snapshot's statistics file that is not published yet.

    None = there is none of its rows, it is of a sample, it cannot be read, or readers know it.
    """
    ref = view.snapshot.statistics
    if ref is None or coverage.left or view.snapshot.segments:
        return None
    url = place.url(ref.path)
    if any(one["statistics-path"] == url for one in before.statistics):
        return None
    if not await has_rows_of(table.snapshots, view.snapshot, ref.snapshot):
        return None
    try:
        read = await read_statistics(table.env.store, table.root, ref)
    except (FormatError, NotFoundError):
        return None  # a help for planners, and not worth a publication that fails
    return _stated(read, ref, url, view.snapshot.id, before.sequence + 1)


def _stated(
    read: StatisticsFooter, ref: StatisticsRef, url: str, snapshot: int, sequence: int
) -> Mapping[str, Any] | None:
    sketched = sketches_of(read.footer)
    if sketched.share < 1:
        return None  # its sketches know less than its numbers say
    blobs = [
        {
            "type": THETA_SKETCH,
            "snapshot-id": snapshot,
            "sequence-number": sequence,
            "fields": [number],
            "properties": {"ndv": str(column.ndv)},
        }
        for number, column in sketched.columns.items()
        if column.ndv is not None
    ]
    return {
        "snapshot-id": snapshot,
        "statistics-path": url,
        "file-size-in-bytes": ref.size,
        "file-footer-size-in-bytes": read.size,
        "blob-metadata": blobs,
    }
