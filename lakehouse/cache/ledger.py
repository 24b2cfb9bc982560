"""Who holds how many bytes, and whose go first.

Invariants: after :meth:`Ledger.settle` the sum of all weights is within the limit and so
is each account's; an entry of a group that weighs no more than its floor is never taken
to make room for another group. Since all floors together fit the limit, there is always
somebody above theirs to take from.
"""

from __future__ import annotations

from typing import Protocol

from lakehouse.cache.eviction import Eviction
from lakehouse.cache.lanes import Entry, Group, Source
from lakehouse.errors import InvalidInputError

__all__ = ["Account", "Ledger", "Owner"]


class Owner(Protocol):
    """Whoever put an entry in: a region."""

    def evicted(self, entry: Entry) -> None:
        """Forgets an entry that had to go; its weight is already taken off."""
        ...


class Account:
    """One region's bytes and queues."""

    __slots__ = ("group", "main", "max_bytes", "owner", "small", "weight")

    def __init__(self, owner: Owner, group: Group, eviction: Eviction, max_bytes: int) -> None:
        self.owner = owner
        self.group = group
        self.small, self.main = eviction.lanes(group, self)
        self.max_bytes = max_bytes
        self.weight = 0


class Ledger:
    """The bytes of all regions under one limit."""

    def __init__(self, max_bytes: int, max_entry_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.weight = 0
        self._max_entry_bytes = max_entry_bytes
        self._eviction = Eviction(max_bytes)
        self._groups: dict[str, Group] = {}
        self._floored = 0
        """Bytes of groups up to their floors, which others may not take."""
        self._floors = 0
        """All floors together."""

    def open(self, owner: Owner, group: str, max_bytes: int | None) -> Account:
        """An account for a new region."""
        cap = self.max_bytes if max_bytes is None else min(max_bytes, self.max_bytes)
        return Account(owner, self._groups.setdefault(group, Group(group)), self._eviction, cap)

    def guarantee(self, name: str, floor: int) -> None:
        """Sets the bytes of a group that others may not take."""
        group = self._groups.setdefault(name, Group(name))
        others = self._floors - group.floor
        if floor < 0 or others + floor > self.max_bytes:
            raise InvalidInputError(
                f"a floor of {floor:,} bytes for group {name!r} does not fit: other floors take {others:,} "
                f"of the budget's {self.max_bytes:,}; raise cache.max_bytes or lower a floor",
                group=name,
                floor=floor,
            )
        self._floored += min(group.weight, floor) - min(group.weight, group.floor)
        self._floors = others + floor
        group.floor = floor
        group.release()

    def close(self, name: str) -> None:
        """Forgets a group and its floor; its entries must be gone."""
        if name in self._groups:
            self.guarantee(name, 0)
            del self._groups[name]

    def limit(self, account: Account) -> int:
        """The heaviest entry the account may hold now."""
        group = account.group
        others = self._floored - min(group.weight, group.floor)
        return min(self._max_entry_bytes, account.max_bytes, self.max_bytes - others)

    def admit(self, account: Account, entry: Entry) -> bool:
        """Takes in a new entry; :meth:`settle` afterwards. False: it is not worth its bytes."""
        admitted = self._eviction.admit(entry, account.small)
        if admitted:
            self.charge(account, entry.weight)
        return admitted

    def resize(self, account: Account, entry: Entry, weight: int) -> None:
        """Gives an entry another weight; :meth:`settle` afterwards."""
        assert entry.lane is not None
        change = weight - entry.weight
        entry.lane.grow(change)
        entry.weight = weight
        self.charge(account, change)

    def remove(self, account: Account, entry: Entry) -> None:
        """Takes an entry out."""
        assert entry.lane is not None
        entry.lane.remove(entry)
        self.charge(account, -entry.weight)

    def clear(self, account: Account) -> None:
        """Takes everything of the account out at once."""
        account.small.clear()
        account.main.clear()
        self.charge(account, -account.weight)

    def charge(self, account: Account, change: int) -> None:
        """Books bytes that belong to no entry, such as an index's; negative to give back."""
        group = account.group
        before = group.weight
        self.weight += change
        account.weight += change
        group.weight = before + change
        if group.floor:
            self._floored += min(group.weight, group.floor) - min(before, group.floor)
            group.release()

    def settle(self, account: Account) -> None:
        """Evicts until the account and the whole are within their limits."""
        while account.weight > account.max_bytes:
            self._evict(account.small, account.main, account.max_bytes)
        while self.weight > self.max_bytes:
            self._evict(self._eviction.small, self._eviction.main, self.max_bytes)

    def _evict(self, small: Source, main: Source, limit: int) -> None:
        account, entry = self._eviction.victim(small, main, limit)
        self.charge(account, -entry.weight)
        account.owner.evicted(entry)
