"""Memory of the log objects that this process created, and the judgement whether any of them was lost.

On a store that honours conditions nobody overwrites an object of a log. Where one is overwritten all the
same, the store ignored a condition, and only the process that had the object acknowledged can know what was
lost. So each process remembers the tokens of what it wrote last, and compares everything it reads or lists
with them.

Invariant: this module makes no requests. :mod:`lakehouse.storage.tables.recheck` reads the store, this one
judges.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

__all__ = ["Acknowledged", "Written"]

_KEPT_MAX = 1_000
"""Maximum number of remembered objects before a recheck must come first."""
_LOOKED_AT_KEPT = 256
"""Number of objects that stay remembered after a recheck saw them in place.

Older ones are safe: a process that overwrites in error acts on a head it knew minutes ago at the most.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One object of a log that this process created."""

    number: int
    token: str
    version: str | None
    """Version that the store returned for the object; None when it returned none."""
    note: str | None = None
    """Content of the object in words, for error messages."""


class Acknowledged:
    """The last objects of one log that this process created."""

    def __init__(self) -> None:
        self._kept: dict[int, Written] = {}
        self._followed: set[int] = set()
        """Numbers of snapshots that a later snapshot names as its parent: their rows live on in its state."""
        self.doubtful: set[int] = set()
        """Numbers that a listing shows with another version than the acknowledged one."""
        self.lost: dict[int, str | None] = {}
        """Lost numbers, each with the token of the object that replaced ours, or None where none is left."""

    def __bool__(self) -> bool:
        return bool(self._kept)

    @property
    def is_full(self) -> bool:
        """True when a recheck must come before the next write."""
        return len(self._kept) > _KEPT_MAX

    @property
    def numbers(self) -> Collection[int]:
        """Remembered numbers, ascending."""
        return sorted(self._kept)

    @property
    def unfollowed(self) -> list[int]:
        """Remembered numbers without a known successor, neither one of ours nor another process's."""
        return [
            number for number in self.numbers if number not in self._followed and number + 1 not in self._kept
        ]

    def add(self, written: Written) -> None:
        """Remembers an object whose creation was acknowledged."""
        self._kept[written.number] = written

    def saw(self, number: int, token: str | None, version: str | None) -> None:
        """Judges the object of a number by the token and version that a read returned."""
        mine = self._kept.get(number)
        if mine is None:
            return
        self.doubtful.discard(number)
        # Another version with our token is our own write, such as a repeated attempt: nothing is lost.
        if mine.version != version and mine.token != token:
            self.lost[number] = token

    def saw_listed(self, number: int, version: str | None) -> None:
        """Marks a number as doubtful when a listing shows another version; only a read proves a loss."""
        mine = self._kept.get(number)
        if mine is not None and None not in (mine.version, version) and mine.version != version:
            self.doubtful.add(number)

    def saw_parent(self, number: int, token: str) -> None:
        """Judges a number by the token that the following snapshot records for its parent."""
        mine = self._kept.get(number)
        if mine is None:
            return
        if mine.token == token:
            self._followed.add(number)
        else:
            self.lost[number] = token

    def saw_nothing(self, number: int) -> None:
        """Marks a number as lost because its object no longer exists."""
        self.doubtful.discard(number)
        self.lost[number] = None

    def pardon(self, number: int) -> None:
        """Forgets a number that nobody needs any more, and any loss of it."""
        for numbers in (self._kept, self.lost):
            numbers.pop(number, None)
        self.doubtful.discard(number)
        self._followed.discard(number)

    def looked_at(self) -> None:
        """Forgets all but the newest numbers, after a recheck has seen every object in place."""
        for number in list(self.numbers)[:-_LOOKED_AT_KEPT]:
            self.pardon(number)

    def at_stake(self, *, builds: bool) -> list[Written]:
        """Returns the objects that may be lost, ascending: lost ones, and those whose state only these held.

        Args:
            builds: True where each object holds the state that the ones before it left (snapshots).
        """
        at_stake: set[int] = set()
        # Newest first: a loss spreads down to the parents that no other snapshot carries on.
        for number in sorted(self._kept, reverse=True):
            only_in_lost = builds and number + 1 in at_stake and number not in self._followed
            if number in self.lost or only_in_lost:
                at_stake.add(number)
        return [self._kept[number] for number in sorted(at_stake)]
