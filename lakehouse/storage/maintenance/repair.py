"""Repair: a new snapshot of everything that can still be read, and a list of what cannot.

The state that is repaired is that of the newest snapshot that can be read. A manifest of it that cannot
be read is rebuilt from the snapshots around the one that began it, where they hold all its entries;
a schema is replaced by the newest that can be read; data files are read in full, and the sound rows of
damaged ones are written anew, at the same place in the order of runs. Statistics that cannot be read are
referred to no more.

Invariant: a repair deletes nothing and overwrites nothing; older snapshots read as before, damage
included. The report lists what the new snapshot lacks. Where newer rows are lost, older ones of their
keys reappear, deleted ones too: the report has the ranges of these keys.
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
    StatisticsRef,
)
from lakehouse.format.schema import SchemaObject, decode_schema
from lakehouse.ids import new_token
from lakehouse.io.work import ProgressCallback, ProgressReporter, map_bounded, measured
from lakehouse.storage.commit.committer import Base, Committed
from lakehouse.storage.commit.draft import Draft, child_of, counts_of
from lakehouse.storage.commit.spilled_manifest import SpilledManifest
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.maintenance.repair_report import Loss, LossKind, RepairReport
from lakehouse.storage.maintenance.salvage import Salvaged, Salvager
from lakehouse.storage.metadata.caches import TableCaches
from lakehouse.storage.metadata.manifests import Manifests, with_position
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
from lakehouse.storage.metadata.statistics_file import read_statistics
from lakehouse.storage.tables.commit_result import keep_committed
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["repair_table"]

_LOST_MAX = 1_000
"""Maximum consecutive snapshots that may be lost; a hint further ahead needs a person's decision."""
_FILES = 2
"""Data files read at once."""


@measured
async def repair_table(
    table: OpenTable,
    *,
    deep: bool = True,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> RepairReport:
    """Makes a snapshot of everything that can be read; see ``Table.repair``."""
    return await _Repair(table, ProgressReporter(progress), deep=deep, dry_run=dry_run).run()


class _Repair:
    """One repair; as a change, it leaves the losses it found out of any head."""

    blind: ClassVar[bool] = False

    def __init__(self, table: OpenTable, reporter: ProgressReporter, *, deep: bool, dry_run: bool) -> None:
        self._table, self._reporter, self._deep, self._dry_run = table, reporter, deep, dry_run
        self._own = SpilledManifest(table.env.store, table.root)
        caches = TableCaches(CacheBudget(CacheSettings()))
        self._manifests = Manifests(table.env.store, table.root, table.uuid, caches.manifests, table.settings)
        self._losses: dict[tuple[str, str], list[Loss]] = {}
        self._lists: dict[str, tuple[FileEntry, ...]] = {}
        """Entries of damaged manifests, where they could be rebuilt; else none."""
        self._files: dict[str, Salvaged] = {}
        self._recovered = 0
        self._lost_statistics: str | None = None
        self._schema: SchemaRef | None = None
        """The schema that replaces one that cannot be read."""
        self.uploaded: list[str] = []

    async def run(self) -> RepairReport:
        """Chooses a state, repairs it and commits it."""
        table = self._table
        newest, base = await self._newest()
        schema = await self._readable_schema(base, newest)
        entries = await self._entries(base)
        segments = await self._segments(base.with_positions().segments)
        await self._check_statistics(base.statistics)
        await self._salvage(entries, schema)
        report = RepairReport(snapshot=base.id, changed=False, base=base.id, dry_run=self._dry_run)
        is_sound = not self._losses and not self._recovered and newest == base.id and self._schema is None
        if not self._dry_run and not is_sound:
            commit = self._commit(base, newest, entries, segments)
            done = await keep_committed(table, lambda: self.uploaded, commit)
            report = dataclasses.replace(report, snapshot=done.snapshot.id, changed=True)
        kept = self._kept(entries)
        return dataclasses.replace(
            report,
            files=len(kept),
            rows=counts_of(kept).rows,
            rewritten=sum(salvaged.rewritten for salvaged in self._files.values()),
            recovered=self._recovered,
            losses=tuple(loss for losses in self._losses.values() for loss in losses),
        )

    async def draft(self, base: Base) -> Draft:
        """Drafts the head's state without the losses; files that others added meanwhile stay as they are."""
        entries = self._kept(await self._entries(base.snapshot))
        state = await self._state(base.snapshot, entries, await self._segments(base.segments))
        uploaded = UploadedFiles.joined(file.uploaded for file in self._files.values())
        return Draft(
            kind=CommitKind.REPAIR,
            files=state,
            schema=self._schema,
            lost_statistics=self._lost_statistics,
            uploaded_ms=uploaded.first_upload_ms,
        )

    def _lose(self, loss: Loss) -> None:
        known = self._losses.setdefault((loss.kind, loss.object), [])
        if loss not in known:
            known.append(loss)

    # --- which state --------------------------------------------------------------

    async def _newest(self) -> tuple[int, Snapshot]:
        """Returns the highest id that was committed, and the newest snapshot that can be read."""
        snapshots = self._table.snapshots
        numbers = [number for number, _ in await snapshots.log.listed()]
        began = self._table.env.clock.steady()
        newest = await self._newest_committed(numbers[-1]) if numbers else 0
        for number in reversed(numbers):
            try:
                fetched = await snapshots.log.find(number)
                if fetched is None and snapshots.is_late(began):
                    raise UnavailableError(
                        f"snapshot {number} of {self._table.root} is gone since it was listed, and that was "
                        "longer ago than the commit deadline: it may have expired. Repair again.",
                        kind="timeout",
                        snapshot=number,
                    )
                if fetched is None:
                    continue
                return newest, snapshots.check_live(snapshots.decoded(fetched))
            except FormatError as error:
                self._lose(Loss(kind=LossKind.COMMIT, object=snapshot_path(number), reason=error.message))
        raise CorruptionError(
            f"no snapshot of {self._table.root} can be read, so it is not known which files are the table's",
            key=self._table.root,
        )

    async def _newest_committed(self, newest: int) -> int:
        """Returns the highest committed id, which may be above the highest listed; notes lost snapshots."""
        hint = await self._table.snapshots.lost_above(newest)
        if hint is None:
            return newest
        if hint.snapshot - newest > _LOST_MAX:
            raise CorruptionError(
                f"{LATEST} of {self._table.root} says that snapshot {hint.snapshot} was committed, and the "
                f"newest there is is {newest}: more than {_LOST_MAX:,} would be lost. If that cannot be, "
                f"delete {LATEST} and repair again.",
                key=join(self._table.root, LATEST),
                snapshot=hint.snapshot,
            )
        reason = f"its object is gone; {LATEST} says that snapshot {hint.snapshot} was committed"
        for number in range(newest + 1, hint.snapshot + 1):
            self._lose(Loss(kind=LossKind.COMMIT, object=snapshot_path(number), reason=reason))
        return hint.snapshot

    def _shown(self, base: Snapshot) -> Snapshot:
        """Returns the snapshot with a schema that can be read."""
        return base if self._schema is None else dataclasses.replace(base, schema=self._schema)

    async def _readable_schema(self, base: Snapshot, newest: int) -> SchemaObject:
        """Chooses a readable schema: another one when its own is damaged or a lost commit made a newer."""
        known = await self._schemas()
        mine = known.get(base.schema.path)
        sound = mine is not None and mine.schema.id == base.schema.id
        highest = max((known_schema.schema.id for known_schema in known.values()), default=base.schema.id)
        if sound and mine is not None and (newest == base.id or highest <= base.schema.id):
            return mine
        older = [item for item in known.items() if item[1].schema.id <= base.schema.id]
        path, best = (
            (base.schema.path, mine)
            if sound
            else max(older, key=lambda item: item[1].schema.id, default=("", None))
        )
        if best is None:
            raise CorruptionError(
                f"no schema of {self._table.root} can be read that snapshot {base.id} could be read with",
                key=join(self._table.root, base.schema.path),
            )
        if not sound:
            reason = f"it cannot be read; schema {best.schema.id} takes its place"
            self._lose(Loss(kind=LossKind.SCHEMA, object=base.schema.path, reason=reason))
        # Ids of schemas and of fields are never given out twice.
        fields = max(known_schema.schema.highest_field_id for known_schema in known.values())
        number = max(highest, base.schema.id) + 1
        again = dataclasses.replace(best.schema, id=number, highest_field_id=fields)
        if self._dry_run:
            return best
        self._schema = await self._table.schemas.write(
            again,
            time_ms=self._table.snapshots.time.now_ms(),
            before=(best, SchemaRef(id=best.schema.id, path=path)),
        )
        return await self._table.schemas.read(self._schema)

    async def _schemas(self) -> dict[str, SchemaObject]:
        """Reads the schema objects of the table, by path; those that cannot be read are left out."""
        table, schemas = self._table, dict[str, SchemaObject]()
        async for listed in table.env.store.list(join(table.root, SCHEMA_PREFIX)):
            path = relative(table.root, listed.key)
            if object_kind(path) is not ObjectKind.SCHEMA:
                continue
            try:
                schema = decode_schema((await table.env.store.get(listed.key)).data, key=listed.key)
            except (FormatError, NotFoundError):
                continue
            if schema.table == table.uuid:
                schemas[path] = schema
        return schemas

    # --- entries ------------------------------------------------------------------

    async def _entries(self, snapshot: Snapshot) -> list[FileEntry]:
        """Returns the live files that are known."""
        removed, entries = frozenset(snapshot.removed), list[FileEntry]()
        for ref in snapshot.manifests:
            entries += [entry for entry in await self._listed(snapshot, ref) if entry.path not in removed]
        return entries + [with_position(entry, snapshot.id) for entry in snapshot.added]

    async def _listed(self, snapshot: Snapshot, ref: ManifestRef) -> Sequence[FileEntry]:
        if ref.path in self._lists:
            return self._lists[ref.path]
        try:
            (entries,) = await self._manifests.listed(snapshot, [ref])
            return entries
        except FormatError as error:
            rebuilt = await self._rebuilt(snapshot, ref)
            if rebuilt is None:
                reason = f"{error.message} No other object names its {ref.entries:,} files."
                self._lose(Loss(kind=LossKind.MANIFEST, object=ref.path, rows=ref.rows, reason=reason))
            else:
                self._recovered += len(rebuilt)
            self._lists[ref.path] = rebuilt or ()
        return self._lists[ref.path]

    async def _rebuilt(self, snapshot: Snapshot, ref: ManifestRef) -> tuple[FileEntry, ...] | None:
        """Rebuilds a damaged manifest from the snapshot before it: entries listed nowhere else afterwards.

        A manifest takes over entries of the snapshot before; the result is complete if the numbers agree.
        """
        first = snapshot
        while first.id > 1:
            before = await self._read(first.id - 1)
            if before is None:
                return None
            if all(manifest.path != ref.path for manifest in before.manifests):
                break
            first = before
        else:
            return None
        try:
            had = await self._manifests.entries(before)
            others = [manifest for manifest in first.manifests if manifest.path != ref.path]
            lists = await self._manifests.listed(first, others)
        except FormatError:
            return None
        elsewhere = {entry.path for entries in lists for entry in entries}
        elsewhere |= {entry.path for entry in first.added}
        rebuilt = tuple(entry for entry in had if entry.path not in elsewhere)
        same = (len(rebuilt), counts_of(rebuilt).rows) == (ref.entries, ref.rows)
        return rebuilt if same else None

    async def _read(self, number: int) -> Snapshot | None:
        snapshots = self._table.snapshots
        try:
            fetched = await snapshots.log.find(number)
            return snapshots.decoded(fetched) if fetched is not None else None
        except FormatError:
            return None

    async def _check_statistics(self, ref: StatisticsRef | None) -> None:
        """Reads the footer of the statistics file; notes one that is gone or damaged."""
        if ref is None:
            return
        try:
            await read_statistics(self._table.env.store, self._table.root, ref)
        except (FormatError, NotFoundError) as error:
            reason = f"{error.message}; analyze the table again"
            self._lose(Loss(kind=LossKind.STATISTICS, object=ref.path, reason=reason))
            self._lost_statistics = ref.path

    # --- rows ---------------------------------------------------------------------

    async def _salvage(self, entries: Sequence[FileEntry], schema: SchemaObject) -> None:
        """Reads every file, and rewrites the sound rows of damaged ones."""
        table = self._table
        # One listing instead of a request for each file: most damage is a missing object or a wrong size.
        sizes: dict[str, int] = {}
        async for listed in table.env.store.list(join(table.root, DATA_PREFIX)):
            sizes[relative(table.root, listed.key)] = listed.size
        salvager = Salvager(
            table.env.store, table.root, schema.schema, table.env.settings, dry_run=self._dry_run
        )

        async def look(entry: FileEntry) -> tuple[FileEntry, Salvaged]:
            size = sizes.get(entry.path)
            if size is None:
                salvaged = salvager.missing(entry, "there is no such object")
            elif size != entry.size:
                salvaged = salvager.missing(entry, f"it has {size} bytes, the snapshot says {entry.size}")
            else:
                salvaged = await salvager.file(entry) if self._deep else Salvaged(entries=(entry,))
            self._reporter.step("read files", 1, len(entries))
            return entry, salvaged

        async for entry, salvaged in map_bounded(look, entries, _FILES, ordered=False):
            self.uploaded += salvaged.uploaded.paths
            for loss in salvaged.losses:
                self._lose(loss)
            if salvaged.entries != (entry,):
                self._files[entry.path] = salvaged

    def _kept(self, entries: Sequence[FileEntry]) -> list[FileEntry]:
        """Returns the files that replace these, themselves where they are sound."""
        return [
            kept
            for entry in entries
            for kept in (self._files[entry.path].entries if entry.path in self._files else (entry,))
        ]

    async def _segments(self, ranges: Sequence[SegmentRange]) -> tuple[SegmentRange, ...]:
        """Returns the covered WAL segments that can be read; notes the others."""
        lost: dict[int, str] = {}
        for segments in ranges:
            for number in range(segments.first, segments.last + 1):
                try:
                    await self._table.wal.read(number)
                except FormatError as error:
                    lost[number] = error.message
        for number, reason in lost.items():
            self._lose(Loss(kind=LossKind.SEGMENT, object=segment_path(number), reason=reason))
        return tuple(left for segments in ranges for left in segments.without(lost.keys()))

    # --- the new snapshot ---------------------------------------------------------

    async def _state(
        self, like: Snapshot, entries: Sequence[FileEntry], segments: Sequence[SegmentRange]
    ) -> Snapshot:
        """Returns a snapshot with these files and segments, as the source of a draft's files."""
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

    async def _commit(
        self, base: Snapshot, newest: int, entries: Sequence[FileEntry], segments: Sequence[SegmentRange]
    ) -> Committed:
        """Commits behind the head; where the head is lost, its successor is created directly."""
        if newest == base.id:
            view = await self._table.view_of(self._shown(base))
            child = (await self._table.commit(self, view=view)).snapshot
        else:
            child = await self._append(base, newest, entries, segments)
        return Committed(snapshot=child, changed=True, entries=tuple(self._kept(entries)))

    async def _append(
        self, base: Snapshot, newest: int, entries: Sequence[FileEntry], segments: Sequence[SegmentRange]
    ) -> Snapshot:
        """Creates the next snapshot after one that cannot be read, or is gone.

        Lost ids above the highest existing one are filled too: a process that knows of nothing newer would
        commit there, and its commit would be overlooked.
        """
        snapshots, head, kept = self._table.snapshots, base, tuple(self._kept(entries))
        there = await snapshots.log.newest(after=base.id)
        if there is not None:
            fetched = await snapshots.log.find(there)
            token = (fetched.token if fetched is not None else None) or ""
            head = dataclasses.replace(base.with_positions(), id=there, token=token)
        epoch = await self._log_epoch()
        for _ in range(head.id, newest):
            head = await self._create_behind(head, kept, segments, epoch, "in place of a lost snapshot")
        child = await self._create_behind(head, kept, segments, epoch)
        snapshots.forget()
        return child

    async def _log_epoch(self) -> int | None:
        """Returns the epoch of the log's writer, which the snapshots that were lost may have announced."""
        wal = self._table.wal
        try:
            newest = await wal.log.newest()
            return None if newest is None else (await wal.read(newest)).header.epoch
        except FormatError:
            return None

    async def _create_behind(
        self,
        head: Snapshot,
        kept: Sequence[FileEntry],
        segments: Sequence[SegmentRange],
        epoch: int | None,
        message: str | None = None,
    ) -> Snapshot:
        """Creates the next snapshot, with the state that could be read."""
        snapshots = self._table.snapshots
        state = await self._state(head.with_positions(), kept, segments)
        draft = Draft(
            kind=CommitKind.REPAIR,
            files=state,
            schema=self._schema,
            lost_statistics=self._lost_statistics,
            log_epoch=epoch,
        )
        now_ms = snapshots.time.now_ms()
        child = child_of(head, draft, token=new_token(), now_ms=now_ms, message=message)
        try:
            await snapshots.append(child)
        except ConflictError as lost:
            raise ConflictError(
                f"somebody else has made snapshot {child.id} of {self._table.root}: repair it again",
                snapshot=child.id,
            ) from lost
        return child
