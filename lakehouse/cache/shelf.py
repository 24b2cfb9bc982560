"""The values one cache holds, with their ages, weights, tags and prefixes.

Invariants: every entry is in the dictionary, in the ledger and under its labels, or in
none of them; an older version never replaces a newer one. Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from lakehouse.cache.labels import Labels, begins_with
from lakehouse.cache.lanes import Entry, TimedEntry
from lakehouse.cache.ledger import Ledger
from lakehouse.cache.spec import CacheSpec
from lakehouse.cache.stats import Counters
from lakehouse.cache.weigh import ENTRY_BYTES, TIME_BYTES, TIMED_ENTRY_BYTES, weigh
from lakehouse.clock import Clock
from lakehouse.errors import InvalidInputError

__all__ = ["DUE", "FRESH", "OUT", "Shelf"]

OUT, FRESH, DUE = range(3)
"""Ages of an entry: not to be served, to be served, to be served and refreshed."""

_NEVER = float("inf")
_BIRTHS_S = 1.0
"""Entries born within so many seconds share the object that says when."""
_BACKOFF_MAX = 64
"""A refresh that goes on failing waits at most so many times as long as after its first failure."""


class Shelf:
    """Entries by key, for one region."""

    __slots__ = (
        "_born", "_entry_bytes", "_ledger", "_prefixes", "_spec", "_steady", "_tags", "account", "counters",
        "entries",
    )  # fmt: skip

    def __init__(self, spec: CacheSpec, *, group: str, ledger: Ledger, clock: Clock) -> None:
        self._spec = spec
        self._ledger = ledger
        self._steady = clock.steady
        self._entry_bytes = _entry_bytes(spec)
        self._tags = Labels()
        self._prefixes = Labels()
        self._born = -_NEVER
        self.entries: dict[Any, Any] = {}
        """Entry by key, oldest value first; of class TimedEntry when the spec is timed."""
        self.account = ledger.open(self, group, spec.max_bytes)
        self.counters = Counters()

    def age(self, entry: TimedEntry) -> int:
        """``OUT`` (and no longer held), ``FRESH`` or ``DUE``; an access, which delays expiry."""
        now = self._steady()
        if now >= entry.expires:
            self._remove(entry)
            self.counters.expirations += 1
            return OUT
        self._touch(entry, now)
        if now < entry.refresh_at:
            return FRESH
        self.counters.stale_serves += 1
        return DUE

    def is_older(self, key: Any, value: Any) -> bool:
        """Whether a newer version than ``value`` is held; counts it as a stale put."""
        version = self._spec.version
        entry = self.entries.get(key)
        if version is None or entry is None or not version(value) < version(entry.value):
            return False
        self.counters.stale_puts += 1
        return True

    def store(self, key: Any, value: Any, tags: Sequence[Hashable], born: float) -> bool:
        """Holds the value, true of a moment not before ``born``, in place of what is there.

        False when it is too heavy, or not worth its bytes.
        """
        if self._spec.prefix_length and not isinstance(key, tuple):
            raise InvalidInputError(
                f"cache {self._spec.name!r} indexes its keys by prefix, so they are tuples; {key!r} is none",
                cache=self._spec.name,
                key=key,
            )
        if self._spec.tags is not None:
            tags = (*tags, *self._spec.tags(key, value))
        tags = tuple(dict.fromkeys(tags))
        weight = self._entry_bytes + weigh(key) + self._spec.weigh(value) + (weigh(tags) if tags else 0)
        if weight > self._ledger.limit(self.account):
            self.counters.rejects += 1
            self.drop((key,))
            return False
        entry = self.entries.get(key)
        if entry is None:
            entry = TimedEntry() if self._spec.timed else Entry()
            entry.key, entry.weight = key, weight
            if not self._ledger.admit(self.account, entry):
                self.counters.rejects += 1
                return False
            self.entries[key] = entry
            self._label(entry, tags)
        else:
            self._ledger.resize(self.account, entry, weight)
            self.entries[key] = self.entries.pop(key)
            if entry.tags != tags:
                self._unlabel(entry)
                self._label(entry, tags)
        entry.value = value
        if born - self._born >= _BIRTHS_S or born < self._born:
            self._born = born
        entry.born = self._born
        if isinstance(entry, TimedEntry):
            self._date(entry, born)
        self._ledger.settle(self.account)
        return entry.lane is not None

    def postpone_refresh(self, key: Any, seconds: float) -> None:
        """An entry that is still due although a refresh ended waits so long for the next one, and twice as
        long each time that it happens again."""
        entry = self.entries.get(key)
        now = self._steady()
        if entry is not None and entry.refresh_at <= now:
            entry.refresh_at = now + seconds * min(1 << entry.failures, _BACKOFF_MAX)
            entry.failures = min(entry.failures + 1, _BACKOFF_MAX)

    @property
    def oldest_s(self) -> float | None:
        """Age in seconds of the value that was loaded longest ago; None = nothing is held."""
        first = next(iter(self.entries.values()), None)
        return None if first is None else max(0.0, self._steady() - first.born)

    def drop(self, keys: Iterable[Any]) -> int:
        """Forgets the keys that are held, on somebody's word; says how many."""
        dropped = 0
        for key in keys:
            entry = self.entries.get(key)
            if entry is not None:
                self._remove(entry)
                dropped += 1
        self.counters.invalidations += dropped
        return dropped

    def clear(self) -> int:
        """Forgets everything, at once; says how many entries."""
        dropped = len(self.entries)
        self._ledger.clear(self.account)
        self.entries.clear()
        self._tags, self._prefixes = Labels(), Labels()
        self.counters.invalidations += dropped
        return dropped

    def expire(self) -> int:
        """Forgets all that is too old to be served; says how many."""
        now = self._steady()
        old = [entry for entry in self.entries.values() if entry.expires <= now] if self._spec.timed else []
        for entry in old:
            self._remove(entry)
        self.counters.expirations += len(old)
        return len(old)

    def evicted(self, entry: Entry) -> None:
        """Forgets an entry that the ledger took."""
        self._forget(entry)
        self.counters.evictions += 1

    def tagged(self, tag: Hashable) -> Sequence[Any]:
        """Keys of the entries that carry the tag."""
        return self._tags.keys(tag)

    def prefixed(self, prefix: tuple[Hashable, ...]) -> Sequence[Any]:
        """Keys that begin with these elements."""
        size, depth = len(prefix), self._spec.prefix_length
        if not depth:
            among: Iterable[Any] = self.entries
        elif size >= depth:
            among = self._prefixes.keys(prefix[:depth])
        else:
            labels = [label for label in self._prefixes.labels() if begins_with(label, prefix)]
            among = [key for label in labels for key in self._prefixes.keys(label)]
        return [key for key in among if begins_with(key, prefix)]

    def _date(self, entry: TimedEntry, born: float) -> None:
        spec = self._spec
        entry.expires_at_most = born + spec.expire_after_write_s if spec.expire_after_write_s else _NEVER
        entry.refresh_at = born + spec.refresh_after_write_s if spec.refresh_after_write_s else _NEVER
        entry.failures = 0
        self._touch(entry, self._steady())

    def _touch(self, entry: TimedEntry, now: float) -> None:
        """Notes an access. The next one is noted only after a 64th of the idle time, so that
        most hits write nothing; an entry may expire that much early, never late."""
        idle = self._spec.expire_after_access_s
        entry.expires = min(entry.expires_at_most, now + idle) if idle else entry.expires_at_most
        entry.calm_until = min(entry.expires, entry.refresh_at, now + idle / 64 if idle else _NEVER)

    def _label(self, entry: Entry, tags: tuple[Hashable, ...]) -> None:
        entry.tags = tags
        depth = self._spec.prefix_length
        if tags or depth:
            before = self._tags.weight + self._prefixes.weight
            for tag in tags:
                self._tags.add(tag, entry.key)
            if depth:
                self._prefixes.add(entry.key[:depth], entry.key)
            self._ledger.charge(self.account, self._tags.weight + self._prefixes.weight - before)

    def _unlabel(self, entry: Entry) -> None:
        depth = self._spec.prefix_length
        if entry.tags or depth:
            before = self._tags.weight + self._prefixes.weight
            for tag in entry.tags:
                self._tags.discard(tag, entry.key)
            if depth:
                self._prefixes.discard(entry.key[:depth], entry.key)
            self._ledger.charge(self.account, self._tags.weight + self._prefixes.weight - before)

    def _remove(self, entry: Entry) -> None:
        self._ledger.remove(self.account, entry)
        self._forget(entry)

    def _forget(self, entry: Entry) -> None:
        del self.entries[entry.key]
        self._unlabel(entry)
        # The queue may hold the entry a while longer, but not its value.
        entry.value = None


def _entry_bytes(spec: CacheSpec) -> int:
    """Bytes that an entry takes besides key and value."""
    if not spec.timed:
        return ENTRY_BYTES
    times = (
        bool(spec.expire_after_write_s)
        + 2 * bool(spec.expire_after_access_s)
        + bool(spec.refresh_after_write_s)
    )
    return TIMED_ENTRY_BYTES + TIME_BYTES * times
