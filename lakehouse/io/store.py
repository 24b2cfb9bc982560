"""The object store itself: the verbs a backend implements, and what is composed of them.

Every abstract verb is exactly one request; backends and decorators implement them and
nothing else. What takes several requests (``get_tail`` of unknown size on a backend
without suffix reads, ``get_ranges``, ``list``, ``delete_many``, ``writer``) is composed
here once, so that each of its requests passes every decorator and is counted.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from lakehouse.config import IoSettings
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.io.protocols import Buffer, Capabilities, Fetched, ListPage, ObjectMeta, Stored
from lakehouse.io.work.bulk import delete_many
from lakehouse.io.work.ranges import fetch_ranges
from lakehouse.io.writer import ObjectWriter

__all__ = ["ObjectStore"]


class ObjectStore(abc.ABC):
    """A bucket, a directory or a dictionary: the only thing the engine needs.

    Implementations are picklable configuration and connect lazily in the process and on
    the event loop that first use them. They raise the errors of ``lakehouse.errors`` and
    nothing else.
    """

    settings: IoSettings
    """Bounds that the composed verbs below keep to."""
    capabilities: Capabilities
    """Abilities of the backend underneath."""
    url: str
    """Where the root is; holds no credentials."""

    # --- one request each -------------------------------------------------------

    @abc.abstractmethod
    async def get(self, key: str, *, version: str | None = None) -> Fetched:
        """The whole object. With ``version``, an object that is no longer that one is a
        ConflictError of kind ``object-changed``."""

    @abc.abstractmethod
    async def get_range(self, key: str, start: int, end: int, *, version: str | None = None) -> Fetched:
        """Bytes ``[start, end)``, cut at the object's end; empty when ``start`` is behind it.
        ``Fetched.size`` is the size of the whole object."""

    @abc.abstractmethod
    async def get_suffix(self, key: str, length: int, *, version: str | None = None) -> Fetched:
        """The last ``length`` bytes of an object of unknown size (all of a smaller one)."""

    @abc.abstractmethod
    async def head(self, key: str) -> ObjectMeta:
        """Size and version without the bytes."""

    @abc.abstractmethod
    async def list_page(
        self,
        prefix: str = "",
        *,
        start_after: str | None = None,
        delimiter: str | None = None,
        page: str | None = None,
        limit: int | None = None,
    ) -> ListPage:
        """One page of the keys that begin with ``prefix`` (plain text, not a directory) and
        sort behind ``start_after``."""

    @abc.abstractmethod
    async def put(self, key: str, data: Buffer) -> Stored:
        """Writes the object in one request, replacing what is there."""

    @abc.abstractmethod
    async def put_if_absent(
        self, key: str, data: Buffer, *, token: str | None = None, timed: bool = True
    ) -> Stored:
        """Creates the object; ConflictError when the key is taken.

        On a retrying store the answer is final: see :mod:`lakehouse.io.conditional`. The
        ``token`` names the logical write; it is kept over all attempts and processes that
        stand for the same write, and made up when not given. Without ``timed`` the receipt need
        not say when the store answered, which leaves the backend a faster way.
        """

    @abc.abstractmethod
    async def put_if_match(self, key: str, data: Buffer, *, version: str, token: str | None = None) -> Stored:
        """Replaces the object while its version is the one given; else ConflictError.
        A key that is gone is a NotFoundError."""

    @abc.abstractmethod
    async def delete(self, key: str) -> None:
        """Deletes the object; succeeds when it is not there."""

    @abc.abstractmethod
    async def delete_batch(self, keys: Sequence[str]) -> None:
        """Deletes up to 1,000 objects in one request; missing ones count as deleted."""

    @abc.abstractmethod
    async def multipart_start(self, key: str) -> str:
        """Begins an upload in parts and returns its id."""

    @abc.abstractmethod
    async def multipart_part(self, key: str, upload: str, number: int, data: Buffer) -> str:
        """Sends part ``number`` (from 1) and returns its receipt."""

    @abc.abstractmethod
    async def multipart_complete(
        self, key: str, upload: str, receipts: Sequence[str], *, size: int
    ) -> Stored:
        """Makes the object, ``size`` bytes in all, of its parts in the order of their numbers."""

    @abc.abstractmethod
    async def multipart_abort(self, key: str, upload: str) -> None:
        """Throws the parts away; succeeds when there are none."""

    @abc.abstractmethod
    async def aclose(self) -> None:
        """Gives connections back. The store may be used again; it reconnects."""

    # --- whether it may be committed to -------------------------------------------

    def check_open(self) -> None:
        """Raises where the lake that lends the store was left; also for what takes no request."""
        return

    async def endpoint(self) -> str:
        """URL of the service that answers, without credentials; empty where there is none. No request."""
        return ""

    def expect_commit(self, spawn: Callable[..., bool] | None = None) -> None:
        """Says that a commit follows; a store that is not safe to commit to refuses.

        What has to be found out for that begins beside other work, by ``spawn(function, optional=True)``.
        Nothing has to be where conditional puts are safe as the store is built.
        """
        return

    async def withdraw(self, reason: str) -> None:
        """Says that a condition was ignored: from now on, commits to this store are refused."""
        return

    # --- composed of the above ---------------------------------------------------

    async def get_tail(
        self, key: str, length: int, *, size: int | None = None, version: str | None = None
    ) -> Fetched:
        """The last ``length`` bytes (all of a smaller object) in one request.

        With ``size`` known this is one ranged read, without it one suffix read, or a HEAD
        and a ranged read on backends that have no suffix reads. A ``size`` that is wrong
        shows: ``Fetched.size`` is the real one.
        """
        if length <= 0:
            raise InvalidInputError(f"a tail of {length} bytes of {key!r} holds no byte", key=key)
        if size is None and self.capabilities.suffix_range:
            return await self.get_suffix(key, length, version=version)
        if size is None:
            meta = await self.head(key)
            size, version = meta.size, version or meta.version  # or the end of another object would come
        if size == 0:
            return await self.get(key, version=version)
        return await self.get_range(key, max(0, size - length), size, version=version)

    async def get_ranges(
        self,
        key: str,
        ranges: Sequence[tuple[int, int]],
        *,
        version: str | None = None,
        gap_bytes: int | None = None,
    ) -> list[bytes]:
        """Several ranges of one object, in the order given.

        Ranges close to each other (``gap_bytes``, else ``io.coalesce_gap_bytes``) share a
        request of at most ``io.coalesce_max_bytes``; requests run beside each other within
        ``io.ranges_concurrency``. When they need more than one request, all but the first
        insist on the first's version, so the bytes are of one object.
        """
        return await fetch_ranges(
            self, key, ranges, version=version, gap_bytes=gap_bytes, settings=self.settings
        )

    async def list(
        self, prefix: str = "", *, start_after: str | None = None, limit: int | None = None
    ) -> AsyncGenerator[ObjectMeta, None]:
        """All objects whose key begins with ``prefix``, in key order, page by page."""
        page: str | None = None
        left = limit
        while left is None or left > 0:
            listed = await self.list_page(prefix, start_after=start_after, page=page, limit=left)
            for meta in listed.objects:
                yield meta
            page = listed.next_page
            if page is None:
                return
            if left is not None:
                left -= len(listed.objects)

    async def directories(self, prefix: str = "") -> AsyncGenerator[str, None]:
        """All beginnings of keys up to the next ``/`` behind ``prefix``, in order, page by page."""
        page: str | None = None
        while True:
            listed = await self.list_page(prefix, delimiter="/", page=page)
            for directory in listed.prefixes:
                yield directory
            page = listed.next_page
            if page is None:
                return

    async def exists(self, key: str) -> bool:
        """Whether there is an object of that key (one HEAD)."""
        try:
            await self.head(key)
        except NotFoundError as error:
            if error.kind == "missing-bucket":
                raise
            return False
        return True

    async def delete_many(self, keys: Iterable[str]) -> int:
        """Deletes any number of objects in batches that run beside each other; says how many."""
        return await delete_many(self, keys, settings=self.settings)

    def writer(self, key: str) -> ObjectWriter:
        """A streaming writer: ``async with store.writer(key) as w: await w.write(data)``.

        Small objects become one PUT, larger ones a multipart upload; nothing is visible
        before the block ends without an error. On a store that takes no parts every
        object is one PUT.
        """
        return ObjectWriter(self, key, self.settings, takes_parts=self.capabilities.multipart)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
