"""A dense log on a bucket: objects numbered without gaps, each created once.

Creating the object of the next number is the append; whoever loses the create has lost the race.
Snapshots and WAL segments are such logs.

A listing may show an object that never comes to be: MinIO takes back what it has stored when whoever creates
it is gone before the answer. Its reads wait for the outcome, its listings do not. Only the last of a log can
be such an object, since a number is created by those alone who know that the one below it is there.

Invariant: :meth:`DenseLog.append` returns only when the object of that number is ours. The number that is
said to be the newest has an object that was read or created here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from lakehouse.errors import NotFoundError
from lakehouse.io.protocols import Buffer, Fetched, Stored
from lakehouse.io.store import ObjectStore
from lakehouse.storage.metadata.acknowledged import Acknowledged, Written
from lakehouse.storage.metadata.paths import dense_number, dense_path

__all__ = ["DenseLog"]


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
        self._known = 0
        """The highest number whose object was created or read here."""
        self.ours: Acknowledged | None = None
        """What was created here, held against all that is read or listed; None = nobody looks after it."""

    def key(self, number: int) -> str:
        """Key of the object of that number."""
        return dense_path(self._prefix, number, self._suffix)

    def number(self, key: str) -> int | None:
        """Number of the object with that key; None for a foreign object."""
        return dense_number(self._prefix, key, self._suffix)

    async def append(self, number: int, data: Buffer, *, token: str, note: str | None = None) -> Stored:
        """Creates the object of that number.

        Args:
            number: the next one.
            data: the object.
            token: of the write.
            note: what it holds, for whoever is told that it was lost.

        Raises:
            ConflictError: another's stands there; ``context["winner"]`` is what was read.
            CommitUnknownError: it could not be found out whether ours stands there.
        """
        stored = await self._store.put_if_absent(self.key(number), data, token=token, timed=self._timed)
        self._known = max(self._known, number)
        if self.ours is not None:
            self.ours.add(Written(number=number, token=token, version=stored.version, note=note))
        return stored

    async def read(self, number: int) -> Fetched:
        """The object of that number."""
        found = await self._store.get(self.key(number))
        self._known = max(self._known, number)
        if self.ours is not None:
            self.ours.saw(number, found.token, found.version)
        return found

    async def find(self, number: int) -> Fetched | None:
        """The object of that number; None when there is none."""
        try:
            return await self.read(number)
        except NotFoundError as missing:
            if missing.kind == "missing-bucket":
                raise
            return None

    async def sizes(self, *, after: int = 0) -> AsyncIterator[tuple[int, int]]:
        """The numbers that a listing shows above ``after``, ascending, each with the bytes of its object.

        Foreign objects are passed over. The last may come to nothing.
        """
        async for one in self._store.list(self._prefix, start_after=self.key(after)):
            number = self.number(one.key)
            if number is not None:
                if self.ours is not None:
                    self.ours.saw_listed(number, one.version)
                yield number, one.size

    async def listed(self, *, after: int = 0) -> list[tuple[int, int]]:
        """The numbers there are above ``after``, ascending, each with the bytes of its object.

        One request more than a listing, unless the last is known to be there.
        """
        found = [one async for one in self.sizes(after=after)]
        if found and found[-1][0] > self._known:
            last, _ = found.pop()
            size = await self._size(last)
            if size is not None:
                self._known = max(self._known, last)
                found.append((last, size))
        return found

    async def _size(self, number: int) -> int | None:
        """Bytes of the object of that number, asked for by a read; None when there is none."""
        try:
            return (await self._store.get_range(self.key(number), 0, 1)).size
        except NotFoundError as missing:
            if missing.kind == "missing-bucket":
                raise
            return None

    async def newest(self, *, after: int = 0) -> int | None:
        """The highest number above ``after``; None when there is none."""
        found = await self.listed(after=after)
        return found[-1][0] if found else None

    async def highest(self, *, after: int = 0) -> list[int]:
        """The numbers above ``after`` of which the first that can be read is the newest.

        For those who read it anyhow: one request less than :meth:`newest`.
        """
        found = [number async for number, _ in self.sizes(after=after)]
        return found[-2:][::-1]
