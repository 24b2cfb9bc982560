"""Orphans: objects that were uploaded for a commit that never happened.

First a commit records the *orphan horizon*: from then on no commit takes files that were uploaded before
it. Then the paths that all snapshots refer to are gathered, and only then the directory is listed. An object
from before the horizon that nothing refers to cannot be needed any more.

Invariant: objects that a snapshot of whatever id refers to are kept, expired or not; so are objects younger
than the horizon by the store's clock, and foreign ones. Memory holds eight bytes for each object that is
referred to, however many the directory holds.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from lakehouse.errors import FormatError
from lakehouse.format.metadata import CommitKind, Snapshot
from lakehouse.io.protocols import ObjectMeta
from lakehouse.io.work import DryRunReport, ProgressCallback, ProgressReporter, map_bounded, measured
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.maintenance.deletions import Deletions
from lakehouse.storage.maintenance.reachable import PathSet, Reachable
from lakehouse.storage.metadata.paths import UUID_DIRECTORIES, ObjectKind, join, object_kind, relative
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = [
    "OrphanReport",
    "OrphanSweep",
    "PathSpan",
    "begin_sweep",
    "every_span",
    "needed_paths",
    "remove_orphans",
    "spans_of",
    "sweep_span",
]

_METADATA_AGE_MS = 30 * 60_000
"""Minimum age of manifests and schemas. Commits write these themselves, so no horizon protects them, but no
commit takes half as long."""
_PATHS_SHOWN = 1_000
"""Paths in a report at most."""
_BATCH = 1_000
"""Listed objects that are judged and deleted together."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OrphanReport(DryRunReport):
    """Result of a sweep, or with ``dry_run`` its estimate."""

    snapshot: int
    """Id of the newest snapshot: the sweep's own when it made one."""
    horizon_ms: int
    """Uploads that began before may be orphans; milliseconds since 1970 by the store's clock."""
    objects: int = 0
    """Number of orphans deleted."""
    bytes: int = 0
    """Bytes of the orphans deleted."""
    by_kind: Mapping[str, int] = field(default_factory=dict)
    """Orphans deleted, by kind: ``data``, ``index``, ``manifest``, ``schema``, ``statistics``."""
    young: int = 0
    """Objects that nothing refers to, but too young to be orphans."""
    foreign: int = 0
    """Objects in our directories that are not ours; they are never deleted."""
    listed: int = 0
    """Number of objects listed."""
    paths: tuple[str, ...] = ()
    """The first thousand orphans, relative to the table's directory."""

    def with_part(self, other: OrphanReport) -> OrphanReport:
        """Returns the sum of two reports about different objects."""
        return dataclasses.replace(
            self,
            objects=self.objects + other.objects,
            bytes=self.bytes + other.bytes,
            by_kind=dict(Counter(self.by_kind) + Counter(other.by_kind)),
            young=self.young + other.young,
            foreign=self.foreign + other.foreign,
            listed=self.listed + other.listed,
            paths=(*self.paths, *other.paths)[:_PATHS_SHOWN],
        )

    def __str__(self) -> str:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.by_kind.items()))
        return (
            f"{self.objects:,} orphans {self._did('deleted')} ({kinds or 'none'}), "
            f"{self.bytes:,} bytes; of {self.listed:,} objects {self.young:,} are too young and "
            f"{self.foreign:,} foreign; {self.cost}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SetHorizon:
    """Records the time before which uploads may be orphans."""

    horizon_ms: int
    blind: ClassVar[bool] = False

    async def draft(self, base: Base) -> Draft | None:
        """Drafts nothing when the horizon is there already: it never goes back."""
        if (base.snapshot.orphan_horizon_ms or 0) >= self.horizon_ms:
            return None
        return Draft(kind=CommitKind.ORPHANS, orphan_horizon_ms=self.horizon_ms)


@measured
async def remove_orphans(
    table: OpenTable,
    *,
    older_than_ms: int | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> OrphanReport:
    """Deletes objects that nothing refers to; see ``Table.remove_orphans``."""
    sweep = await begin_sweep(table, older_than_ms=older_than_ms, dry_run=dry_run)
    reporter = ProgressReporter(progress)
    needed = await needed_paths(table, sweep, reporter)
    report = sweep.report
    for span in every_span():
        report = report.with_part(await sweep_span(table, sweep, needed, span, reporter))
    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSpan:
    """A contiguous range of objects in one directory, by path."""

    directory: str
    first: str | None = None
    """Path of the first object, inclusive; None = from the beginning."""
    end: str | None = None
    """Path at which the range ends, exclusive; None = to the end."""


def every_span() -> list[PathSpan]:
    """Returns the ranges that hold all objects of a table that may be orphans."""
    return [PathSpan(directory=directory) for directory in UUID_DIRECTORIES]


def spans_of(paths: Iterable[str], count: int) -> list[PathSpan]:
    """Divides those ranges into about ``count`` spans with about as many objects each.

    Args:
        paths: of objects that exist; others are assumed to be spread like them.
        count: number of spans.
    """
    known = list(paths)
    # Objects not in ``paths`` may be anywhere among the random uuids, so cuts between digits are offered too.
    digits = {f"{path.rpartition('/')[0]}/{digit}" for path in known for digit in "0123456789abcdef"}
    marks = sorted({*known, *digits})
    cuts = marks[:: max(1, len(marks) // max(1, count))]
    spans: list[PathSpan] = []
    for directory in UUID_DIRECTORIES:
        inside = [cut for cut in cuts if cut.startswith(directory)]
        ends = itertools.pairwise([None, *inside, None])
        spans += [PathSpan(directory=directory, first=first, end=end) for first, end in ends]
    return spans


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanSweep:
    """State of a sweep that decides which objects are orphans; a value that travels to other processes."""

    head: Snapshot
    horizon_ms: int
    """Data, index and statistics files modified before may be orphans."""
    metadata_ms: int
    """Manifests and schemas modified before may be orphans."""
    dry_run: bool

    @property
    def report(self) -> OrphanReport:
        """Report of a sweep that has not deleted anything yet."""
        return OrphanReport(snapshot=self.head.id, horizon_ms=self.horizon_ms, dry_run=self.dry_run)


async def begin_sweep(table: OpenTable, *, older_than_ms: int | None, dry_run: bool) -> OrphanSweep:
    """Commits the horizon, without which nothing may be deleted."""
    view = await table.newest()
    head = view.snapshot
    now_ms = await table.snapshots.store_now_ms(head)
    horizon_ms = now_ms - int(view.options.orphan_min_age_s * 1000)
    if older_than_ms is not None:
        # A horizon in the future would refuse writes that have not begun yet.
        horizon_ms = min(older_than_ms, now_ms)
    # Without the commit a write under way could still refer to an object that is about to be deleted.
    if not dry_run:
        head = (await table.commit(_SetHorizon(horizon_ms=horizon_ms), view=view)).snapshot
    return OrphanSweep(
        head=head,
        horizon_ms=horizon_ms,
        metadata_ms=min(horizon_ms, now_ms - _METADATA_AGE_MS),
        dry_run=dry_run,
    )


async def needed_paths(table: OpenTable, sweep: OrphanSweep, reporter: ProgressReporter) -> PathSet:
    """Returns the paths that snapshots refer to: readable ones, and expired ones that still exist.

    Call it when the sweep has begun, and before anything is listed.
    """
    needed, snapshots, head = Reachable(table.manifests, table.schemas), table.snapshots, sweep.head
    tagged = {ref.snapshot for ref in head.refs.values()}
    kept = {*tagged, *range(head.earliest, head.id + 1)}
    waiting = [number async for number, _ in snapshots.log.sizes() if number not in kept]

    async def read(number: int) -> Snapshot | None:
        if number in kept:
            return await snapshots.snapshot(number, head)
        try:
            fetched = await snapshots.log.find(number)
            return snapshots.decoded(fetched) if fetched is not None else None
        except FormatError:
            return None  # expired and damaged: nobody can read it

    total = len(kept) + len(waiting)
    at_once = table.settings.read_concurrency
    async for snapshot in map_bounded(read, [*sorted(kept), *waiting], at_once, ordered=False):
        reporter.step("read snapshots", 1, total)
        if snapshot is not None:
            needed.add(snapshot, expired=snapshot.id not in kept)
    return await needed.paths()


async def sweep_span(
    table: OpenTable, sweep: OrphanSweep, needed: PathSet, span: PathSpan, reporter: ProgressReporter
) -> OrphanReport:
    """Deletes the orphans of a span; this may run in another process than the one the sweep began in."""
    run = _Run(table, sweep, needed, reporter)
    root = table.root
    after = None if span.first is None else _before(join(root, span.first))
    listed: dict[str, ObjectMeta] = {}
    async for listed_object in table.env.store.list(join(root, span.directory), start_after=after):
        path = relative(root, listed_object.key)
        if span.first is not None and path < span.first:
            continue
        if span.end is not None and path >= span.end:
            break
        listed[path] = listed_object
        if len(listed) == _BATCH:
            await run.delete(listed)
            listed = {}
    await run.delete(listed)
    return run.report


def _before(key: str) -> str:
    """Returns a key just before this one, since listings begin after the key they are given."""
    last = chr(ord(key[-1]) - 1)
    return f"{key[:-1]}{'.' if last == '/' else last}~"


class _Run:
    """One span being swept."""

    def __init__(
        self, table: OpenTable, sweep: OrphanSweep, needed: PathSet, reporter: ProgressReporter
    ) -> None:
        self._sweep, self._needed, self._reporter = sweep, needed, reporter
        self._deletions = Deletions(table.env.store, table.root, reporter, dry_run=sweep.dry_run)
        self._counts: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._shown: list[str] = []

    @property
    def report(self) -> OrphanReport:
        """Report of the objects judged so far."""
        return dataclasses.replace(
            self._sweep.report,
            objects=self._deletions.objects,
            bytes=self._deletions.bytes,
            by_kind=dict(self._kinds),
            young=self._counts["young"],
            foreign=self._counts["foreign"],
            listed=self._counts["listed"],
            paths=tuple(self._shown),
        )

    async def delete(self, listed: Mapping[str, ObjectMeta]) -> None:
        """Deletes the orphans among these objects."""
        self._counts["listed"] += len(listed)
        self._reporter.step("list", len(listed))
        orphans: list[tuple[str, int]] = []
        for path in self._needed.others(list(listed)):
            kind, about = object_kind(path), listed[path]
            if kind is None:
                self._counts["foreign"] += 1
                continue
            is_file = kind in (ObjectKind.DATA, ObjectKind.INDEX, ObjectKind.STATISTICS)
            limit = self._sweep.horizon_ms if is_file else self._sweep.metadata_ms
            # Without a time nothing proves that an object is old, so it stays.
            if about.modified_ms is None or about.modified_ms >= limit:
                self._counts["young"] += 1
                continue
            self._kinds[kind.value] += 1
            orphans.append((path, about.size))
        self._shown += [path for path, _ in orphans[: _PATHS_SHOWN - len(self._shown)]]
        await self._deletions.delete(orphans)
