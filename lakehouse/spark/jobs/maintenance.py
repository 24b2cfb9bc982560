"""Maintenance by executors: orphans of huge tables, verification, indexes; and expiry.

``remove_orphans`` commits the horizon and gathers what snapshots need in the driver, as in one process;
then executors list spans of the directory and delete. ``verify`` walks the snapshots in the driver, and
executors read the data files. ``rebuild_indexes`` indexes a file in a task. ``expire`` needs no
executors: it reads what describes the table and deletes a thousand objects a request.

Invariant: each is what the method of ``Table`` does, with the same report; the rules of deletion
(a horizon is committed first, what is needed is known before anything is listed) are kept by the driver.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from pyspark.sql import SparkSession

from lakehouse.expr import Expr
from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import ProgressCallback, ProgressReporter
from lakehouse.spark.jobs.job import Job
from lakehouse.spark.runtime.connection import Connection
from lakehouse.storage.maintenance import (
    ExpireReport,
    FileCheck,
    FileFindings,
    IndexedFile,
    IndexWork,
    OrphanReport,
    OrphanSweep,
    PathSet,
    PathSpan,
    RebuildResult,
    VerifyReport,
    begin_sweep,
    commit_indexes,
    expire_snapshots,
    index_one,
    needed_paths,
    paths_of,
    plan_rebuild,
    planned_rebuild,
    spans_of,
    sweep_span,
    verify_table,
)
from lakehouse.storage.scan import to_expr
from lakehouse.storage.tables import OpenTable, View, time_ms_of

__all__ = ["expire", "rebuild_indexes", "remove_orphans", "verify"]

_Moment = dt.datetime | int | str
_SPANS = 4
"""Spans of a listing for each task that can run at once: some are longer than others."""
_READ_BYTES = 256 * 1024 * 1024
"""Bytes of data files per task, about."""


def expire(
    spark: SparkSession,
    table: str,
    *,
    connection: Connection | None = None,
    retain: int | None = None,
    older_than: _Moment | None = None,
    grace_s: float | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> ExpireReport:
    """Lets old snapshots expire, and deletes objects of those that expired long enough ago; in the driver.

    See ``Table.expire_snapshots``.

    Example::

        print(lakehouse.spark.expire(spark, "sales.orders", retain=100))
    """
    job = Job(spark, table, connection, progress)
    return job.call(
        expire_snapshots,
        job.core,
        retain=retain,
        older_than_ms=None if older_than is None else time_ms_of(older_than),
        grace_s=grace_s,
        dry_run=dry_run,
        progress=progress,
    )


# --- orphans --------------------------------------------------------------------------


def remove_orphans(
    spark: SparkSession,
    table: str,
    *,
    connection: Connection | None = None,
    older_than: _Moment | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
    spans: int | None = None,
) -> OrphanReport:
    """Deletes objects that were uploaded for commits which never came; see ``Table.remove_orphans``.

    Args:
        spark: the session.
        table: ``db.table``.
        connection: the warehouse; None = the one that was registered.
        older_than: uploads before this moment; None = those older than ``orphan.min_age_s``.
        dry_run: change nothing and say what would be deleted now.
        progress: called with how much of the directory was looked at.
        spans: parts that the directory is listed in; None = some for each executor.

    Example::

        print(lakehouse.spark.remove_orphans(spark, "sales.orders", dry_run=True))
    """
    job = Job(spark, table, connection, progress)
    older_than_ms = None if older_than is None else time_ms_of(older_than)
    sweep = job.call(begin_sweep, job.core, older_than_ms=older_than_ms, dry_run=dry_run)
    needed = job.call(needed_paths, job.core, sweep, job.reporter)
    view = job.call(job.core.view_of, sweep.head)
    paths = [path for entry in job.call(view.files) for path, _ in paths_of(entry)]
    reports = [sweep.report]  # one, to which every part is added

    def done(results: Sequence[tuple[int, list[OrphanReport]]]) -> None:
        for _, [part] in results:
            reports.append(reports.pop().with_part(part))

    work = partial(_sweep_span, sweep, needed)
    job.run("list", work, [[span] for span in spans_of(paths, spans or _SPANS * job.slots)], done)
    return dataclasses.replace(reports.pop(), cost=job.cost)


async def _sweep_span(sweep: OrphanSweep, needed: PathSet, table: OpenTable, span: PathSpan) -> OrphanReport:
    return await sweep_span(table, sweep, needed, span, ProgressReporter(None))


# --- verification ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """Data files to be read, and the schema to read them with."""

    schema: TableSchema
    entries: tuple[FileEntry, ...]

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(entry.size for entry in self.entries)


class _Findings:
    """Findings by data file, and the files that still have to be read."""

    def __init__(self) -> None:
        self.known: dict[str, list[FileFindings]] = {}
        self.unread: dict[int, tuple[TableSchema, list[FileEntry]]] = {}
        """Files to be read, with their schema, by its id."""

    async def note(self, entry: FileEntry, schema: TableSchema) -> list[FileFindings]:
        """Notes a file as one to be read, and reports nothing wrong with it."""
        self.unread.setdefault(schema.id, (schema, []))[1].append(entry)
        return []

    async def findings_of(
        self,
        read: Callable[[FileEntry, TableSchema], Awaitable[list[FileFindings]]],
        entry: FileEntry,
        schema: TableSchema,
    ) -> list[FileFindings]:
        """Returns the findings of a file; reads it here if a commit added it meanwhile."""
        known = self.known.get(entry.path)
        return await read(entry, schema) if known is None else known


def verify(
    spark: SparkSession,
    table: str,
    *,
    connection: Connection | None = None,
    deep: bool = True,
    snapshot: int | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> VerifyReport:
    """Looks for damage: every object that snapshots need is there and is what they say.

    Args:
        spark: the session.
        table: ``db.table``.
        connection: the warehouse; None = the one that was registered.
        deep: read every data file too, in executors; without it see ``Table.verify``, which does the same.
        snapshot: only this one; None = all that exist.
        dry_run: read no data file, only say how many there are to be read.
        progress: called with the number of bytes of files that were read.

    Example::

        report = lakehouse.spark.verify(spark, "sales.orders")
        assert report.ok, report
    """
    job = Job(spark, table, connection, progress)
    if not deep or dry_run:
        return job.call(verify_table, job.core, deep=False, snapshot=snapshot, progress=progress)
    # Two walks over the snapshots: the first only lists the files, which executors then read; the second
    # reports what they found, and sees what was committed in between.
    findings = _Findings()
    job.call(verify_table, job.core, deep=True, snapshot=snapshot, check=findings.note)
    units = [[group] for schema, entries in findings.unread.values() for group in _groups(schema, entries)]

    def done(results: Sequence[tuple[int, list[dict[str, list[FileFindings]]]]]) -> None:
        for _, [by_path] in results:
            findings.known.update(by_path)

    job.run("read files", _check_files, units, done, weight=attrgetter("size"))
    check = FileCheck(job.core.env.store, job.core.root, job.core.env.settings.index).file
    report = job.call(
        verify_table, job.core, deep=True, snapshot=snapshot, check=partial(findings.findings_of, check)
    )
    return dataclasses.replace(report, cost=job.cost)


def _groups(schema: TableSchema, entries: Iterable[FileEntry]) -> list[_Files]:
    """Groups files by tasks, the largest first."""
    groups: list[list[FileEntry]] = []
    room = 0
    for entry in sorted(entries, key=attrgetter("size"), reverse=True):
        if entry.size > room:
            groups.append([])
            room = _READ_BYTES
        groups[-1].append(entry)
        room -= entry.size
    return [_Files(schema=schema, entries=tuple(group)) for group in groups]


async def _check_files(table: OpenTable, files: _Files) -> dict[str, list[FileFindings]]:
    check = FileCheck(table.env.store, table.root, table.env.settings.index)
    return {entry.path: await check.file(entry, files.schema) for entry in files.entries}


# --- indexes --------------------------------------------------------------------------


def rebuild_indexes(
    spark: SparkSession,
    table: str,
    *,
    connection: Connection | None = None,
    where: Expr | str | None = None,
    every: bool = False,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> RebuildResult:
    """Indexes the data files that are not indexed as the table says; see ``Table.rebuild_indexes``.

    Args:
        spark: the session.
        table: ``db.table``.
        connection: the warehouse; None = the one that was registered.
        where: a condition on partition columns; None = all of them.
        every: also files that are indexed as they should be.
        dry_run: only say what there is to do.
        progress: called with the number of rows that were indexed.

    Example::

        print(lakehouse.spark.rebuild_indexes(spark, "sales.orders"))
    """
    job = Job(spark, table, connection, progress)
    view = job.call(job.core.newest)
    work = job.call(plan_rebuild, view, to_expr(where), every=every)
    if dry_run or not work:
        return dataclasses.replace(planned_rebuild(view, work), dry_run=dry_run, cost=job.cost)
    units = [[item] for item in sorted(work, key=_rows, reverse=True)]
    with job.holding(view):
        result = _Rebuild(job, view).run(units)
    return dataclasses.replace(result, cost=job.cost)


def _rows(work: IndexWork) -> int:
    return work.entry.rows if work.definitions else 0


class _Rebuild:
    """One rebuild, in the driver."""

    def __init__(self, job: Job, view: View) -> None:
        self._job, self._view = job, view
        self._done = RebuildResult(snapshot=view.snapshot.id)

    def run(self, units: Sequence[Sequence[IndexWork]]) -> RebuildResult:
        """Indexes all files, and commits them wave by wave."""
        work = partial(index_one, schema=self._view.schema)
        self._job.run("index rows", work, units, self._commit, weight=_rows)
        return self._done

    def _commit(self, results: Sequence[tuple[int, list[IndexedFile]]]) -> None:
        indexed = [file for _, [file] in results]
        committed = self._job.call(commit_indexes, self._job.core, self._view, indexed)
        self._done = self._done.then(committed)
