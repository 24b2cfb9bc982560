"""Repair: a new snapshot of what can still be read, and a list of what cannot.

The state that is repaired is that of the newest snapshot that can be read. A manifest of it that cannot
be read is put together from the snapshots around the one that began it, where they tell all its entries;
a schema is replaced by the newest that can be read; data files are read in full, and of damaged ones what
is sound is written anew, at the same place in the order of runs.

Invariant: a repair deletes nothing and overwrites nothing; older snapshots read as before, damage
included. What the new snapshot lacks is in the report. Where newer rows are lost, older ones of their
keys come to light again, deleted ones too: the ranges of keys say which.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from lakehouse.cache import CacheBudget
from lakehouse.config import CacheSettings
from lakehouse.errors import ConflictError, CorruptionError, FormatError, NotFoundError, UnavailableError
from lakehouse.format.metadata import (
    CommitKind,
    FileEntry,
    ManifestRef,
    SchemaRef,
    SegmentRange,
    Snapshot,
    encode_snapshot,
)
from lakehouse.format.schema import SchemaObject, decode_schema
from lakehouse.ids import new_token
from lakehouse.io.cost import measure
from lakehouse.io.work import ProgressCallback, Teller, map_bounded
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft, child_of, counts_of
from lakehouse.storage.commit.spilled_manifest import SpilledManifest
from lakehouse.storage.maintenance.repair_report import Loss, LossKind, RepairReport
from lakehouse.storage.maintenance.salvage import Salvaged, Salvager
from lakehouse.storage.metadata.caches import TableCaches
from lakehouse.storage.metadata.manifests import Manifests, placed
from lakehouse.storage.metadata.paths import (
    DATA_PREFIX,
    LATEST,
    SCHEMA_PREFIX,
    ObjectKind,
    join,
    object_kind,
    relative,
    segment_path,
    snapshot_path,
)
from lakehouse.storage.tables.commit_result import committed_or_deleted
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["repair_table"]

_LOST_MAX = 1_000
"""Snapshots in a row that may have been lost; a hint that names one further off needs a person's look."""
_FILES = 2
"""Data files that are read at once."""


async def repair_table(
    core: OpenTable,
    *,
    deep: bool = True,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> RepairReport:
    """Makes a snapshot of what can be read; see ``Table.repair``."""
    with measure() as cost:
        repair = _Repair(core, Teller(progress), deep=deep, dry_run=dry_run)
        found = await repair.run()
    return dataclasses.replace(found, cost=cost)


class _Repair:
    """One repair; as a change, it leaves out of any head what was found to be lost."""

    blind: ClassVar[bool] = False

    def __init__(self, core: OpenTable, teller: Teller, *, deep: bool, dry_run: bool) -> None:
        self._core, self._teller, self._deep, self._dry_run = core, teller, deep, dry_run
        self._own = SpilledManifest(core.env.store, core.root)
        caches = TableCaches(CacheBudget(CacheSettings()))
        self._manifests = Manifests(core.env.store, core.root, core.uuid, caches.manifests)
        self._losses: dict[tuple[str, str], list[Loss]] = {}
        self._lists: dict[str, tuple[FileEntry, ...]] = {}
        """Entries of damaged manifests, as far as they could be told."""
        self._files: dict[str, Salvaged] = {}
        self._recovered = 0
        self._schema: SchemaRef | None = None
        """The schema that takes the place of the one that cannot be read."""
        self.uploaded: list[str] = []

    async def run(self) -> RepairReport:
        """Finds a state, repairs it, commits it."""
        core = self._core
        newest, base = await self._newest()
        schema = await self._readable_schema(base, newest)
        entries = await self._entries(base)
        segments = await self._segments(base.carried().segments)
        await self._salvage(entries, schema)
        report = RepairReport(snapshot=base.id, changed=False, base=base.id, dry_run=self._dry_run)
        is_sound = not self._losses and not self._recovered and newest == base.id and self._schema is None
        if not self._dry_run and not is_sound:
            async with committed_or_deleted(core, lambda: self.uploaded) as fate:
                if newest == base.id:
                    done = await core.commit(self, view=await core.view_of(self._shown(base)))
                    child = done.snapshot
                else:
                    child = await self._append(base, newest, entries, segments)
                fate.kept = True
            report = dataclasses.replace(report, snapshot=child.id, changed=True)
        kept = self._kept(entries)
        return dataclasses.replace(
            report,
            files=len(kept),
            rows=counts_of(kept).rows,
            rewritten=sum(one.rewritten for one in self._files.values()),
            recovered=self._recovered,
            losses=tuple(loss for losses in self._losses.values() for loss in losses),
        )

    async def draft(self, base: Base) -> Draft:
        """The head's state without what is lost; files that others added meanwhile are taken as they are."""
        entries = self._kept(await self._entries(base.snapshot))
        state = await self._state(base.snapshot, entries, await self._segments(base.segments))
        uploads = [one.uploaded_ms for one in self._files.values() if one.uploaded_ms is not None]
        return Draft(
            kind=CommitKind.REPAIR, files=state, schema=self._schema, uploaded_ms=min(uploads, default=None)
        )

    def _lose(self, loss: Loss) -> None:
        known = self._losses.setdefault((loss.kind, loss.object), [])
        if loss not in known:
            known.append(loss)

    # --- which state --------------------------------------------------------------

    async def _newest(self) -> tuple[int, Snapshot]:
        """The highest id that was committed, and the newest snapshot that can be read."""
        history = self._core.history
        numbers = [one for one, _ in await history.log.listed()]
        began = self._core.env.clock.steady()
        newest = await self._newest_committed(numbers[-1]) if numbers else 0
        for number in reversed(numbers):
            try:
                found = await history.log.find(number)
                if found is None and history.is_late(began):
                    raise UnavailableError(
                        f"snapshot {number} of {self._core.root} is gone since it was listed, and that was "
                        "longer ago than the commit deadline: it may have expired. Repair again.",
                        kind="timeout",
                        snapshot=number,
                    )
                if found is None:
                    continue
                return newest, history.check_live(history.decoded(found))
            except FormatError as error:
                self._lose(Loss(kind=LossKind.COMMIT, object=snapshot_path(number), reason=error.message))
        raise CorruptionError(
            f"no snapshot of {self._core.root} can be read, so it is not known which files are the table's",
            key=self._core.root,
        )

    async def _newest_committed(self, newest: int) -> int:
        """The highest id that was committed, of the highest there is; those that are gone are noted."""
        hint = await self._core.history.lost_above(newest)
        if hint is None:
            return newest
        if hint.snapshot - newest > _LOST_MAX:
            raise CorruptionError(
                f"{LATEST} of {self._core.root} says that snapshot {hint.snapshot} was committed, and the "
                f"newest there is is {newest}: more than {_LOST_MAX:,} would be lost. If that cannot be, "
                f"delete {LATEST} and repair again.",
                key=join(self._core.root, LATEST),
                snapshot=hint.snapshot,
            )
        reason = f"its object is gone; {LATEST} says that snapshot {hint.snapshot} was committed"
        for number in range(newest + 1, hint.snapshot + 1):
            self._lose(Loss(kind=LossKind.COMMIT, object=snapshot_path(number), reason=reason))
        return hint.snapshot

    def _shown(self, base: Snapshot) -> Snapshot:
        """The snapshot with a schema that can be read."""
        return base if self._schema is None else dataclasses.replace(base, schema=self._schema)

    async def _readable_schema(self, base: Snapshot, newest: int) -> SchemaObject:
        """The schema to go on with; another one when it is damaged, or when a lost commit made a newer."""
        known = await self._schemas()
        mine = known.get(base.schema.path)
        sound = mine is not None and mine.schema.id == base.schema.id
        highest = max((one.schema.id for one in known.values()), default=base.schema.id)
        if sound and mine is not None and (newest == base.id or highest <= base.schema.id):
            return mine
        older = [one for one in known.items() if one[1].schema.id <= base.schema.id]
        path, best = (
            (base.schema.path, mine)
            if sound
            else max(older, key=lambda one: one[1].schema.id, default=("", None))
        )
        if best is None:
            raise CorruptionError(
                f"no schema of {self._core.root} can be read that snapshot {base.id} could be read with",
                key=join(self._core.root, base.schema.path),
            )
        if not sound:
            reason = f"it cannot be read; schema {best.schema.id} takes its place"
            self._lose(Loss(kind=LossKind.SCHEMA, object=base.schema.path, reason=reason))
        # An id and field ids that were given out already are not given out again.
        fields = max(one.schema.highest_field_id for one in known.values())
        number = max(highest, base.schema.id) + 1
        again = dataclasses.replace(best.schema, id=number, highest_field_id=fields)
        if self._dry_run:
            return best
        self._schema = await self._core.schemas.write(
            again,
            time_ms=self._core.history.time.now_ms(),
            before=(best, SchemaRef(id=best.schema.id, path=path)),
        )
        return await self._core.schemas.read(self._schema)

    async def _schemas(self) -> dict[str, SchemaObject]:
        """The schema objects of the table that can be read, by path."""
        core, found = self._core, dict[str, SchemaObject]()
        async for one in core.env.store.list(join(core.root, SCHEMA_PREFIX)):
            path = relative(core.root, one.key)
            if object_kind(path) is not ObjectKind.SCHEMA:
                continue
            try:
                schema = decode_schema((await core.env.store.get(one.key)).data, key=one.key)
            except (FormatError, NotFoundError):
                continue
            if schema.table == core.uuid:
                found[path] = schema
        return found

    # --- entries ------------------------------------------------------------------

    async def _entries(self, snapshot: Snapshot) -> list[FileEntry]:
        """The live files as far as it can be told which they are."""
        removed, found = frozenset(snapshot.removed), list[FileEntry]()
        for ref in snapshot.manifests:
            found += [one for one in await self._listed(snapshot, ref) if one.path not in removed]
        return found + [placed(one, snapshot.id) for one in snapshot.added]

    async def _listed(self, snapshot: Snapshot, ref: ManifestRef) -> Sequence[FileEntry]:
        if ref.path in self._lists:
            return self._lists[ref.path]
        try:
            (entries,) = await self._manifests.listed(snapshot, [ref])
            return entries
        except FormatError as error:
            told = await self._told(snapshot, ref)
            if told is None:
                reason = f"{error.message} Its {ref.entries:,} files are told by nothing else."
                self._lose(Loss(kind=LossKind.MANIFEST, object=ref.path, rows=ref.rows, reason=reason))
            else:
                self._recovered += len(told)
            self._lists[ref.path] = told or ()
        return self._lists[ref.path]

    async def _told(self, snapshot: Snapshot, ref: ManifestRef) -> tuple[FileEntry, ...] | None:
        """Entries of a damaged manifest: what the snapshot before it had, and the first with it has not.

        A manifest takes over entries of the snapshot before; they are all of it when their numbers agree.
        """
        first = snapshot
        while first.id > 1:
            before = await self._read(first.id - 1)
            if before is None:
                return None
            if all(one.path != ref.path for one in before.manifests):
                break
            first = before
        else:
            return None
        try:
            had = await self._manifests.entries(before)
            others = [one for one in first.manifests if one.path != ref.path]
            lists = await self._manifests.listed(first, others)
        except FormatError:
            return None
        elsewhere = {one.path for entries in lists for one in entries} | {one.path for one in first.added}
        told = tuple(one for one in had if one.path not in elsewhere)
        same = (len(told), counts_of(told).rows) == (ref.entries, ref.rows)
        return told if same else None

    async def _read(self, number: int) -> Snapshot | None:
        history = self._core.history
        try:
            found = await history.log.find(number)
            return history.decoded(found) if found is not None else None
        except FormatError:
            return None

    # --- rows ---------------------------------------------------------------------

    async def _salvage(self, entries: Sequence[FileEntry], schema: SchemaObject) -> None:
        """Looks at every file."""
        core = self._core
        sizes: dict[str, int] = {}
        async for one in core.env.store.list(join(core.root, DATA_PREFIX)):
            sizes[relative(core.root, one.key)] = one.size
        salvager = Salvager(
            core.env.store, core.root, schema.schema, core.env.settings, dry_run=self._dry_run
        )

        async def look(entry: FileEntry) -> tuple[FileEntry, Salvaged]:
            size = sizes.get(entry.path)
            if size is None:
                found = salvager.missing(entry, "there is no such object")
            elif size != entry.size:
                found = salvager.missing(entry, f"it has {size} bytes, the snapshot says {entry.size}")
            else:
                found = await salvager.file(entry) if self._deep else Salvaged(entries=(entry,))
            self._teller.step("read files", 1, len(entries))
            return entry, found

        async for entry, found in map_bounded(look, entries, _FILES, ordered=False):
            self.uploaded += found.paths
            for loss in found.losses:
                self._lose(loss)
            if found.entries != (entry,):
                self._files[entry.path] = found

    def _kept(self, entries: Sequence[FileEntry]) -> list[FileEntry]:
        """What stands for these files now."""
        return [
            one
            for entry in entries
            for one in (self._files[entry.path].entries if entry.path in self._files else (entry,))
        ]

    async def _segments(self, ranges: Sequence[SegmentRange]) -> tuple[SegmentRange, ...]:
        """The covered WAL segments that can be read."""
        lost: dict[int, str] = {}
        for one in ranges:
            for number in range(one.first, one.last + 1):
                try:
                    await self._core.wal.read(number)
                except FormatError as error:
                    lost[number] = error.message
        for number, reason in lost.items():
            self._lose(Loss(kind=LossKind.SEGMENT, object=segment_path(number), reason=reason))
        return tuple(left for one in ranges for left in one.without(lost.keys()))

    # --- the new snapshot ---------------------------------------------------------

    async def _state(
        self, like: Snapshot, entries: Sequence[FileEntry], segments: Sequence[SegmentRange]
    ) -> Snapshot:
        """A state of these files, as if it were a snapshot."""
        files = tuple(entries)
        manifest = await self._own.of(files, like)
        return dataclasses.replace(
            like,
            manifests=() if manifest is None else (manifest,),
            added=files if manifest is None else (),
            removed=(),
            segments=tuple(segments),
            total=counts_of(files),
        )

    async def _append(
        self, base: Snapshot, newest: int, entries: Sequence[FileEntry], segments: Sequence[SegmentRange]
    ) -> Snapshot:
        """Creates the snapshot behind a newest one that cannot be read, or is gone.

        Ids above the highest there is that were given out are taken too: whoever knows of nothing newer would
        commit there, and be overlooked.
        """
        history, head, kept = self._core.history, base, tuple(self._kept(entries))
        there = await history.log.newest(after=base.id)
        if there is not None:
            found = await history.log.find(there)
            token = (found.token if found is not None else None) or ""
            head = dataclasses.replace(base.carried(), id=there, token=token)
        for _ in range(head.id, newest):
            head = await self._create_behind(head, kept, segments, "in place of a lost snapshot")
        child = await self._create_behind(head, kept, segments)
        history.forget()
        return child

    async def _create_behind(
        self,
        head: Snapshot,
        kept: Sequence[FileEntry],
        segments: Sequence[SegmentRange],
        message: str | None = None,
    ) -> Snapshot:
        """Creates the next snapshot, with the state that could be read."""
        history = self._core.history
        state = await self._state(head.carried(), kept, segments)
        draft = Draft(kind=CommitKind.REPAIR, files=state, schema=self._schema, message=message)
        child = child_of(head, draft, token=new_token(), now_ms=history.time.now_ms())
        try:
            await history.log.append(child.id, encode_snapshot(child), token=child.token)
        except ConflictError as lost:
            raise ConflictError(
                f"somebody else has made snapshot {child.id} of {self._core.root}: repair it again",
                snapshot=child.id,
            ) from lost
        return child
