"""A store and a client that show every byte of what passes between them."""

from __future__ import annotations

import asyncio
import contextlib
import urllib.parse
from collections.abc import AsyncIterator

BIG = bytes(range(256)) * 4096  # 1 MiB


class Origin:
    """A store that answers by path and notes, byte by byte, what reached it."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.connections = 0
        self.applied = asyncio.Event()
        self.left = asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until somebody closes it."""
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                path = head.split(b" ")[1]
                if path == b"/refuse":
                    writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
                    continue
                if b"100-continue" in head:
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                self.bodies.append(await read_body(head, reader))
                self.applied.set()
                if path == b"/chunked":
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED)
                elif path == b"/to-eof":
                    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end")
                    break
                elif path == b"/hang-up":
                    break
                else:
                    body = BIG if path == b"/big" else self.bodies[-1]
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
                    writer.write(b"" if head.startswith(b"HEAD") else body)
        self.left.set()
        writer.close()


CHUNKED = b"3\r\nabc\r\nA;ext=1\r\n0123456789\r\n0\r\nx-trailer: t\r\n\r\n"


async def read_body(head: bytes, reader: asyncio.StreamReader) -> bytes:
    """The body behind a head, as it was sent."""
    if b"chunked" in head:
        return await reader.readuntil(b"0\r\nx-trailer: t\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return await reader.readexactly(int(length or 0))


class Client:
    """A connection that sends and receives bytes as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
        """Sends a request; everything up to the end of its answer."""
        self.send(method, path, body, *headers)
        return await self.answer(method)

    def send(self, method: str, path: str, body: bytes = b"", *headers: str) -> None:
        """Sends a request."""
        lines = [f"{method} {path} HTTP/1.1", "hOst: signed.example", *headers]
        if body and "Transfer-Encoding: chunked" not in headers:
            lines.append(f"Content-Length: {len(body)}")
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)

    async def answer(self, method: str = "GET") -> bytes:
        """Receives one answer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        if b" 100 " in head:
            return head
        if b"chunked" in head:
            return head + await self.reader.readuntil(b"t\r\n\r\n")
        if b"Content-Length" not in head:
            return head + await self.reader.read()
        length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
        return head + await self.reader.readexactly(0 if method == "HEAD" else length)


@contextlib.asynccontextmanager
async def connect(url: str) -> AsyncIterator[Client]:
    """A connection to ``url``."""
    parts = urllib.parse.urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
