"""Orphans: objects that were uploaded for a commit which never came.

First a commit says the *orphan horizon*: from then on no commit takes files that were uploaded before
it. Then what all snapshots refer to is gathered, and only then the directory is listed. An object from
before the horizon that nothing refers to can be needed by nobody any more.

Invariant: what a snapshot object of whatever id refers to is kept, expired or not; so is what is younger
than the horizon by the store's clock, and what does not look like an object of ours. Memory holds eight
bytes for each object that is referred to, whatever the directory holds.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from lakehouse.errors import FormatError
from lakehouse.format.snapshot import CommitKind, Snapshot
from lakehouse.io.cost import Cost, measure
from lakehouse.io.fanout import map_bounded
from lakehouse.io.protocols import ObjectMeta
from lakehouse.storage.commit import Base
from lakehouse.storage.layout import join
from lakehouse.storage.maintenance import Deletions, ProgressCallback, Teller, store_now_ms
from lakehouse.storage.next_snapshot import Draft
from lakehouse.storage.object_kinds import ObjectKind, object_kind
from lakehouse.storage.opened import OpenTable
from lakehouse.storage.reachable import PathSet, Reachable

__all__ = ["OrphanReport", "remove_orphans"]

_METADATA_AGE_MS = 30 * 60_000
"""No horizon stops a commit with the manifests and schemas it writes itself, but none takes half as long."""
_PATHS_SHOWN = 1_000
_BATCH = 1_000
_READS = 16
_DIRECTORIES = ("data/", "index/", "manifest/", "schema/")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanReport:
    """What a sweep did, or with ``dry_run`` would do now."""

    snapshot: int
    """The newest snapshot: the sweep's own when it made one."""
    horizon_ms: int
    """Uploads that began before were looked at; milliseconds since 1970 by the store's clock."""
    objects: int = 0
    """Orphans deleted."""
    bytes: int = 0
    """Of these."""
    by_kind: Mapping[str, int] = field(default_factory=dict)
    """Orphans deleted: ``data``, ``index``, ``manifest``, ``schema``."""
    young: int = 0
    """Objects that nothing refers to, too young to be orphans."""
    foreign: int = 0
    """Objects in our directories that are none of ours; they are never deleted."""
    listed: int = 0
    """Objects looked at."""
    paths: tuple[str, ...] = ()
    """The first thousand of the orphans, relative to the table's directory."""
    dry_run: bool = False
    cost: Cost = field(default_factory=Cost, compare=False)
    """Requests and bytes of the whole call."""

    def __str__(self) -> str:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.by_kind.items()))
        return (
            f"{self.objects:,} orphans {'would be ' if self.dry_run else ''}deleted ({kinds or 'none'}), "
            f"{self.bytes:,} bytes; of {self.listed:,} objects {self.young:,} are too young and "
            f"{self.foreign:,} foreign; {self.cost}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SetHorizon:
    """Says up to when uploads may be orphans."""

    horizon_ms: int
    blind: ClassVar[bool] = False

    async def draft(self, base: Base) -> Draft | None:
        """Nothing when the horizon is there already: it never goes back."""
        if (base.snapshot.orphan_horizon_ms or 0) >= self.horizon_ms:
            return None
        return Draft(kind=CommitKind.ORPHANS, orphan_horizon_ms=self.horizon_ms)


async def remove_orphans(
    core: OpenTable,
    *,
    older_than_ms: int | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> OrphanReport:
    """Deletes objects that nothing refers to; see ``Table.remove_orphans``."""
    with measure() as cost:
        view = await core.newest()
        head = view.snapshot
        now_ms = await store_now_ms(core.env.store, core.history, head)
        horizon_ms = now_ms - int(view.options.orphan_min_age_s * 1000)
        if older_than_ms is not None:
            horizon_ms = min(older_than_ms, now_ms)
        if not dry_run:
            head = (await core.commit(_SetHorizon(horizon_ms=horizon_ms), view=view)).snapshot
        sweep = _Sweep(core, head, horizon_ms, now_ms, Teller(progress), dry_run=dry_run)
        found = await sweep.run()
    return dataclasses.replace(found, cost=cost)


class _Sweep:
    """One sweep of a table's directory."""

    def __init__(
        self,
        core: OpenTable,
        head: Snapshot,
        horizon_ms: int,
        now_ms: int,
        teller: Teller,
        *,
        dry_run: bool,
    ) -> None:
        self._core, self._head, self._teller, self._dry_run = core, head, teller, dry_run
        self._horizon_ms = horizon_ms
        self._metadata_ms = min(horizon_ms, now_ms - _METADATA_AGE_MS)
        self._deletions = Deletions(core.env.store, core.root, teller, dry_run=dry_run)
        self._counts: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._shown: list[str] = []

    async def run(self) -> OrphanReport:
        """Gathers what is needed, then lists."""
        needed = await self._needed()
        root = self._core.root
        for directory in _DIRECTORIES:
            old: dict[str, ObjectMeta] = {}
            async for one in self._core.env.store.list(join(root, directory)):
                self._counts["listed"] += 1
                path = one.key[len(root) + 1 if root else 0 :]
                old[path] = one
                if len(old) == _BATCH:
                    await self._delete(old, needed)
                    old = {}
            await self._delete(old, needed)
        return OrphanReport(
            snapshot=self._head.id,
            horizon_ms=self._horizon_ms,
            objects=self._deletions.objects,
            bytes=self._deletions.bytes,
            by_kind=dict(self._kinds),
            young=self._counts["young"],
            foreign=self._counts["foreign"],
            listed=self._counts["listed"],
            paths=tuple(self._shown),
            dry_run=self._dry_run,
        )

    async def _needed(self) -> PathSet:
        """What snapshot objects refer to: those that exist for readers, and those that wait to be deleted."""
        needed, history = Reachable(self._core.manifests, self._core.schemas), self._core.history
        tagged = {ref.snapshot for ref in self._head.refs.values()}
        kept = {*tagged, *range(self._head.earliest, self._head.id + 1)}
        waiting = [one async for one in history.log.numbers() if one not in kept]

        async def read(number: int) -> Snapshot | None:
            if number in kept:
                return await history.snapshot(number, self._head)
            try:
                found = await history.log.find(number)
                return history.decoded(found) if found is not None else None
            except FormatError:
                return None  # expired and damaged: nobody can read it

        total = len(kept) + len(waiting)
        async for one in map_bounded(read, [*sorted(kept), *waiting], _READS, ordered=False):
            self._teller.step("read snapshots", 1, total)
            if one is not None:
                needed.add(one, expired=one.id not in kept)
        return await needed.paths()

    async def _delete(self, listed: Mapping[str, ObjectMeta], needed: PathSet) -> None:
        """Deletes the orphans among some objects."""
        self._teller.step("list", len(listed))
        orphans: list[tuple[str, int]] = []
        for path in needed.others(list(listed)):
            kind, about = object_kind(path), listed[path]
            if kind is None:
                self._counts["foreign"] += 1
                continue
            limit = self._horizon_ms if kind in (ObjectKind.DATA, ObjectKind.INDEX) else self._metadata_ms
            if about.modified_ms is None or about.modified_ms >= limit:
                self._counts["young"] += 1
                continue
            self._kinds[kind.value] += 1
            orphans.append((path, about.size))
        self._shown += [path for path, _ in orphans[: _PATHS_SHOWN - len(self._shown)]]
        await self._deletions.delete(orphans)
