"""What is wrong with a state by what its entries say, without opening a file.

Invariant: entries of which nothing is said here are read alike by scans, lookups and compactions: in
every merge unit the intervals of runs are apart, and the files of a run share no key.
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
"""Path, problem, detail."""


def entry_problems(entries: Sequence[FileEntry], schema: TableSchema, snapshot: int) -> Iterator[_Found]:
    """What is wrong with the live files of a snapshot, positions filled in."""
    seen: set[str] = set()
    for one in entries:
        if one.path in seen:
            yield one.path, Problem.ENTRY, "listed twice in one snapshot"
        seen.add(one.path)
        wrong = _wrong(one, schema, snapshot)
        if wrong:
            yield one.path, Problem.ENTRY, wrong
    if schema.primary_key:
        for runs in units_of(entries, schema).values():
            yield from _unit_problems(runs)


def _wrong(one: FileEntry, schema: TableSchema, snapshot: int) -> str:
    low, high = interval(one)
    keyed = bool(schema.primary_key)
    if low > high or high[0] > snapshot or (one.at or 0) > snapshot:
        return f"its interval {low} to {high} is none of snapshot {snapshot}"
    if not 0 <= one.bucket < one.total_buckets:
        return f"bucket {one.bucket} of {one.total_buckets}"
    if min(one.rows, one.size, one.deletes, one.updates) < 0 or one.deletes + one.updates > one.rows:
        return f"{one.deletes} deletions and {one.updates} updates among {one.rows} rows, {one.size} bytes"
    if keyed and (one.min_key is None or one.max_key is None or one.min_key > one.max_key):
        return "its keys are not from a least to a greatest"
    if one.level is Level.BOTTOM and one.deletes + one.updates:
        return f"{one.deletes} deletions and {one.updates} updates at the bottom, where only inserts are"
    if len(one.partition) != len(schema.partition_by) and (one.partition or one.deletes < one.rows):
        return f"{len(one.partition)} partition values; the table has {len(schema.partition_by)}"
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
        if place and any(one.level is Level.BOTTOM for one in run):
            yield run[0].path, Problem.INTERVAL, f"at the bottom, and {runs[0][0].path} is older"
        # Files of a run in different partitions, or buckets of another count, have different keys anyway.
        groups: dict[object, FileEntry] = {}
        for one in run:
            group = (one.partition, one.bucket, one.total_buckets)
            before = groups.get(group)
            if before is not None and (before.max_key or b"") >= (one.min_key or b""):
                yield one.path, Problem.INTERVAL, f"its keys overlap those of {before.path} in the same run"
            groups[group] = one
