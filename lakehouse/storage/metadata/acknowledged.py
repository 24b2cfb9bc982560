"""Memory of the log objects that this process created, and the judgement whether any of them was lost.

On a store that honours conditions nobody overwrites an object of a log. Where one is overwritten all the
same, the store ignored a condition, and only the process that had the object acknowledged can know what was
lost. So each process remembers the tokens of what it wrote last, and compares everything it reads or lists
with them.

A snapshot can be lost while its object stands: the snapshots after it may descend from another one that had
its number for a moment::

    number      25          26          27
    object      P  ◄─────── Q           S ◄── the head's parents lead here
    was there   P' ◄─────── Q' ◄────────┘

Here P' was overwritten by P, and Q' by Q after S had been built upon it. P stands and Q names it, but no
later snapshot holds its rows. So the parents of the next snapshots are followed, too.

Invariant: this module makes no requests. :mod:`lakehouse.storage.tables.recheck` reads the store, this one
judges.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

__all__ = ["Acknowledged", "AcknowledgedSnapshots", "Written"]

_KEPT_MAX = 1_000
"""Maximum number of remembered objects before a recheck must come first."""
_LOOKED_AT_KEPT = 256
"""Number of objects that stay remembered after a recheck saw them in place.

Older ones are safe: a process that overwrites in error acts on a head it knew minutes ago at the most.
"""
_FOLLOWED = 16
"""Number of snapshots after each of ours whose parents are followed.

The snapshot would have to be lost by as many overwritten ones in a row, each by a process that knew the
overwritten one before it and not its successor.
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
        self.doubtful: set[int] = set()
        """Numbers that a listing shows with another version than the one that was written or read."""
        self._lost: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._kept)

    @property
    def is_full(self) -> bool:
        """True when a recheck must come before the next write."""
        return len(self._kept) > _KEPT_MAX

    @property
    def is_suspect(self) -> bool:
        """True when something read or listed hints at a loss that was not looked into yet."""
        return bool(self._lost or self.doubtful)

    @property
    def numbers(self) -> Collection[int]:
        """Remembered numbers, ascending."""
        return sorted(self._kept)

    def add(self, written: Written) -> None:
        """Remembers an object whose creation was acknowledged."""
        self._kept[written.number] = written

    def saw(self, number: int, token: str | None, version: str | None) -> None:
        """Judges the object of a number by the token and version that a read returned."""
        self.doubtful.discard(number)
        mine = self._kept.get(number)
        # Another version with our token is our own write, such as a repeated attempt: nothing is lost.
        if mine is not None and mine.version != version and mine.token != token:
            self._lost.add(number)

    def saw_listed(self, number: int, version: str | None) -> None:
        """Marks a number as doubtful when a listing shows another version; only a read proves a loss."""
        mine = self._kept.get(number)
        # Not every store says versions, and without both nothing can be compared.
        if mine is not None and None not in (mine.version, version) and mine.version != version:
            self.doubtful.add(number)

    def saw_nothing(self, number: int) -> None:
        """Notes that the object of a number no longer exists: one of ours is lost."""
        self.doubtful.discard(number)
        if number in self._kept:
            self._lost.add(number)

    def to_read(self, listed: Collection[int]) -> list[int]:
        """Returns the numbers that have to be read to judge ours, given those that a listing shows."""
        return sorted({*self.doubtful, *self._kept.keys() - set(listed)})

    def pardon(self, number: int) -> None:
        """Forgets a number that nobody needs any more, and any loss of it."""
        self._kept.pop(number, None)
        self._lost.discard(number)
        self.doubtful.discard(number)

    def looked_at(self) -> None:
        """Forgets all but the newest numbers, after a recheck has seen every object in place."""
        for number in list(self.numbers)[:-_LOOKED_AT_KEPT]:
            self.pardon(number)

    def at_stake(self) -> list[Written]:
        """Returns the objects that are lost or may be, ascending."""
        return [self._kept[number] for number in sorted(self._lost)]


class AcknowledgedSnapshots(Acknowledged):
    """The last snapshots that this process created, each of which holds the state that its parent left."""

    def __init__(self) -> None:
        super().__init__()
        self._parents: dict[int, dict[str, str]] = {}
        """Parents by token: of each number, all snapshots that were ever read or written there."""
        self._present: dict[int, tuple[str, str | None]] = {}
        """Token and version of the snapshot that was last read or written under each number."""
        self._is_torn = False
        """True when a snapshot was read that builds upon another one than the last known before it."""

    @property
    def is_suspect(self) -> bool:
        """True also when the parents that were read are not those that are there."""
        return self._is_torn or super().is_suspect

    def saw_child(self, number: int, token: str, version: str | None, *, parent: str) -> None:
        """Notes which snapshot another one builds upon."""
        if not self._follows_ours(number):
            return
        self._parents.setdefault(number, {})[token] = parent
        self._present[number] = token, version
        mine = self._kept.get(number - 1)
        # Of a number of ours the token that was written counts, whatever has been read there since.
        before = mine.token if mine is not None else self._present.get(number - 1, (parent, None))[0]
        self._is_torn |= before != parent

    def saw_listed(self, number: int, version: str | None) -> None:
        """Marks a number as doubtful when a listing shows another version than the last one known."""
        super().saw_listed(number, version)
        _, known = self._present.get(number, ("", version))
        if None not in (known, version) and known != version:
            self.doubtful.add(number)

    def saw_nothing(self, number: int) -> None:
        """Notes that the object of a number no longer exists."""
        super().saw_nothing(number)
        self._present.pop(number, None)

    def to_read(self, listed: Collection[int]) -> list[int]:
        """Returns also the numbers after ours whose parents are not known."""
        following = {number + ahead for number in self._kept for ahead in range(1, _FOLLOWED + 1)}
        unknown = following.intersection(listed) - self._present.keys()
        return sorted({*super().to_read(listed), *unknown})

    def looked_at(self) -> None:
        """Forgets also what is known of snapshots that follow none of ours."""
        super().looked_at()
        self._is_torn = False
        for number in [number for number in self._parents if not self._follows_ours(number)]:
            del self._parents[number]
            self._present.pop(number, None)

    def at_stake(self) -> list[Written]:
        """Returns also the snapshots from which the later ones do not descend."""
        return [
            mine
            for number, mine in sorted(self._kept.items())
            if number in self._lost or not self._is_carried_on(mine)
        ]

    def _follows_ours(self, number: int) -> bool:
        return any(number - back in self._kept for back in range(1, _FOLLOWED + 1))

    def _is_carried_on(self, mine: Written) -> bool:
        """Returns whether the last of the known snapshots that follow one of ours descends from it."""
        heirs, last = {mine.token}, mine.token
        for number in range(mine.number + 1, mine.number + _FOLLOWED + 1):
            # Behind a number that was not read nothing is known, and nothing is held against it.
            if number not in self._present:
                break
            # All that ever stood there count: what follows may descend from one that was overwritten.
            heirs = {token for token, parent in self._parents[number].items() if parent in heirs}
            last, _ = self._present[number]
        return last in heirs
