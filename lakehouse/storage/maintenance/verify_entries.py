"""Checks of a state by its entries alone, without opening a file.

Invariant: entries without a problem here are read alike by scans, lookups and compactions: in
every merge unit the intervals of runs do not overlap, and the files of a run share no key.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from lakehouse.format.metadata import FileEntry, Level
from lakehouse.format.schema import TableSchema
from lakehouse.storage.maintenance.verify_report import Problem
from lakehouse.storage.metadata.run_order import interval, units_of

__all__ = ["entry_problems"]

_Found = tuple[str, Problem, str]
"""Path, problem and detail."""


def entry_problems(entries: Sequence[FileEntry], schema: TableSchema, snapshot: int) -> Iterator[_Found]:
    """Yields the problems of the live files of a snapshot, whose positions are filled in."""
    seen: set[str] = set()
    for entry in entries:
        if entry.path in seen:
            yield entry.path, Problem.ENTRY, "listed twice in one snapshot"
        seen.add(entry.path)
        wrong = _wrong(entry, schema, snapshot)
        if wrong:
            yield entry.path, Problem.ENTRY, wrong
    if schema.primary_key:
        for runs in units_of(entries, schema).values():
            yield from _unit_problems(runs)


def _wrong(entry: FileEntry, schema: TableSchema, snapshot: int) -> str:
    low, high = interval(entry)
    keyed = bool(schema.primary_key)
    if low > high or high[0] > snapshot or (entry.at or 0) > snapshot:
        return f"its interval {low} to {high} is none of snapshot {snapshot}"
    if not 0 <= entry.bucket < entry.total_buckets:
        return f"bucket {entry.bucket} of {entry.total_buckets}"
    counts = f"{entry.deletes} deletions and {entry.updates} updates"
    if min(entry.rows, entry.size, entry.deletes, entry.updates) < 0 or (
        entry.deletes + entry.updates > entry.rows
    ):
        return f"{counts} among {entry.rows} rows, {entry.size} bytes"
    if keyed and (entry.min_key is None or entry.max_key is None or entry.min_key > entry.max_key):
        return "its keys are not from a least to a greatest"
    if entry.level is Level.BOTTOM and entry.deletes + entry.updates:
        return f"{counts} at the bottom, where only inserts are"
    if len(entry.partition) != len(schema.partition_by) and (entry.partition or entry.deletes < entry.rows):
        return f"{len(entry.partition)} partition values; the table has {len(schema.partition_by)}"
    return ""


def _unit_problems(runs: Sequence[Sequence[FileEntry]]) -> Iterator[_Found]:
    for older, newer in itertools.pairwise(runs):
        if interval(newer[0])[0] <= interval(older[0])[1]:
            yield (
                newer[0].path,
                Problem.INTERVAL,
                f"its interval {interval(newer[0])} overlaps {interval(older[0])} of {older[0].path}",
            )
    for place, run in enumerate(runs):
        if place and any(entry.level is Level.BOTTOM for entry in run):
            yield run[0].path, Problem.INTERVAL, f"at the bottom, and {runs[0][0].path} is older"
        # Files of a run in different partitions, or buckets of another count, have different keys anyway.
        groups: dict[object, FileEntry] = {}
        for entry in run:
            group = (entry.partition, entry.bucket, entry.total_buckets)
            before = groups.get(group)
            if before is not None and (before.max_key or b"") >= (entry.min_key or b""):
                yield entry.path, Problem.INTERVAL, f"its keys overlap those of {before.path} in the same run"
            groups[group] = entry
