"""A server on loopback that writes down what S3 clients ask, and has no object."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from lakehouse.testing.http_wire import BUFFER_BYTES, Request, read_head

__all__ = ["Listener", "listening"]

_BODY = b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code><Message>nothing here</Message></Error>"
_HEAD = b"HTTP/1.1 %d No\r\ncontent-type: application/xml\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"


class Listener:
    """What came in."""

    def __init__(self, status: int, body: bytes) -> None:
        self.port = 0
        self._answer = _HEAD % (status, len(body)) + body
        self.requests: list[Request] = []

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request of a connection."""
        with contextlib.suppress(OSError):
            raw = await read_head(reader)
            if raw is not None:
                self.requests.append(Request.parse(raw, len(self.requests) + 1))
                writer.write(self._answer)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def listening(status: int = 404, body: bytes = _BODY) -> AsyncIterator[Listener]:
    """A server for the time of a block, which always answers the same."""
    listener = Listener(status, body)
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0, limit=BUFFER_BYTES)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
        await server.wait_closed()
