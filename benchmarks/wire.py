"""A relay on loopback that counts the bytes of everybody who goes through it, whatever they speak."""

from __future__ import annotations

import asyncio
import contextlib
import urllib.parse
from collections.abc import AsyncIterator

__all__ = ["Relay", "relay"]

_CHUNK = 256 * 1024


class Relay:
    """Connections to one address. Made by :func:`relay`."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self.url = ""
        """Where clients connect."""
        self.sent = 0
        """Bytes from clients, headers and all."""
        self.received = 0
        """Bytes to clients."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until both ends have closed it."""
        up_reader, up_writer = await asyncio.open_connection(*self._to, limit=_CHUNK)

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter, *, up: bool) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(_CHUNK):
                    if up:
                        self.sent += len(data)
                    else:
                        self.received += len(data)
                    target.write(data)
                    await target.drain()
            target.close()

        await asyncio.gather(copy(reader, up_writer, up=True), copy(up_reader, writer, up=False))


@contextlib.asynccontextmanager
async def relay(url: str) -> AsyncIterator[Relay]:
    """A relay to the server of a URL."""
    parts = urllib.parse.urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    found = Relay(parts.hostname, parts.port)
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0, limit=_CHUNK)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield found
    finally:
        server.close()
