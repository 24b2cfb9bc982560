"""Rescaling: a table gets another number of buckets, its runs split one by one and left where they stand.
Where rows of several buckets come together, runs whose intervals overlap become one run.

The runs that are there are split first, without a commit; the commit then splits only those that others
added meanwhile, and changes the schema. A commit that comes later with files of the old number has them
split by the committer (:mod:`lakehouse.storage.commit.committer`).

Invariant: no answer changes, and no snapshot has files of two numbers of buckets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from lakehouse.errors import InvalidInputError
from lakehouse.format.metadata import CommitKind, FileEntry, Level
from lakehouse.format.schema import BUCKETS_MAX, TableOptions, TableSchema
from lakehouse.io.cost import Cost, measure
from lakehouse.io.work import ProgressCallback, Teller
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.commit.spilled_manifest import SpilledManifest
from lakehouse.storage.compact.plan import CompactionReason, CompactionTask
from lakehouse.storage.compact.run_merger import merge_runs
from lakehouse.storage.files.file_writer import delete_files, object_paths
from lakehouse.storage.files.rebucket import SplitRun, split_run
from lakehouse.storage.metadata.run_order import Interval, apart, hull, interval, unit_of
from lakehouse.storage.scan.table_scan import TableRuns
from lakehouse.storage.tables.arguments import check_count
from lakehouse.storage.tables.commit_result import committed_or_deleted
from lakehouse.storage.tables.long_reads import reading
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["RescaleReport", "rescale"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleReport:
    """What a rescaling did, or with ``dry_run`` would do now."""

    snapshot: int
    """Its snapshot; the newest one when there was nothing to do."""
    changed: bool
    before: int
    """Buckets there were."""
    buckets: int
    """Buckets there are."""
    files_in: int = 0
    """Files that were split."""
    files_out: int = 0
    """Files they were split into; not known of a dry run."""
    rows: int = 0
    """Rows of every kind in these files."""
    bytes_in: int = 0
    bytes_out: int = 0
    dry_run: bool = False
    cost: Cost = field(default_factory=Cost, compare=False)
    """Requests and bytes of the whole call."""

    def __str__(self) -> str:
        return (
            f"{self.before} {'would become' if self.dry_run else 'became'} {self.buckets} buckets: "
            f"{self.files_in:,} files to {self.files_out:,}, {self.rows:,} rows, {self.bytes_in:,} bytes to "
            f"{self.bytes_out:,}; {self.cost}"
        )


async def rescale(
    core: OpenTable, buckets: int, *, dry_run: bool = False, progress: ProgressCallback | None = None
) -> RescaleReport:
    """Gives a table another number of buckets; see ``Table.rescale``."""
    count = check_count("buckets", buckets)
    if count is None or count > BUCKETS_MAX:
        raise InvalidInputError(f"a table has 1 to {BUCKETS_MAX:,} buckets, not {buckets!r}")
    with measure() as cost:
        view = await core.newest()
        todo = _to_split(await view.files(), view.schema, count)
        found = RescaleReport(
            snapshot=view.snapshot.id,
            changed=False,
            before=view.schema.buckets,
            buckets=count,
            files_in=len(todo),
            rows=sum(one.rows for one in todo),
            bytes_in=sum(one.size for one in todo),
            dry_run=dry_run,
        )
        if not dry_run and view.schema.buckets != count:
            change = _Rescale(core, count, Teller(progress))
            async with committed_or_deleted(core, lambda: change.uploaded) as fate:
                async with reading(core, view):
                    await change.split(todo, view.schema, len(todo))
                done = await core.commit(change, view=view)
                fate.kept = done.changed
            if done.changed:
                await delete_files(core.env.store, core.root, change.abandoned())
                found = change.report(found, done.snapshot.id)
    return dataclasses.replace(found, cost=cost)


def _to_split(files: Iterable[FileEntry], schema: TableSchema, buckets: int) -> list[FileEntry]:
    """Files of another number of buckets; without a key nothing ties rows to one."""
    return [one for one in files if one.total_buckets != buckets] if schema.primary_key else []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cluster:
    """Files whose runs stand so that in the new buckets they have to be one run."""

    stands: Interval
    runs: tuple[tuple[FileEntry, ...], ...]
    """The files of each old bucket, which may be of several runs."""
    is_oldest: bool
    """Whether nothing older comes together with them: only such runs are at the bottom afterwards."""

    @property
    def files(self) -> list[FileEntry]:
        """All of them."""
        return [one for run in self.runs for one in run]


def _clusters(files: Iterable[FileEntry], schema: TableSchema, buckets: int) -> list[_Cluster]:
    """The files in clusters whose intervals are apart.

    What was in different buckets may have been compacted differently, so intervals overlap where rows of
    several buckets come together. Where every bucket is split for itself they cannot.
    """
    meeting: dict[object, list[FileEntry]] = {}
    for one in files:
        partition, bucket = unit_of(one, schema)
        alone = buckets % one.total_buckets == 0
        meeting.setdefault((partition, one.total_buckets, bucket if alone else None), []).append(one)
    found: list[_Cluster] = []
    for group in meeting.values():
        parts = apart(sorted(group, key=interval), interval)
        found += [_cluster(files, is_oldest=number == 0) for number, files in enumerate(parts)]
    return found


def _cluster(files: Sequence[FileEntry], *, is_oldest: bool) -> _Cluster:
    buckets: dict[int, list[FileEntry]] = {}
    for one in files:
        buckets.setdefault(one.bucket, []).append(one)
    runs = tuple(tuple(sorted(run, key=_in_run_order)) for _, run in sorted(buckets.items()))
    return _Cluster(stands=hull(files), runs=runs, is_oldest=is_oldest)


def _above(split: SplitRun) -> SplitRun:
    """The same with something older below it."""
    outputs = tuple(dataclasses.replace(one, level=min(one.level, Level.COMPACTED)) for one in split.outputs)
    return dataclasses.replace(split, outputs=outputs)


def _in_run_order(one: FileEntry) -> tuple[object, ...]:
    return *interval(one), one.min_key, one.path


class _Rescale:
    """Replaces every file of another number of buckets, whatever files there are by then."""

    blind: ClassVar[bool] = False

    def __init__(self, core: OpenTable, buckets: int, teller: Teller) -> None:
        self._core, self._buckets, self._teller = core, buckets, teller
        self._own = SpilledManifest(core.env.store, core.root)
        self._done: dict[tuple[frozenset[str], bool], list[SplitRun]] = {}
        self._inputs: Sequence[FileEntry] = ()
        self._used: list[SplitRun] = []
        """What the last draft was made of."""
        self.uploaded: list[str] = []
        """Every object that was uploaded, for whatever head."""

    async def split(self, todo: Sequence[FileEntry], schema: TableSchema, total: int | None = None) -> None:
        """Splits clusters that have not been, or have lost or gained files since."""
        self._used = []
        for cluster in _clusters(todo, schema, self._buckets):
            known = frozenset(one.path for one in cluster.files), cluster.is_oldest
            if known not in self._done:
                self._done[known] = await self._split(cluster, schema)
                self._teller.step("split files", len(cluster.files), total)
            self._used += self._done[known]

    async def _split(self, cluster: _Cluster, schema: TableSchema) -> list[SplitRun]:
        """Splits what there is in each partition; several runs of a bucket are merged first."""
        core = self._core
        settings = core.env.settings.table
        files: list[FileEntry] = []
        merged: list[str] = []
        for run in cluster.runs:
            if len({interval(one) for one in run}) == 1:
                files += run
                continue
            task = CompactionTask(
                unit=unit_of(run[0], schema), inputs=run, bottom=False, reason=CompactionReason.FULL
            )
            found = await merge_runs(
                core.env.store,
                core.root,
                dataclasses.replace(schema, buckets=run[0].total_buckets),
                TableOptions.parse(schema.options),
                task,
                TableRuns(core, schema),
                memory_bytes=settings.compaction_memory_bytes,
                settings=settings,
            )
            merged += object_paths(found.outputs)
            self.uploaded += merged
            files += found.outputs
        partitions: dict[tuple[bytes, ...], list[FileEntry]] = {}
        for one in files:
            partitions.setdefault(one.partition, []).append(one)
        splits = []
        for part in partitions.values():
            split = await split_run(
                core.env.store,
                core.root,
                schema,
                part,
                buckets=self._buckets,
                caches=core.env.caches.runs,
                settings=settings,
                stands=cluster.stands,
            )
            self.uploaded += split.paths
            splits.append(split if cluster.is_oldest else _above(split))
        await delete_files(core.env.store, core.root, merged)
        return splits

    async def draft(self, base: Base) -> Draft | None:
        """Nothing when somebody else has done it."""
        schemas, history = self._core.schemas, self._core.history
        before = await schemas.read(base.snapshot.schema)
        if before.schema.buckets == self._buckets:
            return None
        todo = _to_split(await base.files(), before.schema, self._buckets)
        await self.split(todo, before.schema)
        self._inputs = todo
        added = tuple(one for split in self._used for one in split.outputs)
        uploads = [one.first_upload_ms for one in self._used if one.first_upload_ms is not None]
        changed = dataclasses.replace(before.schema, id=before.schema.id + 1, buckets=self._buckets)
        return Draft(
            kind=CommitKind.RESCALE,
            added=added,
            manifest=await self._own.of(added, base.snapshot),
            removed=tuple(todo),
            schema=await schemas.write(
                changed, time_ms=history.time.now_ms(), before=(before, base.snapshot.schema)
            ),
            uploaded_ms=min(uploads, default=None),
        )

    def abandoned(self) -> list[str]:
        """Objects of runs that were split in vain."""
        kept = {path for one in self._used for path in one.paths}
        return [path for path in self.uploaded if path not in kept]

    def report(self, planned: RescaleReport, snapshot: int) -> RescaleReport:
        """What was done in the end."""
        inputs = self._inputs
        outputs = [one for split in self._used for one in split.outputs]
        return dataclasses.replace(
            planned,
            snapshot=snapshot,
            changed=True,
            files_in=len(inputs),
            files_out=len(outputs),
            rows=sum(one.rows for one in inputs),
            bytes_in=sum(one.size for one in inputs),
            bytes_out=sum(one.size for one in outputs),
        )
