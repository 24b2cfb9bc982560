"""Expiry of snapshots: a commit raises the earliest id that exists; later, unreachable objects are deleted.

The commit is effective at once for readers. An object is deleted when no snapshot that exists refers to
it, and none did ``delete_grace`` ago: reachability is judged by the newest snapshot *of that time*. Since
only snapshots that exist can be tagged, an object that was unreachable stays so.

Invariant: an object that a retained, tagged or pinned snapshot needs is never deleted, nor one that became
unreachable within the grace. Objects of a snapshot go before the snapshot itself, so that the next run finds
an interrupted deletion in the listing of snapshots and continues it.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from lakehouse.errors import FormatError
from lakehouse.format.metadata import CommitKind, ManifestRef, Snapshot
from lakehouse.io.work import DryRunReport, ProgressCallback, ProgressReporter, map_bounded, measured, or_none
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.maintenance.deletions import Deletions
from lakehouse.storage.maintenance.reachable import PathSet, Reachable, paths_of
from lakehouse.storage.metadata.paths import SNAPSHOT_PREFIX, join, segment_path, snapshot_path
from lakehouse.storage.metadata.snapshots import Snapshots
from lakehouse.storage.tables.arguments import check_count, check_seconds
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["ExpireReport", "expire_snapshots"]

_BATCH = 128
"""Number of snapshots whose objects are deleted before they are deleted themselves."""
_SEGMENTS = 1_000
"""Number of WAL segments that are deleted at once; ascending, so that an interrupted run leaves the newer."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExpireReport(DryRunReport):
    """Report of an expiry, or with ``dry_run`` of what it would do now."""

    snapshot: int
    """Id of the newest snapshot: the expiry's own when it made one."""
    earliest: int
    """Lowest id that exists for readers."""
    expired: int = 0
    """Number of snapshots that this very call hid from readers; tagged ones do not count."""
    waiting: int = 0
    """Number of expired snapshots whose objects wait for their grace to end."""
    snapshots: int = 0
    """Number of snapshot objects deleted."""
    files: int = 0
    """Number of data and index files deleted."""
    metadata: int = 0
    """Number of manifests, schemas and statistics files deleted."""
    segments: int = 0
    """Number of WAL segments deleted."""
    bytes: int = 0
    """Bytes of all deleted objects except schemas."""
    unreadable: tuple[int, ...] = ()
    """Ids of damaged expired snapshots; objects that only they referred to are left to ``remove_orphans``."""

    def __str__(self) -> str:
        return (
            f"from snapshot {self.earliest} on; {self.expired:,} {self._did('expired')}, {self.waiting:,} "
            f"wait; {self._did('deleted')}: {self.snapshots:,} snapshots, {self.files:,} files, "
            f"{self.metadata:,} manifests and schemas, {self.segments:,} WAL segments, {self.bytes:,} bytes; "
            f"{self.cost}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expire:
    """Change that raises the earliest snapshot which exists for readers."""

    snapshots: Snapshots
    retain: int | None
    older_than_ms: int | None
    blind: ClassVar[bool] = False

    async def draft(self, base: Base) -> Draft | None:
        """Returns a draft with the new earliest id; None when every snapshot that should expire has."""
        earliest = await self.earliest(base.snapshot)
        if earliest <= base.snapshot.earliest:
            return None
        return Draft(kind=CommitKind.EXPIRE, earliest=earliest)

    async def earliest(self, head: Snapshot) -> int:
        """Returns the lowest id that stays: that of the newest ``retain``, and of all young enough."""
        if self.retain is None and self.older_than_ms is None:
            return head.earliest
        earliest = head.id if self.retain is None else head.id - self.retain + 1
        if self.older_than_ms is not None:
            last = await or_none(self.snapshots.at_time(self.older_than_ms - 1, head))
            if last is None:
                return head.earliest  # none is that old
            earliest = min(earliest, last.id + 1)
        return max(earliest, head.earliest)


@measured
async def expire_snapshots(
    table: OpenTable,
    *,
    retain: int | None = None,
    older_than_ms: int | None = None,
    grace_s: float | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> ExpireReport:
    """Lets snapshots expire and deletes what expired long enough ago; see ``Table.expire_snapshots``."""
    retain = check_count("retain", retain)
    grace_s = check_seconds("grace_s", grace_s)
    view = await table.newest()
    change = _Expire(snapshots=table.snapshots, retain=retain, older_than_ms=older_than_ms)
    before, head = view.snapshot, view.snapshot
    earliest = await change.earliest(head)
    if not dry_run and earliest > head.earliest:
        done = await table.commit(change, view=view)
        head, earliest = done.snapshot, done.snapshot.earliest
    run = _Run(table, head, ProgressReporter(progress), dry_run=dry_run)
    grace = view.options.delete_grace_s if grace_s is None else grace_s
    report = await run.delete(grace, earliest)
    tagged = {ref.snapshot for ref in head.refs.values()}
    gone = earliest - before.earliest - sum(before.earliest <= number < earliest for number in tagged)
    return dataclasses.replace(report, expired=gone)


class _Listed:
    """Ids, sizes and times of the snapshot objects up to some id, ascending; some 24 bytes for each."""

    def __init__(self) -> None:
        self.ids, self.sizes, self.times = array("q"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    async def of(cls, table: OpenTable, upto: int, now_ms: int) -> _Listed:
        """Lists the snapshot objects up to an id, inclusive; one request for a thousand."""
        listed, log = cls(), table.snapshots.log
        async for stored in table.env.store.list(join(table.root, SNAPSHOT_PREFIX)):
            number = log.number(stored.key)
            if number is None:
                continue
            if number > upto:
                break
            listed.ids.append(number)
            listed.sizes.append(stored.size)
            # Without a time an object counts as new: then it is no evidence of an older state.
            listed.times.append(stored.modified_ms if stored.modified_ms is not None else now_ms)
        return listed


class _Run:
    """One deletion of the objects that nothing refers to any more."""

    def __init__(
        self, table: OpenTable, head: Snapshot, reporter: ProgressReporter, *, dry_run: bool
    ) -> None:
        self._table, self._head, self._reporter, self._dry_run = table, head, reporter, dry_run
        self._deletions = Deletions(table.env.store, table.root, reporter, dry_run=dry_run)
        self._done = PathSet()
        self._dead: dict[str, frozenset[str]] = {}
        """Manifests of the expired snapshots so far, each with its paths that were live in none of these."""
        self._unreadable: list[int] = []

    async def delete(self, grace_s: float, earliest: int) -> ExpireReport:
        """Deletes what has been unreachable for the grace, and reports it.

        Args:
            grace_s: seconds since an object became unreachable; 0 = delete at once.
            earliest: the head's earliest id, or with ``dry_run`` what it would be.
        """
        now_ms = await self._table.snapshots.store_now_ms(self._head)
        listed = await _Listed.of(self._table, self._head.id, now_ms)
        then = await self._as_of(listed, now_ms - int(grace_s * 1000)) if grace_s else self._head
        # Tagged then or now: a tag dropped within the grace still protects, a new one does so already.
        tagged = {ref.snapshot for state in (then, self._head) if state for ref in state.refs.values()}
        limit = 0 if then is None else earliest if then is self._head else then.earliest
        doomed = [at for at, number in enumerate(listed.ids) if number < limit and number not in tagged]
        kept = {ref.snapshot for ref in self._head.refs.values()}
        expired = sum(number < earliest and number not in kept for number in listed.ids)
        spare = await self._spare_segments(then) if then is not None else []
        counts = [0, 0, 0, 0]
        if doomed or spare:
            counts = await self._delete(listed, doomed, spare, tagged)
        snapshots, files, metadata, segments = counts
        return ExpireReport(
            snapshot=self._head.id,
            earliest=earliest,
            waiting=expired - len(doomed),
            snapshots=snapshots,
            files=files,
            metadata=metadata,
            segments=segments,
            bytes=self._deletions.bytes,
            unreadable=tuple(self._unreadable),
            dry_run=self._dry_run,
        )

    async def _as_of(self, listed: _Listed, moment_ms: int) -> Snapshot | None:
        """Returns the newest readable snapshot written by a moment; None when there is none.

        If that one is damaged an older one serves: what was unreachable then was unreachable later, too.
        """
        for at in reversed(range(len(listed))):
            if listed.times[at] <= moment_ms:
                try:
                    snapshot = await self._read(listed.ids[at])
                except FormatError:
                    continue
                if snapshot is not None:
                    return snapshot
        return None

    async def _delete(
        self,
        listed: _Listed,
        doomed: Sequence[int],
        spare: Sequence[tuple[int, int]],
        tagged: Collection[int],
    ) -> list[int]:
        """Deletes; returns how many snapshots, files, manifests and schemas, and WAL segments it deleted."""
        # Snapshots that exist protect their objects, whether the listing showed them or not.
        kept = {*listed.ids, *range(self._head.earliest, self._head.id + 1), *tagged}
        needed = await self._needed(kept - {listed.ids[at] for at in doomed}, tagged)
        known = await needed.paths() if doomed else PathSet()
        segments = await self._delete_segments(spare, needed.segments)
        snapshots = files = metadata = 0
        for begin in range(0, len(doomed), _BATCH):
            batch = doomed[begin : begin + _BATCH]
            numbers = [listed.ids[at] for at in batch]
            expired = [snapshot for snapshot in await self._read_all(numbers) if snapshot]
            lists: set[str] = set()
            # Files first, then their manifests, then the snapshots: the next run can still find the rest.
            async for paths, manifest in self._listed_by(expired):
                files += await self._delete_new(known, paths)
                lists.update(manifest)
            sizes = {ref.path: ref.size for snapshot in expired for ref in snapshot.manifests}
            schemas = {snapshot.schema.path for snapshot in expired}
            stats = {ref.path: ref.size for ref in (one.statistics for one in expired) if ref is not None}
            metadata += await self._delete_new(known, stats)
            metadata += await self._delete_new(known, {path: sizes[path] for path in lists})
            metadata += await self._delete_new(known, dict.fromkeys(schemas, 0))
            snapshots += await self._deletions.delete(
                (snapshot_path(listed.ids[at]), listed.sizes[at]) for at in batch
            )
        return [snapshots, files, metadata, segments]

    async def _needed(self, kept: Collection[int], tagged: Collection[int]) -> Reachable:
        """Collects all objects that these snapshots refer to; some of them expired within the grace."""
        needed = Reachable(self._table.manifests, self._table.schemas)
        at_once = self._table.settings.read_concurrency
        async for snapshot in map_bounded(self._read, kept, at_once, ordered=False):
            self._reporter.step("read snapshots", 1, len(kept))
            if snapshot is not None:
                expired = snapshot.id < self._head.earliest and snapshot.id not in tagged
                needed.add(snapshot, expired=expired)
        return needed

    async def _read(self, number: int) -> Snapshot | None:
        """Reads a snapshot; None when it was deleted meanwhile, which happens to expired ones."""
        snapshots, head = self._table.snapshots, self._head
        if number >= head.earliest or any(ref.snapshot == number for ref in head.refs.values()):
            return await snapshots.snapshot(number, head)
        fetched = await snapshots.log.find(number)
        return snapshots.decoded(fetched) if fetched is not None else None

    async def _read_all(self, numbers: Sequence[int]) -> list[Snapshot | None]:
        """Reads expired snapshots; None for each that is deleted or damaged."""

        async def read(number: int) -> Snapshot | None:
            try:
                return await self._read(number)
            except FormatError:
                self._unreadable.append(number)
                return None

        at_once = self._table.settings.read_concurrency
        return [snapshot async for snapshot in map_bounded(read, numbers, at_once)]

    async def _listed_by(
        self, snapshots: Sequence[Snapshot]
    ) -> AsyncGenerator[tuple[dict[str, int], Collection[str]], None]:
        """Yields sizes of the objects of live data files by path, with the manifest that lists them."""
        inline = [entry for snapshot in snapshots for entry in snapshot.added]
        yield {path: size for entry in inline for path, size in paths_of(entry)}, ()
        lists: dict[str, tuple[ManifestRef, Snapshot]] = {}
        dead: dict[str, frozenset[str]] = {}
        for snapshot in snapshots:
            removed = frozenset(snapshot.removed)
            for ref in snapshot.manifests:
                lists.setdefault(ref.path, (ref, snapshot))
                dead[ref.path] = dead.get(ref.path, removed) & removed
        for path, (ref, snapshot) in lists.items():
            before = self._dead.get(path)
            self._dead[path] = dead[path] if before is None else before & dead[path]
            # Every path that is live here was so in an earlier batch, which has dealt with it.
            if before is not None and before <= dead[path]:
                continue
            try:
                listed = await self._table.manifests.listed(snapshot, [ref])
            except FormatError:
                listed = []  # deleted by a run that ended before it deleted the snapshot, or damaged
            live = [entry for entries in listed for entry in entries if entry.path not in dead[path]]
            yield {name: size for entry in live for name, size in paths_of(entry)}, (path,)

    async def _delete_new(self, known: PathSet, paths: dict[str, int]) -> int:
        """Deletes the objects that nobody needs and that are not deleted yet; returns their number."""
        garbage = self._done.others(known.others(list(paths)))
        self._done.add(garbage)
        return await self._deletions.delete((path, paths[path]) for path in garbage)

    async def _spare_segments(self, then: Snapshot) -> list[tuple[int, int]]:
        """Returns numbers and sizes of the WAL segments covered in an older state, but not the last covered.

        The newest segment of a log has to stay. The last covered one is at or below it and certainly exists.
        """
        if then.wal is None or self._head.wal is None:
            return []
        segments: list[tuple[int, int]] = []
        async for number, size in self._table.wal.log.sizes():
            if number > then.wal.upto or number == self._head.wal.upto:
                break
            segments.append((number, size))
        return segments

    async def _delete_segments(self, spare: Sequence[tuple[int, int]], needed: Collection[int]) -> int:
        """Deletes the spare segments that every snapshot has in data files, ascending; returns how many."""
        objects = [(segment_path(number), size) for number, size in spare if number not in needed]
        counts = [
            await self._deletions.delete(objects[begin : begin + _SEGMENTS])
            for begin in range(0, len(objects), _SEGMENTS)
        ]
        return sum(counts)
