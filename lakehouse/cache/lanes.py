"""Entries in the order they came, one queue per region and kind, and the oldest of all of them.

Invariants: an entry is in the lane its ``lane`` names, or has left the cache; lanes and
their order agree on weight and count; no lane of a group at or below its floor is found
as the oldest of an order that parks.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable
from typing import Any, Protocol

__all__ = ["Entry", "Group", "Lane", "Order", "Source", "TimedEntry"]


_CLEARED_MAX = 64
"""Lanes that are emptied before the empty ones are looked for."""


class Entry:
    """One cached value. ``lane`` is None once it has left the cache."""

    __slots__ = ("born", "epoch", "freq", "key", "lane", "tags", "value", "weight")

    born: float
    """Steady time at which its value began to be loaded, some time early at most."""
    epoch: int
    freq: int
    key: Any
    lane: Lane | None
    tags: tuple[Hashable, ...]
    value: Any
    weight: int


class TimedEntry(Entry):
    """An entry of a region with expiry or refresh; times are steady seconds."""

    __slots__ = ("calm_until", "expires", "expires_at_most", "failures", "refresh_at")

    calm_until: float
    """Until then a hit need not look at the other times."""
    expires: float
    """When it is no longer served."""
    expires_at_most: float
    """The latest ``expires`` that accesses may extend it to."""
    failures: int
    """Refreshes in a row that failed."""
    refresh_at: float
    """From when a hit starts a refresh."""


class Group:
    """Regions that share a guaranteed floor."""

    __slots__ = ("floor", "name", "parked", "weight")

    def __init__(self, name: str) -> None:
        self.name = name
        self.floor = 0
        self.weight = 0
        self.parked: list[Lane] = []

    @property
    def protected(self) -> bool:
        """Whether others must leave its entries alone."""
        return self.weight <= self.floor

    def release(self) -> None:
        """Offers its lanes again once it is above its floor; after each change of either."""
        if self.parked and not self.protected:
            for lane in self.parked:
                lane.order.list(lane, lane.age())
            self.parked.clear()


class Source(Protocol):
    """Where victims of one kind come from: all regions, or one."""

    weight: int
    count: int
    guarded: bool
    """Whether entries of protected groups are spared."""

    def oldest(self) -> Lane | None: ...


class Lane:
    """One region's queue of one kind. Removed entries stay until they reach the head or are
    swept: a removal costs no search."""

    guarded = False  # a region that exceeds its own limit may always evict from itself

    __slots__ = (
        "_dead", "_entries", "count", "group", "listed", "number", "onward", "order", "owner", "weight",
    )  # fmt: skip

    def __init__(self, order: Order, group: Group, owner: Any, onward: Lane | None = None) -> None:
        self.order = order
        self.group = group
        self.owner = owner
        """The account; handed back with a victim."""
        self.onward = onward or self
        """Where entries go that are promoted."""
        self.number = order.number()
        self.listed = False
        self.count = self.weight = self._dead = 0
        self._entries: deque[Entry] = deque()

    def append(self, entry: Entry, epoch: int) -> None:
        """Puts the entry at the young end."""
        entry.lane = self
        entry.epoch = epoch
        self._entries.append(entry)
        self.grow(entry.weight, 1)
        if not self.listed:
            self.order.list(self, epoch)

    def grow(self, weight: int, count: int = 0) -> None:
        """Adds to what the lane and its order hold; negative to take away."""
        self.weight += weight
        self.count += count
        self.order.weight += weight
        self.order.count += count

    def head(self) -> Entry | None:
        """The oldest live entry."""
        entries = self._entries
        while entries:
            entry = entries[0]
            if entry.lane is self:
                return entry
            entries.popleft()
            self._dead -= 1
        return None

    def age(self) -> int:
        """The epoch of the oldest live entry; 0 when there is none."""
        head = self.head()
        return head.epoch if head is not None else 0

    def pop(self) -> Entry:
        """Takes the oldest live entry; only after :meth:`head` found one."""
        entry = self._entries.popleft()
        entry.lane = None
        self.grow(-entry.weight, -1)
        return entry

    def remove(self, entry: Entry) -> None:
        """Takes an entry from anywhere in the queue."""
        entry.lane = None
        self.grow(-entry.weight, -1)
        self._dead += 1
        if self._dead > 64 and self._dead > self.count:
            self._entries = deque(entry for entry in self._entries if entry.lane is self)
            self._dead = 0

    def clear(self) -> None:
        """Forgets all entries."""
        self.grow(-self.weight, -self.count)
        self._entries.clear()
        self._dead = 0
        if self.listed:
            self.order.cleared()

    def oldest(self) -> Lane | None:
        """Itself, when there is a live entry (a lane is the source of its own region)."""
        return self if self.head() is not None else None


class Order:
    """All lanes of one kind, by the age of their heads."""

    __slots__ = ("_cleared", "_heap", "_number", "_parks", "count", "guarded", "weight")

    def __init__(self, *, parks: bool) -> None:
        self.weight = self.count = self._number = self._cleared = 0
        self.guarded = True
        self._parks = parks
        """Whether lanes of protected groups are left out. Those of small entries are not:
        their entries move on to the main queue, where they are safe."""
        self._heap: list[tuple[int, int, Lane]] = []

    def number(self) -> int:
        """A number that no other lane has: breaks ties in the heap."""
        self._number += 1
        return self._number

    def list(self, lane: Lane, epoch: int) -> None:
        """Makes the lane a source of victims."""
        lane.listed = True
        heapq.heappush(self._heap, (epoch, lane.number, lane))

    def cleared(self) -> None:
        """Leaves out lanes that are empty when there are many: regions come and go, and bytes may never be
        short enough for somebody to meet what they left."""
        self._cleared += 1
        if self._cleared > _CLEARED_MAX and self._cleared * 2 > len(self._heap):
            for _, _, lane in self._heap:
                lane.listed = lane.count > 0
            self._heap = [item for item in self._heap if item[2].listed]
            heapq.heapify(self._heap)
            self._cleared = 0

    def oldest(self) -> Lane | None:
        """The lane with the oldest head whose group may give; heads only get younger, so
        what the heap remembers is never too young."""
        heap = self._heap
        while heap:
            epoch, _, lane = heap[0]
            head = lane.head()
            if head is None:
                heapq.heappop(heap)
                lane.listed = False
            elif head.epoch != epoch:
                heapq.heapreplace(heap, (head.epoch, lane.number, lane))
            elif self._parks and lane.group.protected:
                heapq.heappop(heap)
                lane.group.parked.append(lane)
            else:
                return lane
        return None
