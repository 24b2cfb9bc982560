"""Compaction of a table: tasks are planned, merged concurrently, and committed as they get done.

Nobody waits for a compaction. It commits after whatever was committed meanwhile, in as many attempts as it
takes, and gives way when its output no longer fits: an input file is gone, a run lies between the inputs, or,
where tombstones were dropped, the merge unit has got an older run.

Invariant: no snapshot reads differently because of a compaction. Runs are replaced only in a state in which
they are neighbours, by one run with the hull of their intervals; runs that others add stay above it. Files of
a task that gave way are deleted, files of one whose outcome is not known are left alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import ClassVar

import anyio

from lakehouse.errors import ConflictError, InvalidInputError
from lakehouse.expr import Expr
from lakehouse.format.metadata import CommitKind, FileEntry, Snapshot
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.io.cost import measure
from lakehouse.io.work import DryRunReport, ProgressCallback, ProgressReporter, map_bounded
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.compact.plan import CompactionTask, plan_compaction, unit_to_compact
from lakehouse.storage.compact.run_merger import MergedRuns, merge_runs
from lakehouse.storage.files.reader import EVERY_KEY, KeyRange, RunSource
from lakehouse.storage.files.uploaded_files import UploadedFiles, delete_files
from lakehouse.storage.metadata.run_order import Unit, covered_intervals, hull, interval
from lakehouse.storage.scan.conditions import partition_test
from lakehouse.storage.scan.work_ranges import LARGE, cut_files, pieces_of
from lakehouse.storage.schema.row_ttl import lifetime
from lakehouse.storage.tables.commit_result import keep_committed
from lakehouse.storage.tables.long_reads import reading
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View

__all__ = [
    "CompactResult",
    "MergedCommits",
    "ReplaceRuns",
    "compact_table",
    "cut_task",
    "fits",
    "merge_task",
    "plan_table",
    "result_of_plan",
    "run_tasks",
]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CompactResult(DryRunReport):
    """Report of a compaction, or with ``dry_run`` of its plan; tasks that gave way count as not done."""

    snapshot: int
    """Id of the last snapshot it made, or of the newest one when it made none."""
    changed: bool = False
    """True when it made a snapshot."""
    units: int = 0
    """Number of merge units that were compacted (in tables without a key: groups of small files)."""
    gave_way: int = 0
    """Number of merge units that were left unchanged because others changed them meanwhile."""
    commits: int = 0
    """Number of snapshots that it made."""
    runs_in: int = 0
    """Number of sorted runs that were merged."""
    files_in: int = 0
    rows_in: int = 0
    """Number of rows of every kind that were read."""
    bytes_in: int = 0
    files_out: int = 0
    rows_out: int = 0
    bytes_out: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """Number of units by the reason they were picked for."""

    def __str__(self) -> str:
        what = f"{self.units} merge units, {self.runs_in} runs, {self.files_in} files, {self.rows_in:,} rows"
        if self.dry_run:
            return f"would compact {what}, {self.bytes_in:,} bytes"
        done = (
            f"{what} became {self.files_out} files, {self.rows_out:,} rows" if self.units else "nothing to do"
        )
        gave_way = f", {self.gave_way} gave way" if self.gave_way else ""
        return f"snapshot {self.snapshot}: {done}{gave_way}; {self.cost}"


async def compact_table(
    table: OpenTable,
    *,
    full: bool = False,
    where: Expr | None = None,
    units: Collection[Unit] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> CompactResult:
    """Compacts the merge units for which a trigger is reached, or with ``full`` all of them.

    Args:
        table: the table.
        full: leave one run of every merge unit.
        where: a condition on whole partitions; None = all of them.
        units: units to consider; None = all of them.
        dry_run: only report the plan.
        progress: called with the work done so far, whenever it grows.
    """
    with measure() as cost:
        view = await table.newest()
        tasks = await plan_table(view, full=full, where=where, units=units)
        if dry_run:
            result = dataclasses.replace(result_of_plan(tasks, view.snapshot.id), dry_run=True)
        else:
            result = await run_tasks(table, view, tasks, progress=progress)
    return dataclasses.replace(result, cost=cost)


async def run_tasks(
    table: OpenTable,
    view: View,
    tasks: Sequence[CompactionTask],
    *,
    progress: ProgressCallback | None = None,
) -> CompactResult:
    """Runs the tasks planned in a state concurrently, and commits each as it gets done."""
    async with reading(table, view):
        return await _Compaction(table, view, tasks, progress).run()


async def plan_table(
    view: View,
    *,
    full: bool = False,
    where: Expr | None = None,
    units: Collection[Unit] | None = None,
) -> tuple[CompactionTask, ...]:
    """Plans the compaction of a snapshot; see :func:`compact_table`.

    Raises:
        InvalidInputError: ``where`` is not a condition on whole partitions.
    """
    holds = None
    if where is not None:
        holds = partition_test(where, view.schema)
        if holds is None:
            raise InvalidInputError(
                "compact takes a condition on partition columns alone, of a table whose primary key holds "
                "them all: other parts of a table are not compacted apart"
            )
    return plan_compaction(
        await view.files(),
        view.schema,
        view.options,
        covered=covered_intervals(view.snapshot),
        full=full,
        holds=holds,
        units=units,
    )


def result_of_plan(tasks: Sequence[CompactionTask], snapshot: int) -> CompactResult:
    """Returns a result that counts the inputs of planned tasks."""
    reasons: dict[str, int] = {}
    for task in tasks:
        reasons[task.reason.value] = reasons.get(task.reason.value, 0) + 1
    return CompactResult(
        snapshot=snapshot,
        units=len(tasks),
        runs_in=sum(task.runs for task in tasks),
        files_in=sum(len(task.inputs) for task in tasks),
        rows_in=sum(task.rows for task in tasks),
        bytes_in=sum(task.size for task in tasks),
        reasons=reasons,
    )


async def merge_task(
    table: OpenTable,
    task: CompactionTask,
    *,
    schema: TableSchema,
    time_ms: int,
    memory_bytes: int,
    keys: KeyRange = EVERY_KEY,
    watch: Callable[[int], None] | None = None,
) -> MergedRuns:
    """Merges the runs of a task and uploads the output, in any process that has the task.

    Args:
        table: the table.
        task: the task.
        schema: schema of the snapshot it was planned in.
        time_ms: time of that snapshot, by which expired rows are dropped.
        memory_bytes: maximum bytes of rows and files in memory.
        keys: only rows of these keys; other calls merge the rest.
        watch: called with the number of rows read so far.
    """
    return await merge_runs(
        table.env.store,
        table.root,
        schema,
        TableOptions.parse(schema.options),
        task,
        table,
        memory_bytes=memory_bytes,
        shows=lifetime(schema, time_ms),
        keys=keys,
        watch=watch,
    )


# --- the commit -----------------------------------------------------------------------


def fits(task: CompactionTask, live: Iterable[FileEntry], snapshot: Snapshot, schema: TableSchema) -> bool:
    """Returns whether the output of a task may take the place of its inputs in a state.

    Args:
        task: the merged task.
        live: files of the state, with their positions filled in; those of other units are ignored.
        snapshot: snapshot of the state, for the WAL segments that it covers.
        schema: schema of the table.
    """
    inputs = {entry.path for entry in task.inputs}
    mine: list[FileEntry] = []
    others: list[FileEntry] = []
    for entry in live:
        if unit_to_compact(entry, schema) == task.unit:
            (mine if entry.path in inputs else others).append(entry)
    if len(mine) != len(inputs):
        return False
    lo, hi = hull(mine)
    around = [*map(interval, others), *covered_intervals(snapshot)]
    if any(low <= hi and high >= lo for low, high in around):
        return False
    return not (task.bottom and any(high < lo for _, high in around))


class ReplaceRuns:
    """Replaces the inputs of merged tasks by their outputs, task by task, each whole or not at all.

    Args:
        merged: the merged tasks.
        schema: schema of the table.
    """

    blind: ClassVar[bool] = False

    def __init__(self, merged: Sequence[MergedRuns], schema: TableSchema) -> None:
        self._merged, self._schema = tuple(merged), schema
        self.placed: tuple[MergedRuns, ...] = ()
        """Merged tasks that the last draft puts in place; the others give way."""
        self._added: tuple[FileEntry, ...] = ()

    async def draft(self, base: Base) -> Draft | None:
        """Returns the replacements that still fit the head; None = none does."""
        live = await base.files()
        by_unit: dict[Unit, list[FileEntry]] = {}
        for entry in live:
            by_unit.setdefault(unit_to_compact(entry, self._schema), []).append(entry)
        placed = tuple(
            merged
            for merged in self._merged
            if fits(merged.task, by_unit.get(merged.task.unit, ()), base.snapshot, self._schema)
        )
        # The same tuple for the same tasks: a manifest is written per tuple, not per attempt.
        if placed != self.placed:
            self.placed = placed
            self._added = _files_of(placed).entries
        if not placed:
            return None
        inputs = {entry.path for merged in placed for entry in merged.task.inputs}
        return Draft(
            kind=CommitKind.COMPACT,
            added=self._added,
            removed=tuple(entry for entry in live if entry.path in inputs),
        )


class MergedCommits:
    """Commits of the merged tasks of one compaction, and what has come of them.

    Args:
        table: the table.
        view: the state that the tasks were planned in.
    """

    def __init__(self, table: OpenTable, view: View) -> None:
        self._table, self._view, self._snapshot = table, view, view.snapshot.id
        self._placed: list[MergedRuns] = []
        self._commits = self._gave_way = 0

    async def commit(self, merged: Sequence[MergedRuns]) -> tuple[MergedRuns, ...]:
        """Puts merged tasks in place by one commit; returns those that fit, the others give way."""
        change, files = ReplaceRuns(merged, self._view.schema), _files_of(merged)
        commit = self._table.commit(change, view=self._view, uploaded_ms=files.first_upload_ms)
        placed: tuple[MergedRuns, ...] = ()
        try:
            done = await keep_committed(self._table, lambda: files.paths, commit)
            if done.changed:
                placed, self._snapshot = change.placed, done.snapshot.id
                self._commits += 1
        # Too many races were lost, the uploads are older than the orphan horizon, or their schema was undone.
        except ConflictError:
            pass
        self._placed += placed
        self._gave_way += len(merged) - len(placed)
        return placed

    def result(self) -> CompactResult:
        """Returns the result of all commits."""
        files = _files_of(self._placed)
        return dataclasses.replace(
            result_of_plan([merged.task for merged in self._placed], self._snapshot),
            changed=self._commits > 0,
            gave_way=self._gave_way,
            commits=self._commits,
            files_out=len(files.entries),
            rows_out=files.rows,
            bytes_out=files.bytes,
        )


@dataclass(slots=True, kw_only=True, eq=False)
class _Waiting:
    """Merged task on its way into a snapshot."""

    merged: MergedRuns
    taken: bool = False
    """True once a commit has taken it along."""


class _Compaction:
    """One compaction under way: merges tasks concurrently and commits them in turns.

    Args:
        table: the table.
        view: the state it was planned in.
        tasks: tasks to run.
        progress: called with the work done so far.
    """

    def __init__(
        self,
        table: OpenTable,
        view: View,
        tasks: Sequence[CompactionTask],
        progress: ProgressCallback | None,
    ) -> None:
        self._table, self._view, self._tasks, self._reporter = table, view, tasks, ProgressReporter(progress)
        settings = table.settings
        self._at_once = max(1, min(settings.compaction_concurrency, len(tasks)))
        self._memory = settings.compaction_memory_bytes // self._at_once
        self._turn = anyio.Lock()
        self._waiting: list[_Waiting] = []
        self._failed: BaseException | None = None
        self._rows = sum(task.rows for task in tasks)
        self._commits = MergedCommits(table, view)

    async def run(self) -> CompactResult:
        """Runs every task; the first error ends it, and files that are in no snapshot are deleted."""
        async with aclosing(map_bounded(self._do, self._tasks, self._at_once, ordered=False)) as tasks:
            async for _ in tasks:
                pass
        return self._commits.result()

    async def _do(self, task: CompactionTask) -> None:
        table, view, read = self._table, self._view, 0

        def watch(rows: int) -> None:
            nonlocal read
            self._reporter.step("merge rows", rows - read, self._rows)
            read = rows

        merged = await merge_task(
            table,
            task,
            schema=view.schema,
            time_ms=view.snapshot.time_ms,
            memory_bytes=self._memory,
            watch=watch,
        )
        watch(task.rows)
        await self._commit(merged)

    async def _commit(self, merged: MergedRuns) -> None:
        """Puts a task in place, unless it gives way, together with all that wait by then."""
        mine = _Waiting(merged=merged)
        self._waiting.append(mine)
        try:
            async with self._turn:
                # Whoever had the turn before may have committed this task along with its own. After a commit
                # that failed, another one would be cancelled half-way, and its files left as orphans.
                if not mine.taken and self._failed is None:
                    batch, self._waiting = self._waiting, []
                    for waiting in batch:
                        waiting.taken = True
                    try:
                        await self._commits.commit([waiting.merged for waiting in batch])
                    except BaseException as error:
                        self._failed = error
                        raise
        finally:
            # Cancelled before any commit could refer to the files.
            if not mine.taken:
                self._waiting.remove(mine)
                await delete_files(self._table.env.store, self._table.root, merged.files.paths)
        if self._failed is not None:
            raise self._failed


def _files_of(merged: Iterable[MergedRuns]) -> UploadedFiles:
    return UploadedFiles.joined(task.files for task in merged)


async def cut_task(
    task: CompactionTask, source: RunSource, schema: TableSchema, share_bytes: int
) -> list[KeyRange]:
    """Returns the key ranges to divide a task into; for a large one the metadata of its files is read.

    Args:
        task: a task of a table with a key; tasks of other tables are small, and left whole.
        source: opens its files.
        schema: the table's schema.
        share_bytes: bytes of files that a range should have.
    """
    if task.size < LARGE * share_bytes or any(one.min_key is None for one in task.inputs):
        return [EVERY_KEY]
    return cut_files(task.inputs, share_bytes, await pieces_of(source, schema, task.inputs))
