"""Eviction policies that the cache's own was chosen against, as small byte-weighted simulators.

Each policy answers one question, ``access(key, weight) -> hit``, admits on a miss and
never holds more than its capacity. They exist so that the figures of
``docs/design/0004-cache-eviction.md`` can be measured again; the engine uses none of them.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from typing import Any, Protocol

__all__ = ["POLICIES", "Clock", "Lru", "Policy", "S3Fifo", "SegmentedLru", "Sieve", "TinyLfu"]


class Policy(Protocol):
    """What a simulator asks of a policy."""

    def access(self, key: int, weight: int) -> bool:
        """Whether the key was held; after a miss it is, unless the policy refuses it."""
        ...


class Lru:
    """Least recently used first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.weight = 0
        self.entries: OrderedDict[int, int] = OrderedDict()

    def access(self, key: int, weight: int) -> bool:
        """See :class:`Policy`."""
        if key in self.entries:
            self.entries.move_to_end(key)
            return True
        self.entries[key] = weight
        self.weight += weight
        while self.weight > self.capacity:
            self.weight -= self.entries.popitem(last=False)[1]
        return False


class SegmentedLru:
    """Two LRU lists: a second access moves an entry from probation (20 %) to the protected part."""

    def __init__(self, capacity: int, protected_share: float = 0.8) -> None:
        self.capacity = capacity
        self.protected_max = int(capacity * protected_share)
        self.probation: OrderedDict[int, int] = OrderedDict()
        self.protected: OrderedDict[int, int] = OrderedDict()
        self.weight = self.protected_weight = 0

    def access(self, key: int, weight: int) -> bool:
        """See :class:`Policy`."""
        if key in self.protected:
            self.protected.move_to_end(key)
            return True
        if key in self.probation:
            self.protected[key] = held = self.probation.pop(key)
            self.protected_weight += held
            while self.protected_weight > self.protected_max:
                demoted, held = self.protected.popitem(last=False)
                self.protected_weight -= held
                self.probation[demoted] = held
            return True
        self.probation[key] = weight
        self.weight += weight
        while self.weight > self.capacity:
            self.weight -= (self.probation or self.protected).popitem(last=False)[1]
        return False


class Clock:
    """First in, first out, with a second chance for what was accessed meanwhile."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.weight = 0
        self.entries: dict[int, list[int]] = {}
        self.queue: deque[int] = deque()

    def access(self, key: int, weight: int) -> bool:
        """See :class:`Policy`."""
        entry = self.entries.get(key)
        if entry is not None:
            entry[1] = 1
            return True
        self.entries[key] = [weight, 0]
        self.queue.append(key)
        self.weight += weight
        while self.weight > self.capacity:
            oldest = self.queue.popleft()
            entry = self.entries[oldest]
            if entry[1]:
                entry[1] = 0
                self.queue.append(oldest)
            else:
                self.weight -= self.entries.pop(oldest)[0]
        return False


class Sieve:
    """A queue that is never reordered and a hand that removes what was not accessed."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.weight = 0
        # node: [key, weight, visited, newer, older]
        self.entries: dict[int, list[Any]] = {}
        self.newest: list[Any] | None = None
        self.oldest: list[Any] | None = None
        self.hand: list[Any] | None = None

    def access(self, key: int, weight: int) -> bool:
        """See :class:`Policy`."""
        node = self.entries.get(key)
        if node is not None:
            node[2] = True
            return True
        while self.entries and self.weight + weight > self.capacity:
            self._evict()
        node = [key, weight, False, None, self.newest]
        if self.newest is not None:
            self.newest[3] = node
        self.newest = node
        self.oldest = self.oldest or node
        self.entries[key] = node
        self.weight += weight
        return False

    def _evict(self) -> None:
        node = self.hand or self.oldest
        while node is not None and node[2]:
            node[2] = False
            node = node[3] or self.oldest
        assert node is not None
        self.hand = node[3]
        newer, older = node[3], node[4]
        if newer is not None:
            newer[4] = older
        else:
            self.newest = older
        if older is not None:
            older[3] = newer
        else:
            self.oldest = newer
        del self.entries[node[0]]
        self.weight -= node[1]


class S3Fifo:
    """A small queue that filters what is used once, a main clock, and a memory of what was filtered.

    ``bits`` = 1 marks an entry as accessed, 2 counts up to three accesses; ``promote`` is
    how many accesses in the small queue take an entry to the main one; ``ghosts`` is how
    much weight the memory of filtered keys covers, as a share of the capacity.
    """

    def __init__(
        self, capacity: int, small_share: float = 0.1, bits: int = 2, promote: int = 1, ghosts: float = 0.9
    ) -> None:
        self.capacity = capacity
        self.small_max = int(capacity * small_share)
        self.ghost_max = int(capacity * ghosts)
        self.freq_max = 3 if bits == 2 else 1
        self.promote = promote
        self.small: deque[int] = deque()
        self.main: deque[int] = deque()
        self.entries: dict[int, list[int]] = {}
        self.ghosts: OrderedDict[int, int] = OrderedDict()
        self.weight = self.small_weight = self.ghost_weight = 0

    def access(self, key: int, weight: int) -> bool:
        """See :class:`Policy`."""
        entry = self.entries.get(key)
        if entry is not None:
            if entry[1] < self.freq_max:
                entry[1] += 1
            return True
        self.entries[key] = [weight, 0]
        self.weight += weight
        if key in self.ghosts:
            self.ghost_weight -= self.ghosts.pop(key)
            self.main.append(key)
        else:
            self.small.append(key)
            self.small_weight += weight
        while self.weight > self.capacity:
            if self.small and (self.small_weight > self.small_max or not self.main):
                self._evict_small()
            else:
                self._evict_main()
        return False

    def _evict_small(self) -> None:
        key = self.small.popleft()
        weight, freq = self.entries[key]
        self.small_weight -= weight
        if freq >= self.promote:
            self.entries[key][1] = 0
            self.main.append(key)
            return
        del self.entries[key]
        self.weight -= weight
        self.ghosts[key] = weight
        self.ghost_weight += weight
        while self.ghost_weight > self.ghost_max:
            self.ghost_weight -= self.ghosts.popitem(last=False)[1]

    def _evict_main(self) -> None:
        while True:
            key = self.main.popleft()
            entry = self.entries[key]
            if entry[1]:
                entry[1] -= 1
                self.main.append(key)
                continue
            self.weight -= entry[0]
            del self.entries[key]
            return


class TinyLfu:
    """W-TinyLFU: a 1 % LRU window, then admission to a segmented LRU by counted frequency.

    The counts are exact and halved every ten accesses per held entry, which is what a
    count-min sketch approximates. A candidate replaces victims of at least its weight when
    it is counted more often than they are together.
    """

    def __init__(self, capacity: int, window_share: float = 0.01) -> None:
        self.window: OrderedDict[int, int] = OrderedDict()
        self.window_max = max(1, int(capacity * window_share))
        self.window_weight = 0
        self.main = SegmentedLru(capacity - self.window_max)
        self.counts: dict[int, int] = {}
        self.accesses = 0

    def access(self, key: int, weight: int) -> bool:
        """See :class:`Policy`."""
        self._count(key)
        if key in self.window:
            self.window.move_to_end(key)
            return True
        main = self.main
        if key in main.protected or key in main.probation:
            return main.access(key, weight)
        self.window[key] = weight
        self.window_weight += weight
        while self.window_weight > self.window_max:
            candidate, held = self.window.popitem(last=False)
            self.window_weight -= held
            self._admit(candidate, held)
        return False

    def _count(self, key: int) -> None:
        self.counts[key] = self.counts.get(key, 0) + 1
        self.accesses += 1
        held = len(self.window) + len(self.main.probation) + len(self.main.protected)
        if self.accesses >= 10 * max(held, 100):
            self.counts = {k: c // 2 for k, c in self.counts.items() if c > 1}
            self.accesses //= 2

    def _admit(self, candidate: int, weight: int) -> None:
        main = self.main
        if weight > main.capacity:
            return
        need = main.weight + weight - main.capacity
        victims, freed, rivals = [], 0, 0
        for victim, held in itertools.chain(main.probation.items(), main.protected.items()):
            if freed >= need:
                break
            victims.append(victim)
            freed += held
            rivals += self.counts.get(victim, 0)
        if victims and self.counts.get(candidate, 0) <= rivals:
            return
        for victim in victims:
            part = main.probation if victim in main.probation else main.protected
            held = part.pop(victim)
            main.weight -= held
            if part is main.protected:
                main.protected_weight -= held
        main.probation[candidate] = weight
        main.weight += weight


POLICIES: dict[str, type[Any]] = {
    "LRU": Lru,
    "segmented LRU": SegmentedLru,
    "CLOCK": Clock,
    "SIEVE": Sieve,
    "S3-FIFO": S3Fifo,
    "W-TinyLFU": TinyLfu,
}
"""The policies by the name the tables use."""
