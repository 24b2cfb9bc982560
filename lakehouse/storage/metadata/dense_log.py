"""A dense log on a bucket: objects numbered without gaps, each created once.

Creating the object of the next number is the append; whoever loses the create has lost the race.
Snapshots and WAL segments are such logs.

A listing may show an object that never becomes permanent: MinIO takes back what it has stored when the client
that creates it is gone before the answer. Its reads wait for the outcome, its listings do not. Only the last
of a log can be such an object, since only a writer that knows of a number's object creates the next one.

Invariant: :meth:`DenseLog.append` returns only when the object of that number is ours. The number that is
reported as the newest has an object that was read or created here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable

from lakehouse.io.protocols import Buffer, Fetched, Stored
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import or_none
from lakehouse.storage.metadata.acknowledged import Acknowledged, Written
from lakehouse.storage.metadata.paths import dense_number, dense_path

__all__ = ["DenseLog"]


class DenseLog:
    """Objects ``{prefix}{number:020}{suffix}``.

    Args:
        store: holds the objects.
        prefix: beginning of their keys, from the store's root.
        suffix: end of their keys.
        timed: whether receipts must carry the time at which the store answered.
    """

    def __init__(self, store: ObjectStore, prefix: str, suffix: str = "", *, timed: bool = True) -> None:
        self._store, self._prefix, self._suffix, self._timed = store, prefix, suffix, timed
        self._known = 0
        """Highest number whose object was created or read here."""
        self.ours: Acknowledged | None = None
        """Record of the objects created here, checked against all that is read or listed; None = no check."""

    def key(self, number: int) -> str:
        """Returns the key of the object of that number."""
        return dense_path(self._prefix, number, self._suffix)

    def number(self, key: str) -> int | None:
        """Returns the number of the object with that key; None for a foreign object."""
        return dense_number(self._prefix, key, self._suffix)

    async def append(self, number: int, data: Buffer, *, token: str, note: str | None = None) -> Stored:
        """Creates the object of that number.

        Args:
            number: the next one.
            data: the object.
            token: identity of the write, by which a lost answer is recognised.
            note: a description of its content, for the error that reports it lost.

        Raises:
            ConflictError: another writer's object has that number; ``context["winner"]`` is what was read.
            CommitUnknownError: it could not be found out whether the object there is ours.
        """
        stored = await self._store.put_if_absent(self.key(number), data, token=token, timed=self._timed)
        self._known = max(self._known, number)
        if self.ours is not None:
            self.ours.add(Written(number=number, token=token, version=stored.version, note=note))
        return stored

    async def read(self, number: int) -> Fetched:
        """Reads the object of that number; NotFoundError when there is none."""
        fetched = await self._store.get(self.key(number))
        self._known = max(self._known, number)
        if self.ours is not None:
            self.ours.saw(number, fetched.token, fetched.version)
        return fetched

    def find(self, number: int) -> Awaitable[Fetched | None]:
        """Reads the object of that number; None when there is none."""
        return or_none(self.read(number))

    async def sizes(self, *, after: int = 0) -> AsyncIterator[tuple[int, int]]:
        """Yields the numbers that a listing shows above ``after``, ascending, each with its object's bytes.

        Foreign objects are passed over. The last one listed may turn out not to exist.
        """
        async for listed in self._store.list(self._prefix, start_after=self.key(after)):
            number = self.number(listed.key)
            if number is not None:
                if self.ours is not None:
                    self.ours.saw_listed(number, listed.version)
                yield number, listed.size

    async def listed(self, *, after: int = 0) -> list[tuple[int, int]]:
        """Returns the existing numbers above ``after``, ascending, each with the bytes of its object.

        Costs one request more than a listing, unless the last one is already known to exist.
        """
        # Only the last number can be listed and not exist, so only that one is checked by a read.
        numbers = [entry async for entry in self.sizes(after=after)]
        if numbers and numbers[-1][0] > self._known:
            last, _ = numbers.pop()
            size = await self._size(last)
            if size is not None:
                self._known = max(self._known, last)
                numbers.append((last, size))
        return numbers

    async def _size(self, number: int) -> int | None:
        """Returns the bytes of the object of that number, found out by a read; None when there is none."""
        # A read waits for the outcome of an object in doubt, where a listing does not.
        # One byte is enough: the answer says how large the object is.
        fetched = await or_none(self._store.get_range(self.key(number), 0, 1))
        return fetched.size if fetched is not None else None

    async def newest(self, *, after: int = 0) -> int | None:
        """Returns the highest existing number above ``after``; None when there is none."""
        numbers = await self.listed(after=after)
        return numbers[-1][0] if numbers else None

    async def highest(self, *, after: int = 0) -> list[int]:
        """Returns the last two listed numbers above ``after``, newest first.

        A listed object may not exist, so the first of them that can be read is the newest. For callers that
        read it anyway: one request less than :meth:`newest`.
        """
        numbers = [number async for number, _ in self.sizes(after=after)]
        return numbers[-2:][::-1]
