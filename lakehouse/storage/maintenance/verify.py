"""Verification: every object that snapshots need exists and is what they describe.

One listing shows which objects exist and how large they are; snapshots, manifests and schemas are
read, and with ``deep`` every data file, index file and WAL segment as well. Nothing comes from a cache.

Invariant: damage is reported and never raised; problems of a snapshot that expired meanwhile are left
out. Memory holds sixteen bytes for each existing object, and the entries of two snapshots.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from lakehouse.cache import CacheBudget
from lakehouse.config import CacheSettings
from lakehouse.errors import FormatError, NotFoundError
from lakehouse.format.metadata import Counts, FileEntry, SchemaRef, Snapshot, decode_hint
from lakehouse.format.schema import SchemaObject
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import ProgressCallback, ProgressReporter, map_bounded, measured
from lakehouse.kernels.arrays import I64
from lakehouse.storage.commit.draft import counts_of
from lakehouse.storage.maintenance.verify_entries import entry_problems
from lakehouse.storage.maintenance.verify_files import FileCheck, FileChecker, FileFindings
from lakehouse.storage.maintenance.verify_report import Damages, Problem, VerifyReport
from lakehouse.storage.metadata.caches import TableCaches
from lakehouse.storage.metadata.manifests import Manifests
from lakehouse.storage.metadata.paths import LATEST, join, relative, segment_path, snapshot_path
from lakehouse.storage.metadata.schemas import Schemas
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["verify_table"]

_FILES = 2
"""Data files read at once."""
_CACHE_BYTES = 256 * 1024 * 1024
"""Size of the cache for manifests, which many snapshots list."""


@measured
async def verify_table(
    table: OpenTable,
    *,
    deep: bool = False,
    snapshot: int | None = None,
    progress: ProgressCallback | None = None,
    check: FileChecker | None = None,
) -> VerifyReport:
    """Looks for damage in the retained snapshots, or in one; see ``Table.verify``.

    Args:
        table: the table.
        deep: whether to read every data file too.
        snapshot: id of the only snapshot to verify; None = all that are retained.
        progress: called with the progress made.
        check: reads a data file, or has a report about it; None = files are read here.
    """
    if check is None:
        check = FileCheck(table.env.store, table.root, table.env.settings.index).file
    verification = await _Verification(table, ProgressReporter(progress), check if deep else None).run(
        snapshot
    )
    return VerifyReport(
        deep=deep,
        snapshots=verification.snapshots,
        manifests=verification.manifests,
        files=verification.files,
        bytes=verification.bytes,
        damages=verification.damages.all(verification.gone),
    )


class _Listing:
    """Sizes of a directory's objects, by the hashes of their paths."""

    def __init__(self) -> None:
        self._hashes, self._sizes = array("q"), array("q")
        self._order: I64 | None = None

    @classmethod
    async def of(cls, store: ObjectStore, root: str) -> _Listing:
        """Lists a directory; one request for a thousand objects."""
        listing = cls()
        async for listed in store.list(f"{root}/" if root else ""):
            listing._hashes.append(hash(relative(root, listed.key)))
            listing._sizes.append(listed.size)
        return listing

    def size(self, path: str) -> int | None:
        """Returns the bytes of the object; None when there is none."""
        hashes = np.frombuffer(self._hashes, np.int64)
        # Sorted at the first question, when the listing is complete.
        if self._order is None:
            self._order = np.argsort(hashes)
        at = int(np.searchsorted(hashes, hash(path), sorter=self._order))
        if at == len(hashes) or hashes[self._order[at]] != hash(path):
            return None
        return self._sizes[int(self._order[at])]


class _Verification:
    """One verification, with the numbers and damages found so far."""

    def __init__(self, table: OpenTable, reporter: ProgressReporter, check: FileChecker | None) -> None:
        self._table, self._reporter, self._check = table, reporter, check
        store, root, table_id = table.env.store, table.root, table.uuid
        caches = TableCaches(CacheBudget(CacheSettings(max_bytes=_CACHE_BYTES)))
        self._manifests = Manifests(store, root, table_id, caches.manifests, table.settings)
        self._schemas = Schemas(store, root, table_id, caches.schemas)
        self._listing = _Listing()
        self._checked: set[str] = set()
        """Paths of files, manifests, schemas and segments that were checked."""
        self.damages = Damages()
        self.snapshots = self.manifests = self.files = self.bytes = 0
        self.gone: tuple[int, ...] = ()
        """Ids of snapshots that expired meanwhile."""

    async def run(self, wanted: int | None) -> _Verification:
        """Verifies all retained snapshots, or one of them."""
        # The hint comes first, as others go on committing: the snapshot it names existed before the listing.
        hinted = await self._hinted()
        head, newest = await self._head()
        self._listing = await _Listing.of(self._table.env.store, self._table.root)
        tagged = {ref.snapshot for ref in head.refs.values()}
        numbers = sorted(tagged | set(range(min(head.earliest, head.id), newest + 1)))
        if wanted is not None:
            if wanted not in numbers:
                await self._table.snapshots.snapshot(wanted, head)
            numbers = [wanted]
        self._check_log(head, newest, hinted)
        before: Snapshot | None = None
        entries: Sequence[FileEntry] = ()
        at_once = self._table.settings.read_concurrency
        async for number, snapshot in map_bounded(self._read, numbers, at_once):
            if snapshot is None:
                before = None
                continue
            follows = before if before is not None and before.id == number - 1 else None
            self._check_chain(follows, snapshot)
            entries = await self._check_state(follows, snapshot, entries)
            before = snapshot
            self._reporter.step("check snapshots", 1, len(numbers))
        self.snapshots = len(numbers)
        # Only damage makes it matter whether a snapshot has expired since the head was read.
        if self.damages.all():
            self.gone = await self._expired(numbers)
        return self

    async def _head(self) -> tuple[Snapshot, int]:
        """Returns the newest snapshot that can be read, and the highest existing id."""
        snapshots = self._table.snapshots
        newest = await snapshots.log.newest()
        if newest is None:
            return (await snapshots.head()).snapshot, 0
        number = newest
        while True:
            _, snapshot = await self._read(number)
            if snapshot is not None:
                return snapshots.check_live(snapshot), newest
            if number == 1:
                raise NotFoundError(f"none of the snapshots of {self._table.root} can be read")
            number -= 1

    async def _read(self, number: int) -> tuple[int, Snapshot | None]:
        """Reads a snapshot; returns its id and None, and notes the damage, when it cannot be read."""
        snapshots = self._table.snapshots
        try:
            fetched = await snapshots.log.find(number)
            if fetched is not None:
                return number, snapshots.decoded(fetched)
            self.damages.add(snapshot_path(number), Problem.MISSING, "there is no such object", [number])
        except FormatError as error:
            self.damages.add(snapshot_path(number), Problem.UNREADABLE, error.message, [number])
        return number, None

    async def _expired(self, numbers: Sequence[int]) -> tuple[int, ...]:
        try:
            head = (await self._table.snapshots.head()).snapshot
        except FormatError:
            return ()
        kept = {ref.snapshot for ref in head.refs.values()}
        limit = min(head.earliest, head.id)
        return tuple(number for number in numbers if number < limit and number not in kept)

    # --- snapshots ----------------------------------------------------------------

    async def _hinted(self) -> int:
        """Returns the id of the snapshot that the hint names; 0 when there is no hint."""
        try:
            hint = (await self._table.env.store.get(join(self._table.root, LATEST))).data
        except NotFoundError:
            return 0
        return decode_hint(hint, self._table.uuid).snapshot

    def _check_log(self, head: Snapshot, newest: int, hinted: int) -> None:
        """Checks that the snapshots named by the hint and by tags exist."""
        if hinted > newest:
            self.damages.add(
                snapshot_path(hinted),
                Problem.MISSING,
                f"{LATEST} says that it was committed, and the newest there is is {newest}",
                [hinted],
            )
        for name, ref in head.refs.items():
            if not 1 <= ref.snapshot <= newest:
                detail = f"{ref.kind} {name!r} names snapshot {ref.snapshot}, which never was"
                self.damages.add(snapshot_path(head.id), Problem.CHAIN, detail, [head.id])

    def _check_chain(self, before: Snapshot | None, snapshot: Snapshot) -> None:
        """Checks that a snapshot follows from the one before."""
        wrong = ""
        if (snapshot.parent.id if snapshot.parent else 0) != snapshot.id - 1:
            wrong = f"its parent is {snapshot.parent}, not snapshot {snapshot.id - 1}"
        elif not 1 <= snapshot.earliest <= snapshot.id:
            wrong = f"it says that {snapshot.earliest} is the earliest snapshot"
        elif before is not None:
            if snapshot.parent is not None and snapshot.parent.token != before.token:
                wrong = (
                    f"its parent has token {snapshot.parent.token}, snapshot {before.id} has {before.token}"
                )
            elif snapshot.time_ms <= before.time_ms:
                wrong = f"its time, {snapshot.time_ms}, is not after {before.time_ms} of snapshot {before.id}"
            elif snapshot.earliest < before.earliest:
                wrong = f"its earliest snapshot, {snapshot.earliest}, is before {before.earliest}"
        if wrong:
            self.damages.add(snapshot_path(snapshot.id), Problem.CHAIN, wrong, [snapshot.id])
        if before is not None and before.total + snapshot.plus - snapshot.minus != snapshot.total:
            detail = f"{before.total} plus {snapshot.plus} minus {snapshot.minus} is not {snapshot.total}"
            self.damages.add(snapshot_path(snapshot.id), Problem.COUNTS, detail, [snapshot.id])

    async def _check_state(
        self, before: Snapshot | None, snapshot: Snapshot, known: Sequence[FileEntry]
    ) -> Sequence[FileEntry]:
        """Checks the objects that a snapshot refers to; ``known`` are the entries of the one before.

        Returns the snapshot's entries, none where they cannot be read.
        """
        schema = await self._check_schema(snapshot.schema, snapshot.id)
        await self._check_segments(snapshot)
        if snapshot.statistics is not None:
            self._check_size(snapshot.statistics.path, snapshot.statistics.size, snapshot.id)
        if before is not None and _same_files(before, snapshot):
            self.damages.carry(before.id, snapshot.id)
            return known
        entries = await self._entries(snapshot)
        if entries is None or schema is None:
            return ()
        for path, problem, detail in entry_problems(entries, schema.schema, snapshot.id):
            self.damages.add(path, problem, detail, [snapshot.id])
        total = counts_of(entries)
        if total != snapshot.total:
            self.damages.add(
                snapshot_path(snapshot.id),
                Problem.COUNTS,
                f"its files are {_counts_text(total)}, it says {_counts_text(snapshot.total)}",
                [snapshot.id],
            )
        self._check_gone(before, snapshot, known, entries)
        await self._check_files(entries, schema, snapshot.id)
        return entries

    def _check_gone(
        self,
        before: Snapshot | None,
        snapshot: Snapshot,
        known: Sequence[FileEntry],
        entries: Sequence[FileEntry],
    ) -> None:
        if before is None or snapshot.gone is None:
            return
        lost = {entry.path for entry in known} - {entry.path for entry in entries} - set(snapshot.gone)
        if lost:
            detail = (
                f"it does not say that {len(lost)} files of snapshot {before.id} are gone, as {min(lost)}"
            )
            self.damages.add(snapshot_path(snapshot.id), Problem.CHAIN, detail, [snapshot.id])

    # --- what they refer to -------------------------------------------------------

    async def _check_schema(self, ref: SchemaRef, snapshot: int) -> SchemaObject | None:
        """Checks a schema that a snapshot reads with, and its ancestors; None when it cannot be read."""
        try:
            schema = await self._schemas.read(ref)
        except FormatError as error:
            self._note_unreadable(ref.path, error, snapshot)
            return None
        for ancestor in schema.ancestors:
            self.damages.touch(ancestor.path, snapshot)
            if ancestor.path not in self._checked:
                self._checked.add(ancestor.path)
                try:
                    await self._schemas.read(ancestor)
                except FormatError as error:
                    self._note_unreadable(ancestor.path, error, snapshot)
        return schema

    def _note_unreadable(self, path: str, error: FormatError, snapshot: int) -> None:
        problem = Problem.MISSING if self._listing.size(path) is None else Problem.UNREADABLE
        self.damages.add(path, problem, error.message, [snapshot])

    async def _entries(self, snapshot: Snapshot) -> Sequence[FileEntry] | None:
        """Returns the live files; None when a manifest cannot be read."""
        sound = True
        for ref in snapshot.manifests:
            fresh = ref.path not in self._checked
            self._checked.add(ref.path)
            self.manifests += fresh
            try:
                (entries,) = await self._manifests.listed(snapshot, [ref])
            except FormatError as error:
                self._note_unreadable(ref.path, error, snapshot.id)
                sound = False
                continue
            rows = sum(entry.rows for entry in entries)
            if fresh and (rows != ref.rows or self._listing.size(ref.path) != ref.size):
                detail = (
                    f"its files have {rows} rows, snapshot {snapshot.id} says {ref.rows} and {ref.size} bytes"
                )
                self.damages.add(ref.path, Problem.COUNTS, detail, [snapshot.id])
        return await self._manifests.entries(snapshot) if sound else None

    async def _check_files(self, entries: Sequence[FileEntry], schema: SchemaObject, snapshot: int) -> None:
        fresh = []
        for entry in entries:
            objects = [(entry.path, entry.size)]
            if entry.index is not None:
                objects.append((entry.index.path, entry.index.size))
            for path, size in objects:
                self.damages.touch(path, snapshot)
                if path not in self._checked:
                    self._checked.add(path)
                    self._check_size(path, size, snapshot)
                    fresh.append(entry)
        fresh = list({entry.path: entry for entry in fresh}.values())
        self.files += len(fresh)
        self.bytes += sum(entry.size for entry in fresh)
        read = self._check
        if read is None:
            return

        async def check(entry: FileEntry) -> list[FileFindings]:
            problems = await read(entry, schema.schema)
            self._reporter.step("read files")
            return problems

        async for problems in map_bounded(check, fresh, _FILES, ordered=False):
            for path, problem, detail in problems:
                self.damages.add(path, problem, detail, [snapshot])

    def _check_size(self, path: str, size: int, snapshot: int) -> None:
        there = self._listing.size(path)
        if there is None:
            self.damages.add(path, Problem.MISSING, "there is no such object", [snapshot])
        elif there != size:
            detail = f"it has {there} bytes, the snapshot says {size}"
            self.damages.add(path, Problem.SIZE, detail, [snapshot])

    async def _check_segments(self, snapshot: Snapshot) -> None:
        """Checks the WAL segments whose rows are in no data file."""
        for covered in snapshot.segments:
            for number in range(covered.first, covered.last + 1):
                path = segment_path(number)
                self.damages.touch(path, snapshot.id)
                if path in self._checked:
                    continue
                self._checked.add(path)
                if self._listing.size(path) is None:
                    self.damages.add(path, Problem.MISSING, "there is no such object", [snapshot.id])
                elif self._check is not None:
                    try:
                        await self._table.wal.read(number)
                    except FormatError as error:
                        self.damages.add(path, Problem.UNREADABLE, error.message, [snapshot.id])


def _same_files(before: Snapshot, snapshot: Snapshot) -> bool:
    """Returns whether both have the same files, as after a commit of a tag."""
    return (
        before.schema == snapshot.schema
        and before.total == snapshot.total
        and before.removed == snapshot.removed
        and before.with_positions().added == snapshot.added
        and [ref.path for ref in before.manifests] == [ref.path for ref in snapshot.manifests]
    )


def _counts_text(total: Counts) -> str:
    return f"{total.files} files, {total.rows} rows, {total.bytes} bytes"
