"""A dense log on a bucket: objects numbered without gaps, each created once.

Creating the object of the next number is the append; whoever loses the create has lost the race.
Snapshots and WAL segments are such logs.

Invariant: :meth:`DenseLog.append` returns only when the object of that number is ours.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from lakehouse.errors import NotFoundError
from lakehouse.io.protocols import Buffer, Fetched, Stored
from lakehouse.io.store import ObjectStore

__all__ = ["DenseLog"]

_DIGITS = 20


class DenseLog:
    """Objects ``{prefix}{number:020}{suffix}``.

    Args:
        store: where they are.
        prefix: what their keys begin with, from the store's root.
        suffix: what their keys end with.
        timed: whether receipts have to say when the store answered.
    """

    def __init__(self, store: ObjectStore, prefix: str, suffix: str = "", *, timed: bool = True) -> None:
        self._store, self._prefix, self._suffix, self._timed = store, prefix, suffix, timed

    def key(self, number: int) -> str:
        """Key of the object of that number."""
        return f"{self._prefix}{number:0{_DIGITS}}{self._suffix}"

    def number(self, key: str) -> int | None:
        """Number of the object with that key; None for a foreign object."""
        digits = key[len(self._prefix) : len(key) - len(self._suffix)]
        well_formed = len(digits) == _DIGITS and digits.isascii() and digits.isdigit()
        return int(digits) if well_formed and key == self.key(int(digits)) else None

    async def append(self, number: int, data: Buffer, *, token: str) -> Stored:
        """Creates the object of that number.

        Raises:
            ConflictError: another's stands there; ``context["winner"]`` is what was read.
            CommitUnknownError: it could not be found out whether ours stands there.
        """
        return await self._store.put_if_absent(self.key(number), data, token=token, timed=self._timed)

    async def read(self, number: int) -> Fetched:
        """The object of that number."""
        return await self._store.get(self.key(number))

    async def find(self, number: int) -> Fetched | None:
        """The object of that number; None when there is none."""
        try:
            return await self.read(number)
        except NotFoundError as missing:
            if missing.kind == "missing-bucket":
                raise
            return None

    async def numbers(self, *, after: int = 0) -> AsyncIterator[int]:
        """The numbers there are above ``after``, ascending; foreign objects are passed over."""
        async for number, _ in self.sizes(after=after):
            yield number

    async def sizes(self, *, after: int = 0) -> AsyncIterator[tuple[int, int]]:
        """The numbers above ``after``, ascending, each with the bytes of its object."""
        async for one in self._store.list(self._prefix, start_after=self.key(after)):
            number = self.number(one.key)
            if number is not None:
                yield number, one.size

    async def newest(self, *, after: int = 0) -> int | None:
        """The highest number above ``after``; None when there is none."""
        found = None
        async for number in self.numbers(after=after):
            found = number
        return found
