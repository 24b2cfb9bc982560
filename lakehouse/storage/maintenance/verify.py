"""Verification: every object that snapshots need is there and is what they say.

One listing tells which objects there are and how large they are; snapshots, manifests and schemas are
read, and with ``deep`` every data file, index file and WAL segment as well. Nothing comes from a cache.

Invariant: damage is reported and never raised; what is said of a snapshot that expired meanwhile is left
out. Memory holds sixteen bytes for each object there is, and the entries of two snapshots.
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
from lakehouse.io.cost import measure
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import ProgressCallback, Teller, map_bounded
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
"""Data files that are read at once."""
_READS = 16
_CACHE_BYTES = 256 * 1024 * 1024
"""For manifests that many snapshots list."""


async def verify_table(
    core: OpenTable,
    *,
    deep: bool = False,
    snapshot: int | None = None,
    progress: ProgressCallback | None = None,
    check: FileChecker | None = None,
) -> VerifyReport:
    """Looks for damage in the retained snapshots, or in one; see ``Table.verify``.

    Args:
        core: the table.
        deep: read every data file too.
        snapshot: only this one.
        progress: told how far it has got.
        check: reads a data file, or knows what was found in it; None = it is read here.
    """
    if check is None:
        check = FileCheck(core.env.store, core.root, core.env.settings.index).file
    with measure() as cost:
        found = await _Verification(core, Teller(progress), check if deep else None).run(snapshot)
    return VerifyReport(
        deep=deep,
        snapshots=found.snapshots,
        manifests=found.manifests,
        files=found.files,
        bytes=found.bytes,
        damages=found.damages.all(found.gone),
        cost=cost,
    )


class _Listing:
    """Sizes of the objects in a directory, by the hashes of their paths."""

    def __init__(self) -> None:
        self._hashes, self._sizes = array("q"), array("q")
        self._order: I64 | None = None

    @classmethod
    async def of(cls, store: ObjectStore, root: str) -> _Listing:
        """One request for a thousand objects."""
        found = cls()
        async for one in store.list(f"{root}/" if root else ""):
            found._hashes.append(hash(relative(root, one.key)))
            found._sizes.append(one.size)
        return found

    def size(self, path: str) -> int | None:
        """Bytes of the object; None when there is none."""
        hashes = np.frombuffer(self._hashes, np.int64)
        if self._order is None:
            self._order = np.argsort(hashes)
        at = int(np.searchsorted(hashes, hash(path), sorter=self._order))
        if at == len(hashes) or hashes[self._order[at]] != hash(path):
            return None
        return self._sizes[int(self._order[at])]


class _Verification:
    """One verification under way."""

    def __init__(self, core: OpenTable, teller: Teller, check: FileChecker | None) -> None:
        self._core, self._teller, self._check = core, teller, check
        store, root, table = core.env.store, core.root, core.uuid
        caches = TableCaches(CacheBudget(CacheSettings(max_bytes=_CACHE_BYTES)))
        self._manifests = Manifests(store, root, table, caches.manifests)
        self._schemas = Schemas(store, root, table, caches.schemas)
        self._listing = _Listing()
        self._checked: set[str] = set()
        """Files, manifests, schemas and segments that were looked at."""
        self.damages = Damages()
        self.snapshots = self.manifests = self.files = self.bytes = 0
        self.gone: tuple[int, ...] = ()
        """Snapshots that expired meanwhile."""

    async def run(self, wanted: int | None) -> _Verification:
        """Looks at all retained snapshots, or at one of them."""
        # First, for others go on: what it says was there before anything else was looked for.
        hinted = await self._hinted()
        head, newest = await self._head()
        self._listing = await _Listing.of(self._core.env.store, self._core.root)
        tagged = {ref.snapshot for ref in head.refs.values()}
        numbers = sorted(tagged | set(range(min(head.earliest, head.id), newest + 1)))
        if wanted is not None:
            if wanted not in numbers:
                await self._core.history.snapshot(wanted, head)
            numbers = [wanted]
        self._check_log(head, newest, hinted)
        before: Snapshot | None = None
        entries: Sequence[FileEntry] = ()
        async for number, one in map_bounded(self._read, numbers, _READS):
            if one is None:
                before = None
                continue
            follows = before if before is not None and before.id == number - 1 else None
            self._check_chain(follows, one)
            entries = await self._check_state(follows, one, entries)
            before = one
            self._teller.step("check snapshots", 1, len(numbers))
        self.snapshots = len(numbers)
        if self.damages.all():
            self.gone = await self._expired(numbers)
        return self

    async def _head(self) -> tuple[Snapshot, int]:
        """The newest snapshot that can be read, and the highest id there is."""
        history = self._core.history
        newest = await history.log.newest()
        if newest is None:
            return (await history.head()).snapshot, 0
        number = newest
        while True:
            _, found = await self._read(number)
            if found is not None:
                return history.check_live(found), newest
            if number == 1:
                raise NotFoundError(f"none of the snapshots of {self._core.root} can be read")
            number -= 1

    async def _read(self, number: int) -> tuple[int, Snapshot | None]:
        """A snapshot and its id; when it cannot be read that is noted."""
        history = self._core.history
        try:
            found = await history.log.find(number)
            if found is not None:
                return number, history.decoded(found)
            self.damages.add(snapshot_path(number), Problem.MISSING, "there is no such object", [number])
        except FormatError as error:
            self.damages.add(snapshot_path(number), Problem.UNREADABLE, error.message, [number])
        return number, None

    async def _expired(self, numbers: Sequence[int]) -> tuple[int, ...]:
        try:
            head = (await self._core.history.head()).snapshot
        except FormatError:
            return ()
        kept = {ref.snapshot for ref in head.refs.values()}
        limit = min(head.earliest, head.id)
        return tuple(one for one in numbers if one < limit and one not in kept)

    # --- snapshots ----------------------------------------------------------------

    async def _hinted(self) -> int:
        """The snapshot that the hint names; 0 when it says nothing."""
        try:
            hint = (await self._core.env.store.get(join(self._core.root, LATEST))).data
        except NotFoundError:
            return 0
        return decode_hint(hint, self._core.uuid).snapshot

    def _check_log(self, head: Snapshot, newest: int, hinted: int) -> None:
        """What the hint and the names say of snapshots."""
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

    def _check_chain(self, before: Snapshot | None, one: Snapshot) -> None:
        """That a snapshot follows from the one before."""
        wrong = ""
        if (one.parent.id if one.parent else 0) != one.id - 1:
            wrong = f"its parent is {one.parent}, not snapshot {one.id - 1}"
        elif not 1 <= one.earliest <= one.id:
            wrong = f"it says that {one.earliest} is the earliest snapshot"
        elif before is not None:
            if one.parent is not None and one.parent.token != before.token:
                wrong = f"its parent has token {one.parent.token}, snapshot {before.id} has {before.token}"
            elif one.time_ms <= before.time_ms:
                wrong = f"its time, {one.time_ms}, is not after {before.time_ms} of snapshot {before.id}"
            elif one.earliest < before.earliest:
                wrong = f"its earliest snapshot, {one.earliest}, is before {before.earliest}"
        if wrong:
            self.damages.add(snapshot_path(one.id), Problem.CHAIN, wrong, [one.id])
        if before is not None and before.total + one.plus - one.minus != one.total:
            detail = f"{before.total} plus {one.plus} minus {one.minus} is not {one.total}"
            self.damages.add(snapshot_path(one.id), Problem.COUNTS, detail, [one.id])

    async def _check_state(
        self, before: Snapshot | None, one: Snapshot, known: Sequence[FileEntry]
    ) -> Sequence[FileEntry]:
        """What a snapshot refers to; returns its entries, those of the one before being known."""
        schema = await self._check_schema(one.schema, one.id)
        await self._check_segments(one)
        if before is not None and _same_files(before, one):
            self.damages.carry(before.id, one.id)
            return known
        entries = await self._entries(one)
        if entries is None or schema is None:
            return ()
        for path, problem, detail in entry_problems(entries, schema.schema, one.id):
            self.damages.add(path, problem, detail, [one.id])
        total = counts_of(entries)
        if total != one.total:
            self.damages.add(
                snapshot_path(one.id),
                Problem.COUNTS,
                f"its files are {_said(total)}, it says {_said(one.total)}",
                [one.id],
            )
        self._check_gone(before, one, known, entries)
        await self._check_files(entries, schema, one.id)
        return entries

    def _check_gone(
        self,
        before: Snapshot | None,
        one: Snapshot,
        known: Sequence[FileEntry],
        entries: Sequence[FileEntry],
    ) -> None:
        if before is None or one.gone is None:
            return
        lost = {entry.path for entry in known} - {entry.path for entry in entries} - set(one.gone)
        if lost:
            detail = (
                f"it does not say that {len(lost)} files of snapshot {before.id} are gone, as {min(lost)}"
            )
            self.damages.add(snapshot_path(one.id), Problem.CHAIN, detail, [one.id])

    # --- what they refer to -------------------------------------------------------

    async def _check_schema(self, ref: SchemaRef, snapshot: int) -> SchemaObject | None:
        """A schema that a snapshot reads with, and those before it."""
        try:
            found = await self._schemas.read(ref)
        except FormatError as error:
            self._note_unreadable(ref.path, error, snapshot)
            return None
        for one in found.ancestors:
            self.damages.touch(one.path, snapshot)
            if one.path not in self._checked:
                self._checked.add(one.path)
                try:
                    await self._schemas.read(one)
                except FormatError as error:
                    self._note_unreadable(one.path, error, snapshot)
        return found

    def _note_unreadable(self, path: str, error: FormatError, snapshot: int) -> None:
        problem = Problem.MISSING if self._listing.size(path) is None else Problem.UNREADABLE
        self.damages.add(path, problem, error.message, [snapshot])

    async def _entries(self, one: Snapshot) -> Sequence[FileEntry] | None:
        """The live files; None when a manifest cannot be read."""
        sound = True
        for ref in one.manifests:
            fresh = ref.path not in self._checked
            self._checked.add(ref.path)
            self.manifests += fresh
            try:
                (entries,) = await self._manifests.listed(one, [ref])
            except FormatError as error:
                self._note_unreadable(ref.path, error, one.id)
                sound = False
                continue
            rows = sum(entry.rows for entry in entries)
            if fresh and (rows != ref.rows or self._listing.size(ref.path) != ref.size):
                detail = f"its files have {rows} rows, snapshot {one.id} says {ref.rows} and {ref.size} bytes"
                self.damages.add(ref.path, Problem.COUNTS, detail, [one.id])
        return await self._manifests.entries(one) if sound else None

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
        fresh = list({one.path: one for one in fresh}.values())
        self.files += len(fresh)
        self.bytes += sum(one.size for one in fresh)
        read = self._check
        if read is None:
            return

        async def check(entry: FileEntry) -> list[FileFindings]:
            found = await read(entry, schema.schema)
            self._teller.step("read files")
            return found

        async for found in map_bounded(check, fresh, _FILES, ordered=False):
            for path, problem, detail in found:
                self.damages.add(path, problem, detail, [snapshot])

    def _check_size(self, path: str, size: int, snapshot: int) -> None:
        there = self._listing.size(path)
        if there is None:
            self.damages.add(path, Problem.MISSING, "there is no such object", [snapshot])
        elif there != size:
            detail = f"it has {there} bytes, the snapshot says {size}"
            self.damages.add(path, Problem.SIZE, detail, [snapshot])

    async def _check_segments(self, one: Snapshot) -> None:
        """WAL segments whose rows are in no data file."""
        for covered in one.segments:
            for number in range(covered.first, covered.last + 1):
                path = segment_path(number)
                self.damages.touch(path, one.id)
                if path in self._checked:
                    continue
                self._checked.add(path)
                if self._listing.size(path) is None:
                    self.damages.add(path, Problem.MISSING, "there is no such object", [one.id])
                elif self._check is not None:
                    try:
                        await self._core.wal.read(number)
                    except FormatError as error:
                        self.damages.add(path, Problem.UNREADABLE, error.message, [one.id])


def _same_files(before: Snapshot, one: Snapshot) -> bool:
    """Whether both have the same files, which tags and the like leave alone."""
    return (
        before.schema == one.schema
        and before.total == one.total
        and before.removed == one.removed
        and before.carried().added == one.added
        and [ref.path for ref in before.manifests] == [ref.path for ref in one.manifests]
    )


def _said(total: Counts) -> str:
    return f"{total.files} files, {total.rows} rows, {total.bytes} bytes"
