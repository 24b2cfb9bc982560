"""What this process wrote to a log and had acknowledged, and what others' objects say about it.

On a store that honours conditions nobody overwrites an object of a log. Where one is overwritten all the
same, some condition was ignored, and who had it acknowledged is the only one that can tell what was lost. So
each process remembers the tokens of what it wrote last, and holds everything it reads or lists against them.

Pure: :mod:`lakehouse.storage.tables.recheck` looks, this module judges.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

__all__ = ["Acknowledged", "Written"]

_KEPT_MAX = 1_000
_LOOKED_AT_KEPT = 256
"""Who overwrites in error comes with what it knew minutes ago at the most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One object of a log that this process created."""

    number: int
    token: str
    version: str | None
    """As the store told it."""
    note: str | None = None
    """What it holds, for people."""


class Acknowledged:
    """The last objects of one log that this process created."""

    def __init__(self) -> None:
        self._kept: dict[int, Written] = {}
        self._followed: set[int] = set()
        """Snapshots that another's snapshot builds upon: what they brought is part of its state."""
        self.doubtful: set[int] = set()
        """Numbers that a listing shows with another version."""
        self.lost: dict[int, str | None] = {}
        """Numbers that have another's object, by its token, or none any more."""

    def __bool__(self) -> bool:
        return bool(self._kept)

    @property
    def is_full(self) -> bool:
        """Whether it has to be looked at before more is written."""
        return len(self._kept) > _KEPT_MAX

    @property
    def numbers(self) -> Collection[int]:
        """All of them, ascending."""
        return sorted(self._kept)

    @property
    def unfollowed(self) -> list[int]:
        """Those after which neither ours nor another's is known to come."""
        return [one for one in self.numbers if one not in self._followed and one + 1 not in self._kept]

    def add(self, written: Written) -> None:
        """Remembers what was acknowledged."""
        self._kept[written.number] = written

    def saw(self, number: int, token: str | None, version: str | None) -> None:
        """Judges the object of a number, as it was read."""
        mine = self._kept.get(number)
        if mine is None:
            return
        self.doubtful.discard(number)
        if mine.version != version and mine.token != token:
            self.lost[number] = token

    def saw_listed(self, number: int, version: str | None) -> None:
        """Judges a number as a listing shows it: versions alone prove nothing."""
        mine = self._kept.get(number)
        if mine is not None and None not in (mine.version, version) and mine.version != version:
            self.doubtful.add(number)

    def saw_parent(self, number: int, token: str) -> None:
        """Judges the token that a snapshot has of the one before it."""
        mine = self._kept.get(number)
        if mine is None:
            return
        if mine.token == token:
            self._followed.add(number)
        else:
            self.lost[number] = token

    def saw_nothing(self, number: int) -> None:
        """Notes that there is no object of a number any more."""
        self.doubtful.discard(number)
        self.lost[number] = None

    def pardon(self, number: int) -> None:
        """Forgets a number that is needed by nobody any more."""
        for numbers in (self._kept, self.lost):
            numbers.pop(number, None)
        self.doubtful.discard(number)
        self._followed.discard(number)

    def looked_at(self) -> None:
        """Forgets all but the last, which were all seen to be there."""
        for number in list(self.numbers)[:-_LOOKED_AT_KEPT]:
            self.pardon(number)

    def at_stake(self, *, builds: bool) -> list[Written]:
        """What may be lost: what is, and what only lived on in it.

        Args:
            builds: whether each object holds the state that those before it left.
        """
        found: set[int] = set()
        for number in sorted(self._kept, reverse=True):
            lives_on = builds and number + 1 in found and number not in self._followed
            if number in self.lost or lives_on:
                found.add(number)
        return [self._kept[number] for number in sorted(found)]
