"""Rescaling: gives a table another number of buckets; its runs are split one by one and keep their intervals.

Where rows of several buckets come together, runs whose intervals overlap become one run.

The existing runs are split first, without a commit; the commit then splits only those that others
added meanwhile, and changes the schema. Files of the old number in a later commit are split by the
committer (:mod:`lakehouse.storage.commit.committer`).

Invariant: no answer changes, and no snapshot has files of two numbers of buckets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from lakehouse.errors import InvalidInputError
from lakehouse.format.metadata import CommitKind, FileEntry, Level
from lakehouse.format.schema import BUCKETS_MAX, TableOptions, TableSchema
from lakehouse.io.work import DryRunReport, ProgressCallback, ProgressReporter, measured
from lakehouse.storage.commit.committer import Base, Committed
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.compact.plan import CompactionReason, CompactionTask
from lakehouse.storage.compact.run_merger import merge_runs
from lakehouse.storage.files.rebucket import split_run
from lakehouse.storage.files.uploaded_files import UploadedFiles, delete_files
from lakehouse.storage.metadata.run_order import Interval, apart, hull, interval, unit_of
from lakehouse.storage.tables.arguments import check_count
from lakehouse.storage.tables.commit_result import keep_committed
from lakehouse.storage.tables.long_reads import reading
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View

__all__ = ["RescaleReport", "rescale"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RescaleReport(DryRunReport):
    """Result of a rescaling, or with ``dry_run`` its estimate."""

    snapshot: int
    """Id of its snapshot; of the newest one when there was nothing to do."""
    changed: bool
    before: int
    """Number of buckets before."""
    buckets: int
    """Number of buckets afterwards."""
    files_in: int = 0
    """Number of files that were split."""
    files_out: int = 0
    """Number of files they were split into; 0 in a dry run, which does not know it."""
    rows: int = 0
    """Rows of every kind in the split files."""
    bytes_in: int = 0
    bytes_out: int = 0

    def __str__(self) -> str:
        return (
            f"{self.before} {self._did('became', 'become')} {self.buckets} buckets: "
            f"{self.files_in:,} files to {self.files_out:,}, {self.rows:,} rows, {self.bytes_in:,} bytes to "
            f"{self.bytes_out:,}; {self.cost}"
        )


@measured
async def rescale(
    table: OpenTable, buckets: int, *, dry_run: bool = False, progress: ProgressCallback | None = None
) -> RescaleReport:
    """Gives a table another number of buckets; see ``Table.rescale``."""
    count = check_count("buckets", buckets)
    if count is None or count > BUCKETS_MAX:
        raise InvalidInputError(f"a table has 1 to {BUCKETS_MAX:,} buckets, not {buckets!r}")
    view = await table.newest()
    todo = _to_split(await view.files(), view.schema, count)
    report = RescaleReport(
        snapshot=view.snapshot.id,
        changed=False,
        before=view.schema.buckets,
        buckets=count,
        files_in=len(todo),
        rows=sum(entry.rows for entry in todo),
        bytes_in=sum(entry.size for entry in todo),
        dry_run=dry_run,
    )
    if not dry_run and view.schema.buckets != count:
        change = _Rescale(table, count, ProgressReporter(progress))
        done = await keep_committed(table, lambda: change.uploaded, change.commit(view, todo))
        if done.changed:
            report = change.report(report, done.snapshot.id)
    return report


def _to_split(files: Iterable[FileEntry], schema: TableSchema, buckets: int) -> list[FileEntry]:
    """Returns the files of another number of buckets; none without a key, which alone assigns buckets."""
    return [entry for entry in files if entry.total_buckets != buckets] if schema.primary_key else []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cluster:
    """Files that must become one run in the new buckets, because their intervals overlap."""

    span: Interval
    """Interval of the new run: the hull of the files' intervals."""
    runs: tuple[tuple[FileEntry, ...], ...]
    """Files of each old bucket, which may be of several runs."""
    is_oldest: bool
    """Whether no older rows meet them: only such runs may be at the bottom level afterwards."""

    @property
    def files(self) -> list[FileEntry]:
        """All files of the cluster."""
        return [entry for run in self.runs for entry in run]


def _clusters(files: Iterable[FileEntry], schema: TableSchema, buckets: int) -> list[_Cluster]:
    """Groups the files into clusters whose intervals do not overlap.

    Different buckets may have been compacted differently, so intervals overlap where rows of several
    buckets come together. Where every bucket is split for itself they cannot.
    """
    meeting: dict[object, list[FileEntry]] = {}
    for entry in files:
        partition, bucket = unit_of(entry, schema)
        # With a multiple of the old number, no new bucket gets rows of two old ones.
        alone = buckets % entry.total_buckets == 0
        meeting.setdefault((partition, entry.total_buckets, bucket if alone else None), []).append(entry)
    clusters: list[_Cluster] = []
    for group in meeting.values():
        parts = apart(sorted(group, key=interval), interval)
        clusters += [_cluster(files, is_oldest=number == 0) for number, files in enumerate(parts)]
    return clusters


def _cluster(files: Sequence[FileEntry], *, is_oldest: bool) -> _Cluster:
    buckets: dict[int, list[FileEntry]] = {}
    for entry in files:
        buckets.setdefault(entry.bucket, []).append(entry)
    runs = tuple(tuple(sorted(run, key=_in_run_order)) for _, run in sorted(buckets.items()))
    return _Cluster(span=hull(files), runs=runs, is_oldest=is_oldest)


def _above(split: UploadedFiles) -> UploadedFiles:
    """Returns a copy that is not at the bottom level, since older rows are below it."""
    entries = tuple(
        dataclasses.replace(entry, level=min(entry.level, Level.COMPACTED)) for entry in split.entries
    )
    return dataclasses.replace(split, entries=entries)


def _in_run_order(entry: FileEntry) -> tuple[object, ...]:
    return *interval(entry), entry.min_key, entry.path


class _Rescale:
    """Change that replaces every file of another number of buckets, whatever files the head has by then."""

    blind: ClassVar[bool] = False

    def __init__(self, table: OpenTable, buckets: int, reporter: ProgressReporter) -> None:
        self._table, self._buckets, self._reporter = table, buckets, reporter
        self._done: dict[tuple[frozenset[str], bool], UploadedFiles] = {}
        self._inputs: Sequence[FileEntry] = ()
        self._used = UploadedFiles()
        """Split files that the last draft consists of."""
        self.uploaded: list[str] = []
        """Paths of every object that was uploaded, for whatever head."""

    async def commit(self, view: View, todo: Sequence[FileEntry]) -> Committed:
        """Splits the files of a state, and commits the change."""
        async with reading(self._table, view):
            await self.split(todo, view.schema, len(todo))
        return await self._table.commit(self, view=view)

    async def split(self, todo: Sequence[FileEntry], schema: TableSchema, total: int | None = None) -> None:
        """Splits the clusters that were not split before, or have lost or gained files since."""
        used = []
        for cluster in _clusters(todo, schema, self._buckets):
            known = frozenset(entry.path for entry in cluster.files), cluster.is_oldest
            if known not in self._done:
                self._done[known] = await self._split(cluster, schema)
                self._reporter.step("split files", len(cluster.files), total)
            used.append(self._done[known])
        self._used = UploadedFiles.joined(used)

    async def _split(self, cluster: _Cluster, schema: TableSchema) -> UploadedFiles:
        """Splits the files of each partition of a cluster; several runs of a bucket are merged first."""
        table = self._table
        settings = table.settings
        files: list[FileEntry] = []
        merged: list[str] = []
        for run in cluster.runs:
            if len({interval(entry) for entry in run}) == 1:
                files += run
                continue
            # Not at the bottom: rows that delete stay, as older runs may lie below the cluster.
            task = CompactionTask(
                unit=unit_of(run[0], schema), inputs=run, bottom=False, reason=CompactionReason.FULL
            )
            merger = await merge_runs(
                table.env.store,
                table.root,
                dataclasses.replace(schema, buckets=run[0].total_buckets),
                TableOptions.parse(schema.options),
                task,
                table,
                memory_bytes=settings.compaction_memory_bytes,
            )
            merged += merger.files.paths
            self.uploaded += merger.files.paths
            files += merger.files.entries
        partitions: dict[tuple[bytes, ...], list[FileEntry]] = {}
        for entry in files:
            partitions.setdefault(entry.partition, []).append(entry)
        splits = []
        for part in partitions.values():
            split = await split_run(
                table.env.store,
                table.root,
                schema,
                part,
                buckets=self._buckets,
                caches=table.env.caches.runs,
                settings=settings,
                span=cluster.span,
            )
            self.uploaded += split.paths
            splits.append(split if cluster.is_oldest else _above(split))
        await delete_files(table.env.store, table.root, merged)
        return UploadedFiles.joined(splits)

    async def draft(self, base: Base) -> Draft | None:
        """Drafts nothing when somebody else has already changed the number of buckets."""
        schemas, snapshots = self._table.schemas, self._table.snapshots
        before = await schemas.read(base.snapshot.schema)
        if before.schema.buckets == self._buckets:
            return None
        todo = _to_split(await base.files(), before.schema, self._buckets)
        await self.split(todo, before.schema)
        self._inputs = todo
        changed = dataclasses.replace(before.schema, id=before.schema.id + 1, buckets=self._buckets)
        return Draft(
            kind=CommitKind.RESCALE,
            added=self._used.entries,
            removed=tuple(todo),
            schema=await schemas.write(
                changed, time_ms=snapshots.time.now_ms(), before=(before, base.snapshot.schema)
            ),
            uploaded_ms=self._used.first_upload_ms,
        )

    def report(self, planned: RescaleReport, snapshot: int) -> RescaleReport:
        """Completes the report of the plan with the work of the last draft."""
        inputs = self._inputs
        return dataclasses.replace(
            planned,
            snapshot=snapshot,
            changed=True,
            files_in=len(inputs),
            files_out=len(self._used.entries),
            rows=sum(entry.rows for entry in inputs),
            bytes_in=sum(entry.size for entry in inputs),
            bytes_out=self._used.bytes,
        )
