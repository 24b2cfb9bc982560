"""Just enough HTTP/1.1 to pass messages on: heads, and how long the body behind each is.

Bytes are not rewritten: a head is kept as it arrived and a body is copied as it
comes, so signatures over headers and chunk signatures inside bodies stay valid. The one
exception, headers that a rule leaves out, is in :mod:`lakehouse.testing.sigv4`.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from lakehouse.errors import FormatError

__all__ = ["BUFFER_BYTES", "Body", "Request", "Response", "Send", "copy_body", "read_head"]

BUFFER_BYTES = 256 * 1024
"""Limit for the stream readers: the longest head, and how much of a body is copied at once."""

Body = int | Literal["chunked", "to-eof"]
"""A body's length in bytes, or how its end is marked."""
Send = Callable[[bytes], Awaitable[None]]
"""Takes the next bytes of a body."""


@functools.cache
def _header_pattern(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"\r\n%b:[ \t]*([^\r]*)" % re.escape(name.encode()), re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """Head of a message: start line and headers."""

    raw: bytes
    """Bytes as they arrived, with the empty line at the end."""

    def header(self, name: str) -> str | None:
        """Returns the value of the first header of that name, in any case."""
        match = _header_pattern(name).search(self.raw)
        return match[1].decode("latin-1").rstrip() if match else None

    @property
    def closes(self) -> bool:
        """True when the sender will not use the connection again."""
        return self._mentions("connection", "close") or self.raw.startswith(b"HTTP/1.0")

    def _mentions(self, name: str, word: str) -> bool:
        value = self.header(name)
        return value is not None and word in value.lower()

    def _announced_body(self) -> Body | None:
        if self._mentions("transfer-encoding", "chunked"):
            return "chunked"
        length = self.header("content-length")
        return None if length is None else _number(length, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(_Head):
    """Head of a client's request, whose body is still on the way."""

    number: int
    """Order of arrival at the proxy, from 1."""
    method: str
    target: str
    """Path and query, as sent."""

    @classmethod
    def parse(cls, raw: bytes, number: int) -> Request:
        """Reads the request line."""
        words = raw[: raw.index(b"\r\n")].decode("latin-1").split(" ")
        if len(words) != 3:
            raise FormatError(f"not an HTTP/1.1 request line: {' '.join(words)[:200]!r}")
        return cls(raw=raw, number=number, method=words[0], target=words[1])

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def body(self) -> Body:
        """Length of the body, or how its end is marked."""
        return self._announced_body() or 0

    @property
    def waits(self) -> bool:
        """True when the client sends no body before the server asks it to continue."""
        return self._mentions("expect", "100-continue")


@dataclass(frozen=True, slots=True, kw_only=True)
class Response(_Head):
    """Head of a server's answer, whose body is still on the way."""

    status: int

    @classmethod
    def parse(cls, raw: bytes) -> Response:
        """Reads the status line."""
        words = raw[: raw.index(b"\r\n")].split(b" ", 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise FormatError(f"not an HTTP/1.1 status line: {b' '.join(words)[:200]!r}")
        return cls(raw=raw, status=int(words[1]))

    @property
    def interim(self) -> bool:
        """True for 1xx: the answer proper is still to come."""
        return self.status < 200

    def body_to(self, method: str) -> Body:
        """Returns the body's length in an answer to a request of that method, or how its end is marked."""
        if method == "HEAD" or self.status in (204, 304):
            return 0
        body = self._announced_body()
        return "to-eof" if body is None else body


async def read_head(reader: asyncio.StreamReader) -> bytes | None:
    """Reads the next head, with its empty line; None when the connection ended between messages."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None


async def copy_body(reader: asyncio.StreamReader, body: Body, send: Send) -> None:
    """Copies one body, chunk headers and trailers included.

    Raises:
        asyncio.IncompleteReadError: the connection ended before the body did.
    """
    if body == "chunked":
        size = 1
        while size:
            line = await reader.readuntil(b"\r\n")
            size = _number(line.split(b";")[0].decode("latin-1"), 16)
            await send(line)
            if size:
                await _copy_bytes(reader, size + 2, send)  # with the line end behind a chunk
        while line != b"\r\n":
            line = await reader.readuntil(b"\r\n")
            await send(line)
    elif body == "to-eof":
        while data := await reader.read(BUFFER_BYTES):
            await send(data)
    else:
        await _copy_bytes(reader, body, send)


def _number(text: str, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError:
        number = -1
    if number < 0:
        raise FormatError(f"not a length in base {base}: {text[:200]!r}")
    return number


async def _copy_bytes(reader: asyncio.StreamReader, left: int, send: Send) -> None:
    while left:
        data = await reader.read(min(left, BUFFER_BYTES))
        if not data:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(data)
        await send(data)
