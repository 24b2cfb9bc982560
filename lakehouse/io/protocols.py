"""The words of an object store: small values and one protocol per capability.

Keys are relative to the store's root, use ``/``, and neither begin nor end with it.
Ranges are ``[start, end)``. A ``version`` is opaque text that changes whenever the
object's content does (an ETag on S3).

Functions should ask for the smallest protocol that serves them (``store: Gets``).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from lakehouse.errors import InvalidInputError

__all__ = [
    "Buffer",
    "Capabilities",
    "Deletes",
    "Fetched",
    "Gets",
    "ListPage",
    "Lists",
    "ObjectMeta",
    "Puts",
    "PutsIf",
    "PutsParts",
    "Stored",
    "check_key",
    "check_range",
]

_UNSENDABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_KEY_CHARS_SAFE = 256
"""Keys of so few characters have at most 1,024 bytes, whatever they are."""

Buffer = bytes | bytearray | memoryview
"""Bytes that can be sent without a copy; a view of wider items is cast to bytes by the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Abilities of a backend; it refuses all others with kind ``unsupported``."""

    put_if_absent: bool = False
    """Creates an object only when none of that key exists, atomically."""
    put_if_match: bool = False
    """Replaces an object only when its version is the one given, atomically."""
    suffix_range: bool = False
    """Reads the last n bytes in one request without knowing the size."""
    multipart: bool = False
    """Takes an object in parts."""
    commit_proven: bool = False
    """Its conditional puts are safe as it is built; others show that they are before the first commit."""
    read_only: str | None = None
    """Why nothing can be written; None = it can."""

    def check_writable(self, url: str) -> None:
        """Raises an InvalidInputError of kind ``unsupported`` for a store that is read only."""
        if self.read_only is not None:
            raise InvalidInputError(
                f"the store at {url} cannot be written: {self.read_only}", kind="unsupported", url=url
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMeta:
    """Properties of an object, as a listing or a HEAD reports them."""

    key: str
    size: int
    """Bytes."""
    version: str | None = None
    modified_ms: int | None = None
    """When it was last written, milliseconds since 1970 by the store's clock."""
    token: str | None = None
    """Token of the conditional put that wrote it, where the store keeps one."""
    store_time_ms: int | None = None
    """The store's clock when it answered (HEAD only)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Bytes of one object, read in one request."""

    key: str
    data: bytes = field(repr=False)
    start: int
    """Offset of ``data`` in the object."""
    size: int
    """Size of the whole object."""
    version: str | None = None
    token: str | None = None
    """Token of the conditional put that wrote it, where the store keeps one."""
    store_time_ms: int | None = None
    """The store's clock when it answered."""

    @property
    def end(self) -> int:
        """Offset just behind the last byte read."""
        return self.start + len(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Receipt of a write."""

    key: str
    size: int
    version: str | None = None
    store_time_ms: int | None = None
    """The store's clock when it answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage:
    """One page of a listing, in key order."""

    objects: tuple[ObjectMeta, ...]
    prefixes: tuple[str, ...] = ()
    """With a delimiter: the prefixes that end with it, in order."""
    next_page: str | None = None
    """Opaque; hand it to the next ``list_page`` call. None = this was the last."""


@runtime_checkable
class Gets(Protocol):
    """Reads objects, whole or in ranges."""

    async def get(self, key: str, *, version: str | None = None) -> Fetched: ...
    async def get_range(self, key: str, start: int, end: int, *, version: str | None = None) -> Fetched: ...
    async def get_tail(
        self, key: str, length: int, *, size: int | None = None, version: str | None = None
    ) -> Fetched: ...


@runtime_checkable
class Lists(Protocol):
    """Lists keys."""

    def list(self, prefix: str = "", *, start_after: str | None = None) -> AsyncIterator[ObjectMeta]: ...


@runtime_checkable
class Puts(Protocol):
    """Writes objects, replacing what is there."""

    async def put(self, key: str, data: Buffer) -> Stored: ...


@runtime_checkable
class PutsParts(Puts, Protocol):
    """Writes objects whole or in parts."""

    async def multipart_start(self, key: str) -> str: ...
    async def multipart_part(self, key: str, upload: str, number: int, data: Buffer) -> str: ...
    async def multipart_complete(
        self, key: str, upload: str, receipts: Sequence[str], *, size: int
    ) -> Stored: ...
    async def multipart_abort(self, key: str, upload: str) -> None: ...


@runtime_checkable
class PutsIf(Protocol):
    """Writes objects under a condition: the root of every commit."""

    async def put_if_absent(
        self, key: str, data: Buffer, *, token: str | None = None, timed: bool = True
    ) -> Stored: ...
    async def put_if_match(
        self, key: str, data: Buffer, *, version: str, token: str | None = None
    ) -> Stored: ...


@runtime_checkable
class Deletes(Protocol):
    """Deletes objects; deleting what is not there succeeds."""

    async def delete(self, key: str) -> None: ...
    async def delete_batch(self, keys: Sequence[str]) -> None: ...


def check_key(key: str) -> str:
    """The key itself when it is a good one; else an InvalidInputError that says why."""
    # In one look for nearly every key: this runs before each request.
    if (
        0 < len(key) <= _KEY_CHARS_SAFE
        and key.isprintable()
        and key[0] not in "/."
        and key[-1] != "/"
        and "//" not in key
        and "/." not in key
    ):
        return key
    bad = None
    if not key:
        bad = "is empty"
    elif key[0] == "/" or key[-1] == "/":
        bad = "begins or ends with '/'"
    elif len(key.encode(errors="surrogatepass")) > 1024:
        bad = "is longer than 1,024 bytes"
    elif "//" in key or any(part in (".", "..") for part in key.split("/")):
        bad = "has an empty, '.' or '..' part"
    elif _UNSENDABLE.search(key):
        bad = "has a control character, or half of one"
    if bad:
        raise InvalidInputError(f"object key {key!r} {bad}: use parts joined by '/'", key=key)
    return key


def check_range(key: str, start: int, end: int) -> None:
    """Refuses ranges that are not ranges."""
    if start < 0 or end <= start:
        raise InvalidInputError(
            f"range [{start}, {end}) of {key!r} holds no byte: 0 <= start < end",
            key=key,
            start=start,
            end=end,
        )
