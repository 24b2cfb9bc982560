"""Commits: one create-if-absent of a snapshot, decided against the head and retried after a lost race.

A commit is given a :class:`Change`: an object that drafts, for a given head, what to change. Most changes
draft the same for every head (blind writes); those that read decide again. Whatever head the commit ends
up on, it is one logical write with one token.

::

    head ──► guard ──► _attempt ──► _child: draft ──► _append: create snapshot-{head + 1}
     ▲                   │            │                 ├─ ours, in time ───► Committed
     │                   │            │                 ├─ ours, too late ──► _settle_late
     │                   │            │                 ├─ unknown ─────────► CommitUnknownError
     │                   │            │                 └─ another's ──► _behind ──┐
     │                   │            └─ None ──► Committed, unchanged             │
     │                   ├─ the sequence is recorded ──► Committed, unchanged      │
     │                   ├─ something of the head is missing ──► a newer one ──────┤
     │                   └─ the head was seen too long ago ──► read again ─────────┤
     └── the next head, while retries last; then ConflictError ◄───────────────────┘

An answer that came too late proves nothing: ``_settle_late`` is CommitUnknownError, unless the head has the
writer's sequence.

Invariant: :meth:`Committer.commit` returns only when a snapshot with our token is the child of the
head the change was decided on, and raises ConflictError only when there is none. In every other case
it is CommitUnknownError, and no file the commit refers to may be deleted.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import anyio

from lakehouse.clock import Clock
from lakehouse.errors import (
    CommitUnknownError,
    ConflictError,
    FormatError,
    InternalError,
    LakehouseError,
    NotFoundError,
)
from lakehouse.format.metadata import FileEntry, LiveFiles, SegmentRange, Snapshot
from lakehouse.ids import new_token
from lakehouse.io.protocols import Fetched, Stored
from lakehouse.io.store import ObjectStore
from lakehouse.storage.commit.draft import Draft, child_of
from lakehouse.storage.commit.fold import Fold, fold_is_due, plan_fold
from lakehouse.storage.commit.spilled_manifest import SpilledManifest, write_manifest
from lakehouse.storage.files.rebucket import Resplit
from lakehouse.storage.metadata.manifests import Manifests, with_position
from lakehouse.storage.metadata.schemas import Schemas
from lakehouse.storage.metadata.snapshots import Head, Snapshots
from lakehouse.storage.wal.log import Wal
from lakehouse.storage.wal.segment_runs import SegmentRuns
from lakehouse.storage.wal.tail import Tail, covered

__all__ = ["Base", "Change", "Committed", "Committer"]

_ASIDE = 4.0
"""Maximum random wait after two lost races, in attempt times; found by measuring four writers at once."""
_ASIDE_MAX_S = 1.0
"""Maximum random wait after lost races, in seconds."""
_EXPIRED_MAX = 3
"""Maximum number of attempts that are repeated on a newer head because objects of theirs had expired."""
_HORIZON_SLACK_MS = 15 * 60_000
"""Maximum time by which an upload may have begun before the store's Date in its first answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """Head that a change is decided against, with access to its files and its log."""

    snapshot: Snapshot
    manifests: Manifests
    attempt: int
    """Number of attempts before this one; 0 for the first."""
    tail: Tail | None = None
    """End of the write-ahead log that the commit covers; None in a table without a log."""
    runs: SegmentRuns
    schemas: Schemas
    must_commit: bool = False
    """True when the commit has to leave a snapshot even if it changes nothing: it carries a sequence."""

    async def files(self) -> LiveFiles:
        """Returns the live files, positions filled in."""
        return await self.manifests.entries(self.snapshot)

    @property
    def segments(self) -> tuple[SegmentRange, ...]:
        """WAL segments that are covered and not flushed once this commit covers its tail."""
        return covered(self.snapshot, self.tail, at=self.snapshot.id + 1)

    async def entries(self) -> LiveFiles:
        """Returns all runs that precede the commit's own rows: live files, and covered WAL segments."""
        files, segments = await self.files(), self.segments
        if not segments:
            return files
        schema = (await self.schemas.read(self.snapshot.schema)).schema
        return files.with_more(await self.runs.entries(segments, schema))


class Change(Protocol):
    """Intention of a commit, which drafts its changes against any head."""

    @property
    def blind(self) -> bool:
        """True when it drafts the same for every head, so that it need not begin with the newest."""
        ...

    async def draft(self, base: Base) -> Draft | None:
        """Returns the changes to this head; None = nothing needs to be changed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Outcome of a commit."""

    snapshot: Snapshot
    """Snapshot that was made; the head, or the one that recorded the sequence, when nothing had to change."""
    changed: bool
    """True when this commit made the snapshot."""
    attempts: int = 1
    """Number of attempts to create the snapshot."""
    entries: tuple[FileEntry, ...] = ()
    """Entries that the change has put into the snapshot, as it drafted them."""


@dataclass(slots=True, kw_only=True)
class _Call:
    """State of one logical commit over all its attempts, whatever snapshot it ends up as."""

    change: Change
    token: str
    writer: tuple[str, int] | None
    uploaded_ms: int | None
    message: str | None
    tail: Tail | None
    resplit: Resplit
    spilled: SpilledManifest
    undrops: bool
    expired: int = 0
    """Number of attempts that missed objects because their head had expired meanwhile."""
    entries: tuple[FileEntry, ...] = ()
    """Entries that the last draft adds or replaces."""


class Committer:
    """Commits to one table, one commit of this process at a time.

    Args:
        store: store of the table.
        root: the table's directory.
        snapshots: those of the table.
        manifests: the table's manifests, for its live files.
        schemas: the table's schema objects.
        wal: the table's write-ahead log.
        runs: reader of the log's rows.
        clock: measures the deadline.
        guard: raises before every attempt once something acknowledged is known to be lost.
    """

    def __init__(
        self,
        store: ObjectStore,
        root: str,
        *,
        snapshots: Snapshots,
        manifests: Manifests,
        schemas: Schemas,
        wal: Wal,
        runs: SegmentRuns,
        clock: Clock,
        guard: Callable[[], Awaitable[None]],
    ) -> None:
        self._store, self._root = store, root
        self._snapshots, self._manifests, self._schemas = snapshots, manifests, schemas
        self._wal, self._runs = wal, runs
        self._clock, self._guard = clock, guard
        # Commits of one process would only lose races against each other.
        self._turn = anyio.Lock()
        self._fold: Fold | None = None
        self._fold_ends = 0.0

    async def commit(
        self,
        change: Change,
        *,
        writer: tuple[str, int] | None = None,
        message: str | None = None,
        uploaded_ms: int | None = None,
        max_retries: int = 10,
        tail: Tail | None = None,
        undrops: bool = False,
    ) -> Committed:
        """Commits the change, after whatever others commit meanwhile.

        Args:
            change: the change.
            writer: (id, sequence): committed at most once for a sequence of that id.
            message: the snapshot's message, for people.
            uploaded_ms: when the first upload of its files was answered, by the store's clock.
            max_retries: lost races before a change that is not blind gives up; blind ones go on until
                the deadline.
            tail: end of the write-ahead log, read after the user's call began; None = not read yet.
            undrops: the change may follow a drop.

        Raises:
            ConflictError: nothing was committed: too many races were lost, or the change cannot apply
                to the head.
            CommitUnknownError: it is not known whether the snapshot was made.
        """
        resplit = Resplit(self._store, self._root)
        call = _Call(
            change=change,
            token=new_token(),
            writer=writer,
            uploaded_ms=uploaded_ms,
            message=message,
            tail=tail,
            resplit=resplit,
            spilled=SpilledManifest(self._store, self._root),
            undrops=undrops,
        )
        async with self._turn, resplit.settled():
            attempt, began = 0, self._clock.steady()
            # A blind change is the same on every head, so the known one will do: asking would cost as much as
            # a lost race.
            head = await (self._snapshots.known_head() if change.blind else self._snapshots.head())
            while True:
                await self._guard()
                done = await self._attempt(call, head, attempt)
                if isinstance(done, Committed):
                    resplit.committed = done.changed
                    return dataclasses.replace(done, entries=call.entries) if done.changed else done
                attempt += 1
                # A blind change can only have come second: it goes on until the deadline, however often that
                # was.
                late = self._clock.steady() - began > self._snapshots.deadline_s
                if attempt > max_retries and (late or not change.blind):
                    raise ConflictError(
                        f"{attempt} attempts to commit to {self._root} each came second; the head is "
                        f"snapshot {done.snapshot.id} now. Try again, or raise commit.max_retries.",
                        snapshot=done.snapshot.id,
                    )
                head = done

    async def _attempt(self, call: _Call, head: Head, attempt: int) -> Committed | Head:
        """Makes one attempt; returns the outcome, or the newer head to try again on."""
        base, writer = head.snapshot, call.writer
        if not call.undrops:
            self._snapshots.check_live(base)
        if writer is not None:
            recorded = await self._recorded(base, writer)
            if recorded is not None:
                return Committed(snapshot=recorded, changed=False, attempts=attempt)
        _check_horizon(base, call.uploaded_ms)
        try:
            child = await self._child(call, base, attempt)
        except (FormatError, NotFoundError):
            # The objects that it decides from may have expired while it was held up.
            call.expired += 1
            newer = await self._snapshots.newer_than(base.id) if call.expired <= _EXPIRED_MAX else None
            if newer is None:
                raise
            return newer
        if child is None:
            return Committed(snapshot=base, changed=False, attempts=attempt)
        if self._clock.steady() - head.seen_at > self._snapshots.deadline_s:
            # Nothing was sent: look again. By now the next number may have been used, expired and freed, and
            # a create of it would succeed beside what was built upon it.
            self._snapshots.forget()
            return await self._snapshots.head()
        began = self._clock.steady()
        try:
            stored = await self._append(child, writer)
        except ConflictError as lost:
            if attempt % 2:
                await self._step_aside(self._clock.steady() - began)
            return await self._behind(lost, head, hurry=call.change.blind and attempt % 2 == 0)
        self._snapshots.time.learn(stored.store_time_ms)
        # A late success proves nothing: see _settle_late.
        if self._clock.steady() - head.seen_at > self._snapshots.deadline_s:
            self._snapshots.forget()
            return await self._settle_late(child, writer)
        self._snapshots.note(child, head.seen_at)
        self._snapshots.hint()
        self._keep(call, child)
        return Committed(snapshot=child, changed=True, attempts=attempt + 1)

    def _keep(self, call: _Call, child: Snapshot) -> None:
        """Puts what the commit wrote into the caches: the next reader here asks for none of it."""
        self._snapshots.keep(child)
        fold = self._fold
        folded = () if fold is None else tuple(zip(fold.manifests, fold.outputs, strict=True))
        refs = {ref.path: ref for ref in child.manifests}
        for written, entries in (*call.spilled.written, *folded):
            ref = refs.get(written.path)
            if ref is not None:
                self._manifests.keep(ref, entries, child.id)

    async def _child(self, call: _Call, base: Snapshot, attempt: int) -> Snapshot | None:
        """Returns the snapshot to create after a head; None when nothing needs to be changed."""
        if base.wal is not None and call.tail is None:
            # Read once per call: the tail may only grow by segments put after the call began.
            call.tail = await self._wal.tail(base)
        draft = await call.change.draft(
            Base(
                snapshot=base,
                manifests=self._manifests,
                attempt=attempt,
                tail=call.tail,
                runs=self._runs,
                schemas=self._schemas,
                must_commit=call.writer is not None,
            )
        )
        if draft is None:
            if call.writer is None:
                return None
            # Without a snapshot nothing would record the sequence, and the call repeated would write again.
            raise InternalError("a commit that carries a sequence must leave a snapshot")
        _check_horizon(base, draft.uploaded_ms)
        call.entries = (*draft.added, *draft.replaced)
        draft = await self._fitting(base, draft, call)
        return child_of(
            base,
            draft,
            token=call.token,
            now_ms=await self._snapshots.stamp_ms(base),
            message=call.message,
            manifest=await call.spilled.of(draft.added, base),
            fold=await self._folded(base) if draft.files is None else None,
            writer=call.writer,
            tail=call.tail,
        )

    async def _fitting(self, base: Snapshot, draft: Draft, call: _Call) -> Draft:
        """Returns the draft with its files split into the head's number of buckets.

        Raises:
            ConflictError: files have a schema that a rollback has undone meanwhile.
        """
        used = {entry.schema_id for entry in draft.added} - {base.schema.id}
        # The number of buckets is part of the schema: files of the head's schema fit.
        if not used:
            return draft
        stored = await self._schemas.read(base.schema)
        known = {ancestor.id for ancestor in stored.ancestors}
        if used - known:
            raise ConflictError(
                f"rows were written with schema {min(used - known)}, which is not among those before schema "
                f"{base.schema.id} of snapshot {base.id}: a rollback has undone it. Write the rows again.",
                snapshot=base.id,
                schema=min(used - known),
            )
        schema = stored.schema
        # A draft with a schema of its own, such as a rescale, has files for that schema's buckets.
        if draft.schema is not None or all(entry.total_buckets == schema.buckets for entry in draft.added):
            return draft
        if not schema.primary_key:
            return draft  # without a key, any row may be in any bucket
        return dataclasses.replace(draft, added=await call.resplit.fitting(draft.added, schema))

    async def _append(self, child: Snapshot, writer: tuple[str, int] | None) -> Stored:
        """Creates the snapshot; a cancelled caller waits for the answer all the same, to know the outcome."""
        stored: Stored | None = None
        note = None if writer is None else f"sequence {writer[1]} of writer {writer[0]!r}"
        with anyio.CancelScope(shield=True):
            stored = await self._snapshots.append(child, note=note)
        assert stored is not None
        return stored

    async def _step_aside(self, took: float) -> None:
        """Waits at random, up to a multiple of the time that the lost attempt took.

        Committers that lost twice in a row would go on losing together, and every loss costs two requests
        and delays all of them.
        """
        if took > 0:
            await self._clock.sleep(random.uniform(0, min(_ASIDE * took, _ASIDE_MAX_S)))

    async def _behind(self, lost: ConflictError, head: Head, *, hurry: bool) -> Head:
        """Returns the head after a lost race for the snapshot after ``head``.

        In a hurry it is the winner, without a look for later ones: creating the next snapshot finds out
        as well as a listing does, and a writer that looks first is late again, since winners do not have
        to look. Every other time a listing catches up with all missed snapshots.
        """
        winner = lost.context.get("winner")
        began = self._clock.steady()
        if not isinstance(winner, Fetched):
            return await self._snapshots.head()
        if hurry:
            # The winner need not be the newest by now. When ``head`` was read, no later snapshot existed
            # yet, so the deadline counts from then.
            return self._snapshots.note(self._snapshots.decoded(winner), head.seen_at)
        return self._snapshots.note(await self._snapshots.newest_from(winner), began)

    async def _settle_late(self, child: Snapshot, writer: tuple[str, int] | None) -> Committed:
        """Decides by the writer's recorded sequence whether a commit with a late answer was made.

        The answer itself proves nothing: meanwhile the id may have been used by another, expired and freed.
        """
        unread: LakehouseError | None = None
        if writer is not None:
            try:
                recorded = await self._recorded((await self._snapshots.head()).snapshot, writer)
                if recorded is not None:
                    return Committed(snapshot=recorded, changed=True)
            except LakehouseError as error:
                unread = error
        raise CommitUnknownError(
            f"the answer to the commit of snapshot {child.id} of {self._root} came later than "
            f"commit.deadline_s ({self._snapshots.deadline_s:g} s) after its head was read, so it proves "
            f"nothing. Look for token {child.token} among the snapshots; a commit with (writer, sequence) "
            "can be repeated.",
            snapshot=child.id,
            token=child.token,
        ) from unread

    async def _recorded(self, base: Snapshot, writer: tuple[str, int]) -> Snapshot | None:
        """Returns the snapshot that recorded this or a later sequence of the writer; None = it is new."""
        mark = base.writers.get(writer[0])
        if mark is None or mark.sequence < writer[1]:
            return None
        try:
            return await self._snapshots.snapshot(mark.snapshot, base)
        except (FormatError, NotFoundError):
            # Long expired; the head holds its rows.
            return base

    async def _folded(self, base: Snapshot) -> Fold | None:
        """Writes the manifests that take over older inline entries; None when the head has few of them."""
        if not fold_is_due(base):
            return None
        now = self._clock.steady()
        # An attempt that lost has written manifests already; they serve the next one if nobody has folded
        # since.
        if self._fold is not None and self._fold.fits(base) and now < self._fold_ends:
            return self._fold
        lists = await self._manifests.listed(base, base.manifests)
        listed = {ref.path: entries for ref, entries in zip(base.manifests, lists, strict=True)}
        fold = plan_fold(base, [with_position(entry, base.id) for entry in base.added], listed)
        if fold is None:
            return None
        refs = [await write_manifest(self._store, self._root, base, entries) for entries in fold.outputs]
        self._fold = dataclasses.replace(fold, manifests=tuple(refs))
        # Manifests older than that may have been deleted as orphans.
        self._fold_ends = now + self._snapshots.deadline_s
        return self._fold


def _check_horizon(base: Snapshot, uploaded_ms: int | None) -> None:
    """Refuses files that a sweep of orphans may have deleted: their upload began before the horizon."""
    horizon = base.orphan_horizon_ms
    if horizon is not None and uploaded_ms is not None and uploaded_ms - _HORIZON_SLACK_MS < horizon:
        raise ConflictError(
            f"files of this commit were uploaded too long ago: snapshot {base.id} lets uploads from before "
            f"{horizon} be removed as orphans. Write the rows again.",
            snapshot=base.id,
            uploaded_ms=uploaded_ms,
            horizon_ms=horizon,
        )
