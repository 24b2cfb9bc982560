"""Which entry goes when bytes are short: S3-FIFO's queues with counted history.

A new entry joins the *small* queue, which holds a twentieth of the bytes. What is asked
for while it waits there moves to the *main* queue; the rest must beat the coldest main
entry by what its next miss would cost per byte held, going by how often both were asked
for before. A heavy entry, which would drive many others out of the small queue, must do
so at once. The main queue gives entries that were hit another round. A hit only raises
the entry's ``freq`` (the region does it, in line); queues and counts are touched by
misses alone, so the warm path has no bookkeeping to speak of.

Invariants: queues of one kind are evicted in one order over all regions, oldest head
first; no entry of a group is taken while the group weighs no more than its floor; the
choice takes bounded work. Figures and rejected policies: docs/design/0004-cache-eviction.md.
"""

from __future__ import annotations

from typing import Any

from lakehouse.cache.lanes import Entry, Group, Lane, Order, Source

__all__ = [
    "DEFENCES_MAX",
    "FREQ_MAX",
    "HEAVY_BYTES_MIN",
    "HEAVY_PART",
    "PROMOTIONS_MAX",
    "REQUEST_BYTES",
    "SECOND_CHANCES_MAX",
    "SMALL_PART",
    "Eviction",
]

FREQ_MAX = 3
"""Hits counted on an entry between two looks of the eviction."""
SMALL_PART = 20
"""The small queue holds one part in so many."""
HEAVY_PART = 64
"""An entry is heavy when fewer than so many of its weight fill the small queue."""
HEAVY_BYTES_MIN = 32 * 1024
"""No entry up to this is heavy, however small the limit is."""
REQUEST_BYTES = 256 * 1024
"""A miss costs a request and its bytes; the request is worth this many of them."""
SECOND_CHANCES_MAX = 256
"""Hit entries passed over in one search for a cold one; bounds the pause."""
PROMOTIONS_MAX = 256
"""Entries moved on in one search; bounds the pause."""
DEFENCES_MAX = 64
"""Candidates that the coldest entry may beat before the one behind it is looked at."""

_COUNT_MAX = 15
_COUNTERS_PER_ENTRY = 8
_HALVED = bytes(count // 2 for count in range(256))
_SPREAD = 0x9E3779B97F4A7C15


class _Counts:
    """How often keys were asked for, approximately: one small counter per hashed key, halved
    from time to time. Colliding keys share a counter; it errs upwards."""

    __slots__ = ("_added", "_mask", "_table")

    def __init__(self) -> None:
        self._table = bytearray(1024)
        self._mask = len(self._table) - 1
        self._added = 0

    def add(self, key_hash: int, times: int = 1) -> None:
        place = (key_hash * _SPREAD >> 32) & self._mask
        count = self._table[place] + times
        self._table[place] = count if count < _COUNT_MAX else _COUNT_MAX
        self._added += times
        if self._added >= 2 * len(self._table):
            self._table = self._table.translate(_HALVED)
            self._added //= 2

    def of(self, key_hash: int) -> int:
        return self._table[(key_hash * _SPREAD >> 32) & self._mask]

    def fit(self, entries: int) -> None:
        """Doubles the table when it is small for so many entries; counts keep their place."""
        if entries * _COUNTERS_PER_ENTRY > len(self._table):
            self._table *= 2
            self._mask = len(self._table) - 1


class Eviction:
    """The queues of all regions under one limit."""

    __slots__ = (
        "_counts", "_epoch", "_epoch_bytes", "_epoch_left", "_heavy_bytes", "_lost", "_main_max",
        "_small_max", "main", "small",
    )  # fmt: skip

    def __init__(self, max_bytes: int) -> None:
        self.small = Order(parks=False)
        self.main = Order(parks=True)
        self._counts = _Counts()
        self._lost = 0
        """Candidates in a row that were not worth as much as the coldest entry."""
        # Ages are coarse on purpose: entries of an epoch share one int object, and a
        # thousandth of the budget is as fine an order between regions as anyone needs.
        self._epoch = 0
        self._epoch_bytes = self._epoch_left = max(1, max_bytes >> 10)
        self._small_max = max_bytes // SMALL_PART
        self._main_max = max_bytes - self._small_max
        self._heavy_bytes = max(HEAVY_BYTES_MIN, self._small_max // HEAVY_PART)

    def admit(self, entry: Entry, small: Lane) -> bool:
        """Takes in a new entry; the caller then makes room. False: a heavy one is refused.

        Heavy entries would drive all others out of the small queue while they wait there,
        so they are judged at once.
        """
        entry.freq = 0
        self._counts.add(hash(entry.key))
        if entry.weight <= self._heavy_bytes:
            self._append(entry, small)
            self._move_on()
        elif self._earns_its_place(entry, small.group):
            self._append(entry, small.onward)
        else:
            return False
        self._counts.fit(self.small.count + self.main.count)
        return True

    def lanes(self, group: Group, owner: Any) -> tuple[Lane, Lane]:
        """The small and the main queue of a new region."""
        main = Lane(self.main, group, owner)
        return Lane(self.small, group, owner, main), main

    def victim(self, small: Source, main: Source, limit: int) -> tuple[Any, Entry]:
        """Takes out the entry to lose next, of all regions or of one; there must be one.
        Returns the owner with it."""
        small_max = limit // SMALL_PART
        promoted = 0
        while True:
            # The one entry that just came in stays for a round, however small the limit is.
            lane = small.oldest() if small.weight > small_max and small.count > 1 else None
            if lane is None:
                coldest = self._coldest(main)
                if coldest is not None:
                    return coldest.owner, coldest.pop()
                lane = small.oldest()
            assert lane is not None, "nothing to evict although the weight is over the limit"
            candidate = lane.pop()
            welcome = candidate.freq or main.weight + candidate.weight <= limit - small_max
            if (small.guarded and lane.group.protected) or (welcome and promoted < PROMOTIONS_MAX):
                self._promote(candidate, lane)
                promoted += 1
                continue
            coldest = self._coldest(main)
            if coldest is None or not self._beats(candidate, coldest):
                return lane.owner, candidate
            cold = coldest.pop()
            self._promote(candidate, lane)
            return coldest.owner, cold

    def _coldest(self, main: Source) -> Lane | None:
        """The lane whose head goes next; hit heads before it get another round."""
        lane = main.oldest()
        for _ in range(SECOND_CHANCES_MAX):
            head = lane.head() if lane is not None else None
            if lane is None or head is None or not head.freq:
                break
            head.freq -= 1
            self._counts.add(hash(head.key))
            self._append(lane.pop(), lane)
            lane = main.oldest()
        return lane

    def _move_on(self) -> None:
        """As long as there is room, what has waited long enough goes to the main queues: a
        little with each new entry, not all at once when the room is used up."""
        for _ in range(2):
            lane = self.small.oldest() if self.small.weight > self._small_max else None
            head = lane.head() if lane is not None else None
            if lane is None or head is None or self.main.weight + head.weight > self._main_max:
                return
            self._promote(lane.pop(), lane)

    def _earns_its_place(self, heavy: Entry, group: Group) -> bool:
        if group.weight + heavy.weight <= group.floor:
            return True
        if self.main.weight + heavy.weight <= self._main_max:
            return True
        coldest = self._coldest(self.main)
        return coldest is None or self._beats(heavy, coldest)

    def _beats(self, candidate: Entry, coldest: Lane) -> bool:
        """Whether misses of the candidate would cost more, per byte it holds."""
        cold = coldest.head()
        assert cold is not None
        gain = self._counts.of(hash(candidate.key)) * (candidate.weight + REQUEST_BYTES)
        loss = self._counts.of(hash(cold.key)) * (cold.weight + REQUEST_BYTES)
        if gain * cold.weight > loss * candidate.weight:
            self._lost = 0
            return True
        self._lost += 1
        if self._lost >= DEFENCES_MAX:
            self._lost = 0
            self._append(coldest.pop(), coldest)
        return False

    def _promote(self, entry: Entry, small: Lane) -> None:
        if entry.freq:
            self._counts.add(hash(entry.key), entry.freq)
            entry.freq = 0
        self._append(entry, small.onward)

    def _append(self, entry: Entry, lane: Lane) -> None:
        self._epoch_left -= entry.weight
        if self._epoch_left < 0:
            self._epoch += 1
            self._epoch_left = self._epoch_bytes
        lane.append(entry, self._epoch)
