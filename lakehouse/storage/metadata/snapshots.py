"""A table's snapshots: the newest, one by id, one by time.

Invariant: what is handed out was read from the object of that id, belongs to this table, and is not
below the head's ``earliest`` (tagged snapshots aside). The head is never older than the call, and whoever
looks for it from scratch takes none for it that is older than one which ``LATEST`` says was acknowledged.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from lakehouse.cache import CacheRegion
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
)
from lakehouse.io.protocols import Fetched
from lakehouse.io.store import ObjectStore
from lakehouse.storage.metadata.dense_log import DenseLog
from lakehouse.storage.metadata.paths import LATEST, SNAPSHOT_PREFIX, join
from lakehouse.storage.metadata.store_clock import StoreTime, ask_store_ms

__all__ = ["Head", "History", "Spawn"]

_HINT_EVERY_S = 1.0
_LOOKS = 3
"""How often the newest snapshot is looked for when answers take longer than the deadline."""

Spawn = Callable[..., bool]
"""``spawn(function, *args)``: runs an async function beside everything else; with ``optional=True`` one that
is cancelled instead of waited for when its owner ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A snapshot that was the newest."""

    snapshot: Snapshot
    seen_at: float
    """When that was true at the latest, by the steady clock."""


class History:
    """Reads the snapshots of one table.

    Args:
        store: where the table is.
        root: its directory.
        table: its uuid.
        clock: measures how old knowledge is.
        deadline_s: knowledge older than this is not built upon.
        cache: snapshots by (root, id).
        spawn: starts work that nobody waits for; None = hints are not written.
        time: what is known of the store's clock; None = nothing is yet.
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
        self.time = time or StoreTime(clock, store.url)
        self._store, self.root, self._table = store, root, table
        self._clock, self._cache = clock, cache
        self.deadline_s = deadline_s
        self._deadline_of = 0
        self._head: Head | None = None
        self._spawn = spawn
        self._hinted_at = -_HINT_EVERY_S

    # --- the head -----------------------------------------------------------------

    async def known_head(self) -> Head:
        """The newest snapshot this process knows, if it knew it not too long ago: costs nothing.

        Good enough to build a commit on: if it is not the head, the create fails."""
        known = self._head
        # A dropped table may have been brought back.
        is_dropped = known is not None and known.snapshot.kind is CommitKind.DROP
        if known is not None and not is_dropped and not self.is_late(known.seen_at):
            return known
        return await self.head()

    async def head(self) -> Head:
        """The newest snapshot, as of some moment after the call."""
        began = self._clock.steady()
        known = self._head
        # "There is no n+1" proves nothing later: n+1 may have been made, expired and deleted since.
        if known is not None and not self.is_late(known.seen_at):
            following = await self.log.find(known.snapshot.id + 1)
            if following is not None:
                return self.note(await self.newest_from(following), began)
            if not self.is_late(known.seen_at):
                return self.note(known.snapshot, began)
            began = self._clock.steady()
        return self.note(await self._discover(), began)

    def adopt_deadline(self, deadline_s: float, *, snapshot: int) -> None:
        """Takes over ``commit.deadline_s`` as a snapshot has it, unless a newer snapshot's is in force.

        Commits of views of several ages share this history. An older view must not judge by a longer
        deadline what was learnt under a shorter one.
        """
        if snapshot >= self._deadline_of:
            self.deadline_s, self._deadline_of = deadline_s, snapshot

    async def newest_from(self, fetched: Fetched) -> Snapshot:
        """The newest snapshot, given the object of one that is newer than those known."""
        one = self.decoded(fetched)
        return await self._newest(after=one.id) or one

    def note(self, snapshot: Snapshot, seen_at: float) -> Head:
        """Remembers what was the head at that moment; older news change nothing."""
        known = self._head
        if known is None or (known.snapshot.id, known.seen_at) < (snapshot.id, seen_at):
            self._head = known = Head(snapshot=snapshot, seen_at=seen_at)
        return known

    async def outlives(self, snapshot: int, *, segment: int | None = None) -> Head | None:
        """The head when what a reader has of a snapshot may be deleted; None when not, or when unreadable.

        Args:
            snapshot: its id.
            segment: the first segment of the write-ahead log that is read above it; None = none is.
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
        """The head, looked for from scratch, when it is above a snapshot; None when not, or unreadable."""
        # Where something is missing already, that there is no n+1 proves nothing.
        self.forget()
        try:
            head = await self.head()
        except LakehouseError:
            return None
        return head if head.snapshot.id > snapshot else None

    def forget(self) -> None:
        """The next call looks for itself."""
        self._head = None

    async def _discover(self) -> Snapshot:
        hint = await self._hint()
        newest = await self._newest(after=max(hint.snapshot - 1, 0))
        if newest is None and hint.snapshot > 1:
            newest = await self._newest()
        if newest is None:
            raise self._no_table()
        if newest.id >= hint.snapshot or hint.token is None:
            return newest
        found = await self._second_look(hint)
        if found is None:
            raise self._lost(hint, newest.id)
        return found

    async def _second_look(self, hint: Hint) -> Snapshot | None:
        """The newest snapshot, from the one on that a hint names; None when that is gone.

        Listings may lag behind: the object itself is asked for, and then they are asked again."""
        found = await self.log.find(hint.snapshot)
        if found is not None:
            return await self.newest_from(found)
        return await self._newest(after=hint.snapshot - 1)

    async def lost_above(self, newest: int) -> Hint | None:
        """The hint when the snapshot that it names was acknowledged, is above the newest, and is gone."""
        hint = await self._hint()
        if hint.token is None or hint.snapshot <= newest or await self._second_look(hint) is not None:
            return None
        return hint

    def _lost(self, hint: Hint, newest: int) -> CorruptionError:
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
        """The newest above an id; None when there is none."""
        for _ in range(_LOOKS):
            began = self._clock.steady()
            numbers = await self.log.highest(after=after)
            for number in numbers:
                found = await self._find(number)
                if found is not None:
                    return found
                if self.is_late(began):
                    break  # it may have been there, and have expired since it was listed
            else:
                if len(numbers) > 1:
                    raise self._missing(numbers[-1])
                return None
        raise UnavailableError(
            f"the newest snapshot of {self.root} cannot be told: {_LOOKS} times, an answer took longer than "
            f"commit.deadline_s ({self.deadline_s:g} s). Try again when the store is quicker.",
            kind="timeout",
            key=self.root,
        )

    def is_late(self, since: float) -> bool:
        """Whether so much time has passed that what is absent may have been there in between."""
        return self._clock.steady() - since >= self.deadline_s

    def _no_table(self) -> NotFoundError:
        return NotFoundError(
            f"there is no table at {self._store.url}/{self.root}: it has no snapshot", key=self.root
        )

    async def _hint(self) -> Hint:
        try:
            return decode_hint((await self._store.get(join(self.root, LATEST))).data, self._table)
        except NotFoundError:
            return NO_HINT

    def hint(self) -> None:
        """Tells later readers where to begin: at most once a second, beside other work; nothing needs it."""
        now = self._clock.steady()
        if self._head is None or self._spawn is None or now - self._hinted_at < _HINT_EVERY_S:
            return
        self._hinted_at = now
        newest = self._head.snapshot
        self._spawn(self._write_hint, encode_hint(newest.id, newest.token, self._table))

    async def _write_hint(self, data: bytes) -> None:
        with contextlib.suppress(LakehouseError):
            await self._store.put(join(self.root, LATEST), data)

    # --- the store's clock --------------------------------------------------------

    async def stamp_ms(self, head: Snapshot) -> int:
        """The time to stamp a snapshot with: the store's, which is asked where no answer has told it yet."""
        if not self.time.is_known:
            self.time.learn((await self._store.head(self.log.key(head.id))).store_time_ms)
            self.time.is_known = True
        return self.time.now_ms()

    async def store_now_ms(self, head: Snapshot) -> int:
        """The store's clock as of now, by a request of its own; the machine's where nothing tells it."""
        told = await ask_store_ms(self._store, self.root, self.log.key(head.id))
        self.time.learn(told)
        return told if told is not None else self.time.now_ms()

    # --- others -------------------------------------------------------------------

    async def newest_sound(self) -> Snapshot:
        """The newest snapshot that can be read, for whom an older one will do while the head is damaged."""
        damaged: FormatError | None = None
        for number in reversed([one async for one, _ in self.log.sizes()]):
            try:
                return await self._read(number)
            except FormatError as error:
                damaged = error
        raise damaged or self._no_table()

    async def snapshot(self, number: int, head: Snapshot) -> Snapshot:
        """The snapshot of that id, as far as the head still has it."""
        kept = any(ref.snapshot == number for ref in head.refs.values())
        if not (head.earliest <= number <= head.id or (kept and number <= head.id)):
            raise NotFoundError(
                f"table {self.root} has no snapshot {number}: it has {head.earliest} to {head.id}"
                + (f" and tagged ones: {_tagged(head)}" if head.refs else ""),
                snapshot=number,
            )
        return head if number == head.id else await self._read(number)

    async def at_time(self, time_ms: int, head: Snapshot) -> Snapshot:
        """The last snapshot whose time is not after this one."""
        if time_ms >= head.time_ms:
            return head
        low = await self._read(head.earliest) if head.earliest < head.id else head
        if time_ms < low.time_ms:
            raise NotFoundError(
                f"table {self.root} has no snapshot as old as {_said(time_ms)}: "
                f"the earliest, {low.id}, is of {_said(low.time_ms)}",
                time_ms=time_ms,
            )
        found, first, last = low, low.id + 1, head.id - 1
        while first <= last:
            middle = (first + last) // 2
            one = await self._read(middle)
            if one.time_ms <= time_ms:
                found, first = one, middle + 1
            else:
                last = middle - 1
        return found

    async def _read(self, number: int) -> Snapshot:
        found = await self._find(number)
        if found is None:
            raise self._missing(number)
        return found

    async def _find(self, number: int) -> Snapshot | None:
        async def load(_: tuple[str, int]) -> Snapshot | None:
            fetched = await self.log.find(number)
            return None if fetched is None else self.decoded(fetched)

        return await self._cache.get((self.root, number), load)

    def _missing(self, number: int) -> CorruptionError:
        key = self.log.key(number)
        return CorruptionError(
            f"snapshot {number} of {self.root} is missing: its object {key} is gone",
            key=key,
            snapshot=number,
        )

    def decoded(self, fetched: Fetched) -> Snapshot:
        """The snapshot in an object that was read; an error when it is not what its key says."""
        self.time.learn(fetched.store_time_ms)
        found = decode_snapshot(fetched.data, key=fetched.key)
        number = self.log.number(fetched.key)
        if self.log.ours is not None and found.parent is not None and found.table == self._table:
            self.log.ours.saw_parent(found.parent.id, found.parent.token)
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
        return found

    def check_live(self, head: Snapshot) -> Snapshot:
        """The head itself unless the table was dropped."""
        if head.kind is CommitKind.DROP:
            raise NotFoundError(
                f"table {self.root} was dropped by snapshot {head.id}: bring it back (undrop_table) until it "
                "is purged, or open the table that has its name now",
                key=self.root,
                snapshot=head.id,
            )
        return head


def _said(time_ms: int) -> str:
    """A moment for people."""
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).isoformat(" ", "milliseconds")


def _tagged(head: Snapshot) -> str:
    return ", ".join(f"{name} = {ref.snapshot}" for name, ref in sorted(head.refs.items()))
