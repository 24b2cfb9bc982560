"""Compaction of a table: tasks are planned, merged beside each other, and committed as they get done.

Nobody waits for a compaction. It commits behind whatever was committed meanwhile, as often as it takes, and
gives way when that took its ground away: a file it read is gone, a run stands between those it merged, or,
where deleted keys were forgotten, something older has come to live in the merge unit.

Invariant: no snapshot reads differently because of a compaction. Runs are replaced only in a state in which
they are neighbours, by one run that stands where they stood; whatever others add stays above it. Files of a
task that gave way are deleted, files of one whose outcome is not known are left alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, ClassVar

import anyio

from lakehouse.errors import ConflictError, InvalidInputError
from lakehouse.expr import Expr
from lakehouse.format.metadata import CommitKind, FileEntry, Snapshot
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.io.cost import Cost, measure
from lakehouse.io.work import ProgressCallback, Teller, map_bounded
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.commit.spilled_manifest import SpilledManifest
from lakehouse.storage.compact.plan import CompactionTask, plan_compaction, unit_to_compact
from lakehouse.storage.compact.run_merger import MergedRuns, merge_runs
from lakehouse.storage.files.file_writer import delete_files, object_paths
from lakehouse.storage.files.reader import EVERY_KEY, KeyRange, RunSource
from lakehouse.storage.metadata.run_order import Unit, covered_intervals, hull, interval
from lakehouse.storage.scan.partitions import partition_test
from lakehouse.storage.scan.table_scan import TableRuns
from lakehouse.storage.scan.work_ranges import LARGE, cut_files, pieces_of
from lakehouse.storage.schema.row_ttl import lifetime
from lakehouse.storage.tables.commit_result import committed_or_deleted
from lakehouse.storage.tables.long_reads import reading
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View

__all__ = [
    "CompactResult",
    "Placement",
    "ReplaceRuns",
    "commit_merged",
    "compact_table",
    "cut_task",
    "fits",
    "merge_task",
    "plan_table",
    "result_of_compaction",
    "result_of_plan",
    "run_tasks",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult:
    """What a compaction did, or with ``dry_run`` would do; what gave way is not counted as done."""

    snapshot: int
    """Id of the last snapshot it made; of the newest one when it made none."""
    changed: bool = False
    """Whether it made a snapshot."""
    dry_run: bool = False
    """Whether nothing was done: then the numbers of what goes in are those of the plan."""
    units: int = 0
    """Merge units that were compacted (in tables without a key: groups of small files)."""
    gave_way: int = 0
    """Merge units that were left as they are because others changed them meanwhile."""
    commits: int = 0
    runs_in: int = 0
    """Sorted runs that were put together."""
    files_in: int = 0
    rows_in: int = 0
    """Rows of every kind that were read."""
    bytes_in: int = 0
    files_out: int = 0
    rows_out: int = 0
    bytes_out: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """Number of units by why they were picked."""
    cost: Cost = field(default_factory=Cost, compare=False)
    """Requests and bytes of the whole call."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        names = [one.name for one in dataclasses.fields(self) if one.name != "cost"]
        return {**{name: getattr(self, name) for name in names}, **self.cost.as_dict()}

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
    core: OpenTable,
    *,
    full: bool = False,
    where: Expr | None = None,
    units: Collection[Unit] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> CompactResult:
    """Compacts what is worth it, or with ``full`` everything.

    Args:
        core: the table.
        full: leave one run of every merge unit.
        where: a condition on whole partitions; None = all of them.
        units: those to be looked at; None = all of them.
        dry_run: only say what there is to do.
        progress: told what was done so far, whenever there is news.
    """
    with measure() as cost:
        view = await core.newest()
        tasks = await plan_table(view, full=full, where=where, units=units)
        if dry_run:
            found = dataclasses.replace(result_of_plan(tasks, view.snapshot.id), dry_run=True)
        else:
            found = await run_tasks(core, view, tasks, progress=progress)
    return dataclasses.replace(found, cost=cost)


async def run_tasks(
    core: OpenTable,
    view: View,
    tasks: Sequence[CompactionTask],
    *,
    progress: ProgressCallback | None = None,
) -> CompactResult:
    """Does tasks that were planned in a state, beside each other, and commits them as they get done."""
    async with reading(core, view):
        return await _Compaction(core, view, tasks, progress).run()


async def plan_table(
    view: View,
    *,
    full: bool = False,
    where: Expr | None = None,
    units: Collection[Unit] | None = None,
) -> tuple[CompactionTask, ...]:
    """What to compact in a snapshot."""
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
    """What goes into some tasks."""
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


def result_of_compaction(
    placed: Sequence[MergedRuns], *, snapshot: int, commits: int, gave_way: int
) -> CompactResult:
    """The result out of what was put in place by some commits, the last of which made ``snapshot``."""
    return dataclasses.replace(
        result_of_plan([one.task for one in placed], snapshot),
        changed=commits > 0,
        gave_way=gave_way,
        commits=commits,
        files_out=sum(len(one.outputs) for one in placed),
        rows_out=sum(one.rows for one in placed),
        bytes_out=sum(one.size for one in placed),
    )


async def merge_task(
    core: OpenTable,
    task: CompactionTask,
    *,
    schema: TableSchema,
    time_ms: int,
    memory_bytes: int,
    keys: KeyRange = EVERY_KEY,
    watch: Callable[[int], None] | None = None,
) -> MergedRuns:
    """Merges the runs of a task; where that is done need not be where it was planned.

    Args:
        core: the table.
        task: what to merge.
        schema: of the snapshot it was planned in.
        time_ms: of that snapshot.
        memory_bytes: what rows and files under way may take.
        keys: only rows of these keys; other calls have those of the others.
        watch: told how many rows were read so far.
    """
    return await merge_runs(
        core.env.store,
        core.root,
        schema,
        TableOptions.parse(schema.options),
        task,
        TableRuns(core, schema),
        memory_bytes=memory_bytes,
        settings=core.env.settings.table,
        shows=lifetime(schema, time_ms),
        keys=keys,
        watch=watch,
    )


# --- the commit -----------------------------------------------------------------------


def fits(task: CompactionTask, live: Iterable[FileEntry], snapshot: Snapshot, schema: TableSchema) -> bool:
    """Whether the output of a task may take the place of its inputs in a state.

    Args:
        task: what was merged.
        live: the files of the state, with their positions filled in; those of other units do not matter.
        snapshot: the state's, for what it covers of the write-ahead log.
        schema: of the table.
    """
    inputs = {one.path for one in task.inputs}
    mine: list[FileEntry] = []
    others: list[FileEntry] = []
    for one in live:
        if unit_to_compact(one, schema) == task.unit:
            (mine if one.path in inputs else others).append(one)
    if len(mine) != len(inputs):
        return False
    lo, hi = hull(mine)
    around = [*map(interval, others), *covered_intervals(snapshot)]
    if any(low <= hi and high >= lo for low, high in around):
        return False
    return not (task.bottom and any(high < lo for _, high in around))


class ReplaceRuns:
    """Puts the outputs of some tasks in the place of their inputs; of each task, or not at all.

    Args:
        merged: what the tasks became.
        schema: of the table.
        own: writes the manifest of outputs that are too many for the snapshot.
    """

    blind: ClassVar[bool] = False

    def __init__(self, merged: Sequence[MergedRuns], schema: TableSchema, own: SpilledManifest) -> None:
        self._merged, self._schema, self._own = tuple(merged), schema, own
        self.placed: tuple[MergedRuns, ...] = ()
        """Those that the last draft puts in place; the others give way."""
        self._added: tuple[FileEntry, ...] = ()

    async def draft(self, base: Base) -> Draft | None:
        """What still fits the head; None = nothing does."""
        live = await base.files()
        by_unit: dict[Unit, list[FileEntry]] = {}
        for one in live:
            by_unit.setdefault(unit_to_compact(one, self._schema), []).append(one)
        placed = tuple(
            one
            for one in self._merged
            if fits(one.task, by_unit.get(one.task.unit, ()), base.snapshot, self._schema)
        )
        if placed != self.placed:
            self.placed = placed
            self._added = tuple(entry for one in placed for entry in one.outputs)
        if not placed:
            return None
        inputs = {entry.path for one in placed for entry in one.task.inputs}
        return Draft(
            kind=CommitKind.COMPACT,
            added=self._added,
            manifest=await self._own.of(self._added, base.snapshot),
            removed=tuple(one for one in live if one.path in inputs),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What became of tasks that were merged."""

    placed: tuple[MergedRuns, ...] = ()
    """Those that a snapshot has now; the others gave way, and their files are deleted."""
    snapshot: int | None = None
    """Its id; None = none was made."""


async def commit_merged(core: OpenTable, view: View, merged: Sequence[MergedRuns]) -> Placement:
    """Puts tasks in place that were merged, by one commit; those that do not fit any more give way.

    Args:
        core: the table.
        view: the state they were planned in.
        merged: the tasks.
    """
    change = ReplaceRuns(merged, view.schema, SpilledManifest(core.env.store, core.root))
    uploads = [one.first_upload_ms for one in merged if one.first_upload_ms is not None]
    try:
        async with committed_or_deleted(core, lambda: _paths(merged)) as fate:
            done = await core.commit(change, view=view, uploaded_ms=min(uploads, default=None))
            fate.kept = done.changed
    except ConflictError:
        # Others were first too often, or the uploads or their schema are not welcome any more.
        return Placement()
    if not done.changed:
        return Placement()
    placed = {id(one) for one in change.placed}
    over = [one for one in merged if id(one) not in placed]
    await delete_files(core.env.store, core.root, _paths(over))
    return Placement(placed=change.placed, snapshot=done.snapshot.id)


@dataclass(slots=True, kw_only=True, eq=False)
class _Waiting:
    """A task that is merged, on its way into a snapshot."""

    merged: MergedRuns
    taken: bool = False
    """Whether somebody is committing it, or has."""
    placed: bool = False
    error: BaseException | None = None
    """What the commit ended with that took it along."""


class _Compaction:
    """One compaction under way.

    Args:
        core: the table.
        view: the state it was planned in.
        tasks: what to do.
        progress: told what was done so far.
    """

    def __init__(
        self,
        core: OpenTable,
        view: View,
        tasks: Sequence[CompactionTask],
        progress: ProgressCallback | None,
    ) -> None:
        self._core, self._view, self._tasks, self._teller = core, view, tasks, Teller(progress)
        settings = core.env.settings.table
        self._at_once = max(1, min(settings.compaction_concurrency, len(tasks)))
        self._memory = settings.compaction_memory_bytes // self._at_once
        self._turn = anyio.Lock()
        self._waiting: list[_Waiting] = []
        self._rows = sum(task.rows for task in tasks)
        self._commits = 0
        self._snapshot = view.snapshot.id

    async def run(self) -> CompactResult:
        """Does every task; ends with the first error, and then takes back what is in no snapshot."""
        placed: list[MergedRuns] = []
        gave_way = 0
        results = map_bounded(self._do, self._tasks, self._at_once, ordered=False)
        async with aclosing(results):
            async for merged, is_placed in results:
                if is_placed:
                    placed.append(merged)
                else:
                    gave_way += 1
        return result_of_compaction(placed, snapshot=self._snapshot, commits=self._commits, gave_way=gave_way)

    async def _do(self, task: CompactionTask) -> tuple[MergedRuns, bool]:
        core, view, read = self._core, self._view, 0

        def watch(rows: int) -> None:
            nonlocal read
            self._teller.step("merge rows", rows - read, self._rows)
            read = rows

        merged = await merge_task(
            core,
            task,
            schema=view.schema,
            time_ms=view.snapshot.time_ms,
            memory_bytes=self._memory,
            watch=watch,
        )
        watch(task.rows)
        return merged, await self._commit(merged)

    async def _commit(self, merged: MergedRuns) -> bool:
        """Puts a task in place, together with all that wait by then; False = it gave way."""
        mine = _Waiting(merged=merged)
        self._waiting.append(mine)
        try:
            async with self._turn:
                if not mine.taken:
                    batch, self._waiting = self._waiting, []
                    await self._commit_batch(batch)
        finally:
            if not mine.taken:
                self._waiting.remove(mine)
                await delete_files(self._core.env.store, self._core.root, _paths([merged]))
        if mine.error is not None:
            raise mine.error
        return mine.placed

    async def _commit_batch(self, batch: Sequence[_Waiting]) -> None:
        for one in batch:
            one.taken = True
        try:
            done = await commit_merged(self._core, self._view, [one.merged for one in batch])
        except BaseException as error:
            for one in batch:
                one.error = error
            raise
        if done.snapshot is not None:
            self._commits += 1
            self._snapshot = done.snapshot
        for one in batch:
            one.placed = any(one.merged is other for other in done.placed)


def _paths(merged: Sequence[MergedRuns]) -> list[str]:
    return [path for one in merged for path in object_paths(one.outputs)]


async def cut_task(task: CompactionTask, source: RunSource, share_bytes: int) -> list[KeyRange]:
    """The ranges of keys that a task is best cut into; the metadata of its files is read if it is large.

    Args:
        task: of a table with a key; others are small, and left whole.
        source: opens its files.
        share_bytes: bytes of files that a range should have.
    """
    if task.size < LARGE * share_bytes or any(one.min_key is None for one in task.inputs):
        return [EVERY_KEY]
    return cut_files(task.inputs, share_bytes, await pieces_of(source, task.inputs))
