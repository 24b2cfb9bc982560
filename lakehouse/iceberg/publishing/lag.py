"""Lag of a publication: what of a snapshot its readers do not see, and for how long."""

from __future__ import annotations

from collections import Counter

from lakehouse.errors import FormatError, NotFoundError
from lakehouse.iceberg.publishing.coverage import Coverage
from lakehouse.storage.metadata import covered_intervals, interval
from lakehouse.storage.tables import OpenTable, PublishingLag, View

__all__ = ["lag_of"]


async def lag_of(table: OpenTable, view: View, coverage: Coverage) -> PublishingLag:
    """Returns the part of a snapshot that a publication leaves out."""
    waiting = covered_intervals(view.snapshot.with_positions())
    firsts = [interval(entry)[0][0] for entry, _ in coverage.left] + [first[0] for first, _ in waiting]
    if not firsts:
        return PublishingLag()
    since = min(firsts)
    return PublishingLag(
        files=len(coverage.left),
        rows=sum(entry.rows for entry, _ in coverage.left),
        bytes=sum(entry.size for entry, _ in coverage.left),
        segments=sum(last[2] - first[2] + 1 for first, last in waiting),
        since=since,
        snapshots=view.snapshot.id - since + 1,
        age_s=await _age_s(table, view, since),
        reasons=dict(Counter(why.value for _, why in coverage.left)),
    )


async def _age_s(table: OpenTable, view: View, since: int) -> float | None:
    try:
        first = await table.snapshots.snapshot(since, view.snapshot)
    except (FormatError, NotFoundError):
        return None
    return (view.snapshot.time_ms - first.time_ms) / 1000
