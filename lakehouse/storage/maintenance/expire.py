"""Expiry: a commit says from which snapshot on there are any; later, the objects of others are deleted.

The commit is effective at once for readers. An object is deleted when no snapshot that exists refers to
it, and none did ``delete_grace`` ago: everything is judged by the newest snapshot *of back then*, which
tells what was unreachable already. Since a tag is made of a snapshot that exists and of no other, what
was unreachable stays so.

Invariant: what a retained, tagged or pinned snapshot needs is never deleted, nor what became unreachable
later than the grace. Objects of a snapshot go before the snapshot itself, so a run that ended anywhere is
found again in the listing of snapshots and gone on with by the next.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from lakehouse.errors import FormatError, NotFoundError
from lakehouse.format.metadata import CommitKind, ManifestRef, Snapshot
from lakehouse.io.cost import Cost, measure
from lakehouse.io.work import ProgressCallback, Teller, map_bounded
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.maintenance.deletions import Deletions
from lakehouse.storage.maintenance.reachable import PathSet, Reachable, paths_of
from lakehouse.storage.metadata.paths import SNAPSHOT_PREFIX, join, segment_path, snapshot_path
from lakehouse.storage.metadata.snapshots import History
from lakehouse.storage.tables.arguments import check_count, check_seconds
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["ExpireReport", "expire_snapshots"]

_BATCH = 128
"""Snapshots whose objects are deleted before they are deleted themselves."""
_READS = 16
_SEGMENTS = 1_000
"""WAL segments that are deleted at once; ascending, so that a run that ends leaves the newer ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireReport:
    """What an expiry did, or with ``dry_run`` would do now."""

    snapshot: int
    """The newest snapshot: the expiry's own when it made one."""
    earliest: int
    """Lowest id that exists for readers."""
    expired: int = 0
    """Snapshots that exist no more for readers by this very call, tagged ones aside."""
    waiting: int = 0
    """Snapshots that expired and whose objects wait for their grace to end."""
    snapshots: int = 0
    """Snapshot objects deleted."""
    files: int = 0
    """Data and index files deleted."""
    metadata: int = 0
    """Manifests and schemas deleted."""
    segments: int = 0
    """WAL segments deleted."""
    bytes: int = 0
    """Of all of these, schemas aside."""
    unreadable: tuple[int, ...] = ()
    """Expired snapshots that were damaged; what they alone referred to is left to ``remove_orphans``."""
    dry_run: bool = False
    cost: Cost = field(default_factory=Cost, compare=False)
    """Requests and bytes of the whole call."""

    def __str__(self) -> str:
        would = "would be " if self.dry_run else ""
        return (
            f"from snapshot {self.earliest} on; {self.expired:,} {would}expired, {self.waiting:,} wait; "
            f"{would}deleted: {self.snapshots:,} snapshots, {self.files:,} files, {self.metadata:,} "
            f"manifests and schemas, {self.segments:,} WAL segments, {self.bytes:,} bytes; {self.cost}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expire:
    """Says from which snapshot on there are any."""

    history: History
    retain: int | None
    older_than_ms: int | None
    blind: ClassVar[bool] = False

    async def draft(self, base: Base) -> Draft | None:
        """Nothing when all those that should expire have."""
        earliest = await self.earliest(base.snapshot)
        if earliest <= base.snapshot.earliest:
            return None
        return Draft(kind=CommitKind.EXPIRE, earliest=earliest)

    async def earliest(self, head: Snapshot) -> int:
        """The lowest id that stays: of the newest so many, and of those that are young enough."""
        if self.retain is None and self.older_than_ms is None:
            return head.earliest
        found = head.id if self.retain is None else head.id - self.retain + 1
        if self.older_than_ms is not None:
            try:
                last = await self.history.at_time(self.older_than_ms - 1, head)
            except NotFoundError as missing:
                if missing.kind == "missing-bucket":
                    raise
                return head.earliest
            found = min(found, last.id + 1)
        return max(found, head.earliest)


async def expire_snapshots(
    core: OpenTable,
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
    with measure() as cost:
        view = await core.newest()
        change = _Expire(history=core.history, retain=retain, older_than_ms=older_than_ms)
        before, head = view.snapshot, view.snapshot
        earliest = await change.earliest(head)
        if not dry_run and earliest > head.earliest:
            done = await core.commit(change, view=view)
            head, earliest = done.snapshot, done.snapshot.earliest
        run = _Run(core, head, Teller(progress), dry_run=dry_run)
        grace = view.options.delete_grace_s if grace_s is None else grace_s
        found = await run.delete(grace, earliest)
    tagged = {ref.snapshot for ref in head.refs.values()}
    gone = earliest - before.earliest - sum(before.earliest <= one < earliest for one in tagged)
    return dataclasses.replace(found, expired=gone, cost=cost)


class _Listed:
    """The snapshot objects there are, up to some id: ascending, a few bytes each."""

    def __init__(self) -> None:
        self.ids, self.sizes, self.times = array("q"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    async def of(cls, core: OpenTable, upto: int, now_ms: int) -> _Listed:
        """All up to the head; one request for a thousand."""
        found, log = cls(), core.history.log
        async for one in core.env.store.list(join(core.root, SNAPSHOT_PREFIX)):
            number = log.number(one.key)
            if number is None:
                continue
            if number > upto:
                break
            found.ids.append(number)
            found.sizes.append(one.size)
            found.times.append(one.modified_ms if one.modified_ms is not None else now_ms)
        return found


class _Run:
    """One deletion of what nothing refers to any more."""

    def __init__(self, core: OpenTable, head: Snapshot, teller: Teller, *, dry_run: bool) -> None:
        self._core, self._head, self._teller, self._dry_run = core, head, teller, dry_run
        self._deletions = Deletions(core.env.store, core.root, teller, dry_run=dry_run)
        self._done = PathSet()
        self._dead: dict[str, frozenset[str]] = {}
        """Manifests of expired snapshots that were looked at, each with the paths that were live in none."""
        self._unreadable: list[int] = []

    async def delete(self, grace_s: float, earliest: int) -> ExpireReport:
        """Deletes; ``earliest`` is the head's, or what it would be."""
        now_ms = await self._core.history.store_now_ms(self._head)
        listed = await _Listed.of(self._core, self._head.id, now_ms)
        then = await self._as_of(listed, now_ms - int(grace_s * 1000)) if grace_s else self._head
        tagged = {ref.snapshot for one in (then, self._head) if one for ref in one.refs.values()}
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
        """The newest snapshot of back then, or one before it: for it, the same was unreachable already."""
        for at in reversed(range(len(listed))):
            if listed.times[at] <= moment_ms:
                try:
                    found = await self._read(listed.ids[at])
                except FormatError:
                    continue
                if found is not None:
                    return found
        return None

    async def _delete(
        self,
        listed: _Listed,
        doomed: Sequence[int],
        spare: Sequence[tuple[int, int]],
        tagged: Collection[int],
    ) -> list[int]:
        """Numbers of snapshots, files, manifests and schemas, WAL segments."""
        kept = {*listed.ids, *range(self._head.earliest, self._head.id + 1), *tagged}
        needed = await self._needed(kept - {listed.ids[at] for at in doomed}, tagged)
        known = await needed.paths() if doomed else PathSet()
        segments = await self._delete_segments(spare, needed.segments)
        snapshots = files = metadata = 0
        for begin in range(0, len(doomed), _BATCH):
            batch = doomed[begin : begin + _BATCH]
            found = [one for one in await self._read_all([listed.ids[at] for at in batch]) if one]
            lists: set[str] = set()
            async for paths, manifest in self._listed_by(found):
                files += await self._delete_new(known, paths)
                lists.update(manifest)
            sizes = {ref.path: ref.size for one in found for ref in one.manifests}
            schemas = {one.schema.path for one in found}
            metadata += await self._delete_new(known, {path: sizes[path] for path in lists})
            metadata += await self._delete_new(known, dict.fromkeys(schemas, 0))
            snapshots += await self._deletions.delete(
                (snapshot_path(listed.ids[at]), listed.sizes[at]) for at in batch
            )
        return [snapshots, files, metadata, segments]

    async def _needed(self, kept: Collection[int], tagged: Collection[int]) -> Reachable:
        """Everything that these snapshots refer to, of which some may have expired lately."""
        needed = Reachable(self._core.manifests, self._core.schemas)
        async for one in map_bounded(self._read, kept, _READS, ordered=False):
            self._teller.step("read snapshots", 1, len(kept))
            if one is not None:
                expired = one.id < self._head.earliest and one.id not in tagged
                needed.add(one, expired=expired)
        return needed

    async def _read(self, number: int) -> Snapshot | None:
        """A snapshot; None when it was deleted meanwhile, which happens to expired ones."""
        history, head = self._core.history, self._head
        if number >= head.earliest or any(ref.snapshot == number for ref in head.refs.values()):
            return await history.snapshot(number, head)
        found = await history.log.find(number)
        return history.decoded(found) if found is not None else None

    async def _read_all(self, numbers: Sequence[int]) -> list[Snapshot | None]:
        """Expired snapshots as far as they can be read."""

        async def read(number: int) -> Snapshot | None:
            try:
                return await self._read(number)
            except FormatError:
                self._unreadable.append(number)
                return None

        return [one async for one in map_bounded(read, numbers, _READS)]

    async def _listed_by(
        self, snapshots: Sequence[Snapshot]
    ) -> AsyncGenerator[tuple[dict[str, int], Collection[str]], None]:
        """Objects of data files that were live in snapshots, and the manifests that list them."""
        yield {path: size for one in snapshots for entry in one.added for path, size in paths_of(entry)}, ()
        lists: dict[str, tuple[ManifestRef, Snapshot]] = {}
        dead: dict[str, frozenset[str]] = {}
        for one in snapshots:
            removed = frozenset(one.removed)
            for ref in one.manifests:
                lists.setdefault(ref.path, (ref, one))
                dead[ref.path] = dead.get(ref.path, removed) & removed
        for path, (ref, one) in lists.items():
            before = self._dead.get(path)
            self._dead[path] = dead[path] if before is None else before & dead[path]
            if before is not None and before <= dead[path]:
                continue
            try:
                (entries,) = await self._core.manifests.listed(one, [ref])
            except FormatError:
                # Deleted by a run that ended before it deleted the snapshot, or damaged.
                entries = ()
            live = [entry for entry in entries if entry.path not in dead[path]]
            yield {name: size for entry in live for name, size in paths_of(entry)}, (path,)

    async def _delete_new(self, known: PathSet, paths: dict[str, int]) -> int:
        """Deletes what nobody needs and is not deleted yet."""
        garbage = self._done.others(known.others(list(paths)))
        self._done.add(garbage)
        return await self._deletions.delete((path, paths[path]) for path in garbage)

    async def _spare_segments(self, then: Snapshot) -> list[tuple[int, int]]:
        """Numbers and sizes of WAL segments that were covered back then; never the last that is covered.

        That is not above the newest of the log, which has to stay, and it is there for sure.
        """
        if then.wal is None or self._head.wal is None:
            return []
        found: list[tuple[int, int]] = []
        async for number, size in self._core.wal.log.sizes():
            if number > then.wal.upto or number == self._head.wal.upto:
                break
            found.append((number, size))
        return found

    async def _delete_segments(self, spare: Sequence[tuple[int, int]], needed: Collection[int]) -> int:
        """Deletes those that are in data files for every snapshot, ascending."""
        objects = [(segment_path(number), size) for number, size in spare if number not in needed]
        counts = [
            await self._deletions.delete(objects[begin : begin + _SEGMENTS])
            for begin in range(0, len(objects), _SEGMENTS)
        ]
        return sum(counts)
