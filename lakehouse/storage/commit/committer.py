"""Commits: one create-if-absent, decided against the head, tried again behind whoever was first.

A commit is a :class:`Change`: an object that says, for a given head, what to change. Most changes say
the same for every head (blind writes); those that read decide again. Whatever head the commit ends
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
from lakehouse.format.metadata import FileEntry, SegmentRange, Snapshot, encode_snapshot
from lakehouse.ids import new_token
from lakehouse.io.protocols import Fetched, Stored
from lakehouse.io.store import ObjectStore
from lakehouse.storage.commit.draft import Draft, child_of
from lakehouse.storage.commit.fold import Fold, fold_is_due, plan_fold
from lakehouse.storage.commit.spilled_manifest import SpilledManifest, write_manifest
from lakehouse.storage.files.rebucket import Resplit
from lakehouse.storage.metadata.manifests import Manifests, placed
from lakehouse.storage.metadata.schemas import Schemas
from lakehouse.storage.metadata.snapshots import Head, History
from lakehouse.storage.wal.log import Wal
from lakehouse.storage.wal.segment_runs import SegmentRuns
from lakehouse.storage.wal.tail import Tail, covered

__all__ = ["Base", "Change", "Committed", "Committer"]

_ASIDE = 4.0
"""Attempts' worth of time that whoever lost twice waits at most; found with four writers at once."""
_ASIDE_MAX_S = 1.0
_EXPIRED_MAX = 3
"""Newer heads that a change is decided against when something is missing of the one before."""
_HORIZON_SLACK_MS = 15 * 60_000
"""A store's Date may lag behind the moment an upload began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The head a change is decided against."""

    snapshot: Snapshot
    manifests: Manifests
    attempt: int
    """0 for the first."""
    tail: Tail | None = None
    """What the commit covers of the write-ahead log; None in a table without one."""
    runs: SegmentRuns
    schemas: Schemas

    async def files(self) -> tuple[FileEntry, ...]:
        """The live files."""
        return await self.manifests.entries(self.snapshot)

    @property
    def segments(self) -> tuple[SegmentRange, ...]:
        """The WAL segments that the commit finds covered or covers itself."""
        return covered(self.snapshot, self.tail, at=self.snapshot.id + 1)

    async def entries(self) -> tuple[FileEntry, ...]:
        """All runs the commit's own rows come after: live files, and WAL segments it covers."""
        files, segments = await self.files(), self.segments
        if not segments:
            return files
        schema = (await self.schemas.read(self.snapshot.schema)).schema
        return (*files, *await self.runs.entries(segments, schema))


class Change(Protocol):
    """What a commit wants."""

    @property
    def blind(self) -> bool:
        """Whether it wants the same of every head, so that it need not begin with the newest."""
        ...

    async def draft(self, base: Base) -> Draft | None:
        """What to change against this head; None = nothing needs to be changed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The outcome of a commit."""

    snapshot: Snapshot
    """The snapshot that was made, or the head when nothing had to be changed."""
    changed: bool
    attempts: int = 1


@dataclass(slots=True, kw_only=True)
class _Call:
    """One logical commit, whatever snapshot it ends up as."""

    change: Change
    token: str
    writer: tuple[str, int] | None
    uploaded_ms: int | None
    tail: Tail | None
    resplit: Resplit
    undrops: bool
    expired: int = 0
    """Attempts that found something missing of a head that was not the newest any more."""


class Committer:
    """Commits to one table.

    Args:
        store: where the table is.
        root: its directory.
        history: its snapshots.
        manifests: its files.
        schemas: its schemas.
        wal: its write-ahead log.
        runs: the rows of the log.
        clock: measures the deadline.
        guard: refuses every attempt once something acknowledged was found lost.
    """

    def __init__(
        self,
        store: ObjectStore,
        root: str,
        *,
        history: History,
        manifests: Manifests,
        schemas: Schemas,
        wal: Wal,
        runs: SegmentRuns,
        clock: Clock,
        guard: Callable[[], Awaitable[None]],
    ) -> None:
        self._store, self._root = store, root
        self._history, self._manifests, self._schemas = history, manifests, schemas
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
        uploaded_ms: int | None = None,
        max_retries: int = 10,
        tail: Tail | None = None,
        undrops: bool = False,
    ) -> Committed:
        """Makes the change, behind whatever others commit meanwhile.

        Args:
            change: what to do.
            writer: (id, sequence): committed at most once for a sequence of that id.
            uploaded_ms: when the first upload of its files was answered, by the store's clock.
            max_retries: attempts that may come second before a change that is not blind gives up;
                blind ones go on until the deadline.
            tail: of the write-ahead log, read after the user's call began; None = not read yet.
            undrops: the change may follow a drop.
        """
        resplit = Resplit(self._store, self._root)
        call = _Call(
            change=change,
            token=new_token(),
            writer=writer,
            uploaded_ms=uploaded_ms,
            tail=tail,
            resplit=resplit,
            undrops=undrops,
        )
        async with self._turn, resplit.settled():
            attempt, began = 0, self._clock.steady()
            head = await (self._history.known_head() if change.blind else self._history.head())
            while True:
                await self._guard()
                done = await self._attempt(call, head, attempt)
                if isinstance(done, Committed):
                    resplit.committed = done.changed
                    return done
                attempt += 1
                late = self._clock.steady() - began > self._history.deadline_s
                if attempt > max_retries and (late or not change.blind):
                    raise ConflictError(
                        f"{attempt} attempts to commit to {self._root} each came second; the head is "
                        f"snapshot {done.snapshot.id} now. Try again, or raise commit.max_retries.",
                        snapshot=done.snapshot.id,
                    )
                head = done

    async def _attempt(self, call: _Call, head: Head, attempt: int) -> Committed | Head:
        """One attempt: what was committed, or the head that was there before."""
        base, writer = head.snapshot, call.writer
        if not call.undrops:
            self._history.check_live(base)
        if writer is not None:
            recorded = await self._recorded(base, writer)
            if recorded is not None:
                return Committed(snapshot=recorded, changed=False, attempts=attempt)
        _check_horizon(base, call.uploaded_ms)
        try:
            child = await self._child(call, base, attempt)
        except (FormatError, NotFoundError):
            # What it decides from may have expired while it was held up.
            call.expired += 1
            newer = await self._history.newer_than(base.id) if call.expired <= _EXPIRED_MAX else None
            if newer is None:
                raise
            return newer
        if child is None:
            return Committed(snapshot=base, changed=False, attempts=attempt)
        if self._clock.steady() - head.seen_at > self._history.deadline_s:
            # Nothing was sent: look again.
            self._history.forget()
            return await self._history.head()
        began = self._clock.steady()
        try:
            stored = await self._append(child, writer)
        except ConflictError as lost:
            if attempt % 2:
                await self._step_aside(self._clock.steady() - began)
            return await self._behind(lost, head, hurry=call.change.blind and attempt % 2 == 0)
        self._history.time.learn(stored.store_time_ms)
        if self._clock.steady() - head.seen_at > self._history.deadline_s:
            self._history.forget()
            return await self._settle_late(child, writer)
        self._history.note(child, head.seen_at)
        self._history.hint()
        return Committed(snapshot=child, changed=True, attempts=attempt + 1)

    async def _child(self, call: _Call, base: Snapshot, attempt: int) -> Snapshot | None:
        """The snapshot to create behind a head; None when nothing needs to be changed."""
        if base.wal is not None and call.tail is None:
            call.tail = await self._wal.tail(base)
        draft = await call.change.draft(
            Base(
                snapshot=base,
                manifests=self._manifests,
                attempt=attempt,
                tail=call.tail,
                runs=self._runs,
                schemas=self._schemas,
            )
        )
        if draft is None:
            if call.writer is None:
                return None
            raise InternalError("a commit that carries a sequence must leave a snapshot")
        _check_horizon(base, draft.uploaded_ms)
        draft = await self._fitting(base, draft, call)
        return child_of(
            base,
            draft,
            token=call.token,
            now_ms=await self._history.stamp_ms(base),
            fold=await self._folded(base) if draft.files is None else None,
            writer=call.writer,
            tail=call.tail,
        )

    async def _fitting(self, base: Snapshot, draft: Draft, call: _Call) -> Draft:
        """The draft with files of the head's number of buckets; refuses those of a schema that a rollback
        has undone meanwhile."""
        used = {one.schema_id for one in draft.added} - {base.schema.id}
        if not used:
            return draft
        found = await self._schemas.read(base.schema)
        known = {one.id for one in found.ancestors}
        if used - known:
            raise ConflictError(
                f"rows were written with schema {min(used - known)}, which is not among those before schema "
                f"{base.schema.id} of snapshot {base.id}: a rollback has undone it. Write the rows again.",
                snapshot=base.id,
                schema=min(used - known),
            )
        schema = found.schema
        if draft.schema is not None or not any(one.total_buckets != schema.buckets for one in draft.added):
            return draft
        if not schema.primary_key:
            return draft
        added = await call.resplit.fitting(draft.added, schema)
        manifest = await SpilledManifest(self._store, self._root).of(added, base)
        return dataclasses.replace(draft, added=added, manifest=manifest)

    async def _append(self, child: Snapshot, writer: tuple[str, int] | None) -> Stored:
        """Creates the snapshot; a caller that gives up meanwhile waits for the answer all the same."""
        stored: Stored | None = None
        note = None if writer is None else f"sequence {writer[1]} of writer {writer[0]!r}"
        with anyio.CancelScope(shield=True):
            stored = await self._history.log.append(
                child.id, encode_snapshot(child), token=child.token, note=note
            )
        assert stored is not None
        return stored

    async def _step_aside(self, took: float) -> None:
        """Waits a random part of what losing took, once somebody has lost twice in a row: those who lose
        together would go on doing so, and every loss costs two requests and all of them time."""
        if took > 0:
            await self._clock.sleep(random.uniform(0, min(_ASIDE * took, _ASIDE_MAX_S)))

    async def _behind(self, lost: ConflictError, head: Head, *, hurry: bool) -> Head:
        """The head after a lost race for the snapshot behind ``head``.

        In a hurry it is the winner, unseen whether others came after it: creating the next snapshot
        finds out as well as a listing does, and a writer that looks first is late again, since those
        who win do not have to look. Every other time the listing makes up for all that was missed.
        """
        winner = lost.context.get("winner")
        began = self._clock.steady()
        if not isinstance(winner, Fetched):
            return await self._history.head()
        if hurry:
            # Nothing says that the winner is the newest now. When ``head`` was, those behind it were not
            # there yet, so the deadline counts from then.
            return self._history.note(self._history.decoded(winner), head.seen_at)
        return self._history.note(await self._history.newest_from(winner), began)

    async def _settle_late(self, child: Snapshot, writer: tuple[str, int] | None) -> Committed:
        """The answer came too late to be believed: the id may have been used, expired and freed."""
        unread: LakehouseError | None = None
        if writer is not None:
            try:
                recorded = await self._recorded((await self._history.head()).snapshot, writer)
                if recorded is not None:
                    return Committed(snapshot=recorded, changed=True)
            except LakehouseError as error:
                unread = error
        raise CommitUnknownError(
            f"the answer to the commit of snapshot {child.id} of {self._root} came later than "
            f"commit.deadline_s ({self._history.deadline_s:g} s) after its head was read, so it proves "
            f"nothing. Look for token {child.token} among the snapshots; a commit with (writer, sequence) "
            "can be repeated.",
            snapshot=child.id,
            token=child.token,
        ) from unread

    async def _recorded(self, base: Snapshot, writer: tuple[str, int]) -> Snapshot | None:
        """The snapshot that has this sequence of the writer already."""
        mark = base.writers.get(writer[0])
        if mark is None or mark.sequence < writer[1]:
            return None
        try:
            return await self._history.snapshot(mark.snapshot, base)
        except (FormatError, NotFoundError):
            # Long expired; what it wrote is in the head.
            return base

    async def _folded(self, base: Snapshot) -> Fold | None:
        """The manifests that take over older entries, written; None when the head is short."""
        if not fold_is_due(base):
            return None
        now = self._clock.steady()
        if self._fold is not None and self._fold.fits(base) and now < self._fold_ends:
            return self._fold
        lists = await self._manifests.listed(base, base.manifests)
        listed = {ref.path: found for ref, found in zip(base.manifests, lists, strict=True)}
        fold = plan_fold(base, [placed(one, base.id) for one in base.added], listed)
        if fold is None:
            return None
        refs = [await write_manifest(self._store, self._root, base, entries) for entries in fold.outputs]
        self._fold = dataclasses.replace(fold, manifests=tuple(refs))
        # Older ones may have been swept away as orphans.
        self._fold_ends = now + self._history.deadline_s
        return self._fold


def _check_horizon(base: Snapshot, uploaded_ms: int | None) -> None:
    horizon = base.orphan_horizon_ms
    if horizon is not None and uploaded_ms is not None and uploaded_ms - _HORIZON_SLACK_MS < horizon:
        raise ConflictError(
            f"files of this commit were uploaded too long ago: snapshot {base.id} lets uploads from before "
            f"{horizon} be removed as orphans. Write the rows again.",
            snapshot=base.id,
            uploaded_ms=uploaded_ms,
            horizon_ms=horizon,
        )
