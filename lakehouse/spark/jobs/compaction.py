"""Compaction by executors: planned, merged and committed by the code that does it in one process.

``compact`` plans as ``Table.compact`` does. A merge unit is one task; one that is larger than a task's
share is cut by ranges of keys (at the borders of row groups), and its parts together become one run. The
driver commits the units of a wave together; units that others changed meanwhile give way.

Invariant: the table is what ``Table.compact`` would have made of the same snapshot: the same rows, runs,
levels and statistics (where a unit was cut, its files end elsewhere). Files of attempts that did not count
belong to no snapshot.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from pyspark.sql import SparkSession

from lakehouse.expr import Expr
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import ProgressCallback, map_bounded
from lakehouse.spark.jobs.job import Job, memory_of_task
from lakehouse.spark.runtime.connection import Connection
from lakehouse.storage.compact import (
    CompactionTask,
    CompactResult,
    MergedCommits,
    MergedRuns,
    compact_table,
    cut_task,
    merge_task,
    plan_table,
)
from lakehouse.storage.files import KeyRange, UploadedFiles
from lakehouse.storage.scan import to_expr
from lakehouse.storage.tables import OpenTable, View

__all__ = ["MergePart", "compact", "merge_part"]

_TASK_BYTES = 1024 * 1024 * 1024
"""Maximum bytes that a task reads: the work that Spark repeats when a task is lost."""
_CUTS = 4
"""Merge units whose files are opened at once to cut them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePart:
    """A compaction task, or the part of it within a range of keys."""

    task: CompactionTask
    keys: KeyRange
    schema: TableSchema
    time_ms: int
    """Time of the snapshot it was planned in, in milliseconds since 1970."""
    slots: int
    """Number of tasks that share the memory of a machine; 0 = one for each core."""
    rows: int
    """Number of rows that it reads, about; for progress."""


async def merge_part(table: OpenTable, part: MergePart) -> UploadedFiles:
    """Merges a part and returns its files; runs in an executor."""
    merged = await merge_task(
        table,
        part.task,
        schema=part.schema,
        time_ms=part.time_ms,
        memory_bytes=await memory_of_task(table, part.slots),
        keys=part.keys,
    )
    return merged.files


def compact(
    spark: SparkSession,
    table: str,
    *,
    connection: Connection | None = None,
    full: bool = False,
    where: Expr | str | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
    task_bytes: int | None = None,
) -> CompactResult:
    """Merges sorted runs into larger ones in executors; see ``Table.compact``.

    Args:
        spark: the session.
        table: ``db.table``.
        connection: the warehouse; None = the one that was registered.
        full: one run for every bucket, without deleted keys, instead of what is worth its cost.
        where: a condition on partition columns; None = the whole table.
        dry_run: only say what there is to do.
        progress: called with the number of rows that were merged.
        task_bytes: what a task reads at most; larger merge units are cut. None = so much that all
            executors have work, between half a file and a gigabyte.

    Example::

        print(lakehouse.spark.compact(spark, "sales.orders", full=True))
    """
    job = Job(spark, table, connection, progress)
    condition = to_expr(where)
    if dry_run:
        planned = job.call(compact_table, job.core, full=full, where=condition, dry_run=True)
        return dataclasses.replace(planned, cost=job.cost)
    view = job.call(job.core.newest)
    tasks = job.call(plan_table, view, full=full, where=condition)
    if not tasks:
        return CompactResult(snapshot=view.snapshot.id, cost=job.cost)
    with job.holding(view):
        result = _Compaction(job, view, tasks).run(task_bytes)
    return dataclasses.replace(result, cost=job.cost)


class _Compaction:
    """One compaction, in the driver."""

    def __init__(self, job: Job, view: View, tasks: Sequence[CompactionTask]) -> None:
        self._job, self._view, self._tasks = job, view, tasks
        self._commits = MergedCommits(job.core, view)

    def run(self, task_bytes: int | None) -> CompactResult:
        """Merges all units, and commits them wave by wave."""
        units = self._job.call(self._cut, task_bytes or self._share())
        self._job.run("merge rows", merge_part, units, self._commit, weight=attrgetter("rows"))
        return self._commits.result()

    def _share(self) -> int:
        """Returns the bytes of a task: every executor has work, and the last does not work alone for long."""
        total = sum(task.size for task in self._tasks)
        # Two tasks for each that runs at once: an executor that is done early takes another.
        even = total // (2 * self._job.slots)
        return min(_TASK_BYTES, max(self._view.options.file_target_bytes // 2, even))

    async def _cut(self, share: int) -> list[list[MergePart]]:
        async def cut(task: CompactionTask) -> list[MergePart]:
            ranges = await cut_task(task, self._job.core, self._view.schema, share)
            return [
                MergePart(
                    task=task,
                    keys=keys,
                    schema=self._view.schema,
                    time_ms=self._view.snapshot.time_ms,
                    slots=self._job.slots_of_machine,
                    rows=task.rows // len(ranges),
                )
                for keys in ranges
            ]

        return [parts async for parts in map_bounded(cut, self._tasks, _CUTS)]

    def _commit(self, units: Sequence[tuple[int, list[UploadedFiles]]]) -> None:
        # A task's parts are in the order of their keys.
        merged = [MergedRuns(task=self._tasks[at], files=UploadedFiles.joined(parts)) for at, parts in units]
        self._job.call(self._commits.commit, merged)
