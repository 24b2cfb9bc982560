"""The order of runs: where files stand in time, which are one run, and which merge unit they belong to.

The files of a merge unit are put into runs by their intervals, oldest first. Pure: everything here is
read off the entries of one snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, TypeVar

from lakehouse.errors import InternalError
from lakehouse.format.metadata import FileEntry, Position, Snapshot
from lakehouse.format.schema import TableSchema

__all__ = [
    "MIXED_BUCKETS",
    "Interval",
    "Unit",
    "apart",
    "appended_order",
    "covered_intervals",
    "hull",
    "interval",
    "key_ends",
    "unit_of",
    "units_of",
]

T = TypeVar("T")


Unit = tuple[tuple[bytes, ...], int]
"""A merge unit: partition (empty when a key may move between partitions) and bucket."""


MIXED_BUCKETS = -1
"""Bucket of a unit whose files differ in their number of buckets."""


def interval(entry: FileEntry) -> tuple[Position, Position]:
    """Returns the positions of the rows of an entry of a known snapshot, both included."""
    if entry.lo is not None and entry.hi is not None:
        return entry.lo, entry.hi
    if entry.at is None:
        raise InternalError(f"the entry of {entry.path} says neither its interval nor its snapshot")
    own = (entry.at, 1, entry.run)
    return entry.lo or own, entry.hi or own


def key_ends(entry: FileEntry) -> tuple[bytes, bytes] | None:
    """Returns the least and the greatest row key of a file; None in a table without a primary key."""
    if entry.min_key is None or entry.max_key is None:
        return None
    return entry.min_key, entry.max_key


def apart(items: Iterable[T], ends_of: Callable[[T], tuple[Any, Any] | None]) -> Iterator[list[T]]:
    """Groups items so that no group overlaps another, each as small as that allows.

    Args:
        items: ordered by their first end; groups keep the order.
        ends_of: returns the first and the last of what an item covers; None = it overlaps nothing.
    """
    group: list[T] = []
    reach: Any = None
    for item in items:
        ends = ends_of(item)
        # An item without ends overlaps nothing, and is a group of its own.
        if group and (ends is None or reach is None or ends[0] > reach):
            yield group
            group, reach = [], None
        group.append(item)
        if ends is not None:
            reach = ends[1] if reach is None else max(reach, ends[1])
    if group:
        yield group


def unit_of(entry: FileEntry, schema: TableSchema) -> Unit:
    """Returns the merge unit of a file."""
    # Where the key does not say the partition, an older version of it may lie in any.
    return entry.partition if schema.key_holds_partition else (), entry.bucket


def units_of(entries: Iterable[FileEntry], schema: TableSchema) -> dict[Unit, list[list[FileEntry]]]:
    """Returns the runs of every merge unit, oldest first, the files of each by first key; units in order.

    Where a partition's files differ in their number of buckets, all are one unit: bucket -1.
    """
    found: dict[Unit, dict[tuple[Position, Position], list[FileEntry]]] = {}
    totals: dict[tuple[bytes, ...], int] = {}
    mixed: set[tuple[bytes, ...]] = set()
    entries = list(entries)
    for entry in entries:
        partition = unit_of(entry, schema)[0]
        if totals.setdefault(partition, entry.total_buckets) != entry.total_buckets:
            mixed.add(partition)
    for entry in entries:
        unit = unit_of(entry, schema)
        # With another number of buckets a key is in another bucket: no bucket holds all its versions.
        if unit[0] in mixed:
            unit = unit[0], MIXED_BUCKETS
        found.setdefault(unit, {}).setdefault(interval(entry), []).append(entry)
    return {
        unit: [sorted(runs[at], key=attrgetter("min_key", "path")) for at in sorted(runs)]
        for unit, runs in sorted(found.items())
    }


def appended_order(entry: FileEntry) -> tuple[object, ...]:
    """Returns a sort key: the order of files whose rows follow each other in a table without a key."""
    return interval(entry), entry.partition, entry.bucket, entry.run, entry.path


Interval = tuple[Position, Position]
"""First and last position of rows, both inclusive."""


def hull(entries: Iterable[FileEntry]) -> Interval:
    """Returns the first and the last position of the rows of some files."""
    lows, highs = zip(*map(interval, entries), strict=True)
    return min(lows), max(highs)


def covered_intervals(snapshot: Snapshot) -> list[Interval]:
    """Returns the intervals of the segment ranges that a snapshot covers and no file holds yet, in order."""
    return sorted(
        ((at, 0, one.first), (at, 0, one.last))
        for one in snapshot.segments
        for at in [snapshot.id if one.at is None else one.at]
    )
