"""Snapshots of a table: the newest, one by id, one by time.

Invariant: a returned snapshot was read from the object of its id, belongs to this table, and is not below
the head's ``earliest`` (tagged snapshots aside). The head is never older than the call, and a discovery from
scratch never returns a head older than the snapshot that ``LATEST`` names as acknowledged.
"""

from __future__ import annotations

import contextlib
import contextvars
import datetime as dt
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from lakehouse.cache import CacheRegion, identity_tags
from lakehouse.clock import Clock
from lakehouse.errors import (
    CorruptionError,
    FormatError,
    LakehouseError,
    NotFoundError,
    UnavailableError,
)
from lakehouse.format.metadata import (
    NO_HINT,
    CommitKind,
    Hint,
    Snapshot,
    decode_hint,
    decode_snapshot,
    encode_hint,
    encode_snapshot,
)
from lakehouse.io.protocols import Fetched, Stored
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import or_none
from lakehouse.storage.metadata.acknowledged import AcknowledgedSnapshots
from lakehouse.storage.metadata.dense_log import DenseLog
from lakehouse.storage.metadata.paths import LATEST, SNAPSHOT_PREFIX, join
from lakehouse.storage.metadata.shared_look import SharedLook
from lakehouse.storage.metadata.store_clock import StoreTime, ask_store_ms

__all__ = ["KEPT_S", "Head", "Snapshots", "Spawn"]

KEPT_S = 450.0
"""Seconds for which a look at the head vouches for the snapshots it keeps: a quarter of the least
``delete_grace_s``. What was kept then is deleted three quarters of the grace later at the earliest, and a
read that takes longer than half of it is pinned."""

_HINT_EVERY_S = 1.0
"""Minimum seconds between two hints of this process."""
_LOOKS = 3
"""Maximum number of looks for the newest snapshot when answers take longer than the deadline."""

Spawn = Callable[..., bool]
"""Function ``spawn(function, *args)`` that runs an async function in the background; with ``optional=True``
one that is cancelled instead of waited for when its owner ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Snapshot that was the newest at some moment."""

    snapshot: Snapshot
    seen_at: float
    """Latest moment at which it is known to have been the newest, by the steady clock in seconds."""


class Snapshots:
    """Reads the snapshots of one table.

    Args:
        store: store of the table.
        root: the table's directory.
        table: the table's uuid.
        clock: measures the age of knowledge.
        deadline_s: maximum age of knowledge that a commit may build upon, in seconds.
        cache: snapshots by (root, id).
        spawn: starts work that nobody waits for; None = hints are not written.
        time: knowledge about the store's clock; None = none yet.
    """

    def __init__(
        self,
        store: ObjectStore,
        root: str,
        *,
        table: uuid.UUID,
        clock: Clock,
        deadline_s: float,
        cache: CacheRegion[tuple[str, int], Snapshot],
        spawn: Spawn | None = None,
        time: StoreTime | None = None,
    ) -> None:
        self.log = DenseLog(store, join(root, SNAPSHOT_PREFIX))
        self.ours: AcknowledgedSnapshots | None = None
        """Record of the snapshots created here; None = they are not rechecked."""
        self.time = time or StoreTime(clock, store.url)
        self._store, self.root, self._table = store, root, table
        self._clock, self._cache = clock, cache
        self._tags = identity_tags(table)
        self.deadline_s = deadline_s
        self._deadline_of = 0
        self._head: Head | None = None
        self._shared_look = SharedLook(self._look)
        self._ahead_at = -KEPT_S
        """Moment at which the last look ahead of time began."""
        self._spawn = spawn
        self._hinted_at = -_HINT_EVERY_S

    # --- the head -----------------------------------------------------------------

    @property
    def known(self) -> Snapshot | None:
        """The newest snapshot that this process knows, however long ago it was seen; None = none."""
        return None if self._head is None else self._head.snapshot

    async def known_head(self) -> Head:
        """Returns the newest snapshot that this process knows, without a request while that is not too old.

        It is good enough to build a commit on: if it is not the head, the create fails.
        """
        known = self._head
        # A dropped table may have been brought back.
        is_dropped = known is not None and known.snapshot.kind is CommitKind.DROP
        if known is not None and not is_dropped and not self.is_late(known.seen_at):
            return known
        return await self.head()

    def head(self) -> Awaitable[Head]:
        """Returns the newest snapshot as of some moment after the call; concurrent calls share the look."""
        return self._shared_look()

    def seen_within(self, bound_s: float) -> Snapshot | None:
        """Returns the newest snapshot known if a look that began no longer ago than that has shown it.

        Makes no request. From half of the bound on, it looks again in the background. No look is good for
        longer than :data:`KEPT_S`, nor is one that found the table dropped, as it may have been brought back.
        """
        known, bound_s = self._head, min(bound_s, KEPT_S)
        if known is None or bound_s <= 0 or known.snapshot.kind is CommitKind.DROP:
            return None
        now = self._clock.steady()
        age_s = now - known.seen_at
        if age_s > bound_s:
            return None
        # One try in each half of a bound: who reads after it looks for himself, and gets the error if any.
        if 2 * age_s > bound_s and 2 * (now - self._ahead_at) > bound_s and self._spawn is not None:
            self._ahead_at = now
            # Without the caller's context: it pays for no request that it does not wait for.
            contextvars.Context().run(partial(self._spawn, self._look_ahead, optional=True))
        return known.snapshot

    async def _look_ahead(self) -> None:
        with contextlib.suppress(LakehouseError):
            await self.head()

    async def _look(self) -> Head:
        """Looks for the newest snapshot, from the one that is known on."""
        began = self._clock.steady()
        known = self._head
        # "There is no n+1" proves nothing later: n+1 may have been made, expired and deleted since.
        if known is not None and not self.is_late(known.seen_at):
            following = await self.log.find(known.snapshot.id + 1)
            if following is not None:
                return self.note(await self.newest_from(following), began)
            if not self.is_late(known.seen_at):
                return self.note(known.snapshot, began)
            # The answer took so long that it proves nothing: begin again, from a new moment.
            began = self._clock.steady()
        return self.note(await self._discover(), began)

    def adopt_deadline(self, deadline_s: float, *, snapshot: int) -> None:
        """Takes over ``commit.deadline_s`` from a snapshot's options, unless a newer snapshot's is in force.

        Commits of views of several ages share these snapshots. An older view must not judge by a longer
        deadline what was learnt under a shorter one.
        """
        if snapshot >= self._deadline_of:
            self.deadline_s, self._deadline_of = deadline_s, snapshot

    async def newest_from(self, fetched: Fetched) -> Snapshot:
        """Returns the newest snapshot, given the object of one that is newer than those known."""
        snapshot = self.decoded(fetched)
        return await self._newest(after=snapshot.id) or snapshot

    def note(self, snapshot: Snapshot, seen_at: float) -> Head:
        """Remembers the head of a moment, and returns the newest head known; older news change nothing."""
        known = self._head
        # The same snapshot seen later is news as well: commits may rely on it for longer.
        if known is None or (known.snapshot.id, known.seen_at) < (snapshot.id, seen_at):
            self._head = known = Head(snapshot=snapshot, seen_at=seen_at)
        return known

    async def outlives(self, snapshot: int, *, segment: int | None = None) -> Head | None:
        """Returns the head when objects that a reader of a snapshot needs may be deleted; None when not.

        None also when the head cannot be read.

        Args:
            snapshot: id of the snapshot that is read.
            segment: first segment of the write-ahead log that is read above it; None = none is.
        """
        head = await self.newer_than(snapshot)
        if head is None:
            return None
        newest = head.snapshot
        is_kept = newest.earliest <= snapshot or any(ref.snapshot == snapshot for ref in newest.refs.values())
        # Segments that no snapshot holds go once they are covered, however many snapshots are kept.
        is_flushed = segment is not None and newest.wal is not None and newest.wal.upto >= segment
        return None if is_kept and not is_flushed and newest.kind is not CommitKind.DROP else head

    async def newer_than(self, snapshot: int) -> Head | None:
        """Discovers the head from scratch and returns it when it is above a snapshot.

        None when it is not, or cannot be read.
        """
        # Where something is missing already, that there is no n+1 proves nothing.
        self.forget()
        try:
            # Not the shared look: another that is under way may bring back the head that was forgotten.
            head = await self._look()
        except LakehouseError:
            return None
        return head if head.snapshot.id > snapshot else None

    def forget(self) -> None:
        """Drops the known head, so that the next call discovers it anew."""
        self._head = None

    async def _discover(self) -> Snapshot:
        """Finds the head by a listing from the hint on.

        Raises:
            NotFoundError: there is no snapshot.
            CorruptionError: the acknowledged snapshot that the hint names is gone.
        """
        hint = await self._hint()
        # From one below the hint, so that a hint that is still right needs no second listing.
        newest = await self._newest(after=max(hint.snapshot - 1, 0))
        if newest is None and hint.snapshot > 1:
            # The listing may lag behind, or the hinted snapshot is lost: begin from the start.
            newest = await self._newest()
        if newest is None:
            raise self._no_table_error()
        # Only a hint with a token proves that its snapshot was acknowledged.
        if newest.id >= hint.snapshot or hint.token is None:
            return newest
        found = await self._second_look(hint)
        if found is None:
            raise self._lost_error(hint, newest.id)
        return found

    async def _second_look(self, hint: Hint) -> Snapshot | None:
        """Returns the newest snapshot from the one on that a hint names; None when that one is gone.

        Listings may lag behind: the object itself is read first, and then they are asked again.
        """
        fetched = await self.log.find(hint.snapshot)
        if fetched is not None:
            return await self.newest_from(fetched)
        return await self._newest(after=hint.snapshot - 1)

    async def lost_above(self, newest: int) -> Hint | None:
        """Returns the hint when it names an acknowledged snapshot above the newest whose object is gone."""
        hint = await self._hint()
        if hint.token is None or hint.snapshot <= newest or await self._second_look(hint) is not None:
            return None
        return hint

    def _lost_error(self, hint: Hint, newest: int) -> CorruptionError:
        key = self.log.key(hint.snapshot)
        return CorruptionError(
            f"snapshot {hint.snapshot} of {self.root} was committed, as {LATEST} says, and its object {key} "
            f"is gone; the newest there is is {newest}. Bring the object back from a backup, or let repair "
            f"(Table.repair, lakehouse table repair) say what is lost and go on from snapshot {newest}. "
            "Until then nothing is written, and older snapshots are read by their ids.",
            key=key,
            snapshot=hint.snapshot,
            newest=newest,
        )

    async def _newest(self, *, after: int = 0) -> Snapshot | None:
        """Returns the newest snapshot above an id; None when there is none."""
        for _ in range(_LOOKS):
            began = self._clock.steady()
            numbers = await self.log.highest(after=after)
            for number in numbers:
                snapshot = await self.find(number)
                if snapshot is not None:
                    return snapshot
                if self.is_late(began):
                    break  # it may have been there, and have expired since it was listed
            else:
                # Only the last listed object may come to nothing; the one below it must exist.
                if len(numbers) > 1:
                    raise self._missing_error(numbers[-1])
                return None
        raise UnavailableError(
            f"the newest snapshot of {self.root} was not found: {_LOOKS} times, an answer took longer than "
            f"commit.deadline_s ({self.deadline_s:g} s). Try again when the store is quicker.",
            kind="timeout",
            key=self.root,
        )

    def is_late(self, since: float) -> bool:
        """Returns whether the deadline has passed: an absent object may have existed in between."""
        return self._clock.steady() - since >= self.deadline_s

    def _no_table_error(self) -> NotFoundError:
        return NotFoundError(
            f"there is no table at {self._store.url}/{self.root}: it has no snapshot", key=self.root
        )

    async def _hint(self) -> Hint:
        fetched = await or_none(self._store.get(join(self.root, LATEST)))
        return NO_HINT if fetched is None else decode_hint(fetched.data, self._table)

    def hint(self) -> None:
        """Writes where later readers can begin their discovery: in the background, at most once a second.

        Nothing depends on it: without a hint a discovery lists from the start.
        """
        now = self._clock.steady()
        if self._head is None or self._spawn is None or now - self._hinted_at < _HINT_EVERY_S:
            return
        self._hinted_at = now
        newest = self._head.snapshot
        self._spawn(self._write_hint, encode_hint(newest.id, newest.token, self._table))

    async def _write_hint(self, data: bytes) -> None:
        # A lost hint costs later readers a longer listing, and must cost nobody a commit.
        with contextlib.suppress(LakehouseError):
            await self._store.put(join(self.root, LATEST), data)

    # --- new ones -----------------------------------------------------------------

    def remember(self) -> AcknowledgedSnapshots:
        """Begins to remember the snapshots that are created here, and returns the record of them."""
        self.ours = self.log.ours = AcknowledgedSnapshots()
        return self.ours

    async def append(self, child: Snapshot, *, note: str | None = None) -> Stored:
        """Creates a snapshot as :meth:`DenseLog.append` does.

        Args:
            child: the snapshot.
            note: a description of its content, for the error that reports it lost.
        """
        stored = await self.log.append(child.id, encode_snapshot(child), token=child.token, note=note)
        self._note_parent(child, stored.version)
        return stored

    # --- the store's clock --------------------------------------------------------

    async def stamp_ms(self, head: Snapshot) -> int:
        """Returns the store's time to stamp a snapshot with, asked for where no answer has had it yet."""
        if not self.time.is_known:
            self.time.learn((await self._store.head(self.log.key(head.id))).store_time_ms)
            # Also where the answer had no time: such a store is not asked again, and the machine's clock has
            # to do.
            self.time.is_known = True
        return self.time.now_ms()

    async def store_now_ms(self, head: Snapshot) -> int:
        """Returns the store's time by a request of its own; the machine's where the store gives none."""
        told = await ask_store_ms(self._store, self.root, self.log.key(head.id))
        self.time.learn(told)
        return told if told is not None else self.time.now_ms()

    # --- others -------------------------------------------------------------------

    async def newest_sound(self) -> Snapshot:
        """Returns the newest snapshot that can be read, for callers that can do with an older one."""
        damaged: FormatError | None = None
        # What is damaged is passed over, and blamed only where nothing sound is left.
        for number in reversed([listed async for listed, _ in self.log.sizes()]):
            try:
                return await self._read(number)
            except FormatError as error:
                damaged = error
        raise damaged or self._no_table_error()

    async def snapshot(self, number: int, head: Snapshot) -> Snapshot:
        """Returns the snapshot of that id; NotFoundError when it does not exist at the head any more."""
        # A tag keeps its snapshot alone: those around it expire all the same.
        if number > head.id or (number < head.earliest and not _is_kept(head, number)):
            raise NotFoundError(
                f"table {self.root} has no snapshot {number}: it has {head.earliest} to {head.id}"
                + (f" and tagged ones: {_tagged(head)}" if head.refs else ""),
                snapshot=number,
            )
        if number != head.id:
            return await self._read(number)
        if self._cache.get_if_present((self.root, number)) is None:
            # Who names it by its id will do so again when it is the newest no more.
            self._cache.put((self.root, number), head, tags=self._tags)
        return head

    async def at_time(self, time_ms: int, head: Snapshot) -> Snapshot:
        """Returns the last snapshot whose time is at or before this one, by binary search over the ids."""
        if time_ms >= head.time_ms:
            return head
        low = await self._read(head.earliest) if head.earliest < head.id else head
        if time_ms < low.time_ms:
            raise NotFoundError(
                f"table {self.root} has no snapshot as old as {_time_text(time_ms)}: "
                f"the earliest, {low.id}, is of {_time_text(low.time_ms)}",
                time_ms=time_ms,
            )
        # Times grow with the ids, since no snapshot is made with a time at or before its parent's.
        best, first, last = low, low.id + 1, head.id - 1
        while first <= last:
            middle = (first + last) // 2
            candidate = await self._read(middle)
            if candidate.time_ms <= time_ms:
                best, first = candidate, middle + 1
            else:
                last = middle - 1
        return best

    def keep(self, snapshot: Snapshot) -> None:
        """Puts a snapshot that was just created into the cache."""
        self._cache.put((self.root, snapshot.id), snapshot, tags=self._tags)

    async def _read(self, number: int) -> Snapshot:
        snapshot = await self.find(number)
        if snapshot is None:
            raise self._missing_error(number)
        return snapshot

    async def find(self, number: int) -> Snapshot | None:
        """Reads a snapshot, expired or not; None when there is no object of it."""

        # The cache keeps no absence: the number may be created at any moment.
        async def load(_: tuple[str, int]) -> Snapshot | None:
            fetched = await self.log.find(number)
            return None if fetched is None else self.decoded(fetched)

        return await self._cache.get((self.root, number), load, tags=self._tags)

    def _missing_error(self, number: int) -> CorruptionError:
        key = self.log.key(number)
        return CorruptionError(
            f"snapshot {number} of {self.root} is missing: its object {key} is gone; read another, or "
            "repair the table",
            key=key,
            snapshot=number,
        )

    def decoded(self, fetched: Fetched) -> Snapshot:
        """Decodes the snapshot in an object that was read; refuses one that does not belong at its key."""
        self.time.learn(fetched.store_time_ms)
        found = decode_snapshot(fetched.data, key=fetched.key)
        number = self.log.number(fetched.key)
        if found.id != number:
            raise CorruptionError(
                f"{fetched.key} holds snapshot {found.id}: the object was put in another's place",
                key=fetched.key,
                expected=number,
                got=found.id,
            )
        if found.table != self._table:
            raise CorruptionError(
                f"{fetched.key} belongs to table {found.table}, not to {self._table}",
                key=fetched.key,
                expected=str(self._table),
                got=str(found.table),
            )
        self._note_parent(found, fetched.version)
        return found

    def _note_parent(self, found: Snapshot, version: str | None) -> None:
        # Every snapshot shows whether the one before it, if it was ours, is still the one we wrote.
        if self.ours is not None and found.parent is not None:
            self.ours.saw_child(found.id, found.token, version, parent=found.parent.token)

    def check_live(self, head: Snapshot) -> Snapshot:
        """Returns the head; NotFoundError when the table was dropped."""
        if head.kind is CommitKind.DROP:
            raise NotFoundError(
                f"table {self.root} was dropped by snapshot {head.id}: bring it back (undrop_table) until it "
                "is purged, or open the table that has its name now",
                key=self.root,
                snapshot=head.id,
            )
        return head


def _time_text(time_ms: int) -> str:
    """Formats a time for messages: UTC, to the millisecond."""
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).isoformat(" ", "milliseconds")


def _is_kept(head: Snapshot, number: int) -> bool:
    return any(ref.snapshot == number for ref in head.refs.values())


def _tagged(head: Snapshot) -> str:
    return ", ".join(f"{name} = {ref.snapshot}" for name, ref in sorted(head.refs.items()))
